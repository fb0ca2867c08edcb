"""Which repository a benchmark's model field means.

Benchmarks write a repository, a mount path, a snapshot directory of the hub cache, or their own short name. A
repository is taken as it is and a snapshot directory decodes to one; a mount path or a short name counts only through
a table, because `/models/DeepSeek-R1` may hold either of two checkpoints that differ in nothing but their date.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# (benchmark's short name, last directory of a mount path) → repository, for paths seen in official InferenceX rows.
# /models/DeepSeek-R1 is left out on purpose: rows of both R1 and R1-0528 use it.
_MOUNTS: Final[dict[tuple[str, str], str]] = {
    ("gptoss", "gpt-oss-120b"): "openai/gpt-oss-120b",
    ("dsr1", "deepseek-r1-0528-fp4-v2"): "nvidia/DeepSeek-R1-0528-FP4-V2",
}
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
# The hub cache names its folders models--<owner>--<name>.
_SNAPSHOT: Final = re.compile(r"(?:^|/)models--([A-Za-z0-9][\w.-]*?)--([A-Za-z0-9][\w.-]*)(?:/|$)", re.ASCII)
# First directories that make `x/y` a relative path rather than a repository.
_DIRECTORIES: Final = frozenset(
    ("models", "model", "mnt", "data", "workspace", "home", "root", "tmp", "opt", "checkpoints")
)


def repository(model: str, short_name: str | None = None, table: Mapping[str, str] | None = None) -> str | None:
    """The repository that `model` means, None where it cannot be told. `table` is the importing person's own: full
    model texts and short names → repositories."""
    table = table or {}
    if model in table:
        return table[model]
    snapshot = _SNAPSHOT.search(model)
    if snapshot:
        return f"{snapshot.group(1)}/{snapshot.group(2)}"
    if _REPOSITORY.fullmatch(model) and model.split("/", 1)[0].lower() not in _DIRECTORIES:
        return model
    if short_name is not None:
        if short_name in table:
            return table[short_name]
        return _MOUNTS.get((short_name, model.rstrip("/").rsplit("/", 1)[-1].lower()))
    return None
