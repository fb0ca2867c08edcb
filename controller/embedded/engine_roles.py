"""What the operator has to know of an engine: how a role configures it, and how it says that it is idle."""

from __future__ import annotations

import logging
from dataclasses import replace

import aiohttp

from controller.embedded.contract import DeploymentSpec, RoleSpec
from controller.embedded.engine import EngineConfig, EngineServer

_LOG = logging.getLogger(__name__)

_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"


def engine_config(base: EngineConfig, spec: DeploymentSpec, role: RoleSpec) -> EngineConfig:
    """The engine of a role: the base with the deployment's model and the flags that engine servers know. A flag whose
    value is not a positive number is ignored with a warning, as the engine would refuse to start for ever."""
    changes: dict[str, int] = {}
    for flag, name in (
        ("max-num-seqs", "max_num_seqs"),
        ("max-num-batched-tokens", "max_num_batched_tokens"),
        ("max-model-len", "max_model_len"),
    ):
        value = role.flags.get(flag)
        if value is None:
            continue
        if value.isdecimal() and int(value) > 0:
            changes[name] = int(value)
        else:
            _LOG.warning(
                "embedded operator: role %s: --%s %s is not a positive number, ignored", role.name, flag, value
            )
    return replace(base, model_name=spec.model_name or base.model_name, **changes)  # type: ignore[arg-type]


async def read_in_flight(session: aiohttp.ClientSession, engine: EngineServer) -> int | None:
    """Requests in an engine by its own gauges, None when they cannot be read: that is not idleness."""
    try:
        async with session.get(f"{engine.url}/metrics/?name[]={_RUNNING}&name[]={_WAITING}") as response:
            if response.status != 200:
                return None
            body = await response.text()
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None
    values = [line.rpartition(" ")[2] for line in body.splitlines() if line.startswith((_RUNNING, _WAITING))]
    return round(sum(map(float, values))) if len(values) == 2 else None
