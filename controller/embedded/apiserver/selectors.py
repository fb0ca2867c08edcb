"""Label and field selectors: the text of a query parameter becomes a predicate over an object.

Label selectors take the whole grammar (`a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`); `!=` and `notin`
also match objects without the label. Field selectors take `=`, `==` and `!=` over the fields that a resource offers;
any other field is a 400, as a typo must not select everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.embedded.apiserver.errors import Object, bad_request

_TERM = re.compile(
    r"""\s*(?:
        (?P<absent>!)\s*(?P<absent_key>[^\s,=!()]+)
      | (?P<set_key>[^\s,=!()]+)\s+(?P<set_op>in|notin)\s*\((?P<values>[^)]*)\)
      | (?P<key>[^\s,=!()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s,=!()]*)
      | (?P<present_key>[^\s,=!()]+)
    )\s*(?:,|$)""",
    re.VERBOSE,
)
_FIELD_TERM = re.compile(r"(?P<key>[^=!]+)(?P<op>==|=|!=)(?P<value>.*)")
FieldGetter = Callable[[Object], str]


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    values: frozenset[str] | None  # None: only presence counts
    wanted: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.values is None:
            return (value is not None) is self.wanted
        return (value is not None and value in self.values) is self.wanted


@dataclass(frozen=True, slots=True)
class Selector:
    """Labels and fields that an object must have; an empty selector matches everything."""

    labels: tuple[_Requirement, ...] = ()
    fields: tuple[tuple[FieldGetter, str, bool], ...] = ()
    name: str | None = None  # `metadata.name=x`, kept apart: it turns a scan into a look-up

    @property
    def is_empty(self) -> bool:
        return not self.labels and not self.fields

    def matches(self, obj: Object) -> bool:
        """Whether `obj` (in the version that the selector was parsed for) is selected."""
        if self.labels:
            labels = obj["metadata"].get("labels") or {}
            if not all(requirement.matches(labels) for requirement in self.labels):
                return False
        return all((getter(obj) == value) is wanted for getter, value, wanted in self.fields)


NO_SELECTOR = Selector()


def parse_labels(text: str) -> tuple[_Requirement, ...]:
    """The requirements of a label selector. Raises ApiError 400 for a text outside the grammar."""
    requirements = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None or match.end() == position:
            raise bad_request(f"unable to parse requirement: found {text[position:]!r} in the label selector {text!r}")
        position = match.end()
        if match["absent"]:
            requirements.append(_Requirement(match["absent_key"], None, wanted=False))
        elif match["set_op"]:
            values = frozenset(value.strip() for value in match["values"].split(","))
            requirements.append(_Requirement(match["set_key"], values, wanted=match["set_op"] == "in"))
        elif match["op"]:
            requirements.append(_Requirement(match["key"], frozenset((match["value"],)), wanted=match["op"] != "!="))
        else:
            requirements.append(_Requirement(match["present_key"], None, wanted=True))
    return tuple(requirements)


def parse_selector(labels: str, fields: str, offered: Mapping[str, FieldGetter]) -> Selector:
    """The selector of a request. `offered` maps the field labels of the resource to their getters."""
    terms = []
    name = None
    for term in filter(None, (part.strip() for part in fields.split(","))):
        match = _FIELD_TERM.fullmatch(term)
        if match is None:
            raise bad_request(f"invalid selector: \"{fields}\"; can't understand '{term}'")
        getter = offered.get(match["key"])
        if getter is None:
            raise bad_request(_unknown_field(match["key"], offered))
        wanted = match["op"] != "!="
        terms.append((getter, match["value"], wanted))
        if match["key"] == "metadata.name" and wanted:
            name = match["value"]
    return Selector(parse_labels(labels) if labels else (), tuple(terms), name)


def _unknown_field(label: str, offered: Mapping[str, FieldGetter]) -> str:
    if set(offered) <= {"metadata.name", "metadata.namespace"}:
        known = ", ".join(f'"{name}"' for name in offered)
        return f'"{label}" is not a known field selector: only {known}'
    return f"field label not supported: {label}"


def field_getter(path: str) -> FieldGetter:
    """Reads a dotted path as the text that a field selector compares; an absent field is the empty text."""
    names = tuple(path.strip(".").split("."))

    def read(obj: Object) -> str:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return read


def selects(selector: Object | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a LabelSelector object selects these labels. An absent or empty selector selects everything, and so does
    any selector where there is nothing to have labels (None)."""
    if not selector or labels is None:
        return True
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_fulfils(term, labels) for term in selector.get("matchExpressions") or ())


def _fulfils(term: Object, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(term.get("key", "")), term.get("values") or ()
    match term.get("operator"):
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False
