"""Whose counts stand in the target: compares the declared counts with the last ones we wrote. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from controller.api import (
    FIELD_MANAGER,
    RESUME_ANNOTATION,
    ConflictReason,
    MdsView,
    ModelDeployment,
    ScalerSpec,
    ScalerStatus,
    read_written,
)
from controller.api.scaler_status import MAX_RESUME
from controller.reconcile.foreign import Reversal, assess_foreign_writes


@dataclass(frozen=True, slots=True)
class Baseline:
    """`hold`: we do not write until a person says so. `conflict` and the words are for the condition."""

    reversals: tuple[Reversal, ...]
    hold: bool
    conflict: bool
    reason: ConflictReason
    message: str
    foreign: frozenset[str] = frozenset()  # roles whose declared count is not the one we wrote
    resumed: str = ""  # the order to go on that this one is made with


def baseline_of(
    scaler: MdsView, target: ModelDeployment, spec: ScalerSpec, status: ScalerStatus, now: float
) -> Baseline:
    """What foreign writes mean for this tick. A new generation of the spec, or a new value of the resume annotation,
    forgets the earlier reversals."""
    known = tuple(Reversal(reversal.time, "") for reversal in status.foreign_reversals)
    resume = (scaler.metadata.annotation(RESUME_ANNOTATION) or "")[:MAX_RESUME]
    if (resume and resume != status.resumed) or scaler.metadata.generation != status.observed_generation:
        known = ()
    written = read_written(target.metadata)
    counts = written if isinstance(written, dict) else {}
    declared = {role.name: role.replicas for role in target.roles}
    differing = next((name for name, count in sorted(counts.items()) if declared.get(name, count) != count), None)
    manager, write_time = "somebody", None
    if differing is not None:
        foreign = [writer for writer in target.replica_writers(differing) if writer.manager != FIELD_MANAGER]
        if foreign:
            manager, write_time = foreign[0].manager, foreign[0].time_seconds
    verdict = assess_foreign_writes(
        counts,
        declared,
        known,
        interval_seconds=float(spec.sampling.interval_seconds),
        now=now,
        manager=manager,
        write_time=write_time,
    )
    if not verdict.roles and not verdict.hold:
        message = "the counts are the last ones written here"
        return Baseline(verdict.reversals, False, False, ConflictReason.RESOLVED, message, resumed=resume)
    changes = ", ".join(f"{name} {ours} → {theirs}" for name, (ours, theirs) in verdict.roles.items())
    message = f"{manager} changed {changes}" if changes else "our counts were reversed repeatedly"
    if verdict.hold:
        message += (
            "; after three reversals nothing is written any more: let the other writer leave spec.roles[].replicas "
            f"alone, then annotate this scaler with {RESUME_ANNOTATION}=<any new value>"
        )
    else:
        message += "; taken as the new baseline"
    roles = frozenset(verdict.roles)
    return Baseline(verdict.reversals, verdict.hold, True, ConflictReason.FOREIGN_WRITER, message, roles, resume)
