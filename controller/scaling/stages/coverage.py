"""`coverage`: no count moves in a direction that the samples do not justify.

The recommendation counts silent members as idle. It may grow the role as it is; it may shrink it only as far as it
would with the silent members exactly at target. While a role does not answer at all, no role shrinks: what the others
have less of may be what that one no longer passes on. After a start nothing shrinks until a stable window has been
sampled.
"""

from __future__ import annotations

import math

from controller.scaling.stages.plan import Context, Plans, RoleContext, RolePlan
from controller.scaling.types import MetricsStatus, Stage

_MUTE = frozenset({MetricsStatus.ALL_SCRAPES_FAILED, MetricsStatus.STALE_SAMPLES, MetricsStatus.NO_READY_REPLICAS})


def coverage(plans: Plans, context: Context, *, trust_new_samples: bool = False) -> Plans:
    """Floor at what the samples justify shrinking to; both bounds at current where they say nothing.

    `trust_new_samples` leaves the start-up rule out: what would be recommended is remembered, though not yet followed.
    """
    mute = [name for name, role in sorted(context.roles.items()) if _mute(role)]
    return {
        name: _covered(plan, context.roles[name], context.now, mute, trust_new_samples=trust_new_samples)
        for name, plan in plans.items()
    }


def holds_after_start(role: RoleContext, now: float) -> bool:
    """Whether sampling began too recently for anything to shrink."""
    since = role.state.sampling_since
    return since is None or now - since < role.stable_seconds


def _mute(role: RoleContext) -> bool:
    """Whether the role should answer and nobody does."""
    return role.status in _MUTE and role.observation.current_replicas > 0 and not role.recommended.follows_ratio


def _covered(plan: RolePlan, role: RoleContext, now: float, mute: list[str], *, trust_new_samples: bool) -> RolePlan:
    recommended = role.recommended
    if recommended.follows_ratio:
        return plan.narrowed(Stage.COVERAGE)
    if recommended.raw is None:
        return plan.narrowed(
            Stage.COVERAGE, floor=plan.current, ceiling=plan.current, reason=f"holding: {recommended.reason}"
        )
    if not trust_new_samples and holds_after_start(role, now):
        since = role.state.sampling_since
        # Rounded down: a time not yet over must not read like one that is.
        sampled = 0 if since is None else math.floor(now - since)
        return plan.narrowed(
            Stage.COVERAGE,
            floor=plan.current,
            reason=f"sampled for {sampled} s; nothing shrinks before {role.stable_seconds:g} s",
            until=None if since is None else since + role.stable_seconds,
        )
    if mute:
        return plan.narrowed(
            Stage.COVERAGE, floor=plan.current, reason=f"{', '.join(mute)} does not answer: nothing shrinks"
        )
    high = recommended.raw if recommended.high is None else recommended.high
    return plan.narrowed(
        Stage.COVERAGE,
        floor=min(plan.current, high),
        reason=f"members without a rate count as at target: the load may need {high}",
    )


def describe(status: MetricsStatus, since: float | None, now: float) -> str:
    """Why there are no samples, for the person on call."""
    age = "" if since is None else f"; the last answer is {now - since:.0f} s old"
    if status is MetricsStatus.NO_READY_REPLICAS:
        return f"no member is Ready{age}"
    if status is MetricsStatus.STALE_SAMPLES:
        return f"all readings are too old{age}"
    return f"no member answered{age}"
