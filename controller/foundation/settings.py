"""What a person configures about a running controller, checked as a whole before anything starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

# A worker is a coroutine that mostly waits, five seconds for an engine that hangs: with few of them a dozen scalers
# whose engines hang would keep all the others from their intervals.
DEFAULT_WORKERS = 64


class DeploymentsMode(StrEnum):
    """`--deployments`: who turns ModelDeployments into Pods."""

    AUTO = "auto"  # this controller where the CRD is its own, else another operator
    MANAGED = "managed"  # this controller
    EXTERNAL = "external"  # another operator


@dataclass(frozen=True, slots=True)
class LeaderElectionSettings:
    """A Lease and its timing in wall-clock seconds; defaults as in client-go. The elector checks their relation."""

    name: str = "model-deployment-scaler"
    namespace: str = "default"
    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class ClockSettings:
    """Model time = epoch + factor × (wall − epoch). A factor of 1 is the wall clock."""

    epoch_seconds: float = 0.0
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Everything that `mdscaler controller` is told."""

    identity: str  # unique per process start
    kubeconfig: str | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()  # empty: all
    leader_election: LeaderElectionSettings | None = field(default_factory=LeaderElectionSettings)
    metrics_address: tuple[str, int] | None = ("0.0.0.0", 8080)  # noqa: S104 - scraped from outside the Pod
    health_address: tuple[str, int] | None = ("0.0.0.0", 8081)  # noqa: S104 - probed from outside the Pod
    deployments: DeploymentsMode = DeploymentsMode.AUTO
    workers: int = DEFAULT_WORKERS  # of each kind that is reconciled
    record_directory: Path | None = None
    clock: ClockSettings = ClockSettings()
    grace_seconds: float = 25.0  # below Kubernetes' default of 30 s, after which the process is killed
    scrape_timeout_seconds: float = 5.0  # wall clock; a vLLM under load took 4.4 s (engine-metrics R18)
    scrape_concurrency: int = 64
