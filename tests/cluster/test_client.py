"""This project's own client on both servers: verbs, cache, election, fence, events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from controller.api import MODEL_DEPLOYMENTS, WRITTEN_ANNOTATION, Pod
from controller.foundation import ObjectMeta, boot_time
from controller.kube import (
    LEASE,
    AlreadyExists,
    Conflict,
    ConsistencyStore,
    Elector,
    EventRecorder,
    EventType,
    Expired,
    Forbidden,
    Informer,
    Invalid,
    KubeClient,
    LeadershipLost,
    Lease,
    LeaseLock,
    LeaseTimes,
    NotFound,
    NotLeader,
    ObjectRef,
    Unauthorized,
    apply_patch,
    merge_patch,
)
from controller.reconcile.fence import DeclaredCount, Holding, claim_patch, fence_patch, release_patch
from tests.cluster.api import Api
from tests.cluster.objects import CONFIG_MAPS, EVENTS, GADGETS, PODS, config_map, gadget, pod
from tests.cluster.proxy import Proxy
from tests.cluster.servers import Server, client_of
from tests.kube.support import Recorder, ReflectorLog, running

SECONDS = 180.0
# No stall ends a lease; where one has to end, `Skipping` does it.
TIMES = LeaseTimes(lease_seconds=120.0, renew_deadline_seconds=100.0, retry_seconds=0.3)


class Spec(msgspec.Struct, frozen=True):
    """What the cases read of a Gadget."""

    interval: int = 0
    mode: str = ""


class Gadget(msgspec.Struct, frozen=True):
    """A projection."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Spec | None = None


@pytest.fixture
async def client(server: Server) -> AsyncIterator[KubeClient]:
    made = client_of(server)
    yield made
    await made.close()


