"""NVIDIA AIPerf: `profile_export_aiperf.json` (early and current layouts) and `.csv`.

Facts that shape the code (capacity-data §2.5):

- `inter_token_latency` is (latency − TTFT) ÷ (length − 1) per request, which is TPOT; `inter_chunk_latency` is the gap.
- `request_count` counts successes; `error_request_count` is absent when zero. `total_token_throughput` is absent in
early
  versions and is then derived from the total input.
- The concurrency stands in `input_config.loadgen` and is not echoed in the CSV; `effective_concurrency` differs from
it.
- Recent versions write phases and models in place of `loadgen` and `endpoint.model_names`.
- A cached prompt costs almost nothing: a run with a prefix-cache hit ratio says so in `theoretical_prefix_cache_hit`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from catalog.importers.candidate import Candidate, Measurement, judge
from catalog.importers.fields import Record, number, section, text
from catalog.importers.files import SourceFile
from catalog.importers.models import repository
from catalog.importers.options import ImportOptions
from catalog.importers.partial import PartialIdentity
from catalog.importers.perf_metrics import Metrics, latency, metrics_of_csv, metrics_of_json, scalar
from catalog.importers.recognition import is_genai_perf
from catalog.importers.rules import Refusal, Refused, Rule
from catalog.importers.shared_prompts import refuse_shared_prompts
from catalog.importers.speculation import refuse_speculative_path
from catalog.schema import Source

TOOL: Final = "AIPerf"
# Below this a hit ratio is the chat template and the first tokens.
MAX_HIT_PERCENT: Final = 1.0
_TTFT: Final = ("time_to_first_token", "ttft")
_NOT_POINTS: Final = {
    "aggregate": "a summary over several runs: import the runs",
    "timeslices": "slices of one run: import profile_export_aiperf.json",
    "gpu_telemetry": "telemetry of the accelerators",
    "server_metrics": "metrics of the server",
    "inputs.json": "the requests that were sent",
}


def read(file: SourceFile, options: ImportOptions) -> Iterator[Measurement | Refusal]:
    """The one measurement of one export, judged. Raises Refused when the file is something else."""
    name = file.path.name.lower()
    for word, meaning in _NOT_POINTS.items():
        if word in name:
            raise Refused(Rule.NOT_A_POINT, meaning)
    if name.endswith(".jsonl"):
        raise Refused(Rule.NOT_A_POINT, "single requests: import profile_export_aiperf.json")
    document: Record = {}
    if name.endswith(".csv"):
        metrics = metrics_of_csv(file.text())
    else:
        loaded = file.json()
        document = loaded if isinstance(loaded, dict) else {}
        metrics = metrics_of_json(document)
        if is_genai_perf(document):
            raise Refused(Rule.NOT_THIS_FORMAT, "this is an export of GenAI-Perf: use --from genai-perf")
    if not any(key in metrics for key in (*_TTFT, "request_latency")):
        raise Refused(Rule.NOT_THIS_FORMAT, "no time_to_first_token and no request_latency")
    try:
        yield judge(_candidate(document, metrics, file, options), options)
    except Refused as refused:
        yield Refusal(file.label, "", refused.rule, refused.detail)


def _candidate(document: Record, metrics: Metrics, file: SourceFile, options: ImportOptions) -> Candidate:
    if document.get("was_cancelled") is True:
        raise Refused(Rule.NOT_A_POINT, "the run was cancelled before its end")
    ttft, mean_ttft = latency(metrics, *_TTFT)
    tpot, mean_tpot = latency(metrics, "inter_token_latency")
    itl, mean_itl = latency(metrics, "inter_chunk_latency")
    _, mean_e2el = latency(metrics, "request_latency")
    completed = scalar(metrics, "request_count")
    output = scalar(metrics, "output_token_throughput")
    total, given_input = _throughput(metrics, output)
    start = text(document, "start_time")
    loadgen = section(document, "input_config", "loadgen")
    return Candidate(
        identity=_identity(document, metrics, file, options),
        source=Source(
            tool=TOOL,
            version=text(document, "aiperf_version"),
            image=options.image,
            run=options.run or text(document, "benchmark_id"),
            date=options.date or (start[:10] if start else None),
        ),
        engine_version=options.engine_version,
        concurrency=_concurrency(section(document, "input_config")),
        total=total,
        output=output,
        input=given_input,
        input_tokens=_length(metrics, completed, "input_sequence_length", "isl", "total_isl"),
        output_tokens=_length(metrics, completed, "output_sequence_length", "osl", "total_osl"),
        ttft=ttft,
        itl=itl,
        tpot=tpot,
        mean_ttft=mean_ttft,
        mean_itl=mean_itl,
        mean_tpot=mean_tpot,
        mean_e2el=mean_e2el,
        completed=completed,
        failed=scalar(metrics, "error_request_count") or 0.0,
        planned=number(loadgen, "request_count"),
    )


def _length(metrics: Metrics, completed: float | None, name: str, short: str, total: str) -> float | None:
    """A mean length; early versions write only the total."""
    mean = scalar(metrics, name, short)
    whole = scalar(metrics, total)
    if mean is None and whole is not None and completed:
        return whole / completed
    return mean


def _throughput(metrics: Metrics, output: float | None) -> tuple[float | None, float | None]:
    given_input = scalar(metrics, "input_token_throughput")
    total = scalar(metrics, "total_token_throughput")
    if total is None and output is not None and given_input is None:
        prompt = scalar(metrics, "total_isl", "total_input_sequence_length")
        duration = scalar(metrics, "benchmark_duration")
        if prompt is not None and duration:
            total = output + prompt / duration
    return total, given_input


def _identity(
    document: Record, metrics: Metrics, file: SourceFile, options: ImportOptions
) -> PartialIdentity | Refused:
    try:
        refuse_speculative_path(file.path)
        hits = scalar(metrics, "theoretical_prefix_cache_hit")
        if hits is not None and hits > MAX_HIT_PERCENT and not options.all_misses:
            raise Refused(Rule.CACHE_HITS, f"{hits:.0f} % of the prompt tokens could hit the prefix cache")
        refuse_shared_prompts(document.get("input_config"), scalar(metrics, "request_count"), options)
        names = sorted(set(_models(section(document, "input_config"))))
        if len(names) > 1:
            raise Refused(Rule.NOT_A_POINT, f"{len(names)} models shared the load")
    except Refused as refused:
        return refused
    return PartialIdentity(model=repository(names[0] if names else "", None, options.models))


def _models(config: Record) -> Iterator[str]:
    """The names under `endpoint.model_names`, and under `models` (names, or items that have one) since the phases."""
    models = config.get("models")
    if isinstance(models, dict):
        models = models.get("items")
    for found in (section(config, "endpoint").get("model_names"), models):
        for entry in found if isinstance(found, list) else ():
            name = entry.get("name") if isinstance(entry, dict) else entry
            if isinstance(name, str):
                yield name


def _concurrency(config: Record) -> float | None:
    """The configured one: under `loadgen`, or that of the one phase that was measured."""
    level = number(section(config, "loadgen"), "concurrency")
    if level is not None:
        return level
    phases = config.get("phases")
    named = (
        phases.items() if isinstance(phases, dict) else [("", p) for p in phases] if isinstance(phases, list) else []
    )
    levels = {
        number(phase, "concurrency")
        for name, phase in named
        if isinstance(phase, dict)
        and "warmup" not in str(phase.get("name") or name)
        and phase.get("exclude_from_results") is not True
    }
    if len(levels) > 1:
        raise Refused(Rule.CONCURRENCY_UNKNOWN, "several phases with different concurrencies were measured as one")
    return levels.pop() if levels else None
