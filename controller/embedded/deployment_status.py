"""The status of a ModelDeployment as the embedded operator writes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.embedded.contract import DeploymentSpec, RoleSpec
from controller.embedded.retirement import Retirement
from controller.foundation import format_time

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RoleCounts:
    """Replicas of one role: with a Pod (their quota is reserved), Ready, eligible for requests."""

    admitted: int
    ready: int
    eligible: int


def deployment_status(
    deployment: DeploymentSpec,
    counts: Mapping[str, RoleCounts],
    retirement: Retirement | None,
    *,
    endpoint: str,
    previous: Mapping[str, Any],
    now: float,
) -> Object:
    """The whole status. Transition times of conditions that did not change are taken from `previous`; `retirement` is
    null when there is none, so that a merge patch clears it."""
    roles = [_role(role, counts[role.name]) for role in deployment.roles]
    short = [
        f"{role['name']} {role['ready']}/{role['desired']} ready" for role in roles if role["ready"] < role["desired"]
    ]
    serving = any(role["ready"] for role in roles)
    phase = "Ready" if serving and not short else "Degraded" if serving else "Starting"
    pending = [role["name"] for role in roles if role["quotaReserved"] < role["desired"]]
    conditions = [
        ("QuotaReserved", "False", "Pending", f"roles short of quota: {', '.join(pending)}")
        if pending
        else ("QuotaReserved", "True", "Reserved", ""),
        ("RoleKindsReady", "False", "KindsNotReady", "; ".join(short))
        if short
        else ("RoleKindsReady", "True", "AllKindsReady", ""),
        ("ReplicasUpToDate", "True", "UpToDate", ""),
        ("RouterReady", "True", "NotApplicable", ""),
        ("WeightsReady", "True", "NotApplicable", ""),
    ]
    return {
        "phase": phase,
        "phaseMessage": "; ".join(short),
        "endpoint": endpoint,
        "roleSummary": "".join(f"{role['ready']}{role['kind'][0]}" for role in roles),
        "roles": roles,
        "conditions": _conditions(conditions, previous.get("conditions") or [], deployment.generation, now),
        "retirement": None if retirement is None else _retirement(retirement),
    }


def _role(role: RoleSpec, counts: RoleCounts) -> Object:
    return {
        "name": role.name,
        "kind": role.kind,
        "desired": role.replicas,
        "ready": counts.ready,
        "quotaReserved": counts.admitted,
        "unmanaged": False,
        "endpoints": {"eligible": counts.eligible, "serving": {"state": "NotConfigured"}},
    }


def _conditions(
    wanted: Sequence[tuple[str, str, str, str]], previous: Sequence[Mapping[str, Any]], generation: int, now: float
) -> list[Object]:
    since = {(old.get("type"), old.get("status")): old.get("lastTransitionTime") for old in previous}
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since.get((kind, status)) or format_time(now),
            "observedGeneration": generation,
        }
        for kind, status, reason, message in wanted
    ]


def _retirement(retirement: Retirement) -> Object:
    return {
        "roleName": retirement.role,
        "replicaOrdinal": retirement.ordinal,
        "observedGeneration": retirement.observed_generation,
        "targetMemberUIDs": [retirement.pod_uid],
        "targetWorkloadUID": "",
        "state": retirement.state.value,
        "reason": retirement.reason,
        "startedAt": format_time(retirement.started_seconds),
        "deadline": format_time(retirement.deadline_seconds),
        "phaseStartedAt": format_time(retirement.phase_started_seconds),
    }
