"""The informer's contract: what handlers are told, in which order, and when they count as synced."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from controller.kube import FilteringHandler, HandlerFunctions, Informer, StreamingSupport, Tombstone
from controller.kube.errors import Expired
from tests.kube.scripted_client import THING, ScriptedClient, Thing, bookmark, error, event, thing, thing_list
from tests.kube.support import Recorder, ReflectorLog, running

HANG = 1e6


def scripted(*lists: bytes, watches: list[list[Any]] | None = None) -> ScriptedClient:
    client = ScriptedClient(streaming=StreamingSupport(refused=True))
    client.lists.extend(lists)
    client.watches.extend(watches or [])
    return client


def informer_of(client: ScriptedClient, **options: Any) -> Informer[Thing]:
    return Informer(client, THING, Thing, rng=random.Random(1), **options)


# ---- handlers and their sync ---------------------------------------------------------------------------------------


async def test_a_handler_from_the_start_hears_the_initial_list_as_initial() -> None:
    """I1."""
    informer = informer_of(
        scripted(thing_list(10, thing("a", 1), thing("b", 2)), watches=[[5.0, event("ADDED", thing("c", 11)), HANG]])
    )
    recorder = Recorder()
    registration = informer.add_handler(recorder)
    assert not registration.has_synced
    async with running(informer.run()):
        await registration.wait_synced()
        assert informer.has_synced
        assert recorder.take() == [("add", "ns/a", "1", "initial"), ("add", "ns/b", "2", "initial")]
        await asyncio.sleep(6)
        assert recorder.take() == [("add", "ns/c", "11", "live")]


async def test_a_handler_that_comes_late_hears_what_is_there_and_syncs_for_itself() -> None:
    """I2, I12."""
    informer = informer_of(scripted(thing_list(10, thing("a", 1), thing("b", 2))))
    async with running(informer.run()):
        await informer.wait_synced()
        recorder = Recorder()
        registration = informer.add_handler(recorder)
        assert not registration.has_synced
        await registration.wait_synced()
        assert recorder.told == [("add", "ns/a", "1", "initial"), ("add", "ns/b", "2", "initial")]


async def test_an_empty_list_syncs_too() -> None:
    informer = informer_of(scripted(thing_list(10)))
    registration = informer.add_handler(Recorder())
    async with running(informer.run()):
        await registration.wait_synced()
        late = informer.add_handler(Recorder())
        assert late.has_synced


async def test_a_late_handler_keeps_the_order_of_each_object_while_it_catches_up() -> None:
    """I3, I20: a change of an object that it has not heard of yet comes after the object."""
    informer = informer_of(
        scripted(
            thing_list(10, thing("a", 1), thing("b", 2), thing("c", 3)),
            watches=[[1.0, event("MODIFIED", thing("c", 11)), event("DELETED", thing("b", 12)), HANG]],
        )
    )
    late = Recorder()
    added = []

    def add_late(*_: object) -> None:
        if not added:
            added.append(informer.add_handler(late))

    informer.add_handler(HandlerFunctions(updated=add_late))
    async with running(informer.run()):
        await asyncio.sleep(2)
        await added[0].wait_synced()
    assert [told for told in late.told if told[1] == "ns/b"] == [
        ("add", "ns/b", "2", "initial"),
        ("delete", "ns/b", "12", "seen"),
    ]
    assert [told for told in late.told if told[1] == "ns/c"] == [("add", "ns/c", "11", "initial")]
    assert ("add", "ns/a", "1", "initial") in late.told
    assert len(late.told) == 4


async def test_synced_waits_for_the_last_initial_object_also_when_it_is_deleted_first() -> None:
    """I20."""
    client = scripted(thing_list(10, *(thing(f"o{n}", n + 1) for n in range(50))))
    informer = informer_of(client)
    async with running(informer.run()):
        await informer.wait_synced()
        recorder = Recorder()
        registration = informer.add_handler(recorder)
        informer._cache.gone("ns/o49", informer.store.get("ns/o49"), True)  # type: ignore[arg-type]
        assert not registration.has_synced
        assert recorder.told == [("add", "ns/o49", "50", "initial"), ("delete", "ns/o49", "50", "seen")]
        await registration.wait_synced()
        assert len(recorder.told) == 51


async def test_handlers_added_while_the_list_arrives_miss_nothing_and_hear_nothing_twice() -> None:
    """I3, k8s#59822."""
    pages = [thing_list(10, *(thing(f"p{p}-{n}", 1) for n in range(20)), continue_=f"c{p}") for p in range(4)]
    client = scripted(
        *pages,
        thing_list(10),
        watches=[[event("ADDED", thing("live", 11)), 1.0, event("DELETED", thing("live", 12)), HANG]],
    )
    informer = informer_of(client)
    recorders: list[Recorder] = []

    async def keep_adding() -> None:
        for _ in range(12):
            recorders.append(Recorder())
            informer.add_handler(recorders[-1])
            await asyncio.sleep(0)

    async with running(informer.run(), keep_adding()):
        await asyncio.sleep(5)
    for recorder in recorders:
        added = [told[1] for told in recorder.told if told[0] == "add"]
        assert len(added) == len(set(added))
        assert {key for key in added if key != "ns/live"} == {f"ns/p{p}-{n}" for p in range(4) for n in range(20)}


