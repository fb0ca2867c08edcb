"""Whether a run with restarts in it shrank anything that one unbroken run would not have shrunk by then. Pure.

The recorded observations are decided again as a chain, without the restarts: each state follows from the one before,
and the declared count is what the chain itself asked for (a count that somebody else wrote is taken over from the
record). What the engines reported stays as recorded, because nobody can know what they would have reported otherwise.

A recorded shrink is early when the chain had not asked for so few replicas at any tick since the role last grew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from controller.planning.record import Record
from controller.scaling import Decision, Observation, RoleObservation, State, decide


@dataclass(frozen=True, slots=True)
class Change:
    """A count that was decided and then declared: at `time` a role went from `before` to `after`."""

    record: Record
    role: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class EarlyShrink:
    """At `time` a role was to go from `current` to `desired`, where the unbroken run wanted `unbroken`."""

    time: float
    role: str
    current: int
    desired: int
    unbroken: int


@dataclass(frozen=True, slots=True)
class Continuity:
    """The comparison of one scaler's records with the unbroken run."""

    ticks: int
    processes: int
    shrinks: int
    early: tuple[EarlyShrink, ...]


def committed_changes(records: Sequence[Record]) -> list[Change]:
    """The decisions that were carried out: what the next record of the scaler shows as declared. A decision that waited
    (for a retirement, for a binding) is repeated at every tick and is no change until then."""
    changes = []
    for record, following in pairwise(records):
        declared = {role.name: role.current for role in following.decided.roles}
        for name, (before, after) in record.decided.changes.items():
            if declared.get(name) == after:
                changes.append(Change(record, name, before, after))
    return changes


def compare_with_unbroken(records: Sequence[Record]) -> Continuity:
    """Records of one scaler in order of time, of any number of processes."""
    early: list[EarlyShrink] = []
    shrinks = sum(change.after < change.before for change in committed_changes(records))
    lowest: dict[str, int] = {}  # what the chain asked for at least, since the role last grew in the record
    for record, unbroken in zip(records, _unbroken(records), strict=True):
        for role in record.decided.roles:
            wanted = unbroken.role(role.name).desired
            lowest[role.name] = wanted if role.desired > role.current else min(wanted, lowest.get(role.name, wanted))
            if role.desired < role.current and lowest[role.name] > role.desired:
                early.append(EarlyShrink(record.now, role.name, role.current, role.desired, wanted))
    return Continuity(len(records), len({record.process for record in records}), shrinks, tuple(early))


def _unbroken(records: Sequence[Record]) -> list[Decision]:
    decisions: list[Decision] = []
    state: State | None = None
    before: Record | None = None
    for record in records:
        observation = record.observation
        if before is not None and decisions:
            observation = _with_own_counts(before, record, decisions[-1])
        start = record.state if state is None else state
        state, decision = decide(record.spec, record.capacity, start, observation, record.now)
        decisions.append(decision)
        before = record
    return decisions


def _with_own_counts(before: Record, record: Record, unbroken: Decision) -> Observation:
    """The observation, with the counts that the unbroken run would have declared by itself."""
    recorded = {role.name: (role.current, role.desired) for role in before.decided.roles}
    own = {role.name: role.desired for role in unbroken.roles}
    roles = []
    for role in record.observation.roles:
        # Neither what was declared nor what was asked for: somebody else wrote it, in either run.
        foreign = role.name not in own or role.current_replicas not in recorded.get(role.name, ())
        roles.append(role if foreign else _recounted(role, own[role.name]))
    return msgspec.structs.replace(record.observation, roles=tuple(roles))


def _recounted(role: RoleObservation, declared: int) -> RoleObservation:
    ready = min(role.ready_replicas, declared)
    unadmitted = min(role.unadmitted_replicas, declared - ready)
    return msgspec.structs.replace(
        role,
        current_replicas=declared,
        ready_replicas=ready,
        unadmitted_replicas=unadmitted,
        starting_replicas=declared - ready - unadmitted,
    )
