"""Who wrote the counts of a ModelDeployment: read from the API server's own history of the object. Pure.

A history is every stored state of one object, oldest first, as a watch or `ApiServer.history` tells it; an object
recreated under the same name begins a new life. Nothing that a controller says of itself is believed: a count was
written by the field manager that owns it afterwards, and a scaler was allowed to write it when the object already
carried its name and its term before the write, still carries both, and notes the new counts beside them.

What this proves: at any moment at most one scaler, under one term, could write, and every count came from that one or
from somebody who is no scaler. What it cannot see: two processes that use the same term. A process uses only a term
that it wrote itself, which `claims` and `writes` let a test compare with the server's request log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.api import BOUND_BY_ANNOTATION, FIELD_MANAGER, TERM_ANNOTATION, WRITTEN_ANNOTATION

_ROLE_KEY = re.compile(r'k:\{"name":"([^"\\]+)"\}')


@dataclass(frozen=True, slots=True)
class Holding:
    """The binding that an object carries: `bound-by` and `term`, verbatim; empty where absent."""

    bound_by: str
    term: str


@dataclass(frozen=True, slots=True)
class CountWrite:
    """One change of counts. `problem` is why a scaler was not allowed to make it; empty: it was, or it is no scaler."""

    resource_version: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    manager: str
    holding: Holding
    problem: str

    @property
    def ours(self) -> bool:
        """A scaler made it."""
        return self.manager == FIELD_MANAGER


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that must not be, and the version that shows it first."""

    resource_version: str
    text: str

    def __str__(self) -> str:
        return f"{self.resource_version}: {self.text}"


@dataclass(frozen=True, slots=True)
class Audit:
    """What a history tells. `claims`: each binding in the order in which it was taken, with its resourceVersion."""

    writes: tuple[CountWrite, ...]
    claims: tuple[tuple[str, Holding], ...]
    problems: tuple[Problem, ...]
    effective_writers: int

    @property
    def foreign(self) -> tuple[CountWrite, ...]:
        """Changes by others than scalers: people, GitOps tools, other autoscalers."""
        return tuple(write for write in self.writes if not write.ours)


def audit(history: Iterable[Mapping[str, Any]]) -> Audit:
    """Read a history, oldest state first."""
    writes: list[CountWrite] = []
    claims: list[tuple[str, Holding]] = []
    problems: list[Problem] = []
    # Between two changes of the binding there is one reign; who wrote in it, and how often without being allowed to.
    most = strays = 0
    ruled = False
    before: Mapping[str, Any] | None = None
    for now in history:
        if before is not None and _uid(now) != _uid(before):
            before = None
        holding = _holding(now)
        previous = Holding("", "") if before is None else _holding(before)
        version = str(_metadata(now).get("resourceVersion", ""))
        if holding != previous:
            ruled, strays = False, 0
            if holding.bound_by:
                claims.append((version, holding))
            if fell := _fallen(now, previous, holding):
                problems.append(Problem(version, fell))
        if before is not None and _counts(now) != _counts(before):
            write = _write(before, now, version, holding, previous)
            writes.append(write)
            if write.problem:
                problems.append(Problem(version, write.problem))
            if write.ours:
                ruled, strays = ruled or not write.problem, strays + bool(write.problem)
                # A stray write is a second writer beside whoever held the target, also when that one wrote nothing.
                most = max(most, strays + 1 if strays else int(ruled))
        before = now
    return Audit(tuple(writes), tuple(claims), tuple(problems), most)


def effective_writers(history: Iterable[Mapping[str, Any]]) -> int:
    """The most scalers that wrote counts under one binding: 0 where none ever wrote, 1 where the fence held."""
    return audit(history).effective_writers


def _write(
    before: Mapping[str, Any], now: Mapping[str, Any], version: str, holding: Holding, previous: Holding
) -> CountWrite:
    old, new = _counts(before), _counts(now)
    changed = [role for role in new if role in old and old[role] != new[role]]
    noted = _annotation(now, WRITTEN_ANNOTATION)
    manager = _manager(now, changed) or (
        # Without managed fields the note tells: nobody else changes it.
        FIELD_MANAGER if noted != _annotation(before, WRITTEN_ANNOTATION) else ""
    )
    problem = ""
    if manager == FIELD_MANAGER:
        problem = _forbidden({role: new[role] for role in changed}, noted, holding, previous)
    return CountWrite(version, old, new, manager, previous, problem)


def _forbidden(counts: Mapping[str, int], noted: str, holding: Holding, previous: Holding) -> str:
    if not previous.bound_by or not previous.term:
        return "a count was written while no scaler held the target"
    if holding != previous:
        return "a count was written together with the binding"
    notes = noted.split(",")
    missing = [role for role, count in counts.items() if f"{role}={count}" not in notes]
    return f"the count of {', '.join(missing)} was written without a note ({noted or 'none'})" if missing else ""


def _fallen(now: Mapping[str, Any], previous: Holding, holding: Holding) -> str:
    """A term may only grow, and every claim takes a new one; giving the target back keeps it. What somebody else wrote
    into the annotations is not held against a scaler."""
    if any(manager != FIELD_MANAGER for manager in _annotators(now)):
        return ""
    old, new = _number(previous.term), _number(holding.term)
    if new < old:
        return f"the term fell from {previous.term} to {holding.term or 'nothing'}"
    if holding.bound_by and holding.bound_by != previous.bound_by and new == old and previous.term:
        return f"{holding.bound_by} took the target under the old term {holding.term}"
    return ""


def _manager(obj: Mapping[str, Any], roles: Iterable[str]) -> str:
    """The field manager that owns the counts of these roles: after a change of value there is one."""
    wanted = set(roles)
    owners = []
    for entry in _metadata(obj).get("managedFields") or ():
        spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        owned = spec.get("f:roles")
        if owned is None or entry.get("subresource"):
            continue
        names = {
            match[1]
            for key, fields in owned.items()
            if (match := _ROLE_KEY.fullmatch(key)) is not None and "f:replicas" in fields
        }
        if (names & wanted) or not owned:  # an empty set: the list is owned as a whole
            owners.append(str(entry.get("manager", "")))
    # Of several the one that has something to prove.
    return FIELD_MANAGER if FIELD_MANAGER in owners else next(iter(owners), "")


def _annotators(obj: Mapping[str, Any]) -> list[str]:
    """The field managers that own an annotation of the binding."""
    keys = {f"f:{BOUND_BY_ANNOTATION}", f"f:{TERM_ANNOTATION}"}
    return [
        str(entry.get("manager", ""))
        for entry in _metadata(obj).get("managedFields") or ()
        if keys & set(((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or ())
    ]


def _counts(obj: Mapping[str, Any]) -> dict[str, int]:
    roles = (obj.get("spec") or {}).get("roles") or ()
    return {role["name"]: int(role.get("replicas") or 0) for role in roles}


def _holding(obj: Mapping[str, Any]) -> Holding:
    return Holding(_annotation(obj, BOUND_BY_ANNOTATION), _annotation(obj, TERM_ANNOTATION))


def _annotation(obj: Mapping[str, Any], key: str) -> str:
    return str((_metadata(obj).get("annotations") or {}).get(key, ""))


def _metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata: Mapping[str, Any] = obj.get("metadata") or {}
    return metadata


def _uid(obj: Mapping[str, Any]) -> str:
    return str(_metadata(obj).get("uid", ""))


def _number(term: str) -> int:
    return int(term) if term.isdecimal() else 0
