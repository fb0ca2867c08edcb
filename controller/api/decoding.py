"""Watch lines into views that never fail for a damaged member.

A view is decoded fast and strictly first (`msgspec`, straight into slotted types). When the strict decoder refuses the
bytes, because some writer put a wrong type into a member that we read, `decode_view` reads the same bytes tolerantly:
the damaged member becomes its default, `malformed` of the view holds a finding for it, and the stream goes on. Tolerant
reading works member by member and without recursion over the whole text, so that a number out of range or
a nesting without end costs the top-level member that holds it and nothing else.

Raises `UndecodableObject` only for bytes that are no JSON object at all: then the stream itself is broken.

What a controller must do with a malformed view: use what is there for display, and change nothing on its evidence.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Self, TypeVar, cast

import msgspec

from controller.api.members import members_of
from controller.api.reading import read_member_tolerant
from controller.foundation import FieldError

V = TypeVar("V", bound=msgspec.Struct)

# More damage than this is one finding about the whole object, whose path is empty.
_MAX_FINDINGS = 64


class UndecodableObject(ValueError):
    """The bytes are no JSON object; the message says where."""


def decode_view(view: type[V], data: bytes | msgspec.Raw) -> V:
    """The view of one object, whatever is in it. Raises UndecodableObject for bytes that are no JSON object."""
    try:
        return cast("V", _decoder(view).decode(data))
    except (msgspec.DecodeError, RecursionError):
        return decode_tolerantly(view, bytes(data))


class Recoverable:
    """Mixin of views: what a cache asks for an object that the strict decoder refuses."""

    __slots__ = ()

    @classmethod
    def recover(cls, data: bytes) -> Self:
        """The view of a damaged object. Raises UndecodableObject for bytes that are no JSON object."""
        return cast("Self", decode_tolerantly(cast("type[msgspec.Struct]", cls), data))


def decode_tolerantly(view: type[V], data: bytes) -> V:
    """The slow way of `decode_view`: what can be read, with the rest named in `malformed`."""
    parts = split_members(data)
    members: dict[str, object] = {}
    problems: list[FieldError] = []
    for field in members_of(view):
        raw = parts.get(field.json_name, b"null")
        if raw == b"null":
            continue
        if isinstance(field.default, msgspec.Raw):
            members[field.name] = msgspec.Raw(raw)
            continue
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            problems.append(FieldError(field.json_name, f"is no readable JSON: {error}"))
            continue
        read, found = read_member_tolerant(field, value)
        problems += found
        if read is not None:
            members[field.name] = read
    return view(**members, malformed=_bounded(problems))


def _bounded(problems: list[FieldError]) -> tuple[FieldError, ...]:
    if len(problems) <= _MAX_FINDINGS:
        return tuple(problems)
    rest = len(problems) - _MAX_FINDINGS
    return (*problems[:_MAX_FINDINGS], FieldError("", f"and {rest} more findings"))


@cache
def _decoder(view: type[msgspec.Struct]) -> msgspec.json.Decoder[msgspec.Struct]:
    return msgspec.json.Decoder(view)


_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]', re.DOTALL)


def split_members(data: bytes) -> dict[str, bytes]:
    """The top-level members of a JSON object as the bytes they were written as, without looking into them.

    The last of equal names wins, as everywhere. Raises UndecodableObject."""
    members: dict[str, bytes] = {}
    key: str | None = None
    depth, start = 0, -1
    for token in _TOKEN.finditer(data):
        text = token.group()
        if text in (b"{", b"["):
            depth += 1
            if depth == 1 and (text == b"[" or data[: token.start()].strip()):
                break
        elif depth == 1 and text == b":":
            start = token.end()
        elif depth == 1 and text in (b",", b"}"):
            if key is not None and start >= 0:
                members[key] = data[start : token.start()].strip()
            key, start = None, -1
            if text == b"}":
                if data[token.end() :].strip():
                    break
                return members
        elif text in (b"}", b"]"):
            depth -= 1
            if depth <= 0:
                break
        elif depth == 1 and start < 0:
            key = _text(text)
    raise UndecodableObject(f"no JSON object: {data[:64]!r}")


def _text(quoted: bytes) -> str:
    try:
        return msgspec.json.decode(quoted, type=str)
    except msgspec.DecodeError:
        return ""
