"""Small errors that every room may raise.

A `FieldError` names the field, what was found and the way out; a list of them is what validation returns.
`UsageError` ends a command with exit status 2, `OperationFailed` with 1; both print one line and no traceback.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class FieldError:
    """One finding of validation: `path` in dotted form with indices (`spec.roles[1].maxReplicas`), and a sentence."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class MdscalerError(Exception):
    """Base of the errors that end a command with one clear line."""

    exit_status = 1


class OperationFailed(MdscalerError):
    """Something outside went wrong: a server unreachable, a port in use, a run that failed."""

    exit_status = 1


class UsageError(MdscalerError):
    """The command line or an input file is wrong; the message says what and how to put it right."""

    exit_status = 2


def printable(text: str) -> str:
    """`text` on one line, as it may go to a terminal, a log or an encoder, whatever a file or a person put into it:
    everything else is escaped as JSON escapes it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def some_of(names: Sequence[str], most: int) -> str:
    """The first `most` names, and how many more there are: `a, b and 3 more`. A message must not grow with a fleet."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
