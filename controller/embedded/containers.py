"""What a kubelet runs: engine servers, and containers that have no server of their own.

`Container` is what the kubelet asks for; an `EngineServer` is one. `EngineRuntime` makes them: what hardware an engine
has comes from the world (by the kind of role), everything else from the Pod: its model and the flags that engine
servers know. Another runtime, one that starts real processes for instance, only has to make other `Container`s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from controller.embedded.engine import (
    EngineConfig,
    EngineDialect,
    EngineKind,
    EngineLoad,
    EngineServer,
    EngineState,
)
from controller.embedded.loopback import LoopbackAddresses
from controller.embedded.pods import ENGINE_KINDS, AssignedPod
from controller.foundation import Clock

_LOG = logging.getLogger(__name__)

# Flag of an engine → what of the configuration it sets.
_NUMBERS = {
    EngineDialect.VLLM: {
        "max-num-seqs": "max_num_seqs",
        "max-num-batched-tokens": "max_num_batched_tokens",
        "max-model-len": "max_model_len",
        "data-parallel-size": "data_parallel",
    },
    EngineDialect.SGLANG: {
        "max-running-requests": "max_num_seqs",
        "chunked-prefill-size": "max_num_batched_tokens",
        "context-length": "max_model_len",
        "data-parallel-size": "data_parallel",
        "dp-size": "data_parallel",
    },
}


class Container(Protocol):
    """A running container, perhaps restarted. Times are model time."""

    @property
    def host(self) -> str:
        """Its address; empty before `start`."""
        ...

    @property
    def state(self) -> EngineState:
        """Where it is in its life."""
        ...

    @property
    def restart_count(self) -> int:
        """How often it has been restarted."""
        ...

    @property
    def started_seconds(self) -> float:
        """When its current process started."""
        ...

    def load(self) -> EngineLoad:
        """The requests that would be cut if it stopped now."""
        ...

    async def start(self, addresses: LoopbackAddresses, port: int) -> None:
        """Run it at an address of its own. Raises OperationFailed when there is none."""
        ...

    async def stop(self) -> None:
        """End it at once. Idempotent."""
        ...

    async def crash(self, *, down_seconds: float | None = 10.0) -> None:
        """Kill its process; it comes up again after `down_seconds`."""
        ...


Runtime = Callable[[AssignedPod, Callable[[], None]], Container]
"""Makes the container of a Pod, not yet started; the callable is to be called whenever its state has changed."""


class EngineRuntime:
    """Engine servers for Pods that serve, silent containers for the others.

    `engines`: the engine of each kind of role. A Pod of a kind that is not there gets a silent container, with a
    warning.
    """

    def __init__(self, clock: Clock, engines: Mapping[EngineKind, EngineConfig]) -> None:
        self._clock = clock
        self._engines = engines

    def __call__(self, pod: AssignedPod, on_change: Callable[[], None]) -> Container:
        kind = ENGINE_KINDS.get(pod.kind)
        base = None if kind is None else self._engines.get(kind)
        if base is None and pod.port is not None:
            _LOG.warning("embedded kubelet: %s: no engine is known for roles of kind %r", pod.name, pod.kind)
        if base is None or pod.port is None:
            return SilentContainer(self._clock)
        return EngineServer(engine_config(base, pod), self._clock, on_change=lambda _: on_change())


class SilentContainer:
    """A container without a server: it runs, and that is all. Its address is its own, and nothing listens there."""

    def __init__(self, clock: Clock) -> None:
        self.host = ""
        self.state = EngineState.STOPPED
        self.restart_count = 0
        self.started_seconds = 0.0
        self._clock = clock

    def load(self) -> EngineLoad:
        """Nothing is ever in flight."""
        return EngineLoad(0, 0)

    async def start(self, addresses: LoopbackAddresses, port: int) -> None:
        """Run from now on."""
        del port
        self.host, self.started_seconds, self.state = next(addresses), self._clock.now(), EngineState.SERVING

    async def stop(self) -> None:
        """Run no more."""
        self.state = EngineState.STOPPED

    async def crash(self, *, down_seconds: float | None = 10.0) -> None:
        """Be restarted at once: there is nothing to load."""
        del down_seconds
        self.restart_count += 1
        self.started_seconds = self._clock.now()


def engine_config(base: EngineConfig, pod: AssignedPod) -> EngineConfig:
    """The engine of a Pod: the base with the Pod's kind and model, whose dialect its command line tells, and the flags
    that engine servers know. A flag whose value is not a positive number is ignored with a warning, as the engine would
    refuse to start for ever."""
    flags = pod.flags
    changes: dict[str, int] = {}
    for flag, name in _NUMBERS[pod.dialect].items():
        value = flags.get(flag)
        if value is None:
            continue
        if value.isdecimal() and int(value) > 0:
            changes[name] = int(value)
        else:
            _LOG.warning("embedded kubelet: %s: --%s %s is not a positive number, ignored", pod.name, flag, value)
    return replace(
        base,
        model_name=flags.get("served-model-name") or base.model_name,
        kind=ENGINE_KINDS.get(pod.kind, base.kind),
        dialect=pod.dialect,
        **changes,  # type: ignore[arg-type]
    )
