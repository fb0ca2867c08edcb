"""What the person who imports adds to the files: the identity they do not hold, and statements about the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from catalog.identity import Identity


class ColdTail(StrEnum):
    """What to do with a point whose tail shows kernels being compiled during the run."""

    FLAG = "flag"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """All optional. Statements never override a file: where both speak and differ, the row is refused."""

    identity: Identity | None = None
    # Serves rows that record no concurrency.
    concurrency: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    # The prefix cache was off, or prompts shared nothing, whatever the file suggests.
    all_misses: bool = False
    # Short names and mount paths of models → repositories.
    models: Mapping[str, str] = field(default_factory=dict)
    engine_version: str | None = None
    image: str | None = None
    run: str | None = None
    date: str | None = None
    cold_tail: ColdTail = ColdTail.FLAG