@asynccontextmanager
async def client_through(proxy: Proxy, server: Server) -> AsyncIterator[KubeClient]:
    """A client whose wire can be cut."""
    made = client_of(server, url=proxy.url)
    try:
        yield made
    finally:
        await made.close()


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait for something that another task brings about."""
    try:
        async with asyncio.timeout(SECONDS):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"never came true: {what}") from None


# ---- verbs -----------------------------------------------------------------------------------------------------------


async def test_the_life_of_an_object(api: Api, client: KubeClient):
    where = api.namespace
    made = await client.create(GADGETS, gadget("a"), where, type_=Gadget)
    assert (made.spec, made.metadata.generation) == (Spec(15, "Shadow"), 1)
    patched = await client.patch(GADGETS, "a", merge_patch({"spec": {"interval": 20}}), where)
    assert [entry["manager"] for entry in patched["metadata"]["managedFields"]] == ["conformance"]
    replaced = await client.replace(GADGETS, "a", {**patched, "spec": {**patched["spec"], "interval": 30}}, where)
    status = {**replaced, "status": {"phase": "Ready"}}
    assert (await client.replace(GADGETS, "a", status, where, subresource="status"))["status"] == {"phase": "Ready"}
    seen = await client.get(GADGETS, "a", where, type_=Gadget)
    assert seen.spec == Spec(30, "Shadow")
    await client.delete(GADGETS, "a", where, uid=seen.metadata.uid, resource_version=seen.metadata.resource_version)
    with pytest.raises(NotFound):
        await client.get(GADGETS, "a", where)


async def test_a_list_is_complete_whatever_the_size_of_its_pages(api: Api, client: KubeClient):
    for number in range(7):
        await client.create(GADGETS, gadget(f"g{number}", labels={"odd": str(number % 2)}), api.namespace)
    for size in (1, 3, 7, 500):
        listed = await client.list(GADGETS, api.namespace, type_=Gadget, page_size=size)
        assert [item.metadata.name for item in listed.items] == [f"g{number}" for number in range(7)]
        assert listed.resource_version.isdigit()
    odd = await client.list(GADGETS, api.namespace, label_selector="odd=1", page_size=2)
    assert len(odd.items) == 3


async def test_any_text_can_be_applied(client: KubeClient, api: Api) -> None:
    """An apply is read as YAML, which takes less than JSON does."""
    texts = ["\x7f", "\x85\x9f", "\u2028\u2029", "\ufeff\ufffe\uffff", "\U0001f600", "\t\x01\n", '"\\: #{}[]']
    data = {f"k{number}": text for number, text in enumerate(texts)}
    more = {"metadata": {"name": "texts", "annotations": {f"example.org/{key}": text for key, text in data.items()}}}
    made = await client.patch(CONFIG_MAPS, "texts", apply_patch(config_map(**data) | more), api.namespace)
    assert made["data"] == data


async def test_failures_are_told_by_what_to_do_about_them(api: Api, server: Server, client: KubeClient):
    where = api.namespace
    stale = await client.create(GADGETS, gadget("a"), where)
    await client.patch(GADGETS, "a", merge_patch({"spec": {"interval": 20}}), where)
    cases: list[tuple[type[Exception], Any]] = [
        (NotFound, client.get(GADGETS, "none", where)),
        (AlreadyExists, client.create(GADGETS, gadget("a"), where)),
        (Conflict, client.replace(GADGETS, "a", stale, where)),
        (Conflict, client.delete(GADGETS, "a", where, uid="other")),
        (Invalid, client.create(GADGETS, gadget("b", interval=1), where)),
        (
            Conflict,
            client.patch(
                GADGETS,
                "a",
                merge_patch(
                    {"metadata": {"resourceVersion": stale["metadata"]["resourceVersion"]}, "spec": {"interval": 9}}
                ),
                where,
            ),
        ),
        (Conflict, client.patch(GADGETS, "a", apply_patch(gadget("a", interval=40)), where, field_manager="other")),
    ]
    for expected, call in cases:
        with pytest.raises(expected):
            await call
    for token, expected in (("", Forbidden), ("nonsense", Unauthorized)):
        stranger = client_of(server, token)
        with pytest.raises(expected):
            await stranger.get(GADGETS, "a", where)
        await stranger.close()


async def test_an_expired_version_is_expired(api: Api, server: Server, client: KubeClient):
    await server.compact()
    with pytest.raises(Expired):
        await client.list(GADGETS, api.namespace, resource_version="1", page_size=5)


async def test_any_other_request_goes_through_as_well(client: KubeClient):
    assert b'"gitVersion"' in await client.request_raw("GET", "/version")


# ---- cache -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "paged"])
async def test_a_cache_begins_with_what_is_there_and_follows(api: Api, client: KubeClient, streaming: bool):
    where = api.namespace
    for name in ("a", "b"):
        await client.create(GADGETS, gadget(name), where)
    if not streaming:
        client.streaming.refuse()
    recorder = Recorder()
    informer = Informer(client, GADGETS, Gadget, namespace=where, indexers={"mode": lambda obj: [obj.spec.mode]})
    registration = informer.add_handler(recorder)  # type: ignore[arg-type]
    async with running(informer.run()):
        async with asyncio.timeout(SECONDS):
            await registration.wait_synced()
        assert [call[:2] + call[3:] for call in recorder.take()] == [
            ("add", f"{where}/{name}", "initial") for name in "ab"
        ]
        await client.create(GADGETS, gadget("c", mode="Active"), where)
        await client.patch(GADGETS, "a", merge_patch({"spec": {"mode": "Active"}}), where)
        await client.delete(GADGETS, "b", where)
        await until(lambda: len(recorder.told) == 3, "three events")
        assert [call[:2] for call in recorder.take()] == [
            ("add", f"{where}/c"),
            ("update", f"{where}/a"),
            ("delete", f"{where}/b"),
        ]
        assert sorted(obj.metadata.name for obj in informer.store.by_index("mode", "Active")) == ["a", "c"]
        listed = await client.list(GADGETS, where, type_=Gadget)
        assert {obj.metadata.key: obj for obj in listed.items} == {
            obj.metadata.key: obj for obj in informer.store.list()
        }


async def test_pods_with_everything_the_server_adds_are_read(api: Api, client: KubeClient):
    """The end mark of a streamed list of Pods carries nulls, which the projection must bear."""
    await client.create(PODS, pod("a", node="n1"), api.namespace)
    informer = Informer(client, PODS, Pod, namespace=api.namespace)
    async with running(informer.run()):
        async with asyncio.timeout(SECONDS):
            await informer.wait_synced()
        assert [obj.metadata.name for obj in informer.store.list()] == ["a"]


async def test_a_cache_goes_on_where_it_was_after_a_broken_wire(api: Api, server: Server, client: KubeClient):
    """The watch resumes at its last version: no list, nothing lost, nothing told twice."""
    where, log, recorder = api.namespace, ReflectorLog(), Recorder()
    await client.create(GADGETS, gadget("a"), where)
    async with Proxy(server.url) as proxy, client_through(proxy, server) as cut_off:
        informer = Informer(cut_off, GADGETS, Gadget, namespace=where, observer=log)
        informer.add_handler(recorder)  # type: ignore[arg-type]
        async with running(informer.run()):
            await until(lambda: informer.has_synced, "synced")
            proxy.cut()
            await client.patch(GADGETS, "a", merge_patch({"spec": {"interval": 20}}), where)
            await client.create(GADGETS, gadget("b"), where)
            await client.delete(GADGETS, "b", where)
            proxy.heal()
            await until(lambda: len(recorder.told) == 4, "caught up")
            assert [call[:2] for call in recorder.told] == [
                ("add", f"{where}/a"),
                ("update", f"{where}/a"),
                ("add", f"{where}/b"),
                ("delete", f"{where}/b"),
            ]
            assert recorder.told[-1][3] == "seen"
            assert log.relists == []


async def test_a_cache_finds_what_it_missed_after_the_server_forgot(api: Api, server: Server, client: KubeClient):
    """A watch that is too old leads to a list, and the list is compared: deletions are inferred, what is the same is
    not told again, an object made anew under its old name is a deletion and an addition."""
    where, log, recorder = api.namespace, ReflectorLog(), Recorder()
    for name in ("changed", "deleted", "remade", "same"):
        await client.create(GADGETS, gadget(name), where)
    async with Proxy(server.url) as proxy, client_through(proxy, server) as cut_off:
        informer = Informer(cut_off, GADGETS, Gadget, namespace=where, observer=log)
        informer.add_handler(recorder)  # type: ignore[arg-type]
        async with running(informer.run()):
            await until(lambda: informer.has_synced, "synced")
            recorder.take()
            proxy.freeze()
            await client.patch(GADGETS, "changed", merge_patch({"spec": {"interval": 20}}), where)
            for name in ("deleted", "remade"):
                await client.delete(GADGETS, name, where)
            for name in ("remade", "new"):
                await client.create(GADGETS, gadget(name), where)
            await server.forget()
            proxy.heal()
            await until(lambda: len(recorder.told) >= 5, "caught up")
            told = [(call[0], call[1].removeprefix(f"{where}/")) for call in recorder.told]
            assert told[0] == ("delete", "deleted"), "what is missing goes first"
            assert sorted(told[1:]) == [("add", "new"), ("add", "remade"), ("delete", "remade"), ("update", "changed")]
            assert told.index(("delete", "remade")) + 1 == told.index(("add", "remade"))
            assert {call[3] for call in recorder.told if call[0] == "delete"} == {"inferred"}
            assert log.relists


async def test_a_cache_shows_our_own_write_before_we_act_again(api: Api, client: KubeClient):
    where = api.namespace
    await client.create(GADGETS, gadget("a"), where)
    informer = Informer(client, GADGETS, Gadget, namespace=where)
    consistency = ConsistencyStore()
    consistency.register(GADGETS, informer.resource_version)
    async with running(informer.run()):
        await until(lambda: informer.has_synced, "synced")
        for interval in (20, 30, 40):
            answer = await client.patch(GADGETS, "a", merge_patch({"spec": {"interval": interval}}), where)
            consistency.wrote("a", "uid", GADGETS, where, answer["metadata"]["resourceVersion"])
            await until(lambda: consistency.ready("a"), "the cache has reached our write")
            stored = informer.store.get(f"{where}/a")
            assert stored is not None
            assert stored.spec == Spec(interval, "Shadow")


# ---- leader election -------------------------------------------------------------------------------------------------


class Skipping:
    """A clock that can be put forward: waiting for a lease to end then takes a moment."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def now(self) -> float:
        return boot_time() + self.skipped


