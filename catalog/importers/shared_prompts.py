"""Whether the configuration that AIPerf or GenAI-Perf writes beside its results sent prompts that share tokens.

Both tools generate a fixed number of prompts and send them again until the run ends, can put a pool of prefixes before
them, hold conversations of several turns and replay traces. With the prefix cache on, which is how engines start, such
prompts cost a fraction of what an all-miss run measures; the file cannot say whether it was on, so the person must.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from catalog.importers.fields import Record, number
from catalog.importers.options import ImportOptions
from catalog.importers.rules import Refused, Rule

# Configurations nest five levels; deeper is something else.
_DEPTH: Final = 8
_POOLS: Final = ("prefix_prompt", "prefix_prompts")
_POOL_SIZES: Final = ("num", "pool_size", "count")
_LENGTHS: Final = ("shared_system_prompt_length", "shared_system_length", "num_prefix_prompts")
_TURNS: Final = ("turn", "turns")
_KINDS: Final = ("custom_dataset_type", "dataset_type", "public_dataset")


def refuse_shared_prompts(config: Any, completed: float | None, options: ImportOptions) -> None:
    """Raises Refused where the configuration says that prompts shared tokens, and nobody stated that none was cached.
    `completed` counts the requests of the run."""
    if options.all_misses:
        return
    for record in _records(config, _DEPTH):
        found = _shared(record, completed)
        if found is not None:
            raise Refused(Rule.CACHE_HITS, f"{found}: add --all-misses if the prefix cache was off")


def _records(value: Any, depth: int) -> Iterator[Record]:
    if depth == 0:
        return
    if isinstance(value, Mapping):
        yield value
    for entry in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _records(entry, depth - 1)


def _shared(record: Record, completed: float | None) -> str | None:
    for name in _POOLS:
        pool = record.get(name)
        if isinstance(pool, Mapping):
            sizes = [size for key in _POOL_SIZES if (size := number(pool, key)) is not None]
            if (number(pool, "length") or 0) > 0 and (not sizes or max(sizes) > 0):
                return "prompts share prefixes"
    if any(not isinstance(record.get(name), Mapping) and (number(record, name) or 0) > 0 for name in _LENGTHS):
        return "prompts share prefixes"
    for name in _TURNS:
        turns = record.get(name)
        if isinstance(turns, Mapping) and (number(turns, "mean") or 0) > 1:
            return "conversations have several turns"
    for name in _KINDS:
        kind = str(record.get(name) or "").lower()
        if "trace" in kind or "multi_turn" in kind:
            return f"the prompts are those of a trace or of conversations ({name})"
    entries = number(record, "num_dataset_entries")
    if entries and completed is not None and completed > entries:
        return f"{entries:.0f} prompts were sent {completed:.0f} times"
    return None
