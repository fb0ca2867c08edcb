"""vLLM `vllm bench serve --save-result` (and the older benchmark_serving.py, and InferenceX's fork of it).

One JSON object per run, a list of them, or one per line (`--append-result`). Milliseconds in keys that end in `_ms`.
The file names no hardware, degrees or quantization: give --identity; degrees that people note beside the results or in
the file's name must agree with it. Facts that shape the code (capacity-data §2.1,
§3):

- `max_concurrent_requests` and `max_output_tokens_per_s` are peaks and over-counted: never the axis, never a capacity.
- Realised lengths are total tokens ÷ completed; the random-length options mean three different things in three tools.
- Files without a `failed` key derive it from `num_prompts`.
- ITL files of 2024 before September count the first token as a gap (vllm#7242): their ITL is dropped.
- `vllm bench sweep` writes its overrides of the server among the results: they are degrees, a quantization or settings
  of an engine that is not the plain one. A `backend` of another kind of server names the engine.
- An InferenceX side experiment writes the same keys without `_ms` and means seconds. Which unit holds is decided by
  Little's law; if neither fits, the row is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from catalog.identity import Engine
from catalog.importers.candidate import Candidate, Measurement, judge
from catalog.importers.fields import Record, latency_reader, number, show, text
from catalog.importers.files import SourceFile, opened
from catalog.importers.laws import LITTLE_BAND_SHORT
from catalog.importers.models import repository
from catalog.importers.options import ImportOptions
from catalog.importers.partial import PartialIdentity
from catalog.importers.rules import Refusal, Refused, Rule
from catalog.importers.settings import degrees_of_settings, quantization_of_settings, refuse_other_engine
from catalog.importers.speculation import refuse_speculative_path
from catalog.quantiles import value_at
from catalog.schema import Source

TOOL: Final = "vllm bench serve"
_SIGNS: Final = ("output_throughput", "total_token_throughput", "request_throughput")
_IN_NAME: Final = re.compile(r"(?i)(?<![a-z0-9])(tp|pp|dp)([0-9]{1,3})(?![a-z0-9])")
# Clients for servers of another kind; all others speak to any server that understands OpenAI's requests.
_BACKENDS: Final = {"sglang": Engine.SGLANG, "sglang-native": Engine.SGLANG, "tensorrt-llm": Engine.TENSORRT_LLM}
_OTHER_BACKENDS: Final = frozenset(("tgi", "lmdeploy", "deepspeed-mii", "scalellm", "llama.cpp"))
_ITL_HELD_TTFT_UNTIL: Final = "20240901"


def read(file: SourceFile, options: ImportOptions) -> Iterator[Measurement | Refusal]:
    """Every run of one file, judged. Raises Refused when the whole file is something else."""
    name = file.path.name
    if name.endswith((".failure.json", "warmup.json", ".pytorch.json")):
        raise Refused(Rule.NOT_A_POINT, f"{name} is a failure, warm-up or tensor sidecar of a sweep")
    for label, record in file.json_objects():
        try:
            yield judge(_candidate(opened(record), file, options), options)
        except Refused as refused:
            yield Refusal(file.label, label, refused.rule, refused.detail)


def _candidate(record: object, file: SourceFile, options: ImportOptions) -> Candidate:
    if not isinstance(record, dict) or not any(sign in record for sign in _SIGNS):
        raise Refused(Rule.NOT_THIS_FORMAT, "no output_throughput or total_token_throughput")
    if "server_info" in record or "mean_e2e_latency_ms" in record:
        raise Refused(Rule.NOT_THIS_FORMAT, "this is a result of sglang.bench_serving: use --from sglang")
    if isinstance(record.get("request_throughput"), dict):
        raise Refused(
            Rule.NOT_THIS_FORMAT, "this is an export of AIPerf or GenAI-Perf: use --from aiperf or genai-perf"
        )
    ramp = text(record, "ramp_up_strategy")
    if ramp is not None:
        raise Refused(Rule.NOT_A_POINT, f"the request rate rose during the run ({ramp}): no steady load")
    keys = tuple(record)
    completed, planned = number(record, "completed"), number(record, "num_prompts")
    total_input, total_output = number(record, "total_input_tokens"), number(record, "total_output_tokens")
    seconds = not any(key.endswith("_ms") for key in keys)
    candidate = Candidate(
        identity=_identity(record, file, options),
        source=Source(
            tool=TOOL,
            image=options.image,
            run=options.run,
            date=options.date or _date(record),
        ),
        engine_version=options.engine_version,
        concurrency=number(record, "max_concurrency"),
        total=number(record, "total_token_throughput"),
        output=number(record, "output_throughput"),
        input=number(record, "input_throughput"),
        input_tokens=_mean(total_input, completed),
        output_tokens=_mean(total_output, completed),
        completed=completed,
        failed=number(record, "failed"),
        planned=planned,
    )
    _read_latencies(candidate, record, keys, 1.0)
    if seconds:
        _decide_unit(candidate, record, keys)
    day = text(record, "date") or ""
    if day[:8].isdigit() and day[:8] < _ITL_HELD_TTFT_UNTIL:
        candidate.itl, candidate.mean_itl = (), None
    return candidate


def _read_latencies(candidate: Candidate, record: Record, keys: tuple[str, ...], scale: float) -> None:
    suffix = "_ms" if any(key.endswith("_ms") for key in keys) else ""
    reader = latency_reader(keys, suffix)
    candidate.ttft, candidate.itl, candidate.tpot = reader.quantiles(record, scale)
    candidate.mean_ttft, candidate.mean_itl, candidate.mean_tpot, candidate.mean_e2el = reader.means(record, scale)


def _decide_unit(candidate: Candidate, record: Record, keys: tuple[str, ...]) -> None:
    """Keys without `_ms`: seconds or milliseconds, whichever gives the concurrency by Little's law."""
    rate, slots = number(record, "request_throughput"), candidate.concurrency
    latency = number(record, "mean_e2el") or number(record, "median_e2el")
    if latency is None:
        first, each = value_at(candidate.ttft, 50.0), value_at(candidate.tpot, 50.0)
        if first is not None and each is not None and candidate.output_tokens is not None:
            latency = first + each * (candidate.output_tokens - 1)
    if rate is None or not slots or latency is None:
        raise Refused(Rule.UNITS, "latency keys name no unit, and Little's law cannot be checked")
    low, high = LITTLE_BAND_SHORT
    for scale in (1000.0, 1.0):
        if low <= rate * latency * scale / 1000 / slots <= high:
            _read_latencies(candidate, record, keys, scale)
            return
    raise Refused(
        Rule.UNITS,
        f"latency keys name no unit, and {rate:.3g} requests/s × {latency:.3g} gives {slots:.0f} in flight neither in "
        "seconds nor in milliseconds",
    )


