"""Pods whose ports cannot be reached from the controller, on the real control plane: EndpointSlices written by its own
controller tell who is offered requests, and gauges are read through kube-apiserver and a kubelet's `exec`.

Addresses are of 198.18.0.0/15 and lead nowhere; the engine listens on the loopback of "its container".
"""

from __future__ import annotations

import functools
import itertools
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controller.api import ENDPOINT_SLICES
from controller.deployment import controller as deployment_controller
from controller.embedded.containers import SilentContainer
from controller.embedded.engine import EngineState
from controller.embedded.pods import AssignedPod
from controller.kube import PodExec
from hack.controlplane import Binaries, Certificates
from tests.cluster.api import Api, Body
from tests.cluster.managed import MODEL, Standalone
from tests.cluster.objects import NODES
from tests.deployment.kubelet_exec import ExecServer

_numbers = itertools.count(1)


class FarAway(SilentContainer):
    """A container whose address leads nowhere."""

    async def start(self, addresses: Iterator[str], port: int) -> None:  # type: ignore[override]
        del addresses, port
        self.host, self.started_seconds, self.state = f"198.18.7.{next(_numbers)}", 0.0, EngineState.SERVING


class Engine:
    """Prints vLLM's gauges on loopback, for every container."""

    def __init__(self) -> None:
        self.running = 0
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        labels = f'{{engine="0",model_name="{MODEL}"}}'
        values = {"running": self.running, "waiting": 0}
        return web.Response(text="".join(f"vllm:num_requests_{k}{labels} {v}\n" for k, v in values.items()))


class Unreachable(Standalone):
    """A namespace on a node that answers `exec` and nothing else."""

    scrape_timeout_seconds = 2.0  # nobody answers

    def __init__(self, api: Api, directory: Path, kubelet: ExecServer) -> None:
        super().__init__(api, directory)
        self._exec = kubelet

        def runtime(pod: AssignedPod, changed: Callable[[], None]) -> FarAway:
            del pod, changed
            return FarAway(self.clock)

        self.kubelet._runtime = runtime

    async def _beat(self, node: str) -> None:
        await super()._beat(node)
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._exec.port}},
        }
        path = f"{NODES.path()}/{node}/status"
        (await self.api("PATCH", path, {"status": status}, content_type="application/merge-patch+json")).ok()


@pytest.fixture
async def kubelet(certificates: Certificates) -> AsyncIterator[ExecServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    made = ExecServer("/exec/{namespace}/{pod}/{container}")
    await made.start(context)
    yield made
    await made.stop()


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine()
    await made.start()
    yield made
    await made.stop()


def _addresses(slices: Body) -> set[str]:
    found: list[Any] = [each for item in slices["items"] for each in item.get("endpoints") or ()]
    return {address for each in found for address in each["addresses"]}


@pytest.mark.parametrize("server", ["real"], indirect=True)
async def test_a_replica_that_only_its_kubelet_reaches_is_withdrawn_from_slices_and_drained(
    api: Api,
    programs: Binaries,
    kubelet: ExecServer,
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    if programs.controller_manager is None:
        pytest.skip("there is no kube-controller-manager, which writes EndpointSlices")
    # A v5 stream is translated to SPDY on its way to the kubelet, which ours does not speak; v4 goes through as it is.
    older = functools.partial(PodExec, protocols=("v4.channel.k8s.io",))
    monkeypatch.setattr(deployment_controller, "PodExec", older)
    team = Unreachable(api, tmp_path, kubelet)
    await team.start()
    try:
        role = {"name": "server", "kind": "Server", "replicas": 2, "ports": [{"port": engine.port}]}
        version = {"name": "vLLM", "version": "0.32.0"}
        await team.target(roles=[{**role, "instanceType": "h200"}], model={"name": MODEL}, engine=version)
        await team.controller()

        def endpoints() -> Any:
            return (team.md_status().get("roles") or [{}])[0].get("endpoints")

        both = {"eligible": 2, "serving": {"state": "NotConfigured"}}
        await team.until(lambda: endpoints() == both, "the slices list both")
        listed = (await api.list(ENDPOINT_SLICES, labelSelector="kubernetes.io/service-name=chat-server")).ok()
        assert _addresses(listed) == {each["status"]["podIP"] for each in team.pods().values()}
        engine.running = 1
        await team.scale(1)
        await team.until(lambda: team.state() == "Draining", "withdrawn from the slices")
        listed = (await api.list(ENDPOINT_SLICES, labelSelector="kubernetes.io/service-name=chat-server")).ok()
        assert _addresses(listed) == {team.pods()["chat-server-0"]["status"]["podIP"]}
        await team.until(lambda: len(kubelet.commands) >= 2, "read through the kubelet")
        await team.until(lambda: "in flight" in team.md_status()["retirement"]["reason"], "and told")
        assert team.state() == "Draining"
        engine.running = 0
        await team.until(lambda: not team.state() and len(team.pods()) == 1, "idle, and gone")
        await team.until(lambda: "RetirementCompleted" in team.event_reasons(), "an event tells")
        assert {command[0] for command in kubelet.commands} == {"python3"}
    finally:
        await team.stop()
