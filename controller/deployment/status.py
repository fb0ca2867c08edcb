"""The status of a ModelDeployment in standalone mode. Pure.

Written is what a serving deployment needs: phase, endpoint, counts by role, and the conditions ReplicasUpToDate,
RoleKindsReady, RouterReady and WeightsReady. `quotaReserved` stays unset: there is no quota here, and what is not
observed is not a number (a scaler then takes scheduled Pods for admitted ones). Router and KV cache are not deployed by
this controller, so their parts of the status are not written either.

`status.retirement` is written apart (`record`), by its own patch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from controller.api import (
    ROUTER_PORT,
    ConditionView,
    DeploymentRoleStatus,
    ModelDeployment,
    ModelDeploymentStatus,
    ModelStatus,
    Phase,
    Pod,
    Role,
    RoleEndpoints,
    RouterStatus,
    ServingEndpoints,
    ServingState,
    render,
)
from controller.deployment.pods import scheme_of
from controller.deployment.provenance import (
    STOPPED_REASON,
    UNREADABLE_REASON,
    UP_TO_DATE,
    UP_TO_DATE_REASON,
    stopped_note,
    unreadable_note,
)
from controller.deployment.replicas import Replica
from controller.deployment.weights import WeightsReason, WeightsVerdict
from controller.foundation import format_time

_MAX_PHASE_MESSAGE: Final = 1024
_MAX_MESSAGE: Final = 32768
# What this module writes; whatever of it there is no value for is removed by an explicit null.
_MEMBERS: Final = ("phase", "phaseMessage", "conditions", "endpoint", "roles", "roleSummary", "router", "model")

_NOT_LOOKED_AT: Final = RoleEndpoints(serving=ServingEndpoints(state=ServingState.UNKNOWN))


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that the status is made from. `refusals`: role → why it is not carried out. `outdated`: role →
    replicas made from an older spec. `endpoints`: role → who is sent requests, where that is known. `problems`:
    what could not be done, for people. `silent`: Pods that do not say what they were made from. `stopped`: replicas
    that were made from the present spec and deny it."""

    deployment: ModelDeployment
    replicas: tuple[Replica, ...]
    routers: tuple[Pod, ...]
    weights: WeightsVerdict
    revision: str
    refusals: Mapping[str, str]
    outdated: Mapping[str, int]
    endpoints: Mapping[str, RoleEndpoints]
    rollout_waits_for: str
    problems: tuple[str, ...]
    silent: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()


def deployment_status(situation: Situation, now: float) -> ModelDeploymentStatus:
    """The status without its retirement. Transition times of conditions that did not change are kept."""
    deployment = situation.deployment
    roles = tuple(_role(role, situation) for role in deployment.roles)
    router = _router_condition(situation)
    short = [
        f"{role.name} {role.ready}/{role.desired} ready" for role in roles if (role.ready or 0) < (role.desired or 0)
    ]
    notes = [*short, *(f"{role}: {why}" for role, why in situation.refusals.items()), *situation.problems]
    complete = not short and not situation.refusals and router.status != "False" and router.reason != "NotDeployed"
    serving = any(role.ready for role in roles) or bool(situation.routers and router.status == "True")
    if deployment.deleting:
        phase = Phase.DELETING
    elif complete:
        phase = Phase.READY
    else:
        phase = Phase.DEGRADED if serving else Phase.STARTING
    if router.reason == "NotDeployed" or router.status == "False":
        notes.append(router.message)
    notes += [note for note in (stopped_note(situation.stopped), unreadable_note(situation.silent)) if note]
    conditions = (_up_to_date(situation), _kinds_ready(roles, situation), router, _weights_ready(situation))
    reference = deployment.spec.model.artifact_ref
    return ModelDeploymentStatus(
        phase=phase,
        phase_message="; ".join(notes)[:_MAX_PHASE_MESSAGE],
        conditions=tuple(_stamped(each, deployment, now) for each in conditions),
        endpoint=_endpoint(situation, router),
        roles=roles,
        role_summary=_summary(roles, situation),
        router=_router(situation, router),
        model=ModelStatus(artifact=reference.name, revision=situation.revision) if reference is not None else None,
    )


def status_patch(resource_version: str, status: ModelDeploymentStatus) -> dict[str, Any]:
    """The merge patch of `status`: members without a value are removed by name, `retirement` is not touched."""
    shown = {**dict.fromkeys(_MEMBERS), **render(msgspec.structs.replace(status, retirement=None))}
    return {"metadata": {"resourceVersion": resource_version}, "status": shown}


def same_status(left: ModelDeploymentStatus, right: ModelDeploymentStatus) -> bool:
    """Whether nothing but the retirement differs."""
    return msgspec.structs.replace(left, retirement=None) == msgspec.structs.replace(right, retirement=None)


