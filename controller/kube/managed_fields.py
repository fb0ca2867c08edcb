"""Leaving `managedFields` out before an object is decoded: half of a Pod's bytes, which most projections never read.

A decoder looks at every byte that it skips. `bytes.find` leaps, so the list is cut out first where the projection has
no place for it. Nothing is parsed for that, and yet nothing else can be lost:

* `,"managedFields":[` cannot begin inside a string, because a quote there has a backslash before it.
* The list ends at its first `]`, or the cut shows: where that one belongs to a string, the rest has an odd number of
  quotes, and cannot be decoded. Where another list begins before it, nothing is cut.

So whoever decodes what is left, and on a failure the whole, gets the same object as from the whole alone, except that a
fault inside managedFields goes unseen. Of an object that has not arrived completely something is missing after the cut,
too, unless it stops within a string.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")

_BEGIN = b',"managedFields":['
_LIST = b"["
_END = b"]"

_WITHOUT_MEMBERS = (
    inspect.NoneType,
    inspect.BoolType,
    inspect.IntType,
    inspect.FloatType,
    inspect.DecimalType,
    inspect.StrType,
    inspect.BytesType,
    inspect.DateTimeType,
    inspect.EnumType,
    inspect.LiteralType,
)
_WITH_ITEMS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)


def without_managed_fields(data: bytes | bytearray) -> bytes | bytearray | None:
    """The same bytes without the first such list; None where none can be cut out. See the module's contract."""
    begin = data.find(_BEGIN)
    if begin < 0:
        return None
    inside = begin + len(_BEGIN)
    end = data.find(_END, inside)
    return None if end < 0 or data.find(_LIST, inside, end) >= 0 else data[:begin] + data[end + 1 :]


def past_managed_fields(decode: Callable[[bytes | bytearray], T], type_: type) -> Callable[[bytes | bytearray], T]:
    """`decode`, a decoder of what is read as `type_`, made to pass over the list where nobody reads it. What it gives
    and raises stays the same, but for a fault inside the list."""
    if may_read_managed_fields(type_):
        return decode

    def decode_short(data: bytes | bytearray) -> T:
        if (short := without_managed_fields(data)) is not None:
            try:
                return decode(short)
            except (msgspec.DecodeError, RecursionError):
                pass  # either the cut or the object is wrong
        return decode(data)

    return decode_short


def may_read_managed_fields(type_: type) -> bool:
    """Whether a projection has a place for the list, at any depth, or refuses what it has no place for; also when it
    takes any JSON somewhere."""
    return _may_read(inspect.type_info(type_), set())


def _may_read(info: inspect.Type, seen: set[type]) -> bool:
    if isinstance(info, _WITHOUT_MEMBERS):
        return False
    if isinstance(info, _WITH_ITEMS):
        return _may_read(info.item_type, seen)
    if isinstance(info, inspect.TupleType):
        return any(_may_read(item, seen) for item in info.item_types)
    if isinstance(info, inspect.UnionType):
        return any(_may_read(member, seen) for member in info.types)
    if isinstance(info, inspect.DictType):
        return _is_list(info.value_type) or _may_read(info.value_type, seen)  # any key is one of its keys
    if isinstance(info, inspect.StructType | inspect.DataclassType):
        if info.cls in seen:
            return False
        seen.add(info.cls)
        if isinstance(info, inspect.StructType) and info.forbid_unknown_fields:
            return True
        return any(_is_the_list(field) or _may_read(field.type, seen) for field in info.fields)
    return True  # anything at all, or a type that is not looked into


def _is_list(info: inspect.Type) -> bool:
    if isinstance(info, inspect.UnionType):
        return any(_is_list(member) for member in info.types)
    if isinstance(info, inspect.StructType):
        return info.array_like
    return isinstance(info, (*_WITH_ITEMS, inspect.TupleType))


def _is_the_list(field: Any) -> bool:
    return str(field.encode_name) == "managedFields"
