"""Reading result files: JSON with or without NaN, JSON lines, text. Everything that goes wrong is a refusal."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from catalog.importers.recognition import Recognised, recognise
from catalog.importers.rules import Refused, Rule
from catalog.importers.secrets import may_hold_secrets, secrets_of
from controller.foundation import printable, read_file, reading_advice

# Reports with per-request lists reach tens of megabytes; beyond this it is not a report.
MAX_FILE_BYTES: Final = 256 * 1024 * 1024

# What tools write, in the order in which a folder is looked through for them.
RESULT_SUFFIXES: Final = (".json", ".jsonl", ".yaml", ".yml", ".csv")
_JSON_SUFFIXES: Final = (".json", ".jsonl")
# Enough to tell what a file of lines is.
_LINES_TRIED: Final = 20
# What results are published in.
_PACKED: Final = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2"}


class SourceFile:
    """One file: its path, the name that refusals show, and its content.

    `documents` holds what was parsed out of it, for `secrets`.
    """

    def __init__(self, path: Path, label: str | None = None) -> None:
        self.path = path
        self.label = printable(label or str(path))
        self.documents: list[Any] = []
        self._data: bytes | None = None

    def read(self) -> bytes:
        """The content. Raises Refused(Unreadable), Refused(Empty) where there is none."""
        if self._data is None:
            try:
                self._data = read_file(self.path, MAX_FILE_BYTES)
            except OSError as error:
                advice = reading_advice(self.path, error, RESULT_SUFFIXES)
                raise Refused(Rule.UNREADABLE, f"cannot be read: {advice}") from None
        if not self._data.strip():
            raise Refused(Rule.EMPTY, "the file is empty")
        for magic, what in _PACKED.items():
            if self._data.startswith(magic):
                raise Refused(Rule.UNREADABLE, f"is a {what} file: unpack it")
        return self._data

    @property
    def has_content(self) -> bool:
        """Whether it could be read and is no archive."""
        try:
            return bool(self.read())
        except Refused:
            return False

    @property
    def holds_nothing(self) -> bool:
        """Whether it is JSON or YAML of nothing: null, an empty list or object, or a list of such."""
        document = self.documents[0] if len(self.documents) == 1 else self.documents
        return bool(self.documents) and document in (None, [], {}, [[]], [{}])

    def recognised(self) -> Recognised | None:
        """What the file is by its content, whoever writes such files; None where nothing tells it, or where it cannot
        be read."""
        try:
            data = self.read()
        except Refused:
            return None
        return recognise_content(data, self.documents)

    def sibling(self) -> Path | None:
        """The JSON that lies beside a table or a page of the same name."""
        if self.path.suffix.lower() in _JSON_SUFFIXES:
            return None
        return next((path for suffix in _JSON_SUFFIXES if (path := self.path.with_suffix(suffix)).is_file()), None)

    @property
    def secrets(self) -> set[str]:
        """Values in what was read so far that no refusal may repeat."""
        return secrets_of(self.documents) if may_hold_secrets(self._data or b"") else set()

    def text(self) -> str:
        """The content as UTF-8 text. Raises Refused(Unreadable)."""
        try:
            return self.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Refused(Rule.UNREADABLE, f"byte {error.start} is not UTF-8") from None

    def json(self) -> Any:
        """The one JSON value of the file. Raises Refused."""
        self.documents = [_loads(self.read())]
        return self.documents[0]

    def json_objects(self) -> list[tuple[str, Any]]:
        """(label, value) of every record in a JSON file: one object, a list of them, or one per line. In a file of
        lines, one that cannot be read (the last one of a run that was killed) is a Refused in place of its value, for
        `opened`. Raises Refused for the file."""
        data = self.read()
        try:
            value = _loads(data)
        except Refused:
            records = [
                (f"line {number}", _line(line)) for number, line in enumerate(data.splitlines(), 1) if line.strip()
            ]
            self.documents = [record for _, record in records if isinstance(record, dict)]
            if len(records) < 2 or 2 * len(self.documents) <= len(records):
                raise
            return records
        self.documents = [value]
        if isinstance(value, list):
            return [(f"row {index}", entry) for index, entry in enumerate(value)]
        return [("", value)]


def recognise_content(data: bytes, documents: list[Any] | None = None) -> Recognised | None:
    """What a content is; `documents` are the JSON values in it where they are known."""
    # What was read out of YAML tells the same by its text, which says that it is YAML.
    is_json = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
    return recognise((documents or _json_values(data)) if is_json else (), data)


def _json_values(data: bytes) -> list[Any]:
    """The JSON values in a file, whole or one per line; empty where it is no JSON."""
    try:
        return [_loads(data)]
    except Refused:
        lines = [_line(line) for line in islice(data.splitlines(), _LINES_TRIED) if line.strip()]
        values = [line for line in lines if not isinstance(line, Refused)]
        return values if 2 * len(values) > len(lines) else []


def opened(record: Any) -> Any:
    """The record. Raises Refused for a line that could not be read."""
    if isinstance(record, Refused):
        raise record
    return record


def _line(line: bytes) -> Any:
    try:
        return _loads(line)
    except Refused as refused:
        return refused


def _loads(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        # NaN and Infinity are what Python's json writes for request_rate inf; orjson, rightly, refuses them.
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise Refused(Rule.UNREADABLE, f"is not JSON: {reason}") from None