def _role(role: Role, situation: Situation) -> DeploymentRoleStatus:
    mine = [replica for replica in situation.replicas if replica.role == role.name and not replica.leaving]
    return DeploymentRoleStatus(
        name=role.name,
        kind=role.kind,
        desired=role.replicas,
        ready=sum(replica.ready for replica in mine),
        unmanaged=role.takes_over,
        endpoints=situation.endpoints.get(role.name, _NOT_LOOKED_AT),
    )


def _summary(roles: Iterable[DeploymentRoleStatus], situation: Situation) -> str:
    """`1R2P2D`: router Pods and Ready replicas by the first letter of their kind."""
    routers = sum(pod.ready for pod in situation.routers)
    counts: dict[str, int] = {}
    for role in roles:
        counts[role.kind[:1]] = counts.get(role.kind[:1], 0) + (role.ready or 0)
    return (f"{routers}R" if situation.deployment.spec.router is not None else "") + "".join(
        f"{count}{letter}" for letter, count in counts.items()
    )


def _endpoint(situation: Situation, router: ConditionView) -> str:
    deployment = situation.deployment
    meta = deployment.metadata
    if deployment.spec.router is not None:
        return f"http://{meta.name}-router.{meta.namespace}.svc:{ROUTER_PORT}" if router.status == "True" else ""
    if not deployment.roles:
        return ""
    first = deployment.roles[0]
    return f"{scheme_of(deployment, first)}://{meta.name}.{meta.namespace}.svc:{first.serving_port}"


def _router(situation: Situation, condition: ConditionView) -> RouterStatus | None:
    router = situation.deployment.spec.router
    return None if router is None else RouterStatus(name=router.name, endpoint=_endpoint(situation, condition))


def _up_to_date(situation: Situation) -> ConditionView:
    silent, stopped = unreadable_note(situation.silent), stopped_note(situation.stopped)
    old = ", ".join(f"{count} of role {role}" for role, count in sorted(situation.outdated.items()))
    older = f"made from an older spec: {old}" if old else ""
    if stopped:
        return _condition(UP_TO_DATE, "False", STOPPED_REASON, _joined(stopped, older, silent))
    if older and situation.weights.weights is None:
        return _condition(
            UP_TO_DATE, "False", "RolloutHeldByWeights", _joined(older, situation.weights.message, silent)
        )
    if older:
        waits = f"waits because {situation.rollout_waits_for}" if situation.rollout_waits_for else ""
        return _condition(UP_TO_DATE, "False", "RolloutInProgress", _joined(older, waits, silent))
    if silent:
        return _condition(UP_TO_DATE, "Unknown", UNREADABLE_REASON, silent)
    return _condition(UP_TO_DATE, "True", UP_TO_DATE_REASON, "")


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _kinds_ready(roles: Iterable[DeploymentRoleStatus], situation: Situation) -> ConditionView:
    notes = [
        f"{role.name}: {situation.refusals[role.name]}"
        if role.name in situation.refusals
        else f"{role.name} {role.ready}/{role.desired} ready"
        for role in roles
        if role.name in situation.refusals or (role.ready or 0) < (role.desired or 0)
    ]
    if notes:
        return _condition("RoleKindsReady", "False", "KindsNotReady", "; ".join(notes))
    return _condition("RoleKindsReady", "True", "AllKindsReady", "")


def _router_condition(situation: Situation) -> ConditionView:
    router = situation.deployment.spec.router
    if router is None:
        return _condition("RouterReady", "True", "NotApplicable", "")
    if not situation.routers:
        message = (
            f"no Pod of router {router.name} is there, and standalone mode deploys none: run one, with label "
            f"modeldeployment.gpustack.ai/router={router.name}"
        )
        return _condition("RouterReady", "Unknown", "NotDeployed", message)
    if any(pod.ready for pod in situation.routers):
        return _condition("RouterReady", "True", "Ready", "")
    return _condition("RouterReady", "False", "NoReadyReplicas", f"no Pod of router {router.name} is Ready")


def _weights_ready(situation: Situation) -> ConditionView:
    verdict = situation.weights
    if verdict.reason is WeightsReason.LOOKUP_FAILED:
        return _condition("WeightsReady", "Unknown", str(verdict.reason), verdict.message)
    known = verdict.weights is not None or verdict.reason is WeightsReason.NOT_APPLICABLE
    return _condition("WeightsReady", "True" if known else "False", str(verdict.reason), verdict.message)


def _condition(type_: str, status: str, reason: str, message: str) -> ConditionView:
    return ConditionView(type=type_, status=status, reason=reason, message=message[:_MAX_MESSAGE])


def _stamped(condition: ConditionView, deployment: ModelDeployment, now: float) -> ConditionView:
    old = deployment.condition(condition.type)
    kept = old is not None and old.status == condition.status and old.last_transition_time is not None
    return msgspec.structs.replace(
        condition,
        last_transition_time=old.last_transition_time if old is not None and kept else format_time(now),
        observed_generation=deployment.metadata.generation,
    )
