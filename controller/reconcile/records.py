"""Decision records on disk: one file per scaler, one JSON object a line, appended and flushed at each decision.

A disk that fills up or goes away must not stop the scaling: the first failure of a row is logged. A file that
reaches its limit is set aside, one old file is kept.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol

import structlog

from controller.foundation import OperationFailed, split_key
from controller.planning import Record, encode_record

# A busy scaler's record is some 30 KB; this holds a few thousand decisions.
MAX_FILE_BYTES = 128 * 2**20
# A file's name has at most 255 bytes; namespace and name alone may have 316.
_MAX_STEM = 200

_log = structlog.get_logger(component="records")


class RecordSink(Protocol):
    """Takes records."""

    def write(self, record: Record) -> None:
        """Keep one record. Must not raise."""
        ...


class NoRecords:
    """Keeps nothing."""

    def write(self, record: Record) -> None:
        """Do nothing."""


class RecordDirectory:
    """Appends to `DIRECTORY/<namespace>_<name>.jsonl`. Raises OperationFailed when the directory cannot be made."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._failing: set[Path] = set()  # files whose failure was logged
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OperationFailed(f"--record {directory}: {error.strerror}") from None

    def path_of(self, scaler: str) -> Path:
        """The file of a scaler (`namespace/name`); neither part can hold an underscore, so no two share one. A name
        that is too long for a file ends in a digest instead."""
        namespace, name = split_key(scaler)
        stem = f"{namespace}_{name}"
        if len(stem) > _MAX_STEM:
            stem = f"{stem[:_MAX_STEM]}_{hashlib.sha256(scaler.encode()).hexdigest()[:16]}"
        return self._directory / f"{stem}.jsonl"

    def write(self, record: Record) -> None:
        """Append one line."""
        path = self.path_of(record.scaler)
        try:
            if path.exists() and path.stat().st_size > MAX_FILE_BYTES:
                path.replace(path.with_suffix(".old.jsonl"))
            with path.open("ab") as file:
                file.write(encode_record(record) + b"\n")
            self._failing.discard(path)
        except OSError as error:
            if path not in self._failing:
                _log.warning("cannot write decision records", file=str(path), error=error.strerror)
            self._failing.add(path)
