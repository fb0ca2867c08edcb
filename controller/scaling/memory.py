"""What a tick does to the memory of a role, apart from its samples: before the decision, and after it."""

from __future__ import annotations

import msgspec

from controller.scaling.forecast import Forecaster
from controller.scaling.history import History, recorded
from controller.scaling.panic import reached
from controller.scaling.stages import RolePlan
from controller.scaling.stages.settling import after_rollback, observed_settling
from controller.scaling.startup import with_startups
from controller.scaling.state import LARGEST_EVENTS, Factor, RoleState, ScaleEvent, State
from controller.scaling.types import DecisionSpec, RoleCapacity, RoleObservation


def usable_at(state: State, now: float, interval_seconds: float) -> tuple[State, float]:
    """The state and the time to decide with. After a small step of the clock back time stands still; after a large one
    every remembered time is dropped, because it would not come round again."""
    if state.decided_at is None or now >= state.decided_at:
        return state, now
    if state.decided_at - now <= interval_seconds:
        return state, state.decided_at
    roles = {
        name: RoleState(startups_seconds=role.startups_seconds, fingerprint=role.fingerprint)
        for name, role in state.roles.items()
    }
    return State(roles=roles), now


def with_capacity(kept: RoleState, capacity: RoleCapacity | None, now: float) -> RoleState:
    """The memory under this capacity: what was computed under another denominator is dropped, also what was restored.

    The learnt ratios of headroom have no unit and stay.
    """
    if capacity is None or kept.fingerprint == capacity.fingerprint:
        return kept
    if kept.fingerprint is None:
        return msgspec.structs.replace(kept, fingerprint=capacity.fingerprint)
    return msgspec.structs.replace(
        kept,
        fingerprint=capacity.fingerprint,
        history=History(),
        panic=None,
        flows=(),
        latencies=(),
        forecaster=Forecaster(),
        factor=Factor(),
        peak_tokens_per_second=0.0,
        sampling_since=now,
    )


def with_observation(
    kept: RoleState,
    observation: RoleObservation,
    spec: DecisionSpec,
    *,
    decided_at: float | None,
    stable_seconds: float,
    now: float,
) -> RoleState:
    """The memory with the counts of this tick: scale events, a foreign hand's count, admissions and start-ups."""
    current, history, events = observation.current_replicas, kept.history, kept.events
    if kept.current_replicas is not None and current != kept.current_replicas:
        changed_at = now if decided_at is None else decided_at
        events = _with_event(events, ScaleEvent(changed_at, current - kept.current_replicas), spec, now)
        if current != kept.desired_replicas:
            # Somebody else's count is the new baseline, and as good a recommendation as ours.
            history = with_recommendation(kept, current, spec, stable_seconds=stable_seconds, now=now)
    return msgspec.structs.replace(
        kept,
        history=history,
        events=events,
        settling=observed_settling(kept.settling, observation, spec.pending_timeout_seconds, now),
        startups_seconds=with_startups(kept.startups_seconds, observation.startups_seconds),
    )


def with_recommendation(
    kept: RoleState, replicas: int, spec: DecisionSpec, *, stable_seconds: float, now: float
) -> History:
    """The history with one more recommendation, for the windows that the spec asks for."""
    return recorded(
        kept.history,
        now,
        replicas,
        up_window_seconds=spec.behavior.scale_up.stabilization_window_seconds,
        down_window_seconds=spec.behavior.scale_down.stabilization_window_seconds,
        longest_gap=stable_seconds,
    )


def with_plan(kept: RoleState, planned: RolePlan, spec: DecisionSpec, now: float) -> RoleState:
    """The memory after the decision."""
    return msgspec.structs.replace(
        kept,
        panic=reached(kept.panic, planned.desired, min(planned.maximum, planned.ceiling)),
        settling=after_rollback(kept.settling, spec.pending_timeout_seconds, now),
        current_replicas=planned.current,
        desired_replicas=planned.desired,
    )


def _with_event(
    events: tuple[ScaleEvent, ...], event: ScaleEvent, spec: DecisionSpec, now: float
) -> tuple[ScaleEvent, ...]:
    policies = (*spec.behavior.scale_up.policies, *spec.behavior.scale_down.policies)
    longest = max((policy.period_seconds for policy in policies), default=0.0)
    kept = (*(old for old in events if now - old.time < longest), event) if longest else ()
    while len(kept) > LARGEST_EVENTS:
        # The sum over a period is what matters; the merged pair leaves it a little late.
        kept = (ScaleEvent(kept[1].time, kept[0].delta + kept[1].delta), *kept[2:])
    return kept
