"""Telling a speculative run by its path. Most tools do not record speculative decoding, and its results differ from the
plain engine's by up to two times either way; people record it in the name of the folder or file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from catalog.importers.rules import Refused, Rule

_WORDS: Final = frozenset(
    ("eagle", "eagle2", "eagle3", "mtp", "medusa", "speculative", "specdec", "nextn", "ngram", "dflash")
)
# The file and the two folders above it; higher up, a path says where things lie and not what they are.
_DEPTH: Final = 3


def refuse_speculative_path(path: Path) -> None:
    """Raises Refused where the file or a folder near it is named after a speculative method."""
    for part in path.parts[-_DEPTH:]:
        # spec-decode and spec_decoding are one word, spec-none is none.
        words = set(re.split(r"[^a-z0-9]+", re.sub(r"spec[-_ ]?dec(ode|oding)?(?![a-z])", "specdec", part.lower())))
        found = sorted(words & _WORDS)
        if found:
            raise Refused(
                Rule.SPECULATIVE,
                f"the path names {found[0]} ({part}): if the run was plain, move the file out of that folder",
            )
