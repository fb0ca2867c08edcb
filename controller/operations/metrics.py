"""What this process tells Prometheus. Names and meanings of `workqueue_*`, `rest_client_*`, `leader_election_*` and
`controller_runtime_*` are client-go's and controller-runtime's, so that their dashboards work; our own start with
`mdscaler_`. Every metric is listed in docs/metrics.md.

The per-scaler gauges have labels namespace, scaler, role; `forget` removes them when the scaler goes, or a gauge of a
deleted scaler would be believed for ever. A value that is not known has no series: unknown is not zero.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SCRAPE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_ROLE = ("namespace", "scaler", "role")


class ScalerMetrics:
    """Gauges per scaler and role, counters of decisions and scrapes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, labels: tuple[str, ...] = _ROLE) -> Gauge:
            return Gauge(f"mdscaler_{name}", text, labels, registry=registry)

        self.raw_replicas = gauge("role_raw_replicas", "What the algorithm asks for, before the planner.")
        self.desired_replicas = gauge("role_desired_replicas", "What the planner settled on.")
        self.current_replicas = gauge("role_current_replicas", "What the target declares.")
        self.ready_replicas = gauge("role_ready_replicas", "Replicas of which every member is Ready.")
        self.demand = gauge(
            "role_demand_tokens_per_second", "Arriving work in the role's own token kind, stable window."
        )
        self.capacity = gauge("role_capacity_tokens_per_second", "What one replica can serve, after headroom.")
        self.coverage = gauge("role_coverage_ratio", "Fresh samples per Ready member.")
        self.capacity_factor = gauge(
            "role_capacity_factor", "What replicas serve ÷ what their capacity says at their concurrency (κ)."
        )
        self.drifted = gauge(
            "role_capacity_prior_drifted", "1 while κ is outside 0.7 to 1.4 for a stable window; with a prior only."
        )
        self.limited_by = gauge(
            "role_limited_by", "1 for the planner stage that bound the last decision.", (*_ROLE, "stage")
        )
        self.decisions = Counter(
            "mdscaler_decisions", "Decisions made, per scaler.", ("namespace", "scaler"), registry=registry
        )
        self.commits = Counter(
            "mdscaler_commits",
            "Attempts to write counts, per outcome: committed, overtaken, moved, gone, refused, failed.",
            ("namespace", "scaler", "outcome"),
            registry=registry,
        )
        self.scrapes = Counter(
            "mdscaler_scrapes",
            "Engine scrapes per outcome: ok, or the reason of the failure.",
            ("outcome",),
            registry=registry,
        )
        self.scrape_seconds = Histogram(
            "mdscaler_scrape_duration_seconds",
            "Time one engine took to answer.",
            (),
            buckets=_SCRAPE_BUCKETS,
            registry=registry,
        )
        self._role_gauges = (
            self.raw_replicas,
            self.desired_replicas,
            self.current_replicas,
            self.ready_replicas,
            self.demand,
            self.capacity,
            self.coverage,
            self.capacity_factor,
            self.drifted,
        )
        self._roles: dict[tuple[str, str], set[str]] = {}
        self._stages: dict[tuple[str, str, str], str] = {}
        self._outcomes: dict[tuple[str, str], set[str]] = {}

    def report_role(
        self,
        namespace: str,
        scaler: str,
        role: str,
        *,
        raw: float | None,
        desired: float | None,
        current: float | None,
        ready: float | None,
        demand: float | None,
        capacity: float | None,
        coverage: float | None,
        limited_by: str,
        capacity_factor: float | None = None,
        drifted: bool | None = None,
    ) -> None:
        """Set the gauges of one role; an unknown value removes its series."""
        self._roles.setdefault((namespace, scaler), set()).add(role)
        labels = (namespace, scaler, role)
        values = (raw, desired, current, ready, demand, capacity, coverage, capacity_factor, drifted)
        for gauge, value in zip(self._role_gauges, values, strict=True):
            if value is None:
                _remove(gauge, labels)
            else:
                gauge.labels(*labels).set(value)
        before = self._stages.get(labels)
        if before is not None and before != limited_by:
            _remove(self.limited_by, (*labels, before))
        self._stages[labels] = limited_by
        self.limited_by.labels(*labels, limited_by).set(1)

    def report_commit(self, namespace: str, scaler: str, outcome: str) -> None:
        """Count one attempt to write counts."""
        self._outcomes.setdefault((namespace, scaler), set()).add(outcome)
        self.commits.labels(namespace, scaler, outcome).inc()

    def keep_roles(self, namespace: str, scaler: str, roles: Iterable[str]) -> None:
        """Remove the gauges of roles that the scaler no longer has."""
        known = self._roles.get((namespace, scaler), set())
        for role in known - set(roles):
            known.discard(role)
            labels = (namespace, scaler, role)
            for gauge in self._role_gauges:
                _remove(gauge, labels)
            if (stage := self._stages.pop(labels, None)) is not None:
                _remove(self.limited_by, (*labels, stage))

    def forget(self, namespace: str, scaler: str) -> None:
        """Remove everything about a scaler that is gone."""
        self.keep_roles(namespace, scaler, ())
        self._roles.pop((namespace, scaler), None)
        _remove(self.decisions, (namespace, scaler))
        for outcome in self._outcomes.pop((namespace, scaler), ()):
            _remove(self.commits, (namespace, scaler, outcome))


def register_build_info(registry: CollectorRegistry, version: str) -> None:
    """`mdscaler_build_info{version,python} 1`."""
    Gauge("mdscaler_build_info", "What runs here.", ("version", "python"), registry=registry).labels(
        version, platform.python_version()
    ).set(1)


def _remove(metric: Gauge | Counter, labels: tuple[str, ...]) -> None:
    with contextlib.suppress(KeyError):  # older clients of the library raise for a series that was never set
        metric.remove(*labels)
