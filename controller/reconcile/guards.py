"""Reasons not to touch a target, each a sentence for the person on call. Pure.

`unsupported` stops planning: nothing useful can be said about the target's counts. `holds` lets the planning go on and
stops the writing: what the target is doing right now must end first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.api import ActiveReason, ConditionView, ModelDeployment, RetirementReason, RoleBounds
from controller.foundation import describe


@dataclass(frozen=True, slots=True)
class Guard:
    """Why scaling is not active."""

    reason: ActiveReason
    message: str


def unsupported(target: ModelDeployment, bounds: tuple[RoleBounds, ...]) -> Guard | None:
    """A role that nobody can scale by its count, or that makes no sense, or a target that cannot be read."""
    if target.unreadable:
        return Guard(ActiveReason.TARGET_UNSUPPORTED, f"ModelDeployment {target.metadata.name}: {target.unreadable}")
    names = [role.name for role in target.roles]
    for bound in bounds:
        role = target.role(bound.name)
        status = target.role_status(bound.name)
        if role is None:
            continue
        if names.count(role.name) > 1:
            return Guard(ActiveReason.TARGET_UNSUPPORTED, f"role {bound.name} is declared more than once")
        if role.known_kind is None:
            return Guard(
                ActiveReason.TARGET_UNSUPPORTED,
                f"role {bound.name} is of kind {describe(role.kind)}, which this version does not know",
            )
        if role.size < 1 or role.replicas < 0:
            return Guard(
                ActiveReason.TARGET_UNSUPPORTED,
                f"role {bound.name} declares {role.replicas} replicas of {role.size} Pods, which cannot be",
            )
        if role.elastic:
            return Guard(
                ActiveReason.TARGET_UNSUPPORTED,
                f"role {bound.name} has elasticEp: it resizes by itself and keeps one replica, so nothing can scale it",
            )
        if role.takes_over or (status is not None and status.unmanaged):
            return Guard(
                ActiveReason.TARGET_UNSUPPORTED,
                f"role {bound.name} takes over its command line: its replicas have no probes, no metrics and no drain; "
                "move the arguments to extraArgs",
            )
    return None


def holds(target: ModelDeployment) -> Guard | None:
    """What has to end before a count may be written."""
    weights = target.condition("WeightsReady")
    if weights is not None and weights.status == "False":
        return Guard(ActiveReason.WEIGHTS_NOT_READY, f"the weights are not ready: {_why(weights)}")
    router = target.condition("RouterReady")
    if target.spec.router is not None and target.disaggregated() and router is not None and router.status == "False":
        return Guard(ActiveReason.ROUTER_NOT_READY, f"the router that pairs the roles is not ready: {_why(router)}")
    return None


def retirement_block(target: ModelDeployment) -> tuple[RetirementReason, str]:
    """The state of the target's retirement, for the condition RetirementBlocked."""
    retirement = target.status.retirement
    if retirement is None or not (retirement.aborted or retirement.running):
        return RetirementReason.NONE, "no replica is being retired"
    replica = f"replica {retirement.replica_ordinal} of role {retirement.role_name}"
    if retirement.aborted:
        return (
            RetirementReason.RETIREMENT_ABORTED,
            f"the retirement of {replica} was aborted: {retirement.reason or 'no reason given'}; counts are not "
            "lowered until it is retried (annotation modeldeployment.gpustack.ai/retirement-retry) or the replica is "
            "declared again",
        )
    return RetirementReason.RETIREMENT_IN_PROGRESS, f"{replica} is being retired ({retirement.state})"


def writable(
    changes: Mapping[str, tuple[int, int]],
    retirement: RetirementReason,
    *,
    banded: bool,
    held: Mapping[str, str] | None = None,
) -> tuple[dict[str, int], str]:
    """Of the wanted changes (role → current, desired) those that may be written now, and why not the others.

    A retirement under way, or aborted with its replica retained, lets no count fall. A raise may go on: it adopts the
    replica back. `held`: roles that must not fall for reasons of their own. Where a hard ratio band ties roles
    together, they move together or not at all.
    """
    wanted = {name: desired for name, (_, desired) in changes.items()}
    lowered = sorted(name for name, (current, desired) in changes.items() if desired < current)
    reasons = []
    if lowered and retirement is not RetirementReason.NONE:
        waiting = lowered
        reasons = [f"lowering {', '.join(lowered)} waits for the retirement ({retirement})"]
    else:
        waiting = [name for name in lowered if name in (held or {})]
        reasons = [f"lowering {name} waits: {(held or {})[name]}" for name in waiting]
    if not waiting:
        return wanted, ""
    if banded:
        return {}, "; ".join(reasons)
    return {name: count for name, count in wanted.items() if name not in waiting}, "; ".join(reasons)


def _why(condition: ConditionView) -> str:
    return ": ".join(part for part in (condition.reason, condition.message) if part) or "no reason given"