def candidate(client: KubeClient, namespace: str, name: str, now: Callable[[], float] = boot_time) -> Elector:
    return Elector(LeaseLock(client, namespace, "leader"), identity=name, times=TIMES, now=now)


async def lead_for_ever() -> None:
    await asyncio.Event().wait()


async def test_a_leader_that_stops_hands_over_at_once(api: Api, client: KubeClient):
    first, second = (candidate(client, api.namespace, name) for name in ("first", "second"))
    leading = asyncio.create_task(first.run(lead_for_ever))
    await until(lambda: first.is_leader, "the first leads")
    async with running(second.run(lead_for_ever)):
        await until(lambda: second.leader == "first", "the second waits")
        with pytest.raises(NotLeader):
            second.check_write()
        leading.cancel()
        await asyncio.wait({leading})
        await until(lambda: second.is_leader, "the second leads")
        lease = await client.get(LEASE, "leader", api.namespace, type_=Lease)
        assert (lease.holder, lease.spec.lease_transitions if lease.spec else None) == ("second", 1)
        assert not first.is_leader


async def test_a_leader_that_is_cut_off_is_gone_before_the_next_one_begins(
    api: Api, server: Server, client: KubeClient
):
    async with Proxy(server.url) as proxy, client_through(proxy, server) as cut_off:
        clock = Skipping()
        first = candidate(cut_off, api.namespace, "first", clock.now)
        second = candidate(client, api.namespace, "second", clock.now)
        cut_off.gate = first.check_write
        leading = asyncio.create_task(first.run(lead_for_ever))
        await until(lambda: first.is_leader, "the first leads")
        async with running(second.run(lead_for_ever)):
            await until(lambda: second.leader == "first", "the second waits")
            proxy.cut()
            overlap = False
            async with asyncio.timeout(SECONDS):
                while not second.is_leader:
                    overlap = overlap or (first.is_leader and second.is_leader)
                    clock.skipped += 0.5
                    await asyncio.sleep(0.005)
            assert not overlap
            assert not first.is_leader
            proxy.heal()
            with pytest.raises(LeadershipLost):
                await leading
            with pytest.raises(NotLeader):
                await cut_off.create(CONFIG_MAPS, config_map("late"), api.namespace)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAPS, "late", api.namespace)