# ---- relists -------------------------------------------------------------------------------------------------------


async def test_after_an_outage_each_change_is_told_once_deletions_first() -> None:
    """I4, I5, I17, I18, R29: what is unchanged costs nothing, nothing is initial again."""
    client = scripted(
        thing_list(10, thing("same", 1), thing("changed", 2), thing("gone", 3)),
        thing_list(30, thing("changed", 25), thing("new", 26), thing("same", 1)),
        watches=[[event("MODIFIED", thing("gone", 12)), error(410, "Gone"), HANG]],
    )
    informer = informer_of(client)
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer.run()):
        await asyncio.sleep(1)
        before = informer.store.get("ns/same")
        recorder.take()
        await asyncio.sleep(60)
        assert recorder.take() == [
            ("delete", "ns/gone", "12", "inferred"),
            ("update", "ns/changed", "2", "25"),
            ("add", "ns/new", "26", "live"),
        ]
        assert informer.store.get("ns/same") is before


async def test_a_recreated_object_is_a_delete_and_an_add_in_a_watch() -> None:
    """I16: expectations and caches keyed by uid would otherwise live on."""
    client = scripted(
        thing_list(10, thing("a", 1, uid="first")),
        watches=[[event("MODIFIED", thing("a", 12, uid="second")), HANG]],
    )
    informer = informer_of(client)
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer.run()):
        await asyncio.sleep(1)
    assert recorder.told[1:] == [("delete", "ns/a", "1", "inferred"), ("add", "ns/a", "12", "live")]


async def test_a_recreated_object_is_a_delete_and_an_add_in_a_relist_even_at_the_same_version() -> None:
    client = scripted(
        thing_list(10, thing("a", 1, uid="first")),
        thing_list(20, thing("a", 1, uid="second")),
        watches=[[error(410, "Gone"), HANG]],
    )
    informer = informer_of(client)
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer.run()):
        await asyncio.sleep(60)
    assert recorder.told[1:] == [("delete", "ns/a", "1", "inferred"), ("add", "ns/a", "1", "live")]


async def test_deleting_the_unknown_is_told_to_nobody() -> None:
    """I19."""
    client = scripted(thing_list(10), watches=[[event("DELETED", thing("x", 11)), HANG]])
    informer = informer_of(client)
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer.run()):
        await asyncio.sleep(1)
        assert informer.resource_version() == "11"
    assert recorder.told == []


async def test_a_repeated_event_is_told_once() -> None:
    """Y2."""
    client = scripted(
        thing_list(10, thing("a", 9)), watches=[[event("ADDED", thing("a", 9)), event("MODIFIED", thing("a", 9)), HANG]]
    )
    informer = informer_of(client)
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer.run()):
        await asyncio.sleep(1)
    assert recorder.told == [("add", "ns/a", "9", "initial")]


