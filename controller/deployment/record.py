"""The operation as `status.retirement` keeps it, and back. Pure.

Stored times have whole seconds; what is not stored (idle reads, containers seen) belongs to one process and is
collected again by the next.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from controller.api import Retirement, RetirementState, render, seconds_of
from controller.deployment.retirement import OVERALL_SECONDS, Operation
from controller.foundation import format_time

_MAX_REASON: Final = 1024  # of the CRD's schema
MAX_RETRY_TOKEN: Final = 256

# Every member, so that a merge patch also takes away what the operation does not have.
_MEMBERS: Final = (
    "roleName",
    "replicaOrdinal",
    "observedGeneration",
    "targetMemberUIDs",
    "targetWorkloadUID",
    "state",
    "reason",
    "startedAt",
    "deadline",
    "phaseStartedAt",
    "lastConsumedRetryToken",
)


def stored(operation: Operation) -> Retirement:
    """The operation as it is written down. There is no Workload in standalone mode: its UID is empty."""
    return Retirement(
        role_name=operation.role,
        replica_ordinal=operation.ordinal,
        observed_generation=operation.observed_generation,
        target_member_uids=operation.member_uids,
        target_workload_uid="",
        state=str(operation.state),
        reason=operation.reason[:_MAX_REASON],
        started_at=format_time(operation.started_at),
        deadline=format_time(operation.deadline),
        phase_started_at=format_time(operation.phase_started_at),
        last_consumed_retry_token=operation.last_retry_token,
    )


def restored(retirement: Retirement, *, hands_over: bool, now: float) -> Operation:
    """What another process, or this one before a restart, wrote down. A time that cannot be read is now; a state that
    is not known is Aborted: the replica stays until a person looks."""
    started = seconds_of(retirement.started_at)
    deadline = seconds_of(retirement.deadline)
    phase = seconds_of(retirement.phase_started_at)
    operation = Operation(
        role=retirement.role_name,
        ordinal=retirement.replica_ordinal,
        member_uids=retirement.target_member_uids or (),
        observed_generation=retirement.observed_generation,
        state=RetirementState.ABORTED,
        reason=retirement.reason,
        started_at=now if started is None else started,
        deadline=now + OVERALL_SECONDS if deadline is None else deadline,
        phase_started_at=now if phase is None else phase,
        last_retry_token=retirement.last_consumed_retry_token,
        hands_over=hands_over,
    )
    known = next((state for state in RetirementState if state == retirement.state), None)
    if known is None or known is RetirementState.COMPLETED:
        return replace(operation, reason=f"state {retirement.state[:40]!r} is not known to this version")
    return replace(operation, state=known)


def retirement_patch(resource_version: str, operation: Operation | None) -> dict[str, Any]:
    """The merge patch of `status` that writes the operation down, or clears it with an explicit null. It is refused
    when anything of the ModelDeployment, the declared counts among it, has changed since the operation was looked at.
    """
    value: dict[str, Any] | None = None
    if operation is not None:
        value = dict.fromkeys(_MEMBERS) | render(stored(operation))
    return {"metadata": {"resourceVersion": resource_version}, "status": {"retirement": value}}
