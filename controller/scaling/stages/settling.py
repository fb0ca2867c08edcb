"""`settling`: a raise waits for the one before, and one that nobody admits is taken back.

A replica is unadmitted while it has no quota reservation or no scheduled Pod. Loading a model is not waiting:
admitted replicas never stop a further raise. What stays unadmitted longer than `pendingTimeoutSeconds` is rolled
back, by exactly those replicas and not below the role's minimum; then the role does not raise for one, two, four, at
most eight times that long. In a panic a raise does not wait.
"""

from __future__ import annotations

import msgspec

from controller.scaling.stages.plan import Context, Plans, RoleContext, RolePlan
from controller.scaling.state import Settling
from controller.scaling.types import RoleObservation, Stage, StageRecord

LARGEST_PAUSE_FACTOR = 8

# A start is stalled after this time, or three times the measured p90: images and weights of hundreds of gigabytes load
# for half an hour on a cold node.
SHORTEST_STALL_SECONDS = 1800.0
STALL_FACTOR = 3.0


def observed_settling(settling: Settling, role: RoleObservation, timeout_seconds: float, now: float) -> Settling:
    """What is known about this role's raises after this tick's observation."""
    starting_since = settling.starting_since if role.starting_replicas and not role.startups_seconds else None
    if role.starting_replicas and starting_since is None:
        starting_since = now
    if role.unadmitted_replicas:
        since = now if settling.unadmitted_since is None else settling.unadmitted_since
        return msgspec.structs.replace(settling, unadmitted_since=since, starting_since=starting_since)
    resting = settling.raise_not_before is not None and now < settling.raise_not_before + timeout_seconds
    # A pause that ended a timeout ago without anything unadmitted since has done its work.
    return Settling(
        pauses=settling.pauses if resting else 0,
        raise_not_before=settling.raise_not_before if resting else None,
        starting_since=starting_since,
    )


def timed_out(settling: Settling, timeout_seconds: float, now: float) -> bool:
    """Whether the unadmitted replicas have had their time."""
    return settling.unadmitted_since is not None and now - settling.unadmitted_since >= timeout_seconds


def after_rollback(settling: Settling, timeout_seconds: float, now: float) -> Settling:
    """The pause that a rollback begins; a rollback still being carried out begins no second one."""
    if settling.rolled_back or not timed_out(settling, timeout_seconds, now):
        return settling
    pause = timeout_seconds * min(LARGEST_PAUSE_FACTOR, 2**settling.pauses)
    return msgspec.structs.replace(settling, rolled_back=True, pauses=settling.pauses + 1, raise_not_before=now + pause)


def stalled_replicas(settling: Settling, role: RoleObservation, startup_p90_seconds: float | None, now: float) -> int:
    """Starting replicas that have been at it for so long that they no longer count as supply."""
    deadline = max(SHORTEST_STALL_SECONDS, STALL_FACTOR * (startup_p90_seconds or 0.0))
    if role.starting_since:
        return sum(1 for since in role.starting_since if now - since >= deadline)
    if settling.starting_since is not None and now - settling.starting_since >= deadline:
        return role.starting_replicas
    return 0


def settling(plans: Plans, context: Context) -> Plans:
    """Hold raises of unsettled roles, and take back what was not admitted in time."""
    return {name: _settled(plan, context, context.roles[name]) for name, plan in plans.items()}


def _settled(plan: RolePlan, context: Context, role: RoleContext) -> RolePlan:
    state, timeout, now = role.state.settling, context.spec.pending_timeout_seconds, context.now
    unadmitted = min(role.observation.unadmitted_replicas, plan.current)
    if unadmitted and timed_out(state, timeout, now):
        return _rolled_back(plan, unadmitted, timeout)
    if unadmitted and not role.recommended.panicking:
        return plan.narrowed(
            Stage.SETTLING,
            ceiling=max(plan.current, plan.floor),
            reason=f"{unadmitted} replicas of the last raise are not admitted yet",
            until=None if state.unadmitted_since is None else state.unadmitted_since + timeout,
        )
    if state.raise_not_before is not None and now < state.raise_not_before:
        return plan.narrowed(
            Stage.SETTLING,
            ceiling=max(plan.current, plan.floor),
            reason=f"the last raise was not admitted and taken back; raises wait {state.raise_not_before - now:.0f} s",
            until=state.raise_not_before,
        )
    return plan.narrowed(Stage.SETTLING)


def _rolled_back(plan: RolePlan, unadmitted: int, timeout_seconds: float) -> RolePlan:
    """The one case in which a floor is lowered: by exactly the replicas that nobody admitted."""
    kept = min(plan.ceiling, max(plan.minimum, plan.current - unadmitted))
    after = min(plan.desired, kept)
    reason = f"{unadmitted} replicas were not admitted within {timeout_seconds:.0f} s and are taken back"
    record = StageRecord(
        stage=Stage.SETTLING,
        before=plan.desired,
        after=after,
        floor=min(plan.floor, kept) or None,
        ceiling=kept,
        reason=reason if after != plan.desired else "",
    )
    return msgspec.structs.replace(
        plan,
        desired=after,
        floor=min(plan.floor, kept),
        ceiling=kept,
        records=(*plan.records, record),
        next_change_time=None,
    )
