"""Leaving `managedFields` out before an object is decoded: half of a Pod's bytes, which most projections never read.

A decoder looks at every byte that it skips. `bytes.find` leaps, so the list is cut out first where the projection has
no place for it. Nothing is parsed for that, and yet nothing else can be lost:

* `,"managedFields":[` cannot begin inside a string, because a quote there has a backslash before it.
* The list ends at its first `]`, or the cut shows. Where that one belongs to a string, the rest has an odd number of
  quotes; where it belongs to a list within, the rest has a bracket too many. Neither can be decoded.

So whoever decodes what is left, and on a failure the whole, gets the same object as from the whole alone, except that a
fault inside managedFields goes unseen.
"""

from __future__ import annotations

from typing import Any

from msgspec import inspect

_BEGIN = b',"managedFields":['
_END = b"]"

_WITHOUT_MEMBERS = (
    inspect.NoneType,
    inspect.BoolType,
    inspect.IntType,
    inspect.FloatType,
    inspect.StrType,
    inspect.BytesType,
    inspect.DateTimeType,
    inspect.EnumType,
    inspect.LiteralType,
)
_WITH_ITEMS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)


def without_managed_fields(data: bytes | bytearray) -> bytes | bytearray | None:
    """The same bytes without the first such list; None where there is none. See the module's contract."""
    begin = data.find(_BEGIN)
    if begin < 0:
        return None
    end = data.find(_END, begin + len(_BEGIN))
    return None if end < 0 else data[:begin] + data[end + 1 :]


def may_read_managed_fields(type_: type) -> bool:
    """Whether a projection has a place for the list, at any depth; also when it takes any JSON somewhere."""
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
        return _may_read(info.value_type, seen)
    if isinstance(info, inspect.StructType):
        if info.cls in seen:
            return False
        seen.add(info.cls)
        return any(_is_the_list(field) or _may_read(field.type, seen) for field in info.fields)
    return True  # anything at all, or a type of the caller's own


def _is_the_list(field: Any) -> bool:
    return str(field.encode_name) == "managedFields"
