"""What is true of each member of an API object, said once.

A type is a `msgspec.Struct` whose fields are annotated with a `Member`: a description, the values allowed, how a list
is keyed. Three readers use that one source, so that they cannot disagree: the parser (`reading`), the CRD schema
(`schema`) and the reference documentation (`reference`).

`members_of(type)` gives the fields in declaration order with their JSON names, shapes and defaults.
"""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, StrEnum, auto
from functools import cache
from typing import Annotated, ClassVar

import msgspec

Number = int | Decimal | str  # a bound; a string is exact decimal notation


@dataclass(frozen=True, slots=True)
class CelRule:
    """One rule in the Common Expression Language that the API server checks on write."""

    rule: str
    message: str
    field_path: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """What one member means and which values it may have. Bounds are inclusive unless named `above` or `below`."""

    description: str = ""
    at_least: Number | None = None
    at_most: Number | None = None
    above: Number | None = None
    below: Number | None = None
    pattern: str = ""
    says: str = ""  # the allowed form in words, for error messages: "a DNS label …"
    min_length: int = 0
    max_length: int = 0
    min_items: int = 0
    max_items: int = 0
    options: tuple[str, ...] = ()  # the values allowed by the schema where the type is an open string
    required: bool = False  # required by the schema though the reader tolerates its absence
    keys: tuple[str, ...] = ()  # JSON names of the members that identify an element of a list
    later: str = ""  # a default that takes effect only when planning: never stored, so that "unset" stays visible
    rules: tuple[CelRule, ...] = ()


class TimeFormat(Enum):
    """How a time is written; in memory it is seconds since the Unix epoch."""

    SECONDS = auto()  # metav1.Time
    MICROSECONDS = auto()  # metav1.MicroTime: kept where a decision depends on it


# Seconds since the Unix epoch in memory, RFC 3339 in JSON.
Time = Annotated[float, TimeFormat.SECONDS]
MicroTime = Annotated[float, TimeFormat.MICROSECONDS]
# A foreign quantity: a view keeps it as written and converts it where it is used.
RawQuantity = str | int


class Form(Enum):
    """The shape of a JSON value as our types know it."""

    STRING = auto()
    INTEGER = auto()
    BOOLEAN = auto()
    QUANTITY = auto()
    TIME = auto()
    ENUM = auto()
    OBJECT = auto()
    LIST = auto()
    MAP = auto()
    ANY = auto()


@dataclass(frozen=True, slots=True)
class Shape:
    """One type, taken apart: its form, what it may hold, and the annotations that came with it."""

    form: Form
    member: Member
    python: type = object  # the Struct of an OBJECT, the StrEnum of an ENUM
    item: Shape | None = None  # of a LIST or MAP
    raw: bool = False  # a QUANTITY that stays as written
    time_format: TimeFormat = TimeFormat.SECONDS


@dataclass(frozen=True, slots=True)
class MemberOf:
    """One field of a type."""

    name: str
    json_name: str
    shape: Shape
    required: bool
    default: object = field(default=None)

    @property
    def member(self) -> Member:
        """What is declared about the field."""
        return self.shape.member


class ApiStruct(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base of everything that is part of an API object: frozen, camelCase in JSON.

    Untracked by the garbage collector: decoded values form trees, never cycles, and a cache of 100,000 of them would
    make every full collection scan millions of objects."""

    RULES: ClassVar[tuple[CelRule, ...]] = ()  # rules over several members of this object


_NO_MEMBER = Member()
# Names of Python fields that are no JSON members: what a tolerant reading had to leave out.
_INTERNAL = frozenset({"malformed"})


@cache
def members_of(struct: type[msgspec.Struct]) -> tuple[MemberOf, ...]:
    """The JSON members of a type in declaration order. Raises TypeError for a field whose type is not understood."""
    members = []
    for info in msgspec.structs.fields(struct):
        if info.name in _INTERNAL:
            continue
        default = info.default
        if info.default_factory is not msgspec.NODEFAULT:
            default = info.default_factory()
        required = default is msgspec.NODEFAULT
        members.append(
            MemberOf(
                name=info.name,
                json_name=info.encode_name,
                shape=shape_of(info.type),
                required=required,
                default=None if required else default,
            )
        )
    return tuple(members)


def shape_of(annotation: object) -> Shape:
    """Take a type annotation apart; `None` in a union only says that the member may be left out."""
    member, time_format = _NO_MEMBER, TimeFormat.SECONDS
    while True:
        if typing.get_origin(annotation) is Annotated:
            annotation, *extras = typing.get_args(annotation)
            for extra in extras:
                if isinstance(extra, Member):
                    member = extra
                elif isinstance(extra, TimeFormat):
                    time_format = extra
            continue
        if typing.get_origin(annotation) in (typing.Union, types.UnionType):
            options = [option for option in typing.get_args(annotation) if option is not types.NoneType]
            if len(options) == 1:
                annotation = options[0]
                continue
            if set(options) == {str, int}:
                return Shape(Form.QUANTITY, member, raw=True)
        break
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return Shape(Form.LIST, member, item=shape_of(arguments[0]))
    if origin is dict and arguments[0] is str:
        return Shape(Form.MAP, member, item=shape_of(arguments[1]))
    simple = {str: Form.STRING, int: Form.INTEGER, bool: Form.BOOLEAN, Decimal: Form.QUANTITY, float: Form.TIME}
    if isinstance(annotation, type):
        if annotation in simple:
            return Shape(simple[annotation], member, time_format=time_format)
        if issubclass(annotation, StrEnum):
            return Shape(Form.ENUM, member, python=annotation)
        if issubclass(annotation, msgspec.Struct):
            return Shape(Form.OBJECT, member, python=annotation)
    if annotation in (object, typing.Any, msgspec.Raw):
        return Shape(Form.ANY, member)
    raise TypeError(f"no JSON shape is known for the annotation {annotation!r}")
