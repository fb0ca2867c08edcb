"""Which changes of what priors rest on wake a scaler, and which do not."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from controller.api import CONFIG_MAPS, INSTANCE_TYPES, find_condition
from controller.foundation import ObjectMeta
from controller.kube import KubeClient, WorkQueue, load_connection
from controller.kube.observers import SILENT
from controller.reconcile import ControllerCaches
from tests.reconcile.harness import TIMEOUT_SECONDS, World
from tests.reconcile.prior_world import artifact, config_map, config_map_of, local_prior, pool, prior_world, target


class Watched:
    """The caches of a controller that never works: what they put into the queue stays there."""

    def __init__(self, team: World, client: KubeClient) -> None:
        self.team = team
        self.queue = WorkQueue()
        self.caches = ControllerCaches(client, ["team"], self.queue, SILENT)
        self._marks = itertools.count()

    async def woken(self) -> list[str]:
        """The keys that wait now, in the order in which they came, once everything written so far was seen: each watch
        has a connection of its own, and the last thing that comes on it is a mark."""
        number = str(next(self._marks))
        marks = (
            (self.caches.priors.config_maps, "team/mark", self._config_map(number)),
            (self.caches.priors.artifacts, "team/mark", artifact(self.team, f"nobody/{number}", "mark")),
            (self.caches.pools, "mark", pool(self.team, None, f"group-{number}", "mark")),
        )
        assert {informer for informer, _, _ in marks} == set(self.caches.prior_informers)
        for informer, key, made in marks:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while (seen := informer.store.get(key)) is None or not _is(seen.metadata, made):
                    await asyncio.sleep(0.01)
        keys = []
        while len(self.queue):
            key = await self.queue.get()
            assert key is not None
            self.queue.done(key)
            keys.append(key)
        return keys

    def _config_map(self, number: str) -> dict[str, Any]:
        metadata = {"name": "mark", "namespace": "team", "labels": {"number": number}}
        return self.team.server.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def _is(seen: ObjectMeta, made: dict[str, Any]) -> bool:
    return seen.resource_version == made["metadata"]["resourceVersion"]


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    async with prior_world(tmp_path) as team:
        target(team)
        config_map(team, "17135.159")
        _holding(team, "keyless", README="see the wiki")
        team.scaler("asks", algorithm=local_prior())
        for name in ("keyless", "missing"):
            team.scaler(f"asks-{name}", algorithm=local_prior(catalogRef={"name": name}))
        team.scaler("embedded", algorithm=local_prior() | {"capacityPrior": {}})
        team.scaler("plain")
        client = KubeClient(
            await load_connection(str(tmp_path / "kubeconfig")), user_agent="test", field_manager="test"
        )
        made = Watched(team, client)
        tasks = [
            asyncio.create_task(informer.run()) for informer in (*made.caches.informers, *made.caches.prior_informers)
        ]
        for informer in (*made.caches.informers, *made.caches.prior_informers):
            await informer.wait_synced()
        for registration in made.caches.registrations:
            await registration.wait_synced()
        await made.woken()
        yield made
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await client.close()


def _relabelled(team: World) -> None:
    def label(obj):
        obj["metadata"]["labels"] = {"a": "b"}
        obj["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 1000}

    team.edit(CONFIG_MAPS, "local", label)


def _another_key(team: World) -> None:
    team.edit(CONFIG_MAPS, "local", lambda obj: obj["data"].update(notes="read me"))


def _holding(team: World, name: str, /, **data: str) -> None:
    """The ConfigMap `name` with this data; in its keys two underscores stand for a dot."""
    team.server.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "team"},
            "data": {key.replace("__", "."): text for key, text in data.items()},
        }
    )


def _renamed_key(team: World) -> None:
    def rename(obj):
        obj["data"]["priors.yaml"] = obj["data"].pop("catalog.yaml")

    team.edit(CONFIG_MAPS, "local", rename)


def _metadata_of_the_keyless(team: World) -> None:
    team.edit(CONFIG_MAPS, "keyless", lambda obj: obj["metadata"].update(labels={"a": "b"}))


def _deleted(name: str) -> Callable[[World], None]:
    return lambda team: team.server.delete(CONFIG_MAPS, name, "team")


ASKING = {"team/asks", "team/asks-keyless", "team/asks-missing", "team/embedded"}
WAKES: list[tuple[str, Callable[[World], None], set[str]]] = [
    ("another catalog", lambda team: config_map(team, "999"), {"team/asks"}),
    ("a broken catalog", lambda team: config_map_of(team, "["), {"team/asks"}),
    ("a deleted catalog", _deleted("local"), {"team/asks"}),
    ("a catalog that is there at last", lambda team: _holding(team, "missing", catalog__yaml="{}"), {"team/asks-missing"}),
    ("a ConfigMap that is there at last, without the key", lambda team: _holding(team, "missing", notes="x"), {"team/asks-missing"}),
    ("one without anything in it", lambda team: _holding(team, "missing"), {"team/asks-missing"}),
    ("a catalog under another key than before", _renamed_key, {"team/asks"}),
    ("a catalog without its text", lambda team: _holding(team, "local", catalog__yaml=""), {"team/asks"}),
    ("the key in a ConfigMap that had none", lambda team: _holding(team, "keyless", catalog__yaml=""), {"team/asks-keyless"}),
    ("other keys where the message names those that are there", lambda team: _holding(team, "keyless", notes="x"), {"team/asks-keyless"}),
    ("a deleted ConfigMap that had no catalog", _deleted("keyless"), {"team/asks-keyless"}),
    ("another model", lambda team: artifact(team, "Qwen/Qwen3-32B"), ASKING),
    ("another board", lambda team: pool(team, {"product": "NVIDIA H100"}), ASKING),
    ("a pool that is gone", lambda team: team.server.delete(INSTANCE_TYPES, "h200"), ASKING),
    ("labels and annotations of the catalog's ConfigMap", _relabelled, set()),
    ("another key of it", _another_key, set()),
    ("labels of a ConfigMap without a catalog", _metadata_of_the_keyless, set()),
    ("another text under a key that is no catalog", lambda team: _holding(team, "keyless", README="see the book"), set()),
    ("a catalog that nobody asked for", lambda team: _holding(team, "foreign", catalog__yaml="of nobody"), set()),
    ("a ConfigMap that nobody asked for", lambda team: _holding(team, "foreign", password="secret"), set()),
    ("the progress of the artifact", lambda team: artifact(team, "Qwen/Qwen3-8B", nodes={"ready": 1}), set()),
    ("free cards", lambda team: pool(team, {"manufacturer": "nvidia", "product": "NVIDIA H200", "memory": "143771Mi"}, accelerator={"remaining": "1"}), set()),
]  # fmt: skip


@pytest.mark.parametrize(("change", "woken"), [c[1:] for c in WAKES], ids=[c[0] for c in WAKES])
async def test_what_a_prior_rests_on_wakes_those_who_ask_for_it_and_metadata_nobody(watched: Watched, change, woken):
    change(watched.team)
    assert set(await watched.woken()) == woken


async def test_a_cache_keeps_only_the_catalog_of_a_config_map(watched: Watched):
    _relabelled(watched.team)
    _another_key(watched.team)
    await watched.woken()
    kept = watched.caches.priors.config_maps.store.get("team/local")
    assert kept is not None
    assert list(kept.data or {}) == ["catalog.yaml"]
    assert kept.metadata.annotations is None


async def test_of_a_config_map_without_a_catalog_a_few_names_of_keys_are_kept_and_no_data(watched: Watched):
    data = {f"key-{number}": "x" * 1000 for number in range(9)}
    _holding(watched.team, "missing", **data)
    await watched.woken()
    kept = watched.caches.priors.config_maps.store.get("team/missing")
    assert kept is not None
    assert kept.data == dict.fromkeys(sorted(data)[:5], "")


STEPS: list[tuple[str, Callable[[World], None], Callable[[World], None], str, str]] = [
    ("created without the key", lambda team: None, lambda team: _holding(team, "local", notes="x"),
     "CatalogInvalid", "ConfigMap team/local has no key catalog.yaml (keys: notes)"),
    ("created empty", lambda team: None, lambda team: _holding(team, "local"),
     "CatalogInvalid", "ConfigMap team/local has no key catalog.yaml (keys: none)"),
    ("robbed of the key", lambda team: config_map(team, "4000"), _renamed_key,
     "CatalogInvalid", "ConfigMap team/local has no key catalog.yaml (keys: priors.yaml)"),
    ("given other keys", lambda team: _holding(team, "local", notes="x"), lambda team: _holding(team, "local", more="x"),
     "CatalogInvalid", "ConfigMap team/local has no key catalog.yaml (keys: more)"),
    ("deleted with a catalog in it", lambda team: config_map(team, "4000"), _deleted("local"),
     "ConfigMapNotFound", "ConfigMap team/local does not exist"),
    ("deleted without one in it", lambda team: _holding(team, "local", notes="x"), _deleted("local"),
     "ConfigMapNotFound", "ConfigMap team/local does not exist"),
    ("given the catalog at last", lambda team: _holding(team, "local", notes="x"), lambda team: config_map(team, "4000"),
     "CatalogResolved", ""),
]  # fmt: skip


@pytest.mark.parametrize(("before", "change", "reason", "words"), [s[1:] for s in STEPS], ids=[s[0] for s in STEPS])
async def test_the_truth_is_told_at_once_of_a_config_map_that_is(tmp_path: Path, before, change, reason, words):
    async with prior_world(tmp_path) as team:
        target(team)
        before(team)
        (await team.replica(0)).load(1800, 600)
        team.scaler(algorithm=local_prior(), sampling={"intervalSeconds": 300})
        await team.controller()
        await team.until(lambda: team.reason("CapacityPriorResolved"), "decided once")
        await team.quiet(20)  # whatever the first decision still wakes
        changed_at = team.clock.now()
        change(team)

        def told() -> bool:
            found = find_condition(team.status().conditions, "CapacityPriorResolved")
            return found is not None and found.reason == reason and words in found.message

        await team.until(told, "the truth")
        assert team.clock.now() - changed_at < 30


async def test_a_changed_catalog_is_taken_up_long_before_the_interval(tmp_path: Path):
    async with prior_world(tmp_path) as team:
        target(team)
        config_map(team, "1333.334")
        (await team.replica(0)).load(1800, 600)
        team.scaler(algorithm=local_prior(), sampling={"intervalSeconds": 300})
        await team.controller()
        await team.until(lambda: team.status().roles and team.status().roles[0].capacity, "decided once")
        before = team.status()
        _relabelled(team)
        config_map(team, "4000")
        await team.until(
            lambda: team.status().roles[0].capacity.fingerprint != before.roles[0].capacity.fingerprint, ""
        )
        assert team.status().last_decision_time - before.last_decision_time < 150
