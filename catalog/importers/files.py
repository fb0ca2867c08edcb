"""Reading result files: JSON with or without NaN, JSON lines, text. Everything that goes wrong is a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import orjson

from catalog.importers.rules import Refused, Rule
from catalog.importers.secrets import may_hold_secrets, secrets_of
from controller.foundation import printable, read_file

# Reports with per-request lists reach tens of megabytes; beyond this it is not a report.
MAX_FILE_BYTES: Final = 256 * 1024 * 1024


# Tables and pages that tools write beside their JSON.
_OTHER_REPORTS: Final = (".csv", ".yaml", ".yml", ".html", ".txt", ".log", ".md")
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
        self._data = b""

    def read(self) -> bytes:
        """The content. Raises Refused(Unreadable)."""
        try:
            self._data = read_file(self.path, MAX_FILE_BYTES)
        except OSError as error:
            raise Refused(Rule.UNREADABLE, f"cannot be read: {error.strerror or error}") from None
        for magic, what in _PACKED.items():
            if self._data.startswith(magic):
                raise Refused(Rule.UNREADABLE, f"is a {what} file: unpack it")
        return self._data

    @property
    def secrets(self) -> set[str]:
        """Values in what was read so far that no refusal may repeat."""
        return secrets_of(self.documents) if may_hold_secrets(self._data) else set()

    def text(self) -> str:
        """The content as UTF-8 text. Raises Refused(Unreadable)."""
        try:
            return self.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Refused(Rule.UNREADABLE, f"byte {error.start} is not UTF-8") from None

    def json(self) -> Any:
        """The one JSON value of the file. Raises Refused."""
        self.documents = [self._loads(self.read(), "")]
        return self.documents[0]

    def json_objects(self) -> list[tuple[str, Any]]:
        """(label, value) of every record in a JSON file: one object, a list of them, or one per line. In a file of
        lines, one that cannot be read (the last one of a run that was killed) is a Refused in place of its value, for
        `opened`. Raises Refused for the file."""
        data = self.read()
        try:
            value = self._loads(data, "")
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

    def _loads(self, data: bytes, where: str) -> Any:
        try:
            return _loads(data, where)
        except Refused as refused:
            if self.path.suffix.lower() not in _OTHER_REPORTS:
                raise
            raise Refused(
                refused.rule,
                f"{refused.detail}; import the JSON that the tool writes beside its {self.path.suffix} file",
            ) from None


def opened(record: Any) -> Any:
    """The record. Raises Refused for a line that could not be read."""
    if isinstance(record, Refused):
        raise record
    return record


def _line(line: bytes) -> Any:
    try:
        return _loads(line, "")
    except Refused as refused:
        return refused


def _loads(data: bytes, where: str) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        # NaN and Infinity are what Python's json writes for request_rate inf; orjson, rightly, refuses them.
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise Refused(Rule.UNREADABLE, f"{where}is not JSON: {reason}") from None
