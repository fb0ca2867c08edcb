"""NVIDIA GenAI-Perf, AIPerf's predecessor: `profile_export_genai_perf.json` and `.csv`.

The same metrics in another order of statistics, no total throughput (input is requests/s × mean input length) and the
concurrency in `input_config` or in the folder name `<model>-openai-chat-concurrency<N>`. `profile_export.json` is Perf
Analyzer's raw log in nanoseconds (capacity-data §2.5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from catalog.importers.candidate import Candidate, Measurement, judge
from catalog.importers.fields import Record, section
from catalog.importers.files import SourceFile
from catalog.importers.models import repository
from catalog.importers.options import ImportOptions
from catalog.importers.partial import PartialIdentity
from catalog.importers.perf_metrics import Metrics, latency, metrics_of_csv, metrics_of_json, scalar
from catalog.importers.rules import Refusal, Refused, Rule
from catalog.importers.shared_prompts import refuse_shared_prompts
from catalog.importers.speculation import refuse_speculative_path
from catalog.schema import Source

TOOL: Final = "GenAI-Perf"
_FOLDER: Final = re.compile(r"concurrency[-_]?([0-9]+)")
# Where a configuration nests its stimulus; deeper nesting is something else.
_DEPTH: Final = 5
_LARGEST: Final = 1_000_000


def read(file: SourceFile, options: ImportOptions) -> Iterator[Measurement | Refusal]:
    """The one measurement of one export, judged. Raises Refused when the file is something else."""
    name = file.path.name.lower()
    if name in ("profile_export.json", "inputs.json", "llm_inputs.json"):
        raise Refused(Rule.NOT_A_POINT, "Perf Analyzer's raw log: import profile_export_genai_perf.json")
    document: Record = {}
    if name.endswith(".csv"):
        metrics = metrics_of_csv(file.text())
    else:
        loaded = file.json()
        document = loaded if isinstance(loaded, dict) else {}
        if "experiments" in document:
            raise Refused(Rule.NOT_A_POINT, "Perf Analyzer's raw log: import profile_export_genai_perf.json")
        metrics = metrics_of_json(document)
    if "time_to_first_token" not in metrics and "request_latency" not in metrics:
        raise Refused(Rule.NOT_THIS_FORMAT, "no time_to_first_token and no request_latency")
    if "aiperf_version" in document or isinstance(document.get("records"), dict):
        raise Refused(Rule.NOT_THIS_FORMAT, "this is a result of AIPerf: use --from aiperf")
    try:
        yield judge(_candidate(document, metrics, file, options), options)
    except Refused as refused:
        yield Refusal(file.label, "", refused.rule, refused.detail)


def _candidate(document: Record, metrics: Metrics, file: SourceFile, options: ImportOptions) -> Candidate:
    ttft, mean_ttft = latency(metrics, "time_to_first_token")
    tpot, mean_tpot = latency(metrics, "inter_token_latency")
    _, mean_e2el = latency(metrics, "request_latency")
    output = scalar(metrics, "output_token_throughput")
    input_tokens = scalar(metrics, "input_sequence_length")
    requests = scalar(metrics, "request_throughput")
    total = scalar(metrics, "total_token_throughput")
    if total is None and output is not None and input_tokens is not None and requests is not None:
        total = output + requests * input_tokens
    try:
        refuse_speculative_path(file.path)
        refuse_shared_prompts(document.get("input_config"), scalar(metrics, "request_count"), options)
        identity: PartialIdentity | Refused = PartialIdentity(model=_model(document.get("input_config"), options))
    except Refused as refused:
        identity = refused
    return Candidate(
        identity=identity,
        source=Source(tool=TOOL, image=options.image, run=options.run, date=options.date),
        engine_version=options.engine_version,
        concurrency=_concurrency(document.get("input_config"), file),
        total=total,
        output=output,
        input_tokens=input_tokens,
        output_tokens=scalar(metrics, "output_sequence_length"),
        ttft=ttft,
        tpot=tpot,
        mean_ttft=mean_ttft,
        mean_tpot=mean_tpot,
        mean_e2el=mean_e2el,
        completed=scalar(metrics, "request_count"),
        failed=scalar(metrics, "error_request_count"),
    )


def _model(config: Any, options: ImportOptions) -> str | None:
    """The one model of `model` or `model_names` (also inside `endpoint`); a served name says nothing."""
    top = config if isinstance(config, dict) else {}
    for holder in (top, section(top, "endpoint")):
        for key in ("model", "model_names"):
            names = holder.get(key)
            names = [names] if isinstance(names, str) else names if isinstance(names, list) else []
            if len(set(map(str, names))) > 1:
                raise Refused(Rule.NOT_A_POINT, f"{len(names)} models shared the load")
            if names and isinstance(names[0], str):
                return repository(names[0], None, options.models)
    return None


def _concurrency(config: Any, file: SourceFile) -> float | None:
    found = set(_search(config, _DEPTH))
    if len(found) > 1:
        raise Refused(Rule.CONCURRENCY_UNKNOWN, f"input_config names several concurrencies: {sorted(found)}")
    if found:
        return float(found.pop())
    for part in reversed(file.path.parts[-3:-1]):
        match = _FOLDER.search(part)
        if match:
            return float(match.group(1))
    return None


def _search(value: Any, depth: int) -> Iterator[int]:
    if depth == 0 or not isinstance(value, dict):
        return
    for key, entry in value.items():
        if key == "concurrency" and isinstance(entry, int) and 1 <= entry <= _LARGEST and entry is not True:
            yield entry
        else:
            yield from _search(entry, depth - 1)
