"""What hooks are understood, and when a drain lets go."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from controller.api import EngineName, RoleKind
from controller.deployment.command_line import in_flight_terms
from controller.embedded.engine import EngineDialect, EngineKind
from controller.embedded.pre_stop import PreStop, read_pre_stop, run_pre_stop
from controller.foundation import Clock
from tests.embedded.conftest import StartEngine
from tests.embedded.waiting import until

GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")


def drain(*tail: str) -> dict[str, Any]:
    return {"preStop": {"exec": {"command": ["python3", "-c", '"""see http://x\n"""', *tail]}}}


@pytest.mark.parametrize(
    ("lifecycle", "hook", "warned"),
    [
        pytest.param({}, None, False, id="none"),
        pytest.param({"preStop": {"sleep": {"seconds": 5}}}, PreStop(5.0), False, id="a sleep"),
        pytest.param(
            drain("http://127.0.0.1:80/metrics", "25", "a", "b"),
            PreStop(25.0, 80, "/metrics", ("a", "b")),
            False,
            id="a drain",
        ),
        pytest.param(drain("http://127.0.0.1:80/metrics"), None, True, id="a drain that names nothing"),
        pytest.param(drain("http://127.0.0.1:80/metrics", "soon", "a"), None, True, id="a time that is no number"),
        pytest.param({"preStop": {"exec": {"command": ["/bin/true"]}}}, None, True, id="a command of somebody's own"),
        pytest.param({"preStop": {"httpGet": {"port": 80}}}, None, True, id="a request"),
    ],
)
def test_which_hooks_are_understood(
    lifecycle: dict[str, Any], hook: PreStop | None, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_pre_stop(lifecycle) == hook
    assert bool(caplog.records) is warned


async def _ends_after(hook: PreStop, address: str, http: aiohttp.ClientSession, clock: Clock) -> float:
    began = clock.now()
    await run_pre_stop(hook, address, http, clock)
    return round(clock.now() - began, 3)  # Unix times are rounded at the seventh decimal


async def test_an_idle_engine_is_let_go_after_two_looks(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine()
    hook = PreStop(300.0, engine.port, "/metrics", in_flight_terms(EngineName.VLLM, RoleKind.SERVER))
    assert 6 <= await _ends_after(hook, engine.host, http, clock) < 60


async def test_an_sglang_encoder_is_let_go_once_it_has_ended_what_it_received(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine(kind=EngineKind.ENCODE, dialect=EngineDialect.SGLANG)
    hook = PreStop(300.0, engine.port, "/metrics", in_flight_terms(EngineName.SGLANG, RoleKind.ENCODE))
    async with http.post(f"{engine.url}/v1/completions", json={"prompt_tokens": 1, "mm_items": [10], "max_tokens": 1}):
        pass
    assert 6 <= await _ends_after(hook, engine.host, http, clock) < 60


async def test_one_that_never_got_a_request_gets_all_the_time_there_is(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine(kind=EngineKind.ENCODE, dialect=EngineDialect.SGLANG)
    hook = PreStop(20.0, engine.port, "/metrics", in_flight_terms(EngineName.SGLANG, RoleKind.ENCODE))
    assert await _ends_after(hook, engine.host, http, clock) >= 20


async def test_a_busy_engine_is_waited_for(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock
) -> None:
    engine = await start_engine()
    body = {"prompt_tokens": 10, "max_tokens": 1500}  # thirty seconds
    request = asyncio.create_task(http.post(f"{engine.url}/v1/completions", json=body))
    await until(lambda: engine.load().running, clock)
    assert 20 <= await _ends_after(PreStop(300.0, engine.port, "/metrics", GAUGES), engine.host, http, clock) < 90
    assert request.done()
    await request


@pytest.mark.parametrize("gauges", [("unheard:of",), (*GAUGES, "unheard:of")])
async def test_what_cannot_be_read_is_not_idle(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: Clock, gauges: tuple[str, ...]
) -> None:
    engine = await start_engine()
    assert await _ends_after(PreStop(20.0, engine.port, "/metrics", gauges), engine.host, http, clock) >= 20


async def test_an_engine_that_does_not_answer_is_not_idle(http: aiohttp.ClientSession, clock: Clock) -> None:
    assert await _ends_after(PreStop(20.0, 1, "/metrics", GAUGES), "127.0.0.1", http, clock) >= 20


async def test_a_hook_shorter_than_its_own_beginning_ends_in_time(http: aiohttp.ClientSession, clock: Clock) -> None:
    assert 3 <= await _ends_after(PreStop(3.0, 1, "/metrics", GAUGES), "127.0.0.1", http, clock) < 30
