"""The conditions that tell of one decision, and why a count moves or is held. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catalog import ScalerPriors
from controller import scaling
from controller.api import ActiveReason, Condition, ConditionStatus, ConditionType, LimitedReason, MetricsReason
from controller.foundation import FieldError
from controller.scaling import Capacity, Decision, DecisionSpec, MetricsStatus, RoleDecision

# More findings than this help nobody in a one-line message; all of them are counted.
_SHOWN_FINDINGS = 5
# Worst first: what the condition shows when roles differ.
_METRICS_ORDER = (
    MetricsStatus.ALL_SCRAPES_FAILED,
    MetricsStatus.STALE_SAMPLES,
    MetricsStatus.NO_READY_REPLICAS,
    MetricsStatus.PARTIAL_COVERAGE,
    MetricsStatus.SAMPLED,
)
_ANSWERED = (MetricsStatus.PARTIAL_COVERAGE, MetricsStatus.SAMPLED)


def condition(type_: ConditionType, status: bool | None, reason: str, message: str, generation: int) -> Condition:
    """A condition; `status` None is Unknown: not observed."""
    words = {True: ConditionStatus.TRUE, False: ConditionStatus.FALSE, None: ConditionStatus.UNKNOWN}
    return Condition(type=type_, status=words[status], reason=reason, message=message, observed_generation=generation)


def invalid_spec_message(findings: Sequence[FieldError]) -> str:
    """The findings in one message."""
    shown = "; ".join(str(finding) for finding in findings[:_SHOWN_FINDINGS])
    more = len(findings) - _SHOWN_FINDINGS
    return f"{shown}; and {more} more" if more > 0 else shown


def metrics_condition(decision: Decision, generation: int) -> Condition:
    """MetricsAvailable: the worst role decides, the message lists every role that is not wholly sampled."""
    worst = min((role.metrics for role in decision.roles), key=_METRICS_ORDER.index, default=MetricsStatus.SAMPLED)
    notes = []
    for role in decision.roles:
        if role.metrics is MetricsStatus.SAMPLED:
            continue
        age = (
            "never sampled"
            if role.last_sample_time is None
            else f"last sample {decision.now - role.last_sample_time:.0f} s ago"
        )
        notes.append(f"role {role.name}: {role.metrics} ({age})")
    message = "; ".join(notes) or "every Ready member was sampled"
    return condition(ConditionType.METRICS_AVAILABLE, worst in _ANSWERED, MetricsReason(worst), message, generation)


def limited_condition(decision: Decision, generation: int) -> Condition:
    """ScalingLimited: the first limited role in spec order decides, the message lists all."""
    limited = [role for role in decision.roles if role.limited_by is not None]
    if not limited:
        message = "nothing stands between what is wanted and what is recommended"
        return condition(ConditionType.SCALING_LIMITED, False, LimitedReason.WITHIN_LIMITS, message, generation)
    message = "; ".join(f"role {role.name}: {_limit(role)}" for role in limited)
    reason = LimitedReason.of_stage(str(limited[0].limited_by))
    return condition(ConditionType.SCALING_LIMITED, True, reason, message, generation)


def active_condition(
    decision: Decision, spec: DecisionSpec, capacity: Capacity, priors: ScalerPriors | None, generation: int
) -> Condition:
    """ScalingActive of a decision that no guard held up."""
    if missing := without_capacity(spec, capacity):
        way_out = (
            "give a target in tokens per second, or ask for a prior with capacityPrior"
            if priors is None
            else "the prior that capacityPrior asks for does not serve; the condition CapacityPriorResolved says why"
        )
        words = f"nothing says what one replica of {', '.join(missing)} serves: {way_out}"
        return condition(
            ConditionType.SCALING_ACTIVE,
            False,
            ActiveReason.NO_CAPACITY,
            f"{words}; {_held_in_bounds(decision, spec)}",
            generation,
        )
    if nobody_to_ask(decision):
        return condition(
            ConditionType.SCALING_ACTIVE,
            False,
            ActiveReason.NO_READY_REPLICAS,
            f"no replica is Ready, so there is nobody to ask; {_moved_or_held(decision, ' until one is')}",
            generation,
        )
    if all(role.metrics not in _ANSWERED for role in decision.roles):
        return condition(
            ConditionType.SCALING_ACTIVE,
            False,
            ActiveReason.METRICS_UNAVAILABLE,
            f"no Ready replica could be sampled; {_moved_or_held(decision)}",
            generation,
        )
    words = ", ".join(
        f"{role.name} stays at {role.current}"
        if role.current == role.desired
        else f"{role.name} {role.current} → {role.desired}"
        for role in decision.roles
    )
    return condition(ConditionType.SCALING_ACTIVE, True, ActiveReason.DECIDING, words, generation)


def priors_condition(priors: ScalerPriors, drift_notes: Iterable[str], generation: int) -> Condition:
    """CapacityPriorResolved: the worst role decides, the message has every role's outcome and measured drifts."""
    message = "; ".join([priors.message, *drift_notes])
    return condition(ConditionType.CAPACITY_PRIOR_RESOLVED, priors.resolved, priors.reason, message, generation)


def why_moved(role: RoleDecision) -> str:
    """Why the count of a role changes: what the algorithm measured if that asks for it, else the stage that decided."""
    asked = role.raw is not None and (role.raw - role.current) * (role.desired - role.current) > 0
    return role.algorithm_reason if asked or role.limited_by is None else _limit(role)


def nobody_to_ask(decision: Decision) -> bool:
    """Whether no role has a Ready replica, as at a first start: no answer is then no outage of the network."""
    return all(role.metrics is MetricsStatus.NO_READY_REPLICAS for role in decision.roles)


def without_capacity(spec: DecisionSpec, capacity: Capacity) -> list[str]:
    """Roles whose demand cannot be divided by anything. Encode has no token capacity, Proportional needs none."""
    if isinstance(spec.algorithm, scaling.Proportional):
        return []
    return [role.name for role in spec.roles if role.kind is not scaling.RoleKind.ENCODE and role.name not in capacity]


def _moves(roles: Iterable[RoleDecision]) -> str:
    return ", ".join(f"{role.name} {role.current} → {role.desired} ({why_moved(role)})" for role in roles)


def _moved_or_held(decision: Decision, until: str = "") -> str:
    """What becomes of the counts though nothing is measured: bounds, ratios and replicas that nobody admits still move
    them."""
    moving = [role for role in decision.roles if role.current != role.desired]
    if not moving:
        return f"the counts are held within their bounds{until}"
    return _moves(moving) + ("; the other counts are held" if len(moving) < len(decision.roles) else "")


def _held_in_bounds(decision: Decision, spec: DecisionSpec) -> str:
    """The same without a capacity: only a count outside its bounds is written."""
    bounds = {role.name: range(role.min_replicas, role.max_replicas + 1) for role in spec.roles}
    moving = [role for role in decision.roles if role.current != role.desired]
    outside = [role for role in moving if role.current not in bounds[role.name]]
    inside = [role for role in moving if role not in outside]
    words = "the counts are held" if not outside else "only counts outside their bounds move: " + _moves(outside)
    return f"{words}, though this is recommended: {_moves(inside)}" if inside else words


def _limit(role: RoleDecision) -> str:
    stage = next((record for record in reversed(role.stages) if record.stage is role.limited_by), None)
    return f"{role.limited_by}{': ' + stage.reason if stage is not None and stage.reason else ''}"
