"""guidellm reports, layouts v1 (`args`) and v2 (`config`), and third-party flattenings of them.

One report holds one benchmark per load. Facts that shape the code (capacity-data §2.3):

- The axis depends on the strategy: `concurrent` streams, `throughput` max_concurrency, `synchronous` one; a
`constant` or
  `poisson` rate has none (its `max_concurrency: 10240` is an internal cap) and takes the mean requests in flight.
- Percentile keys p001, p01, p999 mean 0.1, 1 and 99.9 per cent.
- TTFT and inter-token latency are milliseconds, request latency seconds. Inter-token latency is a per-request average,
  which is TPOT; `time_per_output_token_ms` includes the first token and is not used.
- Throughputs are the `mean` of successful requests; their medians and percentiles are artefacts of instantaneous rates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from catalog.importers.candidate import Candidate, Measurement, judge
from catalog.importers.fields import Record, number, section, text
from catalog.importers.files import SourceFile
from catalog.importers.options import ImportOptions
from catalog.importers.partial import PartialIdentity
from catalog.importers.rules import Refusal, Refused, Rule
from catalog.importers.speculation import refuse_speculative_path
from catalog.quantiles import Quantiles
from catalog.schema import Source

TOOL: Final = "guidellm"
# An open-loop run that served less than this share of its rate was overloaded.
SERVED_SHARE: Final = 0.9
_PERCENTILES: Final = {
    "p001": 0.1,
    "p01": 1.0,
    "p05": 5.0,
    "p10": 10.0,
    "p25": 25.0,
    "p50": 50.0,
    "p75": 75.0,
    "p90": 90.0,
    "p95": 95.0,
    "p99": 99.0,
    "p999": 99.9,
}


def read(file: SourceFile, options: ImportOptions) -> Iterator[Measurement | Refusal]:
    """Every benchmark of one report, judged. Raises Refused when the file is no report."""
    yield from read_report(file, options, TOOL)


def read_report(file: SourceFile, options: ImportOptions, tool: str) -> Iterator[Measurement | Refusal]:
    """As `read`, for any tool that writes guidellm's report; `tool` goes into the provenance."""
    document = file.json()
    benchmarks = document.get("benchmarks") if isinstance(document, dict) else None
    if not isinstance(benchmarks, list):
        raise Refused(Rule.NOT_THIS_FORMAT, "no list of benchmarks")
    if not benchmarks:
        raise Refused(Rule.EMPTY, "the report holds no benchmark")
    metadata = section(document, "metadata")
    # `version` beside it is the number of the layout.
    texts = {key: value for key, value in metadata.items() if isinstance(value, str)}
    version = text(texts, "guidellm_version") or text(texts, "version")
    source = Source(tool=tool, version=version, image=options.image, run=options.run, date=options.date)
    for index, benchmark in enumerate(benchmarks):
        try:
            record = benchmark if isinstance(benchmark, dict) else {}
            yield judge(_candidate(record, document, source, file, options), options)
        except Refused as refused:
            yield Refusal(file.label, f"benchmark {index}", refused.rule, refused.detail)


def _candidate(record: Record, report: Record, source: Source, file: SourceFile, options: ImportOptions) -> Candidate:
    metrics = section(record, "metrics")
    if not metrics:
        raise Refused(Rule.MISSING_VALUE, "metrics are absent")
    completed, failed = _totals(record, metrics)
    ttft, mean_ttft = _latency(metrics, "time_to_first_token_ms")
    tpot, mean_tpot = _latency(metrics, "inter_token_latency_ms")
    request = number(_successful(metrics, "request_latency"), "mean")
    try:
        refuse_speculative_path(file.path)
        _refuse_shared_prompts(record, report, options)
        identity: PartialIdentity | Refused = PartialIdentity()
    except Refused as refused:
        identity = refused
    return Candidate(
        identity=identity,
        source=source,
        engine_version=options.engine_version,
        concurrency=_concurrency(record, metrics),
        total=number(_successful(metrics, "tokens_per_second"), "mean"),
        output=number(_successful(metrics, "output_tokens_per_second"), "mean"),
        input=number(_successful(metrics, "prompt_tokens_per_second"), "mean"),
        input_tokens=_length(metrics, "prompt_token_count", "prompt_tokens", completed),
        output_tokens=_length(metrics, "output_token_count", "output_tokens", completed),
        ttft=ttft,
        tpot=tpot,
        mean_ttft=mean_ttft,
        mean_tpot=mean_tpot,
        mean_e2el=None if request is None else request * 1000,
        completed=completed,
        failed=failed,
    )


