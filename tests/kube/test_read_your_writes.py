"""Acting only on a cache that shows what we did before."""

from __future__ import annotations

import asyncio

import pytest

from controller.foundation import Resource
from controller.kube import ConsistencyStore, Informer, Lag
from tests.kube.scripted_client import THING, ScriptedClient, Thing, bookmark, thing_list
from tests.kube.support import running

OTHER = Resource("example.org", "v1", "others", "Other")


class Caches:
    """Two stores whose version a test sets."""

    def __init__(self) -> None:
        self.versions = {THING: "10", OTHER: "10"}
        self.store = ConsistencyStore()
        self.store.register(THING, lambda namespace: self.versions[THING])
        self.store.register(OTHER, lambda namespace: self.versions[OTHER])


def test_without_a_record_everything_is_ready() -> None:
    """C1."""
    assert Caches().store.ready("ns/a")


def test_an_owner_waits_until_the_store_shows_its_write() -> None:
    """C2."""
    caches = Caches()
    caches.store.wrote("ns/a", "uid", THING, "ns", "12")
    assert caches.store.lag("ns/a") == Lag(THING, "ns", "12", "10")
    caches.versions[THING] = "11"
    assert not caches.store.ready("ns/a")
    caches.versions[THING] = "12"
    assert caches.store.ready("ns/a")
    assert len(caches.store) == 0  # what was reached is forgotten, or every owner that ever wrote would stay


def test_versions_are_compared_as_numbers() -> None:
    caches = Caches()
    caches.versions[THING] = "9"
    caches.store.wrote("ns/a", "uid", THING, "ns", "10")
    assert not caches.store.ready("ns/a")


def test_the_highest_write_counts_whatever_the_order() -> None:
    caches = Caches()
    for version in ("12", "15", "13"):
        caches.store.wrote("ns/a", "uid", THING, "ns", version)
    caches.versions[THING] = "14"
    lag = caches.store.lag("ns/a")
    assert lag is not None
    assert lag.written == "15"


def test_another_uid_is_another_owner() -> None:
    """C3."""
    caches = Caches()
    caches.store.wrote("ns/a", "first", THING, "ns", "99")
    caches.store.wrote("ns/a", "second", OTHER, "ns", "5")
    assert caches.store.ready("ns/a")


def test_forgetting_with_a_wrong_uid_does_nothing() -> None:
    """C4."""
    caches = Caches()
    caches.store.wrote("ns/a", "uid", THING, "ns", "99")
    caches.store.forget("ns/a", "wrong")
    assert not caches.store.ready("ns/a")
    caches.store.forget("ns/a", "uid")
    assert caches.store.ready("ns/a")


@pytest.mark.parametrize(("written", "seen"), [("abc", "10"), ("12", "abc"), ("12x", "10"), ("", "10")])
def test_a_version_without_order_never_holds_up(written: str, seen: str) -> None:
    """C5."""
    caches = Caches()
    caches.versions[THING] = seen
    caches.store.wrote("ns/a", "uid", THING, "ns", written)
    assert caches.store.ready("ns/a")


def test_each_resource_is_waited_for_on_its_own() -> None:
    """C7."""
    caches = Caches()
    caches.store.wrote("ns/a", "uid", THING, "ns", "12")
    caches.store.wrote("ns/a", "uid", OTHER, "ns", "20")
    caches.versions[THING] = "30"
    lag = caches.store.lag("ns/a")
    assert lag is not None
    assert lag.resource == OTHER
    caches.versions[OTHER] = "20"
    assert caches.store.ready("ns/a")


def test_a_resource_without_a_store_is_not_waited_for() -> None:
    store = ConsistencyStore()
    store.wrote("ns/a", "uid", THING, "ns", "12")
    assert store.ready("ns/a")


def test_a_store_that_is_empty_yet_does_not_hold_up() -> None:
    """Before its first list a store has no version; workers do not run then anyway."""
    caches = Caches()
    caches.versions[THING] = ""
    caches.store.wrote("ns/a", "uid", THING, "ns", "12")
    assert caches.store.ready("ns/a")


async def test_a_bookmark_is_enough_to_become_ready() -> None:
    """C6, with a real informer."""
    client = ScriptedClient()
    client.streaming.refuse()
    client.lists.append(thing_list(10))
    client.watches.append([5.0, bookmark(15), 1e6])
    informer = Informer(client, THING, Thing)
    store = ConsistencyStore()
    store.register(THING, informer.resource_version)
    async with running(informer.run()) as (task,):
        await informer.wait_synced()
        store.wrote("ns/a", "uid", THING, "ns", "14")
        assert not store.ready("ns/a")
        await asyncio.sleep(6)
        assert store.ready("ns/a")
        assert not task.done()
