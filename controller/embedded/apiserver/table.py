"""Table output (`as=Table;g=meta.k8s.io;v=v1`): what `kubectl get` prints, computed by the server.

The first column of custom resources is always the name. Cells of type `date` are ages at the server's own clock, text
cells print scalars plainly and anything else as JSON, an absent value is null. In a watch only the first event carries
the column definitions.
"""

from __future__ import annotations

from typing import Any

import orjson

from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.jsonpath import BadPath, find
from controller.embedded.apiserver.resources import Column, ServedVersion
from controller.embedded.apiserver.storage import Change, Event, Stored
from controller.embedded.apiserver.watch import bookmark_object, departed, frame
from controller.foundation import Clock, parse_time

TABLE_API_VERSION = "meta.k8s.io/v1"
_NAME = Column(
    "Name",
    path=".metadata.name",
    format="name",
    description="Name must be unique within a namespace. Is required when creating resources.",
)
_COLUMN_TEXT = "Custom resource definition column (in JSONPath format): "
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human_duration(seconds: float) -> str:
    """An age in the notation of Kubernetes: two units at most, fewer as it grows (`45s`, `3m20s`, `5h`, `2d4h`)."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(0, whole)
    # (below this many seconds, unit, its letter, smaller unit or 0, its letter)
    for limit, unit, letter, smaller, small_letter in (
        (2 * _MINUTE, 1, "s", 0, ""),
        (10 * _MINUTE, _MINUTE, "m", 1, "s"),
        (3 * _HOUR, _MINUTE, "m", 0, ""),
        (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
        (2 * _DAY, _HOUR, "h", 0, ""),
        (8 * _DAY, _DAY, "d", _HOUR, "h"),
        (2 * _YEAR, _DAY, "d", 0, ""),
        (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    ):
        if whole < limit:
            rest = whole % unit // smaller if smaller else 0
            return f"{whole // unit}{letter}" + (f"{rest}{small_letter}" if rest else "")
    return f"{whole // _YEAR}y"


def age(timestamp: Any, now: float) -> str:
    """The age of an RFC 3339 timestamp; `<unknown>` where there is none."""
    try:
        return human_duration(now - parse_time(timestamp))
    except (TypeError, ValueError):
        return "<unknown>"


class TableFormat:
    """Turns objects of one served version into tables and table rows. `include` is None, Metadata or Object."""

    def __init__(
        self, served: ServedVersion, columns: tuple[Column, ...], clock: Clock, include: str = "Metadata"
    ) -> None:
        self._served = served
        self._columns = (_NAME, *columns) if served.type.custom else columns
        self._clock = clock
        self._include = include
        self._headed = False

    def definitions(self) -> list[Object]:
        return [
            {
                "name": column.name,
                "type": "string" if column.type == "date" and not self._served.type.custom else column.type,
                "format": column.format,
                "description": column.description or (f"{_COLUMN_TEXT}{column.path}" if column.path else ""),
                "priority": column.priority,
            }
            for column in self._columns
        ]

    def table(self, objects: list[Object], metadata: Object) -> bytes:
        """A whole table of objects in the served version."""
        return orjson.dumps(self._table([self.row(obj) for obj in objects], metadata, headed=True))

    def row(self, obj: Object) -> Object:
        now = self._clock.now()
        row: Object = {"cells": [_cell(column, obj, now) for column in self._columns]}
        if self._include == "Metadata":
            row["object"] = partial_metadata(obj)
        else:
            row["object"] = obj if self._include == "Object" else None
        return row

    def _table(self, rows: list[Object], metadata: Object, *, headed: bool) -> Object:
        table: Object = {"kind": "Table", "apiVersion": TABLE_API_VERSION, "metadata": metadata}
        table["columnDefinitions"] = self.definitions() if headed else None
        table["rows"] = rows
        return table

    # -- as lines of a watch ---------------------------------------------------------------------------------------

    def line(self, change: Change, event: Event) -> bytes:
        left = change is Change.DELETED and event.change is not Change.DELETED
        return self._line(change.value, departed(event) if left else event.current.object)

    def added(self, stored: Stored) -> bytes:
        return self._line("ADDED", stored.object)

    def bookmark(self, resource_version: int, *, initial_end: bool = False) -> bytes:
        obj = bookmark_object(self._served, resource_version, initial_end=initial_end)
        return self._framed("BOOKMARK", [{"cells": None, "object": partial_metadata(obj)}], obj)

    def _line(self, kind: str, stored: Object) -> bytes:
        obj = self._served.view(stored)
        return self._framed(kind, [self.row(obj)], obj)

    def _framed(self, kind: str, rows: list[Object], obj: Object) -> bytes:
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        table = self._table(rows, metadata, headed=not self._headed)
        self._headed = True
        return frame(kind, orjson.dumps(table))


def partial_metadata(obj: Object) -> Object:
    """The object with nothing but its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": TABLE_API_VERSION, "metadata": obj["metadata"]}


def _cell(column: Column, obj: Object, now: float) -> Any:
    if column.compute is not None:
        return column.compute(obj, now)
    try:
        found = find(obj, column.path)
    except BadPath:
        return None
    value = found[0] if found else None
    if value is None:
        return None
    if column.type == "date":
        return age(value, now)
    if column.type == "string":
        return _text(value)
    if column.type == "boolean":
        return value if isinstance(value, bool) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return orjson.dumps(value).decode()


class PartialLines:
    """Watch lines that carry metadata only, shared by all watchers of one version."""

    def __init__(self, served: ServedVersion) -> None:
        self._served = served

    def line(self, change: Change, event: Event) -> bytes:
        key = ("partial", self._served.api_version, change)
        found = event.encoded.get(key)
        if found is None:
            left = change is Change.DELETED and event.change is not Change.DELETED
            obj = departed(event) if left else event.current.object
            found = event.encoded[key] = frame(change.value, orjson.dumps(partial_metadata(obj)))
        return found

    def added(self, stored: Stored) -> bytes:
        return frame("ADDED", orjson.dumps(partial_metadata(stored.object)))

    def bookmark(self, resource_version: int, *, initial_end: bool = False) -> bytes:
        obj = bookmark_object(self._served, resource_version, initial_end=initial_end)
        return frame("BOOKMARK", orjson.dumps(partial_metadata(obj)))
