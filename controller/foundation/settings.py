"""What a person configures about a running controller, checked as a whole before anything starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from controller.foundation.errors import UsageError

# client-go: acquiring retries with jitter of up to 1.2 periods, so the renew deadline must leave room for one more try.
_JITTER_FACTOR = 1.2


@dataclass(frozen=True, slots=True)
class LeaderElectionSettings:
    """A Lease and its timing, in wall-clock seconds. The defaults are client-go's.

    Raises UsageError unless lease duration > renew deadline > 1.2 × retry period > 0.
    """

    name: str = "model-deployment-scaler"
    namespace: str = "default"
    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration_seconds > self.renew_deadline_seconds:
            raise UsageError(
                f"--lease-duration ({self.lease_duration_seconds:g} s) must be longer than --renew-deadline "
                f"({self.renew_deadline_seconds:g} s): the old leader must have stopped before its lease can be taken"
            )
        if not self.renew_deadline_seconds > _JITTER_FACTOR * self.retry_period_seconds > 0:
            raise UsageError(
                f"--renew-deadline ({self.renew_deadline_seconds:g} s) must be longer than {_JITTER_FACTOR} × "
                f"--retry-period ({self.retry_period_seconds:g} s), and the retry period positive"
            )


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
    workers: int = 4
    record_directory: Path | None = None
    clock: ClockSettings = ClockSettings()
    grace_seconds: float = 25.0  # below Kubernetes' default of 30 s, after which the process is killed
    scrape_timeout_seconds: float = 5.0  # wall clock; a vLLM under load took 4.4 s (engine-metrics R18)
    scrape_concurrency: int = 64