async def test_a_lease_that_somebody_deleted_is_made_again_by_its_leader(api: Api, client: KubeClient):
    elector = candidate(client, api.namespace, "first")
    async with running(elector.run(lead_for_ever)):
        await until(lambda: elector.is_leader, "leads")
        await client.delete(LEASE, "leader", api.namespace)

        async def remade() -> bool:
            try:
                return (await client.get(LEASE, "leader", api.namespace, type_=Lease)).holder == "first"
            except NotFound:
                return False

        async with asyncio.timeout(SECONDS):
            while not await remade():
                await asyncio.sleep(0.05)
        assert elector.is_leader


# ---- the fence -------------------------------------------------------------------------------------------------------


def target(name: str = "chat", replicas: int = 1) -> dict[str, Any]:
    role = {"name": "server", "kind": "Server", "replicas": replicas, "instanceType": "h200"}
    return {
        "apiVersion": MODEL_DEPLOYMENTS.api_version,
        "kind": "ModelDeployment",
        "metadata": {"name": name},
        "spec": {"model": {"name": "m"}, "engine": {"name": "vLLM"}, "roles": [role]},
    }


async def _claimed(client: KubeClient, where: str, term: int) -> tuple[dict[str, Any], Holding]:
    holding = Holding("chat", "uid-1", term)
    try:
        now = await client.get(MODEL_DEPLOYMENTS, "chat", where)
    except NotFound:
        now = await client.create(MODEL_DEPLOYMENTS, target(), where)
    patch = merge_patch(
        claim_patch(now["metadata"]["resourceVersion"], holding, found={"server": 1} if term == 1 else None)
    )
    return await client.patch(MODEL_DEPLOYMENTS, "chat", patch, where), holding


def _write(obj: dict[str, Any], holding: Holding, replicas: int) -> Any:
    role = obj["spec"]["roles"][0]
    declared = [DeclaredCount(0, role["name"], role["replicas"])]
    return fence_patch(obj["metadata"]["uid"], holding, declared, {"server": replicas}, {"server": replicas})


