"""Numbers about ModelDeployments in standalone mode: where their roles stand, and what became of retirements.

Series have labels namespace and deployment; `forget` removes every one of them when the deployment goes or becomes
another operator's, and a role that the spec drops takes its gauges along. Only the leader has any. Retirements are
measured in model time, which is wall time but in a demo or a test.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# The budgets of a retirement are 30, 240 and 300 s.
_PHASE_BUCKETS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 600.0)
_DEPLOYMENT: Final = ("namespace", "deployment")
_ROLE: Final = (*_DEPLOYMENT, "role")

_Labels = tuple[str, ...]


class ModelDeploymentMetrics:
    """The families of one registry; the methods are those of `controller.deployment.DeploymentMetrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, labels: _Labels = _ROLE) -> Gauge:
            return Gauge(f"mdscaler_{name}", text, labels, registry=registry)

        def counter(name: str, text: str, labels: _Labels) -> Counter:
            return Counter(f"mdscaler_{name}", text, labels, registry=registry)

        self._role_gauges = {
            "desired": gauge("deployment_desired_replicas", "Replicas that the ModelDeployment declares."),
            "ready": gauge("deployment_ready_replicas", "Replicas of which every member is Ready."),
            "eligible": gauge("deployment_eligible_endpoints", "Pods that are offered requests."),
            "outdated": gauge("deployment_outdated_replicas", "Replicas made from an older spec."),
        }
        self._state = gauge(
            "retirement_state",
            "1 for the state of the retirement under way, or Aborted; no series: there is none.",
            (*_DEPLOYMENT, "state"),
        )
        self._steps = counter(
            "retirement_steps",
            "Steps of retirements, by the state they left and their outcome: Moved, Retried, Aborted, Adopted, "
            "Released, Completed.",
            (*_ROLE, "state", "outcome"),
        )
        self._phase_seconds = Histogram(
            "mdscaler_retirement_phase_seconds",
            "Model time that a retirement spent in a state, by how it left it; all deployments.",
            ("state", "outcome"),
            buckets=_PHASE_BUCKETS,
            registry=registry,
        )
        self._looks = counter(
            "drain_looks",
            "Reads of the engines of a replica that leaves: Idle, Busy, Unknown, Unsupported.",
            (*_DEPLOYMENT, "load"),
        )
        self._created = counter("pods_created", "Pods created for ModelDeployments.", _ROLE)
        self._deleted = counter("pods_deleted", "Deletions of their Pods that the API server took.", _ROLE)
        # What there is of each deployment beside the gauges of its roles.
        self._series: dict[tuple[str, str], set[tuple[Counter, _Labels]]] = {}
        self._roles: dict[tuple[str, str], set[str]] = {}
        self._states: dict[tuple[str, str], str] = {}

    def role(
        self,
        namespace: str,
        deployment: str,
        role: str,
        *,
        desired: int,
        ready: int,
        eligible: int | None,
        outdated: int,
    ) -> None:
        """Where a role stands."""
        self._roles.setdefault((namespace, deployment), set()).add(role)
        values = {"desired": desired, "ready": ready, "eligible": eligible, "outdated": outdated}
        for name, gauge in self._role_gauges.items():
            value = values[name]
            if value is None:
                _remove(gauge, (namespace, deployment, role))
            else:
                gauge.labels(namespace, deployment, role).set(value)

    def keep_roles(self, namespace: str, deployment: str, roles: Collection[str]) -> None:
        """Remove the gauges of roles that the deployment no longer has."""
        known = self._roles.get((namespace, deployment), set())
        for role in known.difference(roles):
            known.discard(role)
            for gauge in self._role_gauges.values():
                _remove(gauge, (namespace, deployment, role))

    def retirement_state(self, namespace: str, deployment: str, state: str | None) -> None:
        """The state of the one retirement there can be; None: there is none."""
        key = (namespace, deployment)
        before = self._states.pop(key, None)
        if before is not None and before != state:
            _remove(self._state, (*key, before))
        if state is not None:
            self._states[key] = state
            self._state.labels(*key, state).set(1)

    def retirement_step(
        self, namespace: str, deployment: str, role: str, outcome: str, state: str, seconds: float
    ) -> None:
        """A retirement left `state` after so many (model) seconds in it, with this outcome."""
        self._count(self._steps, (namespace, deployment, role, state, outcome))
        self._phase_seconds.labels(state, outcome).observe(seconds)

    def drain_look(self, namespace: str, deployment: str, load: str) -> None:
        """The answering members of a replica that leaves were read."""
        self._count(self._looks, (namespace, deployment, load))

    def pods_created(self, namespace: str, deployment: str, role: str, count: int) -> None:
        """Pods were created."""
        self._count(self._created, (namespace, deployment, role), count)

    def pods_deleted(self, namespace: str, deployment: str, role: str, count: int) -> None:
        """Deletions of Pods were accepted by the API server."""
        self._count(self._deleted, (namespace, deployment, role), count)

    def forget(self, namespace: str, deployment: str) -> None:
        """Remove everything about a deployment."""
        key = (namespace, deployment)
        self.keep_roles(*key, ())
        self._roles.pop(key, None)
        self.retirement_state(*key, None)
        for counter, labels in self._series.pop(key, ()):
            _remove(counter, labels)

    def _count(self, counter: Counter, labels: _Labels, by: int = 1) -> None:
        self._series.setdefault((labels[0], labels[1]), set()).add((counter, labels))
        counter.labels(*labels).inc(by)


def _remove(metric: Gauge | Counter, labels: _Labels) -> None:
    with contextlib.suppress(KeyError):  # older clients of the library raise for a series that was never set
        metric.remove(*labels)
