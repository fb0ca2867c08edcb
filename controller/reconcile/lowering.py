"""What follows from an aborted retirement: the replica is declared again, and lowering is tried again later. Pure.

A retirement that was aborted (a stream that outlasts the drain budget, say) keeps its replica out of service and every
other removal waiting. In standalone mode the bound scaler therefore raises the count back, so that the replica serves
again, and lowers it after the down-stabilization window, the next time after twice as long. After the third abort in a
row it stops: the replica stays as it is until a person orders a retry (`modeldeployment.gpustack.ai/retirement-retry`),
or the load needs it.

Beside another operator nothing of this happens: its retirements are its own, and all we do is lower nothing meanwhile.
Who that is shows in the target: whoever runs retirements has written its status.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from controller.api import (
    FIELD_MANAGER,
    RETIREMENT_RETRY_ANNOTATION,
    LoweringState,
    ModelDeployment,
    RetirementRetry,
    read_retirement_retry,
)
from controller.api.foreign import seconds_of
from controller.foundation import format_time

ABORTS_BEFORE_A_PERSON = 3
# A window of zero is no reason to try again at once: whatever held the replica lasted longer than a drain budget.
SHORTEST_PAUSE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Lowering:
    """What a role may do. `state` is to be remembered (None: nothing), `held` says why the count must not fall (empty:
    it may), `raise_to` is the count that takes an aborted replica back, `person` that only a person ends the hold."""

    state: LoweringState | None
    held: str = ""
    raise_to: int | None = None
    person: bool = False


def assess_lowering(
    target: ModelDeployment,
    role: str,
    known: LoweringState | None,
    *,
    retiring: int,
    maximum: int,
    window_seconds: float,
    now: float,
) -> Lowering:
    """Look at one role. `retiring`: its replicas on their way out; `maximum`: its upper bound in the scaler."""
    declared = target.role(role)
    retirement = target.status.retirement
    if declared is None or not runs_here(target, known):
        return Lowering(None)
    mine = retirement if retirement is not None and retirement.role_name == role else None
    state = _ordered(target, role, known)
    if mine is None or not mine.aborted:
        if state is None:
            return Lowering(None)
        if mine is None and declared.replicas < state.raised_to and not retiring:
            return Lowering(None)  # lowered since, and the replica is gone: the row of aborts is over
        return _held(role, _within(state, window_seconds, now), now)
    aborted_at = seconds_of(mine.phase_started_at) or 0.0
    if state is None or state.aborted_at != aborted_at:
        state = _aborted(target, role, state, aborted_at, mine.replica_ordinal + 1, window_seconds, now)
    raise_to = state.raised_to if state.aborts < ABORTS_BEFORE_A_PERSON and state.raised_to <= maximum else None
    state = _within(state, window_seconds, now)
    held = _held(role, state, now)
    return Lowering(state, held.held, raise_to, held.person)


def runs_here(target: ModelDeployment, known: LoweringState | None) -> bool:
    """The target's retirements are run by this controller (standalone mode) and by nobody else.

    After `managedFields` were reset, as handing an object over asks for, the API server names no writer any more until
    somebody applies. Then the retirement itself tells: an operator's has a Workload, ours has none.
    """
    writers = target.status_writers()
    if writers:
        return writers == {FIELD_MANAGER}
    retirement = target.status.retirement
    return known is not None or (retirement is not None and not retirement.target_workload_uid)


def _aborted(
    target: ModelDeployment,
    role: str,
    state: LoweringState | None,
    aborted_at: float,
    raised_to: int,
    window_seconds: float,
    now: float,
) -> LoweringState:
    aborts = min((0 if state is None else state.aborts) + 1, ABORTS_BEFORE_A_PERSON)
    pause = _pause(aborts, window_seconds)
    return LoweringState(
        aborts=aborts,
        aborted_at=aborted_at,
        not_before=now + pause if aborts < ABORTS_BEFORE_A_PERSON else None,
        raised_to=raised_to,
        retry_token=_token(target, role) or ("" if state is None else state.retry_token),
    )


def _pause(aborts: int, window_seconds: float) -> float:
    return max(window_seconds, SHORTEST_PAUSE_SECONDS) * 2.0 ** (aborts - 1)


def _within(state: LoweringState, window_seconds: float, now: float) -> LoweringState:
    """A pause never ends later than a whole one from now: the clock was set back, or the window made shorter."""
    latest = now + _pause(state.aborts, window_seconds)
    if state.not_before is None or state.not_before <= latest:
        return state
    return msgspec.structs.replace(state, not_before=latest)


def _ordered(target: ModelDeployment, role: str, state: LoweringState | None) -> LoweringState | None:
    """A new order to retry begins a new row: the retirement goes on, and the scaler may lower again."""
    token = _token(target, role)
    if state is None or not token or token == state.retry_token:
        return state
    return LoweringState(aborted_at=state.aborted_at, raised_to=state.raised_to, retry_token=token)


def _token(target: ModelDeployment, role: str) -> str:
    """The newest order for this role: the annotation, or the one that the retirement has already taken."""
    order = read_retirement_retry(target.metadata)
    if isinstance(order, RetirementRetry) and order.role == role and len(order.token) <= 256:
        return order.token
    retirement = target.status.retirement
    return retirement.last_consumed_retry_token if retirement is not None and retirement.role_name == role else ""


def _held(role: str, state: LoweringState, now: float) -> Lowering:
    if state.aborts >= ABORTS_BEFORE_A_PERSON:
        return Lowering(
            state,
            f"the last {state.aborts} retirements of role {role} were aborted; it is not lowered until a person says "
            f"so: annotate the ModelDeployment with {RETIREMENT_RETRY_ANNOTATION}={role}:{max(state.raised_to - 1, 0)}:"
            "<any new word>",
            person=True,
        )
    if state.not_before is not None and now < state.not_before:
        return Lowering(
            state,
            f"a retirement of role {role} was aborted ({state.aborts} in a row); lowering is tried again after "
            f"{format_time(state.not_before)}",
        )
    return Lowering(state)
