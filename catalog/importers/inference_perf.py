"""kubernetes-sigs/inference-perf: `stage_N_lifecycle_metrics.json`.

Everything is in seconds, whatever the tool's table says, and the median is called `median`. Facts that shape the code
(capacity-data §2.6):

- The summary file mixes the stages and is never a point; the per-request file holds single requests.
- Load is open-loop by default: the concurrency is requests/s × mean latency (Little). A stage that was sent more than
it
  served has no steady state.
- TTFT is null unless streaming was on.
- Lengths are `prompt_len` and `output_len`; since 0.6 also `prompt_tokens` (which replaces the former after 0.6.1) and
  `output_tokens`, counted by the server, with the prompt tokens that came from its prefix cache.
- Gaps were counted per event until mid-2026, which halves TPOT where two tokens arrive together; the end-to-end
identity
  finds those files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from catalog.importers.candidate import Candidate, Measurement, judge
from catalog.importers.fields import Record, number, section
from catalog.importers.files import SourceFile
from catalog.importers.guidellm import SERVED_SHARE
from catalog.importers.options import ImportOptions
from catalog.importers.partial import PartialIdentity
from catalog.importers.rules import Refusal, Refused, Rule
from catalog.importers.speculation import refuse_speculative_path
from catalog.quantiles import Quantiles, percent
from catalog.schema import Source

TOOL: Final = "inference-perf"
# Below this a hit ratio is the chat template and the first tokens.
MAX_HIT_PERCENT: Final = 1.0
_PERCENTILE: Final = re.compile(r"p([0-9]{1,2}(?:\.[0-9]{1,20})?)")


def read(file: SourceFile, options: ImportOptions) -> Iterator[Measurement | Refusal]:
    """The one measurement of one stage, judged. Raises Refused when the file is something else."""
    document = file.json()
    if isinstance(document, list):
        raise Refused(
            Rule.NOT_A_POINT, "a list, as single requests are: import the stage_N_lifecycle_metrics.json files"
        )
    if not isinstance(document, dict) or "load_summary" not in document or "successes" not in document:
        raise Refused(Rule.NOT_THIS_FORMAT, "no load_summary and successes")
    load = section(document, "load_summary")
    if not any(key in load for key in ("requested_rate", "achieved_rate", "concurrency_level", "concurrency")):
        raise Refused(Rule.NOT_A_POINT, "a summary over all stages mixes their loads: import the stage files")
    try:
        yield judge(_candidate(document, load, file, options), options)
    except Refused as refused:
        yield Refusal(file.label, "", refused.rule, refused.detail)


def _candidate(document: Record, load: Record, file: SourceFile, options: ImportOptions) -> Candidate:
    successes = section(document, "successes")
    latencies, throughput = section(successes, "latency"), section(successes, "throughput")
    completed = number(successes, "count")
    ttft, mean_ttft = _latency(latencies, "time_to_first_token")
    tpot, mean_tpot = _latency(latencies, "time_per_output_token")
    itl, mean_itl = _latency(latencies, "inter_token_latency")
    _, mean_e2el = _latency(latencies, "request_latency")
    served = number(throughput, "requests_per_sec")
    output, given_input = number(throughput, "output_tokens_per_sec"), number(throughput, "input_tokens_per_sec")
    try:
        refuse_speculative_path(file.path)
        _refuse_cached(successes, options)
        identity: PartialIdentity | Refused = PartialIdentity()
    except Refused as refused:
        identity = refused
    return Candidate(
        identity=identity,
        source=Source(tool=TOOL, image=options.image, run=options.run, date=options.date),
        engine_version=options.engine_version,
        concurrency=_concurrency(load, served, mean_e2el),
        total=number(throughput, "total_tokens_per_sec"),
        output=output,
        input=given_input,
        input_tokens=_length(successes, given_input, served, "prompt_len", "prompt_tokens"),
        output_tokens=_length(successes, output, served, "output_len", "output_tokens"),
        ttft=ttft,
        itl=itl,
        tpot=tpot,
        mean_ttft=mean_ttft,
        mean_itl=mean_itl,
        mean_tpot=mean_tpot,
        mean_e2el=mean_e2el,
        completed=completed,
        failed=number(section(document, "failures"), "count"),
        planned=number(load, "count"),
    )


def _refuse_cached(successes: Record, options: ImportOptions) -> None:
    """The server's own count of cached prompt tokens, where it reports one (0 also means that it does not)."""
    prompts = section(successes, "prompt_tokens")
    cached, total = number(prompts, "cached"), number(prompts, "total")
    if cached and total and 100 * cached > MAX_HIT_PERCENT * total and not options.all_misses:
        raise Refused(Rule.CACHE_HITS, f"{cached / total:.0%} of the prompt tokens came from the prefix cache")


def _length(successes: Record, rate: float | None, served: float | None, *names: str) -> float | None:
    """A mean length. Recent versions count tokens by the client and by the server, which differ; the throughput was
    computed from one of them, and its count is taken."""
    means = [mean for name in names if (mean := number(section(successes, name), "mean")) is not None]
    if not means or rate is None or not served:
        return means[0] if means else None
    return min(means, key=lambda mean: abs(mean * served - rate))


def _latency(latencies: Record, name: str) -> tuple[Quantiles, float | None]:
    statistics = section(latencies, name)
    measured = []
    for key in statistics:
        match = _PERCENTILE.fullmatch(str(key))
        quantile = 50.0 if key == "median" else percent(match.group(1)) if match else None
        value = None if quantile is None else number(statistics, key)
        if quantile is not None and value is not None:
            measured.append((quantile, value * 1000))
    mean = number(statistics, "mean")
    return tuple(sorted(dict(measured).items())), None if mean is None else mean * 1000


def _concurrency(load: Record, served: float | None, mean_e2el: float | None) -> float | None:
    level = number(load, "concurrency_level") or number(load, "concurrency")
    if level:
        return level
    requested = number(load, "requested_rate") or number(load, "achieved_rate")
    if requested and served is not None and served < SERVED_SHARE * requested:
        raise Refused(Rule.OVERLOADED, f"served {served:.4g} of {requested:.4g} requests/s")
    return served * mean_e2el / 1000 if served is not None and mean_e2el is not None else None
