"""How fast a world may run. Pure, but for the look at how busy the machine is.

Engines, router and clients stream every request through three hops in one process, so the wall time of a run has a
floor. Measured on a 2-core machine, the Azure hour thinned to 1.1 requests and 240 output tokens a model second, clock
factor 26, frames of 8, 32 and 64 tokens: 0.24, 0.14, 0.13 of a core and 55 to 75 MiB for the whole world, API server
included. That fits a fixed 0.05 core, 2 ms a request and 0.2 ms a frame; under load frames travel together and cost
half of that (a trace of 215 requests and 10,000 frames a second of wall time: 0.8 core).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from controller.foundation import Clock, monotonic
from controller.plant import RequestTrace

_FIXED_CORES = 0.05
_SECONDS_PER_REQUEST = 0.002
_SECONDS_PER_FRAME = 0.0001
_PEAK_SECONDS = 60.0
# Long against a scheduler's turns (some ten milliseconds) and a container's quota (a tenth of a second).
_PROBE_SECONDS = 0.6
# Of a core that is shared: turns come late and in lumps, and others may want more in a minute.
_SHARED_MARGIN = 0.6
_WHOLE_CORE = 0.9
# At sixty times real time the four minutes of a router are four seconds: less than a busy machine may stall.
_PATIENCE_WALL_SECONDS = 60.0


def affordable_factor(trace: RequestTrace, *, frame_tokens: int = 32, cores: float = 1.0, roles: int = 1) -> float:
    """The highest clock factor at which the busiest minute of `trace` (thinned as it will be sent) still fits `cores`,
    when each request passes through so many roles.

    Raises ValueError where `cores` do not even carry an idle world.
    """
    if cores <= _FIXED_CORES:
        raise ValueError(f"an idle world alone takes {_FIXED_CORES} of a core")
    frames = 1 + trace.output_tokens / frame_tokens
    cost = roles * _SECONDS_PER_REQUEST + _SECONDS_PER_FRAME * frames
    minute = (trace.t_seconds // _PEAK_SECONDS).astype(np.int64)
    # A trace shorter than a minute is as busy as its own length makes it.
    seconds = min(_PEAK_SECONDS, max(trace.duration_seconds, 1.0))
    busiest = float(np.bincount(minute, weights=cost).max()) / seconds
    return (cores - _FIXED_CORES) / busiest


def measured_cores(
    now: Callable[[], float] = monotonic,
    used: Callable[[], float] = time.process_time,
    *,
    seconds: float = _PROBE_SECONDS,
) -> float:
    """The part of a core that this process may count on at the moment: 1.0 on a machine with a core to spare.

    Keeps a core busy for `seconds` of wall time and looks how much of it came. `now` and `used` are wall and CPU time.
    """
    began, before = now(), used()
    while (elapsed := now() - began) < seconds:
        pass
    share = (used() - before) / elapsed
    return 1.0 if share >= _WHOLE_CORE else _SHARED_MARGIN * share


def bearable_factor(trace: RequestTrace, cores: float, *, roles: int = 1) -> float:
    """As `affordable_factor`, at least 1.0: nothing runs slower than real time, however little of a core there is."""
    return 1.0 if cores <= _FIXED_CORES else max(1.0, affordable_factor(trace, cores=cores, roles=roles))


def patience_seconds(clock: Clock, seconds: float) -> float:
    """How long, in model time, somebody waits who would wait `seconds`: at least a minute of wall time, so that a
    machine that stalls costs no request. Who does not wait at all (0) still does not."""
    return max(seconds, _PATIENCE_WALL_SECONDS / clock.wall_seconds(1.0)) if seconds else 0.0
