"""Whether a run with restarts in it shrank anything that one unbroken run would not have shrunk by then. Pure.

The recorded observations are decided again as a chain, without the restarts: each state follows from the one before. A
shrink that was recommended at a tick although the chain wanted more at that tick is early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.planning.record import Record, replay_chain


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


def compare_with_unbroken(records: Sequence[Record]) -> Continuity:
    """Records of one scaler in order of time, of any number of processes."""
    early: list[EarlyShrink] = []
    shrinks = 0
    for record, unbroken in zip(records, replay_chain(records), strict=True):
        for role in record.decision.roles:
            if role.desired >= role.current:
                continue
            shrinks += 1
            wanted = unbroken.role(role.name).desired
            if wanted > role.desired:
                early.append(EarlyShrink(record.now, role.name, role.current, role.desired, wanted))
    return Continuity(len(records), len({record.process for record in records}), shrinks, tuple(early))
