"""The annotations by which a target is bound: who holds it, under which term, and what was found and last written.

Readers return the value, None where the annotation is absent, or an `AnnotationProblem` for one that cannot be read.
They never raise: a person may have edited the annotation, and that is a fact to report, not a crash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from controller.api.contract import (
    BOUND_BY_ANNOTATION,
    FOUND_ANNOTATION,
    MAX_REPLICAS,
    RETIREMENT_RETRY_ANNOTATION,
    TERM_ANNOTATION,
    WRITTEN_ANNOTATION,
)
from controller.foundation import ObjectMeta, describe

_TERM = re.compile(r"[0-9]{1,19}")
_COUNT = re.compile(r"([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)=([0-9]{1,4})")
_MAX_TERM = 2**63 - 1


@dataclass(frozen=True, slots=True)
class AnnotationProblem:
    """An annotation that is present and cannot be read."""

    key: str
    value: str
    expected: str

    def __str__(self) -> str:
        return f"annotation {self.key} must be {self.expected}, found {describe(self.value)}: correct or remove it"


@dataclass(frozen=True, slots=True)
class BoundBy:
    """The scaler that holds a target."""

    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.name}/{self.uid}"


@dataclass(frozen=True, slots=True)
class RetirementRetry:
    """A person's order to retry an aborted retirement."""

    role: str
    ordinal: int
    token: str

    def __str__(self) -> str:
        return f"{self.role}:{self.ordinal}:{self.token}"


def read_bound_by(meta: ObjectMeta) -> BoundBy | AnnotationProblem | None:
    """Who holds the target."""
    value = meta.annotation(BOUND_BY_ANNOTATION)
    if value is None:
        return None
    name, separator, uid = value.partition("/")
    if not separator or not name or not uid or "/" in uid:
        return AnnotationProblem(BOUND_BY_ANNOTATION, value, "<scaler name>/<scaler uid>")
    return BoundBy(name, uid)


def read_term(meta: ObjectMeta) -> int | AnnotationProblem | None:
    """The fencing term last written to the target."""
    value = meta.annotation(TERM_ANNOTATION)
    if value is None:
        return None
    if _TERM.fullmatch(value) is None or int(value) > _MAX_TERM:
        return AnnotationProblem(TERM_ANNOTATION, value, "a decimal number")
    return int(value)


def read_written(meta: ObjectMeta) -> dict[str, int] | AnnotationProblem | None:
    """The counts last written by a scaler, by role. The order in the annotation does not matter."""
    return _read_counts(meta, WRITTEN_ANNOTATION)


def read_found(meta: ObjectMeta) -> dict[str, int] | AnnotationProblem | None:
    """The counts that stood there when the target was bound, by role; gone with the first count written."""
    return _read_counts(meta, FOUND_ANNOTATION)


def _read_counts(meta: ObjectMeta, key: str) -> dict[str, int] | AnnotationProblem | None:
    value = meta.annotation(key)
    if value is None:
        return None
    counts: dict[str, int] = {}
    for part in value.split(","):
        match = _COUNT.fullmatch(part)
        if match is None or match[1] in counts or not 1 <= int(match[2]) <= MAX_REPLICAS:
            return AnnotationProblem(key, value, "counts by role such as decode=3,prefill=2")
        counts[match[1]] = int(match[2])
    return counts


def read_retirement_retry(meta: ObjectMeta) -> RetirementRetry | AnnotationProblem | None:
    """The retry order on a ModelDeployment; exactly three parts."""
    value = meta.annotation(RETIREMENT_RETRY_ANNOTATION)
    if value is None:
        return None
    parts = value.split(":")
    if len(parts) != 3 or not all(parts) or _TERM.fullmatch(parts[1]) is None:
        return AnnotationProblem(RETIREMENT_RETRY_ANNOTATION, value, "<role>:<ordinal>:<token>")
    return RetirementRetry(parts[0], int(parts[1]), parts[2])


def format_written(counts: Mapping[str, int]) -> str:
    """`decode=3,prefill=2`: counts by role, sorted by name, so that equal counts are equal text."""
    return ",".join(f"{role}={counts[role]}" for role in sorted(counts))
