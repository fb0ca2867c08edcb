"""Whose counts stand in the target: compares the declared counts with the last ones we wrote, or found. Pure.

Only a scaler that holds its target compares: what others do to the counts before that, or in Shadow, is their business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.api import (
    FIELD_MANAGER,
    MAX_REPLICAS,
    RESUME_ANNOTATION,
    BoundBy,
    ConflictReason,
    MdsView,
    ModelDeployment,
    ScalerSpec,
    ScalerStatus,
    read_bound_by,
    read_found,
    read_written,
)
from controller.api.scaler_status import MAX_RESUME
from controller.reconcile.fence import Holding
from controller.reconcile.foreign import Reversal, assess_foreign_writes


@dataclass(frozen=True, slots=True)
class NotedCounts:
    """What the target's annotations tell of its counts; a note that cannot be read is none."""

    written: Mapping[str, int]
    found: Mapping[str, int]

    @property
    def any(self) -> bool:
        """Whether there is anything to compare with."""
        return bool(self.written or self.found)


def noted_counts(target: ModelDeployment) -> NotedCounts:
    """The counts last written, and those found when the target was bound."""
    written, found = read_written(target.metadata), read_found(target.metadata)
    return NotedCounts(written if isinstance(written, dict) else {}, found if isinstance(found, dict) else {})


def findable_counts(target: ModelDeployment) -> dict[str, int]:
    """The declared counts as a claim notes them: those that such a note can hold."""
    return {role.name: role.replicas for role in target.roles if 1 <= role.replicas <= MAX_REPLICAS}


@dataclass(frozen=True, slots=True)
class Baseline:
    """`hold`: we do not write until a person says so. `conflict` and the words are for the condition."""

    reversals: tuple[Reversal, ...]
    hold: bool
    conflict: bool
    reason: ConflictReason
    message: str
    foreign: frozenset[str] = frozenset()  # roles whose declared count is neither the one we wrote nor the one we found
    resumed: str = ""  # the order to go on that this one is made with


def baseline_of(
    scaler: MdsView,
    target: ModelDeployment,
    spec: ScalerSpec,
    status: ScalerStatus,
    holding: Holding | None,
    now: float,
) -> Baseline:
    """What foreign writes mean for this tick. `target` is as it was before this tick's claim, if it made one that led
    to `holding`. A new generation of the spec, or a new value of the resume annotation, forgets the earlier
    reversals."""
    known = tuple(Reversal(reversal.time, "") for reversal in status.foreign_reversals)
    resume = (scaler.metadata.annotation(RESUME_ANNOTATION) or "")[:MAX_RESUME]
    if (resume and resume != status.resumed) or scaler.metadata.generation != status.observed_generation:
        known = ()
    noted = _compared_with(scaler, target, holding)
    declared = {role.name: role.replicas for role in target.roles}
    counts = {} if noted is None else {**noted.found, **noted.written}
    differing = next((name for name, count in sorted(counts.items()) if declared.get(name, count) != count), None)
    manager, write_time = "somebody", None
    if differing is not None:
        foreign = [writer for writer in target.replica_writers(differing) if writer.manager != FIELD_MANAGER]
        if foreign:
            manager, write_time = foreign[0].manager, foreign[0].time_seconds
    verdict = assess_foreign_writes(
        {} if noted is None else noted.written,
        declared,
        known,
        interval_seconds=float(spec.sampling.interval_seconds),
        now=now,
        manager=manager,
        write_time=write_time,
        found=counts,
    )
    if not verdict.roles and not verdict.hold:
        message = _nothing_foreign(spec, noted)
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


def _compared_with(scaler: MdsView, target: ModelDeployment, holding: Holding | None) -> NotedCounts | None:
    """The counts that are ours to compare with; None: this scaler does not hold the target."""
    bound = read_bound_by(target.metadata)
    if isinstance(bound, BoundBy) and bound.uid == scaler.metadata.uid:
        noted = noted_counts(target)
        return NotedCounts({}, findable_counts(target)) if holding is not None and not noted.any else noted
    # The claim of this tick noted what it found.
    return None if holding is None else NotedCounts({}, findable_counts(target))


def _nothing_foreign(spec: ScalerSpec, noted: NotedCounts | None) -> str:
    """Why no count is called somebody else's, in words that claim no more than is known."""
    if noted is None:
        return "this scaler does not hold the target: whoever sets its counts is in nobody's way"
    roles = [role.name for role in spec.roles]
    if all(name in noted.written for name in roles):
        return "the counts are the last ones written here"
    unknown = [name for name in roles if name not in noted.written and name not in noted.found]
    if unknown:
        return f"nothing is noted yet that the count of {', '.join(unknown)} could be compared with"
    return "nothing was written yet since the target was bound; the counts are those found then"
