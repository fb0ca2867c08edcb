"""What a demo consists of, decided before anything starts: the trace made to fit, and the scaler's manifest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.embedded.engine import EngineKind
from controller.embedded.world import WorldRole
from controller.foundation import UsageError, format_quantity
from controller.plant import (
    DEFAULT_SWEEP,
    DEFAULT_TRACE,
    BinnedTrace,
    Dimension,
    RequestTrace,
    dimension,
    fit_service_time,
    read_sweep,
    read_trace,
    spread,
    window,
)

NAMESPACE = "demo"
DEPLOYMENT = "chat"
ROLE = "server"
MAX_REPLICAS = 8
HEADROOM = 0.75
INTERVAL_SECONDS = 10
STARTUP_SECONDS = 76.0  # measured: vLLM on an H200 with cached weights
MAX_NUM_SEQS = 32  # the highest concurrency of the sweep
_SIGNIFICANT_DIGITS = 4


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """Everything that is known before the start."""

    trace_name: str
    trace_seconds: float
    original_requests: int
    fit: Dimension
    roles: tuple[WorldRole, ...]
    scaler: dict[str, Any]
    algorithm: str
    seed: int


def plan_demo(trace: Path | None, *, minutes: float | None, algorithm: str, seed: int) -> DemoPlan:
    """Read the trace and make it fit. Raises UsageError for a trace that cannot be used."""
    path = trace or DEFAULT_TRACE
    if not path.is_file():
        raise UsageError(f"--trace: {path} is not a file; give a CSV file of requests or bins, or leave it out")
    requests = _read(path, minutes, seed)
    if len(requests) == 0:
        raise UsageError(f"--trace: {path} has no request")
    service = fit_service_time(read_sweep(DEFAULT_SWEEP))
    fit = dimension(requests, service, seed=seed, headroom=HEADROOM)
    return DemoPlan(
        trace_name=path.name,
        trace_seconds=requests.duration_seconds,
        original_requests=len(requests),
        fit=fit,
        roles=(WorldRole(fit.service, ROLE, EngineKind.SERVER, _initial(fit.need_replicas_start), MAX_NUM_SEQS),),
        scaler=scaler_manifest(fit, algorithm),
        algorithm=algorithm,
        seed=seed,
    )


def _read(path: Path, minutes: float | None, seed: int) -> RequestTrace:
    """The first minutes of a trace as requests. Bins are cut before they are spread, or a day would be drawn for an
    hour's use."""
    read = read_trace(path)
    if isinstance(read, BinnedTrace):
        return spread(read if minutes is None else window(read, 0.0, minutes), seed)
    return read if minutes is None else window(read, 0.0, minutes)


def scaler_manifest(fit: Dimension, algorithm: str) -> dict[str, Any]:
    """The demo's scaler: capacity and latency targets stretched like the engines, windows shortened like the hour."""
    capacity = _quantity(fit.effective_tokens_per_second)
    latencies = {
        "ttftTargetMilliseconds": _quantity(1000 * fit.ttft_target_seconds),
        "itlTargetMilliseconds": _quantity(1000 * fit.itl_target_seconds),
    }
    blocks: dict[str, dict[str, Any]] = {
        "TokenThroughput": {
            "targetTokensPerSecond": capacity,
            "stableWindowSeconds": 60,
            "panicWindowSeconds": 30,
            **latencies,
        },
        "Predictive": {
            "tokenThroughput": {
                "targetTokensPerSecond": capacity,
                "stableWindowSeconds": 60,
                "panicWindowSeconds": 30,
                **latencies,
            }
        },
        "Adaptive": {"targetTokensPerSecond": _quantity(fit.capacity_tokens_per_second), **latencies},
        "Proportional": {
            "metric": "RunningRequests",
            "roleTargets": [{"name": ROLE, "target": _quantity(HEADROOM * MAX_NUM_SEQS)}],
        },
    }
    block = algorithm[0].lower() + algorithm[1:]
    return {
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "ModelDeploymentScaler",
        "metadata": {"name": DEPLOYMENT, "namespace": NAMESPACE},
        "spec": {
            "targetRef": {"name": DEPLOYMENT},
            "mode": "Active",
            "sampling": {"intervalSeconds": INTERVAL_SECONDS},
            "roles": [{"name": ROLE, "minReplicas": 1, "maxReplicas": MAX_REPLICAS}],
            "algorithm": {"type": algorithm, block: blocks[algorithm]},
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 120}},
        },
    }


def _initial(need: float) -> int:
    return min(MAX_REPLICAS, max(1, math.ceil(need)))


def _quantity(value: float) -> str:
    return format_quantity(float(f"{value:.{_SIGNIFICANT_DIGITS}g}"))
