"""The record of a decision: its five arguments and its result, one JSON object a line.

A record replays: `decide(spec, capacity, state, observation, now)` of a record gives its decision again, on any
machine. A decision that does not is a bug, and `replay` finds it.

The file format (`controller --record DIR`, `mdscaler decide FILE`): `format` is `mdscaler.decision/v1`; `scaler` is
`namespace/name`; `process` tells process starts apart; the other members are the types of `controller.scaling` in JSON.
`state` may be left out (nothing remembered), and `decision` too: then there is nothing to compare with. A file that
holds one JSON document instead of lines is one record. Unknown members are ignored, so that an older reader can read
a newer file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from controller.foundation import UsageError
from controller.scaling import Capacity, Decision, DecisionSpec, Observation, State, decide

FORMAT = "mdscaler.decision/v1"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One decision with everything it was made from."""

    format: str = FORMAT
    scaler: str = ""
    process: str = ""
    spec: DecisionSpec
    capacity: Capacity = {}
    state: State = State()
    observation: Observation
    now: float
    decision: Decision | None = None

    @property
    def decided(self) -> Decision:
        """What was decided. Raises UsageError for a record of arguments alone."""
        if self.decision is None:
            raise UsageError(f"the record of {self.scaler or 'a scaler'} at {self.now:.0f} holds no decision")
        return self.decision


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_WORD = re.compile(r"_([a-z0-9])")


def encode(record: Record) -> bytes:
    """One line, without its newline. Deterministic: the same record gives the same bytes."""
    return _encoder.encode(record)


def decode(line: bytes, where: str = "record") -> Record:
    """Raises UsageError that names `where` and the member that is wrong."""
    try:
        record = _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{where}: not a decision record: {error}") from None
    if record.format != FORMAT:
        raise UsageError(f"{where}: format is {record.format!r}, this version reads {FORMAT!r}")
    return record


def read(lines: Iterable[bytes], where: str) -> Iterator[Record]:
    """Records of a file, in order; empty lines are skipped. Raises UsageError naming file and line.

    A last line without a newline is a record that a dying process did not finish: it is left out, unless it is the only
    one. A file that does not hold one object a line is read as one JSON document.
    """
    whole = list(lines)
    if not _is_lines(whole):
        yield decode(b"".join(whole), where)
        return
    for number, line in enumerate(whole, 1):
        if line.strip() and (line.endswith(b"\n") or len(whole) == 1):
            yield decode(line, f"{where}:{number}")


def replay(record: Record) -> Decision:
    """The decision that this version makes from the record's arguments. Raises UsageError for arguments that contradict
    each other, which no controller has recorded."""
    try:
        return decide(record.spec, record.capacity, record.state, record.observation, record.now)[1]
    except (ValueError, ArithmeticError, LookupError) as failure:
        raise UsageError(
            f"the record of {record.scaler or 'a scaler'} at {record.now:.0f} cannot be decided again, was it edited? "
            f"{type(failure).__name__}: {failure}"
        ) from failure


def decision_json(decision: Decision) -> dict[str, object]:
    """A decision for other programs: plain values, member names in camelCase as everywhere in the API."""
    plain = msgspec.to_builtins(decision)
    assert isinstance(plain, dict)  # noqa: S101 - a struct is an object
    return {_camel(name): _camel_case(value) for name, value in plain.items()}


def _is_lines(lines: list[bytes]) -> bool:
    """The first line that holds anything is a whole JSON value: then each line is one."""
    first = next((line for line in lines if line.strip()), b"{}")
    try:
        msgspec.json.decode(first)
    except (msgspec.DecodeError, RecursionError):
        # One broken line among several that begin like objects is a broken record, not a document.
        return sum(line.startswith(b'{"') for line in lines) > 1
    return True


def _camel_case(value: object) -> object:
    if isinstance(value, dict):
        return {_camel(name): _camel_case(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_camel_case(member) for member in value]
    return value


def _camel(name: str) -> str:
    return _WORD.sub(lambda match: match[1].upper(), name)
