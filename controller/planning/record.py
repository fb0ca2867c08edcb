"""The record of a decision: its five arguments and its result, one JSON object a line.

A record replays: `decide(spec, capacity, state, observation, now)` of a record gives its decision again, on any
machine. A decision that does not is a bug, and `replay` finds it. Consecutive records of one scaler also replay as a
chain from the first state (`replay_chain`), which is how a run with a restart in it is compared with one without.

The file format (`controller --record DIR`, `mdscaler decide FILE`): `format` is `mdscaler.decision/v1`; `scaler` is
`namespace/name`; `process` tells process starts apart; the other members are the types of `controller.scaling` in JSON.
Unknown members are ignored, so that an older reader can read a newer file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from controller.foundation import UsageError
from controller.scaling import Capacity, Decision, DecisionSpec, Observation, State, decide

FORMAT = "mdscaler.decision/v1"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One decision with everything it was made from."""

    format: str = FORMAT
    scaler: str
    process: str
    spec: DecisionSpec
    capacity: Capacity
    state: State
    observation: Observation
    now: float
    decision: Decision


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)


def encode(record: Record) -> bytes:
    """One line, without its newline. Deterministic: the same record gives the same bytes."""
    return _encoder.encode(record)


def decode(line: bytes, where: str = "record") -> Record:
    """Raises UsageError that names `where` and the member that is wrong."""
    try:
        record = _decoder.decode(line)
    except msgspec.DecodeError as error:
        raise UsageError(f"{where}: not a decision record: {error}") from None
    if record.format != FORMAT:
        raise UsageError(f"{where}: format is {record.format!r}, this version reads {FORMAT!r}")
    return record


def read(lines: Iterable[bytes], where: str) -> Iterator[Record]:
    """Records of a file, in order; empty lines are skipped. Raises UsageError naming file and line.

    A last line without a newline is a record that a dying process did not finish: it is left out.
    """
    for number, line in enumerate(lines, 1):
        if line.strip() and line.endswith(b"\n"):
            yield decode(line, f"{where}:{number}")


def replay(record: Record) -> Decision:
    """The decision that this version makes from the record's arguments."""
    return decide(record.spec, record.capacity, record.state, record.observation, record.now)[1]


def replay_chain(records: Iterable[Record]) -> Iterator[Decision]:
    """The decisions of one unbroken run: the state of the first record, then each state from the one before.

    The states inside the later records are not looked at, so a restart between two records does not happen here. What
    the target declared at each tick is part of the observation and stays as it was.
    """
    state: State | None = None
    for record in records:
        start = record.state if state is None else state
        state, decision = decide(record.spec, record.capacity, start, record.observation, record.now)
        yield decision
