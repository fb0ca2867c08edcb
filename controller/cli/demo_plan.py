"""What a demo consists of, decided before anything starts: the trace made to fit, and the scaler's manifest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.cli.demo import DemoRoles
from controller.cli.demo_roles import (
    HEADROOM,
    MEDIA_TOKENS,
    RolePlan,
    capacities,
    plan_roles,
    quantity,
    role_manifests,
)
from controller.embedded.engine import EngineKind
from controller.foundation import UsageError
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
INTERVAL_SECONDS = 10
_CYCLING_LOAD = 0.5
STARTUP_SECONDS = 76.0  # measured: vLLM on an H200 with cached weights


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """Everything that is known before the start."""

    trace_name: str
    trace_seconds: float
    original_requests: int
    fit: Dimension
    roles: tuple[RolePlan, ...]
    media_tokens: int  # of every prompt, up to this many stand for an image
    scaler: dict[str, Any]
    algorithm: str
    seed: int
    cycles: int | None = None  # instead of the trace, counts that go up and down so often

    @property
    def decides(self) -> bool:
        """Whether the counts are the scaler's; in cycles they are set, and it only watches."""
        return self.cycles is None

    @property
    def keeps_latencies(self) -> bool:
        """Whether the scaler was given latency targets and the counts to keep them with."""
        return self.decides and self.algorithm != "Proportional"

    def cycling_requests_per_second(self) -> float:
        """What one replica of each role serves at half of its capacity."""
        trace = self.fit.trace
        prompt, output = float(trace.prompt_tokens.mean()), float(trace.output_tokens.mean())
        return _CYCLING_LOAD * min(role.tokens_per_second / role.demand(prompt, output) for role in self.roles)


def plan_demo(
    trace: Path | None,
    *,
    minutes: float | None,
    algorithm: str,
    seed: int,
    roles: DemoRoles = DemoRoles.SERVER,
    cycles: int | None = None,
) -> DemoPlan:
    """Read the trace and make it fit. Raises UsageError for a trace that cannot be used."""
    path = trace or DEFAULT_TRACE
    if not path.is_file():
        raise UsageError(f"--trace: {path} is not a file; give a CSV file of requests or bins, or leave it out")
    requests = _read(path, minutes, seed)
    if len(requests) == 0:
        raise UsageError(f"--trace: {path} has no request")
    service = fit_service_time(read_sweep(DEFAULT_SWEEP))
    fit = dimension(requests, service, seed=seed, headroom=HEADROOM)
    planned = plan_roles(roles, fit, service)
    return DemoPlan(
        trace_name=path.name,
        trace_seconds=requests.duration_seconds,
        original_requests=len(requests),
        fit=fit,
        roles=planned,
        media_tokens=MEDIA_TOKENS if roles is DemoRoles.EPD else 0,
        scaler=scaler_manifest(planned, fit, algorithm, mode="Active" if cycles is None else "Shadow"),
        algorithm=algorithm,
        seed=seed,
        cycles=cycles,
    )


def _read(path: Path, minutes: float | None, seed: int) -> RequestTrace:
    """The first minutes of a trace as requests. Bins are cut before they are spread, or a day would be drawn for an
    hour's use."""
    read = read_trace(path)
    if isinstance(read, BinnedTrace):
        return spread(read if minutes is None else window(read, 0.0, minutes), seed)
    return read if minutes is None else window(read, 0.0, minutes)


def scaler_manifest(
    roles: tuple[RolePlan, ...], fit: Dimension, algorithm: str, *, mode: str = "Active"
) -> dict[str, Any]:
    """The demo's scaler: capacities and latency targets stretched like the engines, windows shortened like the hour."""
    latencies = {
        "ttftTargetMilliseconds": quantity(1000 * fit.ttft_target_seconds),
        "itlTargetMilliseconds": quantity(1000 * fit.itl_target_seconds),
    }
    throughput = {
        **capacities(roles, effective=True),
        "stableWindowSeconds": 60,
        "panicWindowSeconds": 30,
        **latencies,
    }
    blocks: dict[str, dict[str, Any]] = {
        "TokenThroughput": throughput,
        "Predictive": {"tokenThroughput": throughput},
        "Adaptive": {**capacities(roles, effective=False), **latencies},
        "Proportional": {
            "metric": "RunningRequests",
            "roleTargets": [
                {"name": role.name, "target": quantity(role.running_target)}
                for role in roles
                if role.kind is not EngineKind.ENCODE
            ],
        },
    }
    block = algorithm[0].lower() + algorithm[1:]
    return {
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "ModelDeploymentScaler",
        "metadata": {"name": DEPLOYMENT, "namespace": NAMESPACE},
        "spec": {
            "targetRef": {"name": DEPLOYMENT},
            "mode": mode,
            "sampling": {"intervalSeconds": INTERVAL_SECONDS},
            **role_manifests(roles),
            "algorithm": {"type": algorithm, block: blocks[algorithm]},
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 120}},
        },
    }