async def test_a_fenced_write_changes_count_and_memory_at_once(api: Api, client: KubeClient):
    claimed, holding = await _claimed(client, api.namespace, 1)
    answer = await client.patch(MODEL_DEPLOYMENTS, "chat", _write(claimed, holding, 3), api.namespace)
    assert answer["spec"]["roles"][0]["replicas"] == 3
    assert answer["metadata"]["annotations"][WRITTEN_ANNOTATION] == "server=3"
    assert answer["metadata"]["generation"] == claimed["metadata"]["generation"] + 1


async def test_an_old_holder_is_refused_whatever_it_believes(api: Api, client: KubeClient):
    old, holding = await _claimed(client, api.namespace, 1)
    late = _write(old, holding, 5)
    claimed, newer = await _claimed(client, api.namespace, 2)
    with pytest.raises(Invalid) as refused:
        await client.patch(MODEL_DEPLOYMENTS, "chat", late, api.namespace)
    assert (refused.value.status, refused.value.causes) == (422, ())
    answer = await client.patch(MODEL_DEPLOYMENTS, "chat", _write(claimed, newer, 2), api.namespace)
    assert answer["spec"]["roles"][0]["replicas"] == 2


async def test_a_count_that_somebody_else_changed_meanwhile_is_not_overwritten(api: Api, client: KubeClient):
    claimed, holding = await _claimed(client, api.namespace, 1)
    changed = target(replicas=7)
    changed["metadata"] = claimed["metadata"]
    await client.replace(MODEL_DEPLOYMENTS, "chat", changed, api.namespace)
    with pytest.raises(Invalid):
        await client.patch(MODEL_DEPLOYMENTS, "chat", _write(claimed, holding, 3), api.namespace)
    seen = await client.get(MODEL_DEPLOYMENTS, "chat", api.namespace)
    assert seen["spec"]["roles"][0]["replicas"] == 7


async def test_of_many_writers_that_decided_from_one_state_exactly_one_writes(api: Api, client: KubeClient):
    claimed, holding = await _claimed(client, api.namespace, 1)
    writes = [
        client.patch(MODEL_DEPLOYMENTS, "chat", _write(claimed, holding, replicas), api.namespace)
        for replicas in range(2, 12)
    ]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(isinstance(outcome, dict) for outcome in outcomes) == 1
    assert all(isinstance(outcome, dict | Invalid) for outcome in outcomes)


async def test_a_write_in_flight_never_fits_after_a_release(api: Api, client: KubeClient):
    claimed, holding = await _claimed(client, api.namespace, 1)
    late = _write(claimed, holding, 5)
    release = merge_patch(release_patch(claimed["metadata"]["resourceVersion"]))
    await client.patch(MODEL_DEPLOYMENTS, "chat", release, api.namespace)
    with pytest.raises(Invalid):
        await client.patch(MODEL_DEPLOYMENTS, "chat", late, api.namespace)
    await _claimed(client, api.namespace, 2)
    with pytest.raises(Invalid):
        await client.patch(MODEL_DEPLOYMENTS, "chat", late, api.namespace)


# ---- events ----------------------------------------------------------------------------------------------------------


async def test_an_event_that_repeats_becomes_a_series(api: Api, client: KubeClient):
    recorder = EventRecorder(client, controller="example.com/conformance", instance="i-1")
    regarding = ObjectRef(GADGETS.api_version, "Gadget", "a", api.namespace, "u")
    async with running(recorder.run()):
        for _ in range(2):
            recorder.event(regarding, EventType.WARNING, "Strange", "Look", "something is strange")

        async def series() -> list[Any]:
            return [item.get("series") for item in (await client.list(EVENTS, api.namespace)).items]

        async with asyncio.timeout(SECONDS):
            while [(each or {}).get("count") for each in await series()] != [2]:
                await asyncio.sleep(0.05)
    (event,) = (await client.list(EVENTS, api.namespace)).items
    assert (event["reason"], event["type"], event["regarding"]["name"]) == ("Strange", "Warning", "a")