async def test_an_object_that_leaves_the_selector_is_a_delete_with_its_old_state() -> None:
    """X10: DELETED carries the old object with the new write's version."""
    client = scripted(thing_list(10, thing("a", 1)), watches=[[event("DELETED", thing("a", 15)), HANG]])
    informer = informer_of(client, label_selector="app=x", field_selector="metadata.name=a")
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer.run()):
        await asyncio.sleep(1)
    assert recorder.told[-1] == ("delete", "ns/a", "15", "seen")
    assert client.asked[0].query["labelSelector"] == "app=x"
    assert client.asked[1].query["fieldSelector"] == "metadata.name=a"


# ---- the store at the moment of a call -----------------------------------------------------------------------------


async def test_a_handler_finds_the_change_in_the_store_and_its_indices() -> None:
    client = scripted(
        thing_list(10, thing("a", 1, labels={"node": "n1"})),
        watches=[[event("MODIFIED", thing("a", 11, labels={"node": "n2"})), event("DELETED", thing("a", 12)), HANG]],
    )
    informer = informer_of(client, indexers={"node": lambda obj: [obj.metadata.label("node") or ""]})
    seen: list[tuple[str, list[str], bool]] = []

    def look(*_: object) -> None:
        seen.append(
            (informer.resource_version(), informer.store.index_values("node"), informer.store.get("ns/a") is not None)
        )

    informer.add_handler(HandlerFunctions(look, look, look))
    async with running(informer.run()):
        await asyncio.sleep(1)
    assert [(nodes, there) for _, nodes, there in seen] == [(["n1"], True), (["n2"], True), ([], False)]


async def test_a_transform_sees_every_object_before_the_store_does() -> None:
    """I8, R30: in lists, streams, events and tombstones."""

    def strip(obj: Thing) -> Thing:
        return Thing(obj.metadata, None)

    for streaming in (False, True):
        client = scripted(thing_list(10, thing("a", 1)), watches=[[event("ADDED", thing("b", 11)), HANG]])
        if streaming:
            client = ScriptedClient()
            client.streaming = StreamingSupport()
            client.watches.append(
                [event("ADDED", thing("a", 1)), bookmark(10, "true"), event("ADDED", thing("b", 11)), HANG]
            )
        informer = informer_of(client, transform=strip)
        async with running(informer.run()):
            await asyncio.sleep(1)
            assert [obj.spec for obj in informer.store.list()] == [None, None]


# ---- several handlers ----------------------------------------------------------------------------------------------


async def test_a_handler_that_fails_is_counted_and_harms_nobody() -> None:
    """I14: client-go crashes the process here; a cache that others rely on is worth more."""
    log = ReflectorLog()
    informer = informer_of(scripted(thing_list(10, thing("a", 1), thing("b", 2))), observer=log)

    def fail(*_: object) -> None:
        raise RuntimeError("handler bug")

    informer.add_handler(HandlerFunctions(added=fail))
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer.run()):
        await asyncio.sleep(1)
    assert log.handler_failures == 2
    assert len(recorder.told) == 2


async def test_the_same_handler_may_be_registered_twice_and_removed_once() -> None:
    """I9."""
    client = scripted(thing_list(10, thing("a", 1)), watches=[[5.0, event("DELETED", thing("a", 11)), HANG]])
    informer = informer_of(client)
    recorder = Recorder()
    first = informer.add_handler(recorder)
    informer.add_handler(recorder)
    async with running(informer.run()):
        await asyncio.sleep(1)
        assert len(recorder.take()) == 2
        informer.remove_handler(first)
        informer.remove_handler(first)
        await asyncio.sleep(10)
        assert recorder.take() == [("delete", "ns/a", "11", "seen")]
        assert not first.active


async def test_a_foreign_registration_is_ignored() -> None:
    """I9."""
    one, other = informer_of(scripted()), informer_of(scripted())
    registration = other.add_handler(Recorder())
    one.remove_handler(registration)
    assert registration.active


