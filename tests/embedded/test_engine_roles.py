"""Flags of a role that an engine server knows are obeyed, bad ones ignored; what cannot be read is not idle."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from controller.embedded.contract import DeploymentSpec, RoleSpec
from controller.embedded.engine import EngineConfig
from controller.embedded.engine_roles import engine_config, read_in_flight
from controller.foundation import ScaledClock
from tests.embedded.conftest import SERVICE, StartEngine

BASE = EngineConfig("base", SERVICE, max_num_seqs=32)


@pytest.mark.parametrize(
    ("flags", "seqs", "warned"),
    [
        pytest.param({}, 32, False, id="without flags the base holds"),
        pytest.param({"max-num-seqs": "8", "tensor-parallel-size": "2"}, 8, False, id="a known flag is obeyed"),
        pytest.param({"max-num-seqs": "many"}, 32, True, id="a word for a number is ignored"),
        pytest.param({"max-num-seqs": "0"}, 32, True, id="no slots is ignored"),
        pytest.param({"max-num-seqs": ""}, 32, True, id="a flag without its value is ignored"),
    ],
)
def test_an_engine_is_configured_by_its_role(
    flags: dict[str, str], seqs: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    role = RoleSpec("server", "Server", 1, 8000, flags)
    config = engine_config(BASE, DeploymentSpec("chat", "demo", "u", 1, False, "served", "image", (role,)), role)
    assert (config.model_name, config.max_num_seqs, config.max_model_len) == ("served", seqs, BASE.max_model_len)
    assert bool(caplog.records) is warned


async def test_in_flight_is_running_and_waiting_by_the_engines_own_page(
    start_engine: StartEngine, http: aiohttp.ClientSession, clock: ScaledClock
) -> None:
    engine = await start_engine(max_num_seqs=2)
    assert await read_in_flight(http, engine) == 0
    body = {"prompt_tokens": 10, "max_tokens": 20_000}
    requests = [asyncio.create_task(http.post(f"{engine.url}/v1/completions", json=body)) for _ in range(3)]
    async with asyncio.timeout(5):
        while await read_in_flight(http, engine) != 3:
            await clock.sleep(0.1)
    for request in requests:
        request.cancel()


async def test_an_engine_that_does_not_answer_is_not_idle(
    start_engine: StartEngine, http: aiohttp.ClientSession
) -> None:
    loading = await start_engine(startup_seconds=1e6, wait=False)
    assert await read_in_flight(http, loading) is None
    await loading.stop()
    assert await read_in_flight(http, loading) is None
