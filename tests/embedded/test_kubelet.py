"""The kubelet against the embedded API server: Pods that a test makes, engines over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
import pytest

from controller.embedded.apiclient import ApiClient
from controller.embedded.apiserver import ApiServer
from controller.embedded.apiserver.faults import Action, LoseResponse, bad_gateway
from controller.embedded.containers import EngineRuntime
from controller.embedded.contract import PODS
from controller.embedded.engine import EngineConfig, EngineKind, EngineServer, EngineState
from controller.embedded.kubelet import Kubelet
from controller.embedded.manifests import namespace_manifest
from controller.foundation import Clock, OperationFailed
from tests.embedded.conftest import SERVICE
from tests.embedded.pods import pod
from tests.embedded.waiting import PATIENCE_SECONDS, until

NAMESPACE = "demo"
NAME = "chat-server-0"


@dataclass
class Bench:
    clock: Clock
    api: ApiServer
    client: ApiClient
    kubelet: Kubelet
    http: aiohttp.ClientSession

    async def create(self, *names: str, **changes: Any) -> None:
        for name in names or (NAME,):
            await self.client.create(PODS, NAMESPACE, pod(name, **changes))

    def pods(self) -> dict[str, dict[str, Any]]:
        return {found["metadata"]["name"]: found for found in self.api.list(PODS, NAMESPACE)}

    def conditions(self, name: str = NAME) -> dict[str, str]:
        found = self.pods().get(name, {}).get("status", {}).get("conditions") or []
        return {condition["type"]: condition["status"] for condition in found}

    def ready(self) -> list[str]:
        return sorted(name for name in self.pods() if self.conditions(name).get("Ready") == "True")

    def engine(self, name: str = NAME) -> EngineServer:
        return cast("EngineServer", self.kubelet.containers[name])

    async def until(self, condition: Callable[[], object]) -> None:
        await until(condition, self.clock)

    def since(self, began: float) -> float:
        """Seconds, without the rounding of Unix times."""
        return round(self.clock.now() - began, 3)

    async def serving(self, **changes: Any) -> EngineServer:
        await self.create(**changes)
        await self.until(lambda: self.ready() == [NAME])
        return self.engine()

    def ask(self, tokens: int) -> asyncio.Task[int]:
        """A request; the number of tokens that came, 0 where it was cut."""

        async def answered() -> int:
            body = {"model": "m", "prompt_tokens": 10, "max_tokens": tokens}
            try:
                async with self.http.post(f"{self.engine().url}/v1/completions", json=body) as answer:
                    found: int = (await answer.json())["usage"]["completion_tokens"]
                    return found
            except (aiohttp.ClientError, OSError):
                return 0

        return asyncio.create_task(answered())

    async def delete(self, *, grace_seconds: int | None = None) -> None:
        path = f"{self.api.url}{PODS.path(NAMESPACE, NAME)}"
        async with self.http.delete(path, json={"gracePeriodSeconds": grace_seconds}) as answer:
            assert answer.status == 200


@pytest.fixture
async def bench(clock: Clock, http: aiohttp.ClientSession) -> AsyncIterator[Bench]:
    api = ApiServer(clock=clock)
    await api.start("127.0.0.1", 0)
    api.put(namespace_manifest(NAMESPACE))
    client = ApiClient(api.url)
    engine = EngineConfig("m", SERVICE, startup_seconds=5.0, frame_tokens=8)
    kubelet = Kubelet(client, clock, EngineRuntime(clock, {EngineKind.SERVER: engine}), namespace=NAMESPACE)
    await kubelet.start()
    yield Bench(clock, api, client, kubelet, http)
    await kubelet.stop()
    await client.close()
    await api.stop()


async def test_a_pod_gets_its_node_an_engine_and_a_status(bench: Bench) -> None:
    engine = await bench.serving()
    found = bench.pods()[NAME]
    assert found["spec"]["nodeName"] == "embedded"
    assert bench.conditions()["PodScheduled"] == "True"
    assert found["status"]["podIP"] == engine.host
    assert engine.port == 18002
    assert engine.config.max_num_seqs == 4


async def test_a_pod_of_another_node_is_left_alone(bench: Bench) -> None:
    await bench.create("elsewhere-1", spec={"nodeName": "elsewhere"})
    await bench.serving()
    assert set(bench.kubelet.containers) == {NAME}
    assert bench.conditions("elsewhere-1") == {}


async def test_a_pod_without_a_server_runs_and_is_ready_at_once(bench: Bench) -> None:
    await bench.create(annotations={}, container={"readinessProbe": None, "livenessProbe": None})
    await bench.until(lambda: bench.ready() == [NAME])
    assert bench.pods()[NAME]["status"]["podIP"].startswith("127.")


async def test_beyond_the_quota_a_pod_waits_and_moves_up_when_one_goes(bench: Bench) -> None:
    bench.kubelet.quota = 2
    await bench.create(*(f"chat-server-{ordinal}" for ordinal in range(4)))
    await bench.until(lambda: len(bench.ready()) == 2)
    await bench.until(
        lambda: [bench.conditions(f"chat-server-{n}").get("PodScheduled") for n in (2, 3)] == ["False"] * 2
    )
    assert "nodeName" not in bench.pods()["chat-server-2"]["spec"]
    await bench.delete()
    await bench.until(lambda: len(bench.ready()) == 2 and NAME not in bench.pods())
    assert bench.conditions("chat-server-3")["PodScheduled"] == "False"


async def test_a_crash_is_a_restart_of_the_same_pod_with_a_new_container(bench: Bench) -> None:
    engine = await bench.serving()
    uid = bench.pods()[NAME]["metadata"]["uid"]
    await engine.crash(down_seconds=5.0)
    await bench.until(lambda: engine.restart_count == 1 and bench.ready() == [NAME])
    shown: list[tuple[str, int, bool, str]] = []
    for version in bench.api.history(PODS, NAME, NAMESPACE):
        for container in (version.object.get("status") or {}).get("containerStatuses") or []:
            state = (container["containerID"], container["restartCount"], container["ready"], *container["state"])
            if state not in shown[-1:]:
                shown.append(state)
    first, second = f"embedded://{uid}-0", f"embedded://{uid}-1"
    assert shown[-4:] == [
        (first, 0, True, "running"),
        (first, 0, False, "waiting"),
        (second, 1, False, "running"),
        (second, 1, True, "running"),
    ]


async def test_an_engine_that_hangs_becomes_unready_and_is_restarted_as_its_probes_say(bench: Bench) -> None:
    engine = await bench.serving()
    began = bench.clock.now()
    engine.hang()
    await bench.until(lambda: not bench.ready())
    assert bench.since(began) >= 30
    assert engine.restart_count == 0
    await bench.until(lambda: engine.restart_count == 1)
    assert bench.since(began) >= 60
    await bench.until(lambda: bench.ready() == [NAME])


async def test_an_engine_that_answers_again_is_not_restarted(bench: Bench) -> None:
    engine = await bench.serving()
    engine.hang()
    await bench.until(lambda: not bench.ready())
    engine.resume()
    await bench.until(lambda: bench.ready() == [NAME])
    assert engine.restart_count == 0


async def test_a_deleted_pod_serves_until_it_is_idle_and_then_goes(bench: Bench) -> None:
    engine = await bench.serving()
    answer = bench.ask(600)  # twelve seconds
    await bench.until(lambda: engine.load().running)
    began = bench.clock.now()
    await bench.delete()
    late = bench.ask(10)
    await bench.until(lambda: NAME not in bench.pods())
    assert (await answer, await late) == (600, 10)
    assert 12 <= bench.since(began) < 30
    assert bench.kubelet.cut == 0
    assert engine.state is EngineState.STOPPED


@pytest.mark.parametrize(
    ("changes", "grace_seconds", "least", "most"),
    [
        pytest.param({}, None, 25, 30, id="the hook ends before the grace does"),
        pytest.param({}, 10, 10, 15, id="a shorter grace ends the hook"),
        pytest.param({"container": {"lifecycle": {}}}, None, 0, 5, id="without a hook nothing is waited for"),
        pytest.param(
            {"container": {"lifecycle": {"preStop": {"sleep": {"seconds": 3}}}}}, None, 3, 8, id="a sleep is a sleep"
        ),
        pytest.param({}, 0, 0, 5, id="a Pod that is forced out is killed"),
    ],
)
async def test_what_outlasts_the_end_of_a_pod_is_cut_and_counted(
    bench: Bench, changes: dict[str, Any], grace_seconds: int | None, least: float, most: float
) -> None:
    engine = await bench.serving(**changes)
    answer = bench.ask(20_000)  # seven minutes
    await bench.until(lambda: engine.load().running)
    began = bench.clock.now()
    await bench.delete(grace_seconds=grace_seconds)
    assert await answer == 0
    assert least <= bench.since(began) < most
    await bench.until(lambda: NAME not in bench.pods() and not bench.kubelet.containers)
    assert bench.kubelet.cut == 1


async def test_a_pod_made_again_under_the_same_name_is_another_pod(bench: Bench) -> None:
    old = await bench.serving()
    await bench.delete(grace_seconds=0)
    await bench.serving()
    assert bench.engine() is not old
    assert old.state is EngineState.STOPPED


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(bad_gateway(), id="calls that fail"),
        pytest.param(LoseResponse(), id="calls whose answer is lost"),
    ],
)
async def test_api_calls_are_made_again(bench: Bench, action: Action) -> None:
    verbs = ("create", "patch", "delete")
    faults = bench.api.faults
    rules = [faults.add(action, verb=verb, resource="pods", user_agent="mdscaler-embedded") for verb in verbs]
    bench.api.put(pod())
    await bench.until(lambda: bench.ready() == [NAME])
    await bench.delete(grace_seconds=1)
    await bench.until(lambda: not bench.pods())
    assert [rule.fired for rule in rules] == [1, 1, 1]


async def test_a_kubelet_that_finds_no_address_fails_with_the_reason(bench: Bench) -> None:
    class Exhausted:
        async def listen(self, *_: object) -> None:
            raise OperationFailed("no address")

    bench.kubelet._addresses = Exhausted()  # type: ignore[assignment]
    await bench.create()
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(OperationFailed, match="no address"):
            await asyncio.shield(bench.kubelet.failure)