async def test_no_call_begins_after_a_handler_was_removed_even_by_another_handler() -> None:
    """I11."""
    client = scripted(thing_list(10, thing("a", 1), thing("b", 2)))
    informer = informer_of(client)
    second = Recorder()
    informer.add_handler(HandlerFunctions(added=lambda *_: informer.remove_handler(registration)))
    registration = informer.add_handler(second)
    async with running(informer.run()):
        await asyncio.sleep(1)
    assert second.told == []


async def test_a_removed_late_handler_is_not_told_the_rest_of_its_backlog() -> None:
    client = scripted(thing_list(10, *(thing(f"o{n}", 1) for n in range(5))))
    informer = informer_of(client)
    async with running(informer.run()):
        await informer.wait_synced()
        told: list[str] = []

        def once(obj: Thing, initial: bool) -> None:
            told.append(obj.metadata.name)
            informer.remove_handler(registration)

        registration = informer.add_handler(HandlerFunctions(added=once))
        await asyncio.sleep(1)
        assert told == ["o0"]


async def test_handlers_coming_and_going_do_not_disturb_those_who_stay() -> None:
    """I10."""
    events: list[Any] = [event("MODIFIED", thing("a", 11 + number)) for number in range(500)]
    for position in range(0, len(events) * 2, 2):
        events.insert(position, 0.01)
    informer = informer_of(scripted(thing_list(10, thing("a", 1)), watches=[[*events, HANG]]))
    steady = Recorder()
    informer.add_handler(steady)

    async def come_and_go(rng: random.Random) -> None:
        for _ in range(20):
            registration = informer.add_handler(Recorder())
            await asyncio.sleep(rng.random() * 0.2)
            informer.remove_handler(registration)

    async with running(informer.run(), *(come_and_go(random.Random(seed)) for seed in range(20))):
        await asyncio.sleep(20)
    assert [told[3] for told in steady.told[1:]] == [str(11 + number) for number in range(500)]


async def test_a_coroutine_is_refused_as_a_handler() -> None:
    class Wrong(Recorder):
        async def on_add(self, obj: Thing, initial: bool) -> None:  # type: ignore[override]
            pass

    with pytest.raises(TypeError, match="handlers are synchronous"):
        informer_of(scripted()).add_handler(Wrong())


async def test_a_filter_turns_crossing_its_border_into_adds_and_deletes() -> None:
    """I21."""
    big = {"size": 10}
    small = {"size": 1}
    client = scripted(
        thing_list(10, thing("in", 1, **big), thing("out", 2, **small)),
        watches=[
            [
                event("MODIFIED", thing("in", 11, **big)),
                event("MODIFIED", thing("in", 12, **small)),
                event("MODIFIED", thing("out", 13, **small)),
                event("MODIFIED", thing("out", 14, **big)),
                event("DELETED", thing("in", 15, **small)),
                event("DELETED", thing("out", 16, **big)),
                HANG,
            ]
        ],
    )
    informer = informer_of(client)
    recorder = Recorder()
    informer.add_handler(FilteringHandler(lambda obj: obj.spec is not None and obj.spec.size > 5, recorder))
    async with running(informer.run()):
        await asyncio.sleep(1)
    assert recorder.told == [
        ("add", "ns/in", "1", "initial"),
        ("update", "ns/in", "1", "11"),
        ("delete", "ns/in", "11", "seen"),
        ("add", "ns/out", "14", "live"),
        ("delete", "ns/out", "16", "seen"),
    ]


# ---- namespaces, freshness, life -----------------------------------------------------------------------------------


async def test_several_namespaces_feed_one_store_and_sync_together() -> None:
    client = scripted(
        thing_list(10, thing("a", 1, namespace="one")),
        thing_list(20, thing("a", 2, namespace="two"), thing("b", 3, namespace="two")),
        thing_list(30),
        watches=[[error(410, "Gone"), HANG], [bookmark(22), HANG]],
    )
    informer = informer_of(client, namespace=["one", "two", "one"])
    registration = informer.add_handler(Recorder())
    async with running(informer.run()):
        await registration.wait_synced()
        assert sorted(informer.store) == ["one/a", "two/a", "two/b"]
        await asyncio.sleep(60)
        assert sorted(informer.store) == ["two/a", "two/b"]  # the relist of "one" touched "one" only
        assert informer.resource_version("one") == "30"
        assert informer.resource_version("two") == "22"
        assert informer.resource_version() == "22"
        assert informer.resource_version("three") == ""
    assert {asked.path for asked in client.asked} == {
        "/apis/example.org/v1/namespaces/one/things",
        "/apis/example.org/v1/namespaces/two/things",
    }


