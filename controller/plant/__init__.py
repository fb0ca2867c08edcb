"""The plant: what an inference engine does with a load, and the load. Pure: no clock, no I/O beyond reading files.

A sweep (`read_sweep`) is fitted to step times (`fit_service_time`) that drive a continuous-batching engine
(`ContinuousBatch`); traces (`read_trace`) become open-loop arrivals (`spread`, `window`, `thin`, `arrivals`), and
`dimension` makes the two fit each other. The engine servers, the demo and the simulator share all of it.
"""

from pathlib import Path

from controller.plant.arrivals import Arrival, arrivals, spread, thin, token_rate, window
from controller.plant.batch import BatchLimits, BatchObserver, BatchRequest, ContinuousBatch, Progress, RequestState
from controller.plant.closed_loop import ClosedLoopResult, closed_loop
from controller.plant.curve import SweepCurve
from controller.plant.dimension import Dimension, dimension, mix_capacity
from controller.plant.fit import fit_service_time
from controller.plant.service_time import DEFAULT_MAX_NUM_BATCHED_TOKENS, ServiceTime
from controller.plant.sweep import Sweep, SweepPoint, parse_sweep, read_sweep
from controller.plant.traces import BinnedTrace, RequestTrace, TraceError, read_trace

_DATA = Path(__file__).parent / "data"
DEFAULT_TRACE = _DATA / "azure23-conv-1h-raw.csv.gz"
DEFAULT_SWEEP = _DATA / "sweep-h200-qwen3-8b.json"

__all__ = [
    "DEFAULT_MAX_NUM_BATCHED_TOKENS",
    "DEFAULT_SWEEP",
    "DEFAULT_TRACE",
    "Arrival",
    "BatchLimits",
    "BatchObserver",
    "BatchRequest",
    "BinnedTrace",
    "ClosedLoopResult",
    "ContinuousBatch",
    "Dimension",
    "Progress",
    "RequestState",
    "RequestTrace",
    "ServiceTime",
    "Sweep",
    "SweepCurve",
    "SweepPoint",
    "TraceError",
    "arrivals",
    "closed_loop",
    "dimension",
    "fit_service_time",
    "mix_capacity",
    "parse_sweep",
    "read_sweep",
    "read_trace",
    "spread",
    "thin",
    "token_rate",
    "window",
]
