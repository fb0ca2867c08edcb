"""GPUStack benchmark-runner, which wraps guidellm.

`<name>.json` is guidellm's report without the lists of requests, `<name>.full.json` the same with them; an auto-tune
run adds `…__p{i}.json` per trial (each a report), and `…__ramp.json` and `…__curve.json`, which describe the search
and are no measurements. Its "peak concurrent" counts more than the limit and is never read (capacity-data §2.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from catalog.importers.candidate import Measurement
from catalog.importers.files import SourceFile
from catalog.importers.guidellm import read_report
from catalog.importers.options import ImportOptions
from catalog.importers.rules import Refusal, Refused, Rule

TOOL: Final = "gpustack benchmark-runner"
_SEARCH: Final = ("__ramp", "__curve")


def read(file: SourceFile, options: ImportOptions) -> Iterator[Measurement | Refusal]:
    """Every benchmark of one report, judged. Raises Refused for traces of the search and for other files."""
    stem = file.path.name.removesuffix(".json").removesuffix(".full")
    if stem.endswith(_SEARCH):
        raise Refused(Rule.NOT_A_POINT, "a trace of the auto-tune search: import the __p*.json trials")
    document = file.json()
    if isinstance(document, dict) and any(key in document for key in ("bracket_reason", "slo_bracket", "stop_reason")):
        raise Refused(Rule.NOT_A_POINT, "a trace of the auto-tune search: import the __p*.json trials")
    yield from read_report(file, options, TOOL)