async def test_no_namespace_at_all_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one namespace"):
        informer_of(scripted(), namespace=[])


async def test_the_version_of_the_store_follows_every_event() -> None:
    """S6: what read-your-writes compares with."""
    client = scripted(
        thing_list(5),
        thing_list(40, thing("b", 38)),
        watches=[
            [
                event("ADDED", thing("a", 10)),
                1.0,
                event("MODIFIED", thing("a", 20)),
                1.0,
                event("DELETED", thing("a", 30)),
                1.0,
                error(410, "Gone"),
            ],
            [1.0, bookmark(50), 1.0, event("MODIFIED", thing("b", "not-a-number")), HANG],
        ],
    )
    informer = informer_of(client)
    seen: list[str] = []

    async def look() -> None:
        while True:
            if not seen or seen[-1] != informer.resource_version():
                seen.append(informer.resource_version())
            await asyncio.sleep(0.1)

    async with running(informer.run(), look()):
        await asyncio.sleep(20)
    assert seen == ["", "10", "20", "30", "40", "50", "not-a-number"]


async def test_silence_is_measured_from_the_last_thing_heard() -> None:
    client = scripted(thing_list(10), watches=[[50.0, bookmark(11), HANG]])
    informer = informer_of(client)
    assert informer.silent_seconds() == float("inf")
    async with running(informer.run()):
        await asyncio.sleep(40)
        assert informer.silent_seconds() == pytest.approx(40)
        await asyncio.sleep(20)
        assert informer.silent_seconds() == pytest.approx(10)


async def test_an_informer_runs_once() -> None:
    """I7."""
    informer = informer_of(scripted(thing_list(10)))
    async with running(informer.run()):
        await informer.wait_synced()
        with pytest.raises(RuntimeError, match="runs once"):
            await informer.run()
    with pytest.raises(RuntimeError, match="stopped"):
        informer.add_handler(Recorder())
    assert len(informer.store) == 0


async def test_stopping_leaves_no_task_behind() -> None:
    """I13."""
    before = asyncio.all_tasks()
    informer = informer_of(scripted(thing_list(10, *(thing(f"o{n}", 1) for n in range(10)))))
    async with running(informer.run()):
        await informer.wait_synced()
        informer.add_handler(Recorder())
    assert asyncio.all_tasks() == before


async def test_a_long_list_lets_others_run_in_between() -> None:
    """X6: a lease must be renewed also while a hundred thousand objects arrive."""
    count = 12_000
    events: list[Any] = [event("ADDED", thing(f"o{n}", n + 11)) for n in range(count)]
    informer = informer_of(scripted(thing_list(10), watches=[[*events, HANG]]))
    turns: list[int] = []

    async def neighbour() -> None:
        while len(informer.store) < count:
            turns.append(len(informer.store))
            await asyncio.sleep(0)

    async with running(informer.run(), neighbour()):
        await asyncio.sleep(1)
    assert len(informer.store) == count
    assert len({turn for turn in turns if 0 < turn < count}) >= 2


async def test_intermediate_states_may_be_missing_but_the_last_one_never_is() -> None:
    """kopf#698: level, not edge."""
    client = scripted(
        thing_list(10, thing("a", 1)),
        thing_list(50, thing("a", 45)),
        watches=[
            [event("MODIFIED", thing("a", 12)), Expired("e", status=410)],
            [event("MODIFIED", thing("a", 51)), HANG],
        ],
    )
    informer = informer_of(client)
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer.run()):
        await asyncio.sleep(60)
    assert [told[3] for told in recorder.told] == ["initial", "12", "45", "51"]


def test_a_tombstone_is_a_plain_value() -> None:
    obj = Thing()
    assert Tombstone("ns/a", obj, True) == Tombstone("ns/a", obj, True)
