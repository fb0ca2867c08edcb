"""Gauges read inside the container: only where the port cannot be reached, by the program that really runs there."""

from __future__ import annotations

import ast
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from controller.api import ModelDeployment, Pod
from controller.deployment import HttpGauges, Load, MemberLoad, exec_gauges, metrics_read
from controller.deployment.exec_gauges import MAX_BODY_BYTES, ExecGauges, WithFallback
from controller.engines import Scraper
from controller.foundation import ManualClock
from controller.kube import Connection, ExecResult, Forbidden, PodExec
from tests.deployment.builders import deployment, pod
from tests.deployment.kubelet_exec import ExecServer
from tests.deployment.patience import PATIENCE_SECONDS

VLLM = 'vllm:num_requests_running{{engine="0",model_name="m"}} {0}\nvllm:num_requests_waiting{{engine="0",model_name="m"}} 0\n'
ELSEWHERE = "192.0.2.1"  # TEST-NET: nobody is there


@asynccontextmanager
async def engine(body: str, status: int = 200) -> AsyncIterator[int]:
    """An engine on loopback, by its port."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=body, status=status)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def member(port: int, address: str = ELSEWHERE) -> Pod:
    """A Pod whose engine has this port, at an address that leads nowhere."""
    return pod(address=address, port=port)


@pytest.fixture
async def kubelet(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ExecServer]:
    # A busy machine may need longer to start Python than a read may last, and then for each address.
    monkeypatch.setattr(exec_gauges, "READ_SECONDS", 3 * PATIENCE_SECONDS)
    monkeypatch.setattr(exec_gauges, "_URL_SECONDS", PATIENCE_SECONDS)
    made = ExecServer()
    # An engine's environment may well name a proxy, which must not be asked for our own address.
    made.environment = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    await made.start()
    yield made
    await made.stop()


async def _read(kubelet: ExecServer, *pods: Pod) -> list[MemberLoad]:
    executor = PodExec(Connection(kubelet.url), user_agent="test")
    try:
        return await ExecGauges(executor).read(deployment(), pods)
    finally:
        await executor.close()


@pytest.mark.parametrize(("running", "load"), [(0, Load.IDLE), (3, Load.BUSY)])
async def test_the_engine_is_asked_on_its_own_loopback(kubelet: ExecServer, running: int, load: Load):
    async with engine(VLLM.format(running)) as port:
        (found,) = await _read(kubelet, member(port))
    assert (found.load, found.in_flight) == (load, running)
    (command,) = kubelet.commands
    assert command[:2] == ["python3", "-c"]
    assert command[-2:] == [f"http://127.0.0.1:{port}/metrics", f"http://{ELSEWHERE}:{port}/metrics"]


async def test_an_engine_that_listens_on_the_pods_address_alone_is_found_there(kubelet: ExecServer):
    async with engine(VLLM.format(0)) as port:
        wrong = member(port, "127.0.0.1")
        (found,) = await _read(kubelet, wrong)
    assert found.load is Load.IDLE


BAD = [
    ("an engine that refuses", "", 503, "503"),
    ("gauges that are missing", "vllm:num_requests_running 0\n", 200, "does not print"),
    ("another program", "up 1\n", 200, "no series of"),
    ("a body without end", "x" * (MAX_BODY_BYTES + 10), 200, "more than"),
]


@pytest.mark.parametrize(("body", "status", "says"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
async def test_what_is_no_answer_is_not_idle(kubelet: ExecServer, body: str, status: int, says: str):
    async with engine(body, status) as port:
        (found,) = await _read(kubelet, member(port))
    assert found.load is Load.UNKNOWN
    assert says in found.note


async def test_nobody_on_either_address_says_why(kubelet: ExecServer):
    (found,) = await _read(kubelet, member(1, "127.0.0.1"))
    assert found.load is Load.UNKNOWN
    assert "refused" in found.note


class Scripted:
    """An executor that answers as it is told."""

    def __init__(self, result: ExecResult | Exception) -> None:
        self._result = result

    async def run(self, *_: object, **__: object) -> ExecResult:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


RESULTS: list[tuple[str, ExecResult | Exception, str]] = [
    ("no permission", Forbidden("pods/exec is forbidden", status=403), "forbidden"),
    ("no Python in the image", ExecResult(None, b"", b"", 'exec: "python3": not found'), "python3"),
    ("a traceback", ExecResult(1, b"", b"Traceback\nValueError: no\n", "non-zero"), "ValueError: no"),
    ("silence", ExecResult(137, b"", b""), "exit status 137"),
]


@pytest.mark.parametrize(("result", "says"), [row[1:] for row in RESULTS], ids=[row[0] for row in RESULTS])
async def test_a_command_that_does_not_work_out_is_not_idle(result: ExecResult | Exception, says: str):
    (found,) = await ExecGauges(Scripted(result)).read(deployment(), [pod()])
    assert found.load is Load.UNKNOWN
    assert says in found.note


async def test_a_pod_without_metrics_is_not_asked():
    (found,) = await ExecGauges(Scripted(AssertionError("asked"))).read(deployment(), [pod(scraped=False)])
    assert found.load is Load.UNKNOWN


# --- the order of the two ways ---


class Says:
    """A way that says this about each Pod, by name."""

    def __init__(self, **loads: MemberLoad) -> None:
        self._loads = loads
        self.asked: list[str] = []

    async def read(self, target: ModelDeployment, pods: Sequence[Pod]) -> list[MemberLoad]:
        del target
        self.asked += [each.metadata.name for each in pods]
        return [self._loads[each.metadata.name] for each in pods]


IDLE, BUSY = MemberLoad(Load.IDLE, "idle", 0.0), MemberLoad(Load.BUSY, "busy", 2.0)
LOST = MemberLoad(Load.UNKNOWN, "no connection", unreachable=True)
STRANGE = MemberLoad(Load.UNKNOWN, "another program")


async def test_only_members_that_cannot_be_reached_are_read_the_second_way():
    first = Says(a=IDLE, b=LOST, c=STRANGE, d=LOST)
    second = Says(b=BUSY, d=MemberLoad(Load.UNKNOWN, "forbidden"))
    found = await WithFallback(first, second).read(deployment(), [pod(name) for name in "abcd"])
    assert second.asked == ["b", "d"]
    assert found[:3] == [IDLE, BUSY, STRANGE]
    assert found[3].note == "no connection; forbidden"


async def test_where_all_can_be_reached_nothing_is_run():
    second = Says()
    await WithFallback(Says(a=IDLE), second).read(deployment(), [pod("a")])
    assert second.asked == []


async def test_a_port_that_is_closed_to_us_is_one_that_cannot_be_reached():
    async with Scraper(clock=ManualClock(), timeout_seconds=PATIENCE_SECONDS) as scraper:
        (closed,) = await HttpGauges(scraper).read(deployment(), [member(1, "127.0.0.1")])
        async with engine("", 503) as port:
            (refused,) = await HttpGauges(scraper).read(deployment(), [member(port, "127.0.0.1")])
    assert (closed.load, closed.unreachable) == (Load.UNKNOWN, True)
    assert (refused.load, refused.unreachable) == (Load.UNKNOWN, False)


def test_the_program_needs_nothing_but_the_standard_library():
    tree = ast.parse(Path(metrics_read.__file__).read_text(encoding="utf-8"))
    imports = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imports |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imports} <= sys.stdlib_module_names
