"""Idle reads: over real HTTP from engines that print what they hold, with identity checked before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from aiohttp import web

from controller.api import ModelDeployment, Pod
from controller.deployment import DrainReader, HttpGauges, Load, MemberLoad
from controller.deployment.replicas import Replica
from controller.engines import Scraper
from controller.foundation import ManualClock
from controller.kube import KubeClient, NotFound, ServerFailed
from tests.deployment.builders import deployment, group, pod, single
from tests.deployment.patience import PATIENCE_SECONDS

VLLM = 'vllm:num_requests_running{{engine="0",model_name="{0}"}} {1}\nvllm:num_requests_waiting{{engine="0",model_name="{0}"}} {2}\n'
ENCODER = 'sglang:encoder_requests_received_total{modality="image"} 2.0\n'
SGLANG = "sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n"


class Api:
    """Gives the Pods that it was given, in the versions it was given, one a read."""

    def __init__(self, *versions: list[Pod]) -> None:
        self._versions = list(versions)
        self._asked = 0

    async def get(self, resource: Any, name: str, namespace: str, *, type_: type[Pod]) -> Pod:
        del resource, namespace, type_
        version = self._versions[min(self._asked // len(self._versions[0]), len(self._versions) - 1)]
        self._asked += 1
        for found in version:
            if found.metadata.name == name:
                return found
        raise NotFound("not found", status=404)


class Says:
    """A source of gauges that says what it was told to."""

    def __init__(self, *loads: MemberLoad) -> None:
        self._loads = loads

    async def read(self, target: ModelDeployment, pods: Sequence[Pod]) -> list[MemberLoad]:
        del target
        return list(self._loads[: len(pods)])


IDLE = MemberLoad(Load.IDLE, "idle", 0.0)
BUSY = MemberLoad(Load.BUSY, "requests are in flight at b", 3.0)
LOST = MemberLoad(Load.UNKNOWN, "c cannot be read")


async def _look(replica: Replica, *loads: MemberLoad, api: Api | None = None) -> tuple[Load, str]:
    reader = DrainReader(cast("KubeClient", api or Api(list(replica.members))), Says(*loads))
    found = await reader.look(deployment(), replica)
    return found.load, found.detail or found.note


EXTERNAL = group(0, {}, {"scraped": True})


@pytest.mark.parametrize(
    ("replica", "loads", "load", "says"),
    [
        pytest.param(single(0), [IDLE], Load.IDLE, "idle", id="one idle Pod is an idle replica"),
        pytest.param(single(0), [BUSY], Load.BUSY, "3 in flight at chat-server-0", id="one with requests is busy"),
        pytest.param(EXTERNAL, [IDLE, BUSY], Load.BUSY, "3 in flight", id="one busy member of two makes it busy"),
        pytest.param(EXTERNAL, [IDLE, LOST], Load.UNKNOWN, "cannot be read", id="one member that cannot be read is not idle"),
        pytest.param(group(0, {}, {}), [IDLE], Load.IDLE, "idle", id="a follower is not asked"),
        pytest.param(group(0, {"phase": "Failed"}, {"scraped": True}), [IDLE], Load.IDLE, "idle", id="nor is a member that has ended"),
        pytest.param(single(0, scraped=False), [], Load.UNSUPPORTED, "took over", id="without metrics nobody can say"),
        pytest.param(single(0, scraped=False, made_from=None), [], Load.UNSUPPORTED, "lost its annotations, prometheus.io/scrape", id="nor where somebody took the annotations away"),
    ],
)  # fmt: skip
async def test_a_look_at_all_answering_members(replica: Replica, loads: list[MemberLoad], load: Load, says: str):
    found, note = await _look(replica, *loads)
    assert found is load
    assert says in note


@pytest.mark.parametrize(
    ("after", "says"),
    [
        pytest.param([pod(container="c2", restarts=1)], "restarted", id="a container that restarted while it was read"),
        pytest.param([pod(uid="another")], "made again", id="a Pod that was made again while it was read"),
        pytest.param([pod(address="10.0.0.9")], "restarted", id="an address that changed while it was read"),
        pytest.param([], "gone", id="a Pod that went while it was read"),
    ],
)
async def test_who_was_read_is_checked_before_and_after(after: list[Pod], says: str):
    found, note = await _look(single(0), IDLE, api=Api([pod()], after or [pod("other")]))
    assert found is Load.UNKNOWN
    assert says in note


async def test_an_api_server_that_does_not_answer_is_not_idleness():
    class Broken(Api):
        async def get(self, *_: Any, **__: Any) -> Pod:
            raise ServerFailed("it tried and failed", status=500)

    found, note = await _look(single(0), IDLE, api=Broken([]))
    assert found is Load.UNKNOWN
    assert "tried and failed" in note


async def test_another_container_is_another_incarnation():
    first = await DrainReader(cast("KubeClient", Api([pod()])), Says(IDLE)).look(deployment(), single(0))
    again = await DrainReader(cast("KubeClient", Api([pod(restarts=1)])), Says(IDLE)).look(deployment(), single(0))
    assert first.incarnation != again.incarnation


# --- over HTTP ---


async def _served(body: str | int, then: Callable[[str], Any]) -> Any:
    """Serve a body (or an HTTP status) on loopback and hand its port on."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(status=body) if isinstance(body, int) else web.Response(text=body)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        async with Scraper(
            clock=ManualClock(), timeout_seconds=PATIENCE_SECONDS, dial=lambda _host, _port: ("127.0.0.1", port)
        ) as scraper:
            return await then(scraper)  # type: ignore[arg-type]
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("engine", "kind", "body", "load", "says"),
    [
        pytest.param("vLLM", "server", VLLM.format("m", 0, 0), Load.IDLE, "idle", id="vLLM at rest"),
        pytest.param("vLLM", "server", VLLM.format("m", 2, 1), Load.BUSY, "in flight", id="vLLM at work"),
        pytest.param("vLLM", "server", VLLM.format("served under another name", 1, 0), Load.BUSY, "in flight", id="whatever the model is called"),
        pytest.param("vLLM", "server", VLLM.format("m", 0, 0).splitlines()[0] + "\n", Load.UNKNOWN, "running or what is waiting", id="a gauge that is missing"),
        pytest.param("vLLM", "server", VLLM.format("m", "NaN", 0), Load.UNKNOWN, "running or what is waiting", id="a gauge that is no number"),
        pytest.param("vLLM", "server", 500, Load.UNKNOWN, "HTTP 500", id="an engine in trouble"),
        pytest.param("vLLM", "server", "<html>", Load.UNKNOWN, "cannot be read", id="something else on its port"),
        pytest.param("SGLang", "server", SGLANG, Load.IDLE, "idle", id="SGLang at rest"),
        pytest.param("SGLang", "prefill", SGLANG, Load.UNKNOWN, "prefill_bootstrap", id="an SGLang prefill process must print its hand-over queues"),
        pytest.param("SGLang", "prefill", SGLANG + "sglang:num_prefill_bootstrap_queue_reqs 0\nsglang:num_prefill_inflight_queue_reqs 2\n", Load.BUSY, "in flight", id="what it holds for the decode side counts"),
        pytest.param("SGLang", "decode", SGLANG + "sglang:num_decode_prealloc_queue_reqs 0\nsglang:num_decode_transfer_queue_reqs 1\n", Load.BUSY, "in flight", id="and so does what a decode process waits for"),
        pytest.param("SGLang", "decode", SGLANG + "sglang:num_decode_prealloc_queue_reqs 1\nsglang:num_decode_transfer_queue_reqs 0\n", Load.BUSY, "in flight", id="be it that its prefill has not ended"),
        pytest.param("SGLang", "encode", ENCODER + 'sglang:encoder_requests_total{status="success"} 2.0\n', Load.IDLE, "idle", id="an SGLang encoder that has ended what it received"),
        pytest.param("SGLang", "encode", ENCODER + 'sglang:encoder_requests_total{status="success"} 1.0\n', Load.BUSY, "in flight", id="an SGLang encoder at work"),
        pytest.param("SGLang", "encode", 'sglang:encoder_model_forward_seconds_count 3.0\n', Load.UNKNOWN, "cannot be read", id="one that never got a request does not say so"),
        pytest.param("SGLang", "encode", 404, Load.UNKNOWN, "HTTP 404", id="nor does one that is too old to count"),
        pytest.param("vLLM", "encode", VLLM.format("m", 0, 0), Load.IDLE, "idle", id="a vLLM encoder is read as a server"),
    ],
)  # fmt: skip
async def test_reading_an_engine(engine: str, kind: str, body: str | int, load: Load, says: str):
    target = deployment(engine={"name": engine, "version": "1"})
    (found,) = await _served(body, lambda scraper: HttpGauges(scraper).read(target, [pod(kind=kind)]))  # type: ignore[arg-type]
    assert found.load is load
    assert says in found.note


async def test_a_pod_without_an_address_is_not_idle():
    (found,) = await HttpGauges(Scraper(clock=ManualClock())).read(deployment(), [pod(address="")])
    assert found.load is Load.UNKNOWN
    assert "NoAddress" in found.note
