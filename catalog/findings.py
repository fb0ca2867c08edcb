"""Reading plain values out of a document while collecting every finding instead of stopping at the first.

Each reader returns the typed value or None and records a `FieldError` whose path is dotted with indices. Findings are
bounded, because a hostile document could hold a mistake in every byte.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from controller.foundation import FieldError, describe, parse_quantity, printable

# Nobody reads the thousand-and-first mistake, and each costs memory.
MAX_FINDINGS: Final = 1000
# Of many unknown fields in one mapping this many are named; the rest are counted.
MAX_UNKNOWN_NAMED: Final = 20


E = TypeVar("E", bound=StrEnum)
# A day, and what a tool writes after it.
DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].{1,40})?")


class TooManyFindings(Exception):
    """The bound was reached; what was collected so far stands."""


class Findings:
    """The collector. Not thread-safe; one per validation."""

    def __init__(self) -> None:
        self._items: list[FieldError] = []

    def add(self, path: str, message: str) -> None:
        """Record a finding. Raises TooManyFindings when the bound is reached."""
        # Both may quote the document: a key, a model's name.
        self._items.append(FieldError(printable(path), printable(message)))
        if len(self._items) >= MAX_FINDINGS:
            raise TooManyFindings

    def sorted(self) -> list[FieldError]:
        """All findings by path (indices in numeric order), then message."""
        return sorted(self._items, key=lambda item: (_natural(item.path), item.message))

    def __len__(self) -> int:
        return len(self._items)

    def mapping(self, value: object, path: str, known: Collection[str]) -> dict[str, object] | None:
        """`value` as a mapping with known fields only; unknown ones are findings with the nearest known name."""
        if not isinstance(value, dict):
            self.add(path, f"must be a mapping, found {describe(value)}")
            return None
        unknown = sorted(key for key in value if key not in known)
        for key in unknown[:MAX_UNKNOWN_NAMED]:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known fields: {', '.join(sorted(known))}"
            self.add(_join(path, _clip(key)), f"unknown field; {hint}")
        if len(unknown) > MAX_UNKNOWN_NAMED:
            self.add(path, f"{len(unknown) - MAX_UNKNOWN_NAMED} more unknown fields")
        return value

    def required(self, mapping: Mapping[str, object], name: str, path: str) -> object | None:
        """The value of a field that must be there; null counts as missing."""
        value = mapping.get(name)
        if value is None:
            self.add(_join(path, name), "is required")
        return value

    def text(self, value: object, path: str, *, longest: int) -> str | None:
        """A non-empty single string."""
        if not isinstance(value, str) or not value.strip():
            self.add(path, f"must be a non-empty string, found {describe(value)}")
            return None
        if len(value) > longest:
            self.add(path, f"has {len(value)} characters; the limit is {longest}")
            return None
        try:
            value.encode()
        except UnicodeEncodeError:
            self.add(path, "holds half of a surrogate pair: save the document as UTF-8 text")
            return None
        return value

    def optional_text(self, raw: Mapping[str, object], name: str, path: str, *, longest: int = 512) -> str | None:
        """A string field that may be absent or null."""
        value = raw.get(name)
        return None if value is None else self.text(value, _join(path, name), longest=longest)

    def optional_date(self, raw: Mapping[str, object], path: str) -> str | None:
        """The field `date`, which may be absent: a text that starts with a day."""
        found = self.optional_text(raw, "date", path)
        if found is not None and not DATE.fullmatch(found):
            self.add(f"{path}.date", f"must start with a date such as 2026-01-21, found {describe(found)}")
            return None
        return found

    def choice(self, kind: type[E], value: object, path: str) -> E | None:
        """A member of an enumeration; None passes in silence, because a missing field is its reader's finding."""
        if value is None:
            return None
        try:
            return kind(value if isinstance(value, str) else "")
        except ValueError:
            self.add(path, f"must be one of {', '.join(kind)}, found {describe(value)}")
            return None

    def items(self, value: object, path: str, longest: int) -> list[object]:
        """The entries of a list that may be absent; empty, with a finding, where it is no list or too long."""
        if value is None:
            return []
        if not isinstance(value, list):
            self.add(path, f"must be a list, found {describe(value)}")
            return []
        if len(value) > longest:
            self.add(path, f"has {len(value):,} entries; the limit is {longest:,}: split the catalog")
            return []
        return value

    def whole(self, value: object, path: str, *, largest: int) -> int | None:
        """A whole number from 1 to `largest`."""
        if isinstance(value, bool) or not isinstance(value, int):
            if not (isinstance(value, float) and value.is_integer()):
                self.add(path, f"must be a whole number, found {describe(value)}")
                return None
            value = int(value)
        if not 1 <= value <= largest:
            shown = value if abs(value) < 10**18 else "a far larger number"
            self.add(path, f"must be between 1 and {largest}, found {shown}")
            return None
        return value

    def positive(self, value: object, path: str, *, largest: float) -> float | None:
        """A finite number above zero, written as a quantity string or a plain number."""
        number: float
        if isinstance(value, float):
            number = value
        else:
            try:
                number = float(parse_quantity(value))
            except ValueError as error:
                self.add(path, str(error))
                return None
        if not math.isfinite(number):
            self.add(path, f"must be finite, found {number}")
            return None
        if number <= 0:
            self.add(path, f"must be above zero, found {number:g}")
            return None
        if number > largest:
            self.add(path, f"must be at most {largest:g}, found {number:g}: check the unit")
            return None
        return number


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _clip(text: str) -> str:
    return text if len(text) <= 64 else f"{text[:64]}…"


def _natural(path: str) -> tuple[tuple[int, int | str], ...]:
    return tuple(
        (0, int(piece)) if piece.isascii() and piece.isdigit() and len(piece) < 10 else (1, piece)
        for piece in path.replace("]", "").replace("[", ".").split(".")
    )