def _successful(metrics: Record, name: str) -> Record:
    statistics = section(metrics, name)
    inner = statistics.get("successful")
    return inner if isinstance(inner, dict) else statistics


def _latency(metrics: Record, name: str) -> tuple[Quantiles, float | None]:
    statistics = _successful(metrics, name)
    measured: dict[float, float] = {}
    # Flattened reports put p95 beside the mean, or keep only the median.
    for holder in (statistics, section(statistics, "percentiles")):
        for key, quantile in _PERCENTILES.items():
            value = number(holder, key)
            if value is not None:
                measured[quantile] = value
    median = number(statistics, "median")
    if median is not None:
        measured.setdefault(50.0, median)
    return tuple(sorted(measured.items())), number(statistics, "mean")


def _totals(record: Record, metrics: Record) -> tuple[float | None, float | None]:
    # In the metrics since 0.4, beside them up to 0.3.
    totals = (
        section(metrics, "request_totals")
        or section(record, "request_totals")
        or section(record, "scheduler_metrics", "requests_made")
        or section(record, "run_stats", "requests_made")
    )
    completed = number(totals, "successful")
    return completed, number(totals, "errored")


def _length(metrics: Record, name: str, flattened: str, completed: float | None) -> float | None:
    mean = number(_successful(metrics, name), "mean")
    if mean is not None:
        return mean
    total = number(_successful(metrics, flattened), "sum")
    return total / completed if total is not None and completed else None


def _strategy(record: Record) -> Record:
    for path in (("config", "strategy"), ("args", "strategy"), ("scheduler", "strategy")):
        found = section(record, *path)
        if found:
            return found
    return {}


def _concurrency(record: Record, metrics: Record) -> float | None:
    strategy = _strategy(record)
    written = text(strategy, "type_") or text(strategy, "kind") or ""
    kind = written.lower()
    if kind == "synchronous":
        return 1.0
    if kind in ("concurrent", "throughput"):
        return number(strategy, "streams") or number(strategy, "max_concurrency")
    if kind in ("constant", "poisson", "async", "incremental"):
        rate = number(strategy, "rate")
        served = number(_successful(metrics, "requests_per_second"), "mean")
        if rate and served is not None and served < SERVED_SHARE * rate and _was_long(record, metrics):
            raise Refused(Rule.OVERLOADED, f"served {served:.3g} of {rate:.3g} requests/s")
        return number(_successful(metrics, "request_concurrency"), "mean")
    if kind == "trace":
        raise Refused(Rule.AGENTIC, "a replayed trace has no steady load")
    raise Refused(Rule.MALFORMED, f"strategy {written or 'absent'} is unknown")


# A handful of requests never reaches its nominal rate: the first gap is part of the run.
_FEW_REQUESTS: Final = 20


def _was_long(record: Record, metrics: Record) -> bool:
    completed, failed = _totals(record, metrics)
    return (completed or 0) + (failed or 0) >= _FEW_REQUESTS


def _refuse_shared_prompts(record: Record, report: Record, options: ImportOptions) -> None:
    if options.all_misses:
        return
    # With the report since 0.4, with each benchmark up to 0.3.
    for holder in (section(report, "config", "spec"), section(report, "args"), section(record, "request_loader")):
        data: Any = holder.get("data")
        for entry in data if isinstance(data, list) else [data]:
            described = _described(entry) if isinstance(entry, str) else entry
            if isinstance(described, dict) and _shares(described):
                raise Refused(Rule.CACHE_HITS, "prompts share prefixes or turns: add --all-misses if the cache was off")


def _described(data: str) -> Record:
    """Synthetic data as it is written on the command line: JSON, or `prompt_tokens=512,prefix_tokens=1024`."""
    try:
        loaded = json.loads(data)
    except (ValueError, RecursionError):
        pairs = (pair.partition("=") for pair in data.split(","))
        return {name.strip(): value.strip() for name, equals, value in pairs if equals}
    return loaded if isinstance(loaded, dict) else {}


def _shares(data: Record) -> bool:
    turns, buckets = number(data, "turns"), data.get("prefix_buckets")
    shared = isinstance(buckets, list) and any(number(section({"b": b}, "b"), "prefix_tokens") for b in buckets)
    return bool(shared or number(data, "prefix_tokens") or (turns is not None and turns > 1))