def _identity(record: Record, file: SourceFile, options: ImportOptions) -> PartialIdentity | Refused:
    acceptance = [key for key in record if key.startswith("spec_decode_") and record[key] is not None]
    if acceptance:
        return Refused(Rule.SPECULATIVE, f"{acceptance[0]} is recorded")
    try:
        refuse_speculative_path(file.path)
        refuse_disaggregated_name(file)
        refuse_other_engine(record)
        _refuse_shared_prompts(record, options)
        engine = _engine(record)
    except Refused as refused:
        return refused
    # A served name without an owner says nothing; with one it must agree with --identity.
    model = repository(text(record, "model_id") or "", None, options.models)
    return PartialIdentity(
        model=model,
        engine=engine,
        quantization=quantization_of_settings(record),
        degrees=_degrees(record, file),
    )


def _refuse_shared_prompts(record: Record, options: ImportOptions) -> None:
    """Overrides of a sweep and metadata may say which prompts were sent."""
    if options.all_misses:
        return
    found = None
    if "prefix" in str(record.get("dataset_name") or ""):
        found = f"dataset_name is {show(record.get('dataset_name'))}"
    for name in ("random_prefix_len", "prefix_repetition_prefix_len"):
        length = number(record, name)
        if length is not None and length > 0:
            found = f"{name} is {length:g}"
    if found is not None:
        raise Refused(Rule.CACHE_HITS, f"prompts share prefixes ({found}): add --all-misses if the cache was off")


def _engine(record: Record) -> Engine | None:
    backend = (text(record, "backend") or text(record, "endpoint_type") or "").lower()
    if backend in _OTHER_BACKENDS:
        raise Refused(Rule.UNKNOWN_ENGINE, f"the server was asked as {backend}")
    return _BACKENDS.get(backend)


def _degrees(record: Record, file: SourceFile) -> dict[str, int]:
    """The degrees that people write down, because the tool does not: as `--metadata tp=8`, and as overrides of a sweep,
    which end up among the results, and in the name of the file (`…_TP4_DP2_…`). A sweep over several of them must not
    become one identity."""
    return {name.lower(): int(value) for name, value in _IN_NAME.findall(file.path.name)} | degrees_of_settings(record)


def refuse_disaggregated_name(file: SourceFile) -> None:
    """Multi-node recipes name context and generation accelerators in the file name (`…_ctx_8_gen_8.json`)."""
    if "_ctx_" in file.path.name and "_gen_" in file.path.name:
        raise Refused(Rule.DISAGGREGATED, "the file name counts context and generation accelerators")


def _mean(total: float | None, requests: float | None) -> float | None:
    return total / requests if total is not None and requests else None


def _date(record: Record) -> str | None:
    day = (text(record, "date") or "")[:8]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}" if len(day) == 8 and day.isdigit() else None
