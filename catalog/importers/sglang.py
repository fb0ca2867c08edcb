"""SGLang `python -m sglang.bench_serving --output-file`: one JSON object per line, appended by every run.

`Infinity` and `NaN` occur. `server_info` (newer versions) states model path, degrees, quantization and version; the
hardware is never stated. Facts that shape the code (capacity-data §2.2):

- `concurrency` is the mean in flight by Little's law; the configured limit is `max_concurrency` (null: unlimited).
- Results of 2024 have medians only and no total; the total is derived, and they are refused for lack of a tail
quantile.
- With attention data parallelism the accelerators are tp × pp; without it dp multiplies them.
- random lengths default to uniform [1, L], so the realised mean is half of the nominal length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from catalog.identity import Engine, Quantization, Role
from catalog.importers.candidate import Candidate, Measurement, judge
from catalog.importers.fields import Record, boolean, degree, latency_reader, number, section, show, text, whole
from catalog.importers.files import SourceFile, opened
from catalog.importers.models import repository
from catalog.importers.options import ImportOptions
from catalog.importers.partial import PartialIdentity
from catalog.importers.rules import Refusal, Refused, Rule
from catalog.importers.settings import refuse_other_engine
from catalog.importers.speculation import refuse_speculative_path
from catalog.quantization import quantization_of_flag
from catalog.schema import Source

TOOL: Final = "sglang.bench_serving"
# Clients of SGLang's own interface; the others speak to any server.
_NATIVE: Final = ("sglang", "sglang-native")
# Parts of the names of datasets whose prompts share tokens.
_SHARED: Final = ("shared-prefix", "gsp", "mooncake", "trace", "multi-turn", "multiturn")


def read(file: SourceFile, options: ImportOptions) -> Iterator[Measurement | Refusal]:
    """Every run of one file, judged; a line that repeats an earlier one is refused. Raises Refused for other files."""
    seen: dict[str, str] = {}
    for label, record in file.json_objects():
        try:
            candidate = _candidate(opened(record), file, options)
            same = seen.setdefault(repr(sorted(_identifying(record))), label)
            if same != label:
                raise Refused(Rule.DUPLICATE, f"repeats {same}")
            yield judge(candidate, options)
        except Refused as refused:
            yield Refusal(file.label, label, refused.rule, refused.detail)


def _identifying(record: Record) -> list[tuple[str, str]]:
    return [(key, repr(value)) for key, value in record.items() if isinstance(value, int | float | str | None)]


def _candidate(record: Any, file: SourceFile, options: ImportOptions) -> Candidate:
    if not isinstance(record, dict) or "output_throughput" not in record:
        raise Refused(Rule.NOT_THIS_FORMAT, "no output_throughput")
    if not any(key in record for key in ("mean_e2e_latency_ms", "median_e2e_latency_ms", "total_throughput")):
        hint = ": use --from vllm" if "total_token_throughput" in record else ""
        raise Refused(Rule.NOT_THIS_FORMAT, f"no e2e_latency and no total_throughput{hint}")
    completed = number(record, "completed")
    total_input, total_output = number(record, "total_input_tokens"), number(record, "total_output_tokens")
    duration, output = number(record, "duration"), number(record, "output_throughput")
    total = number(record, "total_throughput")
    if total is None and total_input is not None and total_output is not None and duration:
        total = (total_input + total_output) / duration
    reader = latency_reader(tuple(record), "_ms")
    ttft, itl, tpot = reader.quantiles(record, 1.0)
    mean_ttft, mean_itl, mean_tpot, _ = reader.means(record, 1.0)
    # Counted by recent versions, and one text per request with --output-details.
    failed, errors = number(record, "failed"), record.get("errors")
    if failed is None and isinstance(errors, list):
        failed = float(sum(1 for error in errors if error))
    info = section(record, "server_info")
    lengths = whole(record, "random_input_len"), whole(record, "random_output_len")
    return Candidate(
        identity=_identity(record, info, file, options),
        source=Source(tool=TOOL, image=options.image, run=options.run, date=options.date),
        engine_version=text(info, "version") or options.engine_version,
        concurrency=number(record, "max_concurrency"),
        total=total,
        output=output,
        input=number(record, "input_throughput"),
        input_tokens=total_input / completed if total_input is not None and completed else None,
        output_tokens=total_output / completed if total_output is not None and completed else None,
        nominal=(lengths[0], lengths[1]) if lengths[0] and lengths[1] else None,
        ttft=ttft,
        itl=itl,
        tpot=tpot,
        mean_ttft=mean_ttft,
        mean_itl=mean_itl,
        mean_tpot=mean_tpot,
        mean_e2el=number(record, "mean_e2e_latency_ms"),
        completed=completed,
        failed=failed,
        planned=number(record, "num_prompts"),
    )


def _identity(record: Record, info: Record, file: SourceFile, options: ImportOptions) -> PartialIdentity | Refused:
    try:
        refuse_speculative_path(file.path)
        if number(record, "accept_length") is not None or text(info, "speculative_algorithm"):
            raise Refused(Rule.SPECULATIVE, "an accept length or a speculative algorithm is recorded")
        refuse_other_engine(info)
        if "prefill" in info and "decode" in info:
            raise Refused(Rule.DISAGGREGATED, "a router spread the load over prefill and decode servers")
        if (text(info, "disaggregation_mode") or "null") != "null" or boolean(record, "pd_separated"):
            raise Refused(Rule.DISAGGREGATED, "the server ran one half of a prefill/decode pair")
        dataset = (text(record, "dataset_name") or "").lower().replace("_", "-")
        if any(part in dataset for part in _SHARED) and not options.all_misses:
            shown = show(record.get("dataset_name"))
            raise Refused(
                Rule.CACHE_HITS, f"prompts of dataset {shown} share tokens: add --all-misses if the cache was off"
            )
        return PartialIdentity(
            role=Role.SERVER if info else None,
            engine=Engine.SGLANG if info or text(record, "backend") in _NATIVE else None,
            model=repository(text(info, "model_path") or "", None, options.models),
            quantization=_quantization(info),
            degrees=_degrees(info) if info else {},
        )
    except Refused as refused:
        return refused


def _quantization(info: Record) -> Quantization | None:
    name = text(info, "quantization")
    return quantization_of_flag(name) if name else None


def _degrees(info: Record) -> dict[str, int]:
    tp, pp, dp = (degree(info, key) for key in ("tp_size", "pp_size", "dp_size"))
    inside = bool(boolean(info, "enable_dp_attention"))
    return {
        "gpus": tp * pp * (1 if inside else dp),
        "tp": tp,
        "ep": degree(info, "ep_size"),
        "pp": pp,
        "dp": dp,
        "cp": degree(info, "attn_cp_size") * degree(info, "dcp_size"),
    }
