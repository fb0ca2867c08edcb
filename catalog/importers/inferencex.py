"""SemiAnalysis InferenceX (formerly InferenceMAX): aggregate rows and rows of its public API.

Accepted: `agg_bmk.json` (a list), single `agg_*.json` rows, API replies (a list, or lists under model names). Facts
that shape the code (capacity-data reference §0, §1):

- Throughputs are per accelerator; `tput_per_gpu` counts input and output. A single-node replica has tp × pp × pcp of
  them: `dp_attention` and ep live inside tp, and the API's `num_*_gpu` was tp × ep for some rows.
- Seconds everywhere. `isl`/`osl` are nominal; requests are drawn from 0.8…1.0 of them, so the mean is 0.9.
- Every run sends 10 × conc requests at once with the prefix cache off; p99 at conc is the start burst.
- vLLM recipes with `dp_attention` run dp = tp ranks of tensor-parallel degree 1 with expert parallelism; SGLang and
  TensorRT-LLM run attention data parallelism inside tp.
- Disaggregated, speculative and agentic rows measure something other than one plain replica and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

from catalog.hardware import OTHER_FORMS
from catalog.identity import (
    MAX_DEGREE,
    Engine,
    Identity,
    Parallel,
    Quantization,
    Role,
    check_parallel,
)
from catalog.importers.candidate import Candidate, Measurement, judge
from catalog.importers.fields import Record, boolean, degree, latency_reader, number, required, text, whole
from catalog.importers.files import SourceFile, opened
from catalog.importers.models import repository
from catalog.importers.options import ImportOptions
from catalog.importers.rules import Refusal, Refused, Rule
from catalog.schema import Source
from controller.foundation import printable

TOOL: Final = "InferenceX"
# Requests are drawn uniformly from 0.8…1.0 of the nominal length.
MEAN_LENGTH: Final = 0.9
REQUESTS_PER_SLOT: Final = 10

_HARDWARE: Final = {
    "h100": "nvidia-h100",
    "h200": "nvidia-h200",
    "b200": "nvidia-b200",
    "b300": "nvidia-b300",
    "gb200": "nvidia-gb200",
    "gb300": "nvidia-gb300",
    "mi300x": "amd-mi300x",
    "mi325x": "amd-mi325x",
    "mi355x": "amd-mi355x",
}
_ENGINES: Final = {
    "vllm": Engine.VLLM,
    "sglang": Engine.SGLANG,
    "trt": Engine.TENSORRT_LLM,
    "trtllm": Engine.TENSORRT_LLM,
    "atom": Engine.ATOM,
}
# Orchestrators that split prefill and decode over workers unless the row says otherwise.
_DISAGGREGATING: Final = ("dynamo-", "llmd-", "mori-", "mooncake-")
_PRECISIONS: Final = {
    "fp4": Quantization.FP4,
    "nvfp4": Quantization.FP4,
    "mxfp4": Quantization.FP4,
    "fp8": Quantization.FP8,
    "fp8block": Quantization.FP8,
    "bf16": Quantization.BF16,
    "fp16": Quantization.FP16,
    "int8": Quantization.INT8,
    "int4": Quantization.INT4,
}
_RUN: Final = re.compile(r"(?:run_|runs/)([0-9]{6,})")
_LENGTHS: Final = re.compile(r"[_-]([0-9]+)k([0-9]+)k[_\-.]")
_IMAGE_VERSION: Final = re.compile(r":v?([0-9]+\.[0-9]+[^-/]*)")
_SIGNS: Final = ("tput_per_gpu", "metrics", "infmax_model_prefix", "output_tput_per_gpu", "request_metrics")


class _Deployment(NamedTuple):
    """What a row says about the machine, without its numbers; hundreds of rows share one."""

    gpus: int
    output_gpus: int
    several: bool
    image: str | None
    engine_version: str | None
    identity: Identity | Refused


def read(file: SourceFile, options: ImportOptions) -> Iterator[Measurement | Refusal]:
    """Every row of one file, judged. Raises Refused when the whole file is none of the accepted shapes."""
    rows = _rows(file.json_objects())
    run = options.run or _run_of(str(file.path))
    lengths = _LENGTHS.search(file.path.name)
    nominal = (int(lengths.group(1)) * 1024, int(lengths.group(2)) * 1024) if lengths else None
    deployments: dict[tuple[object, ...], _Deployment] = {}
    for label, row in rows:
        try:
            _refuse_agentic_or_offloaded(opened(row))
            key = _deployment_key(tuple(row))(row)
            deployment = deployments.get(key) if _hashable(key) else None
            if deployment is None:
                deployment = deployments[key] = _deployment(row, options)
            yield judge(_candidate(row, deployment, nominal, run, options), options)
        except Refused as refused:
            yield Refusal(file.label, label, refused.rule, refused.detail)


def _rows(labelled: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Rows of a list or of lines, one row, or the lists that an API reply holds under names."""
    if len(labelled) == 1 and isinstance(labelled[0][1], dict) and not _is_row(labelled[0][1]):
        groups = [(name, rows) for name, rows in labelled[0][1].items() if isinstance(rows, list)]
        labelled = [
            (f"{printable(name)} row {i}", row) for name, rows in groups for i, row in enumerate(rows)
        ] or labelled
    if not labelled:
        raise Refused(Rule.EMPTY, "the file holds no row")
    if not any(_is_row(row) for _, row in labelled):
        raise Refused(Rule.NOT_THIS_FORMAT, f"no row has tput_per_gpu or metrics{_hint(labelled[0][1])}")
    return [(label, row if isinstance(row, dict | Refused) else {}) for label, row in labelled]


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and any(sign in row for sign in _SIGNS)


def _hint(row: Any) -> str:
    raw = isinstance(row, dict) and "output_throughput" in row
    return "; this looks like a raw bench result: use --from vllm" if raw else ""


def _refuse_agentic_or_offloaded(row: Record) -> None:
    scenario = row.get("scenario_type") or row.get("benchmark_type") or ""
    # Tables of all scenarios hold the columns of each; null is none.
    told = row.get("request_metrics") is not None or row.get("users") is not None
    if told or "agentic" in str(scenario):
        raise Refused(Rule.AGENTIC, "lengths vary per request and prompts share prefixes")
    for name in ("offload_mode", "kv_offloading"):
        if row.get(name) and str(row[name]).lower() not in ("off", "none", "false"):
            raise Refused(Rule.CACHE_HITS, f"the KV cache was offloaded ({name}): another engine than the plain one")


def _candidate(
    row: Record, deployment: _Deployment, file_lengths: tuple[int, int] | None, run: str | None, options: ImportOptions
) -> Candidate:
    metrics = row.get("metrics")
    if not isinstance(metrics, dict):
        metrics = row
    reader = latency_reader(tuple(metrics), "")
    ttft, itl, tpot = reader.quantiles(metrics, 1000.0)
    mean_ttft, mean_itl, mean_tpot, mean_e2el = reader.means(metrics, 1000.0)
    isl, osl = whole(row, "isl"), whole(row, "osl")
    if isl is None or osl is None:
        if file_lengths is None:
            raise Refused(Rule.MISSING_VALUE, "isl and osl are absent, and the file name holds no 8k1k")
        isl, osl = file_lengths
    concurrency = required(row, "conc")
    if concurrency <= 0:
        raise Refused(Rule.NOT_POSITIVE, f"conc is {concurrency:g}")
    given_input = number(metrics, "input_tput_per_gpu")
    output = number(metrics, "output_tput_per_gpu")
    return Candidate(
        identity=deployment.identity,
        source=Source(
            tool=TOOL,
            image=deployment.image or options.image,
            run=(_run_of(url) if (url := text(row, "run_url")) else None) or run,
            date=_day(text(row, "date")) or options.date,
            recipe_fingerprint=text(row, "recipe_fingerprint"),
        ),
        engine_version=deployment.engine_version,
        concurrency=concurrency,
        total=required(metrics, "tput_per_gpu") * deployment.gpus,
        output=None if output is None else output * deployment.output_gpus,
        # In disaggregated rows the three numbers have three denominators and do not add up.
        input=None if given_input is None or deployment.several else given_input * deployment.gpus,
        input_tokens=isl * MEAN_LENGTH,
        output_tokens=osl * MEAN_LENGTH,
        nominal=(isl, osl),
        ttft=ttft,
        itl=itl,
        tpot=tpot,
        mean_ttft=mean_ttft,
        mean_itl=mean_itl,
        mean_tpot=mean_tpot,
        mean_e2el=mean_e2el,
        completed=REQUESTS_PER_SLOT * concurrency,
    )


# Every field that `_deployment` reads.
_DEPLOYMENT_FIELDS: Final = (
    *(
        "hw",
        "hardware",
        "framework",
        "precision",
        "model",
        "infmax_model_prefix",
        "image",
        "spec_decoding",
        "spec_method",
    ),
    *(
        "mtp",
        "disagg",
        "is_multinode",
        "tp",
        "pp",
        "ep",
        "pcp_size",
        "dcp_size",
        "dp_attention",
        "prefill_tp",
    ),
    *("decode_tp", "decode_ep", "decode_pp", "decode_dp_attention", "num_prefill_gpu", "num_decode_gpu"),
)


@lru_cache(maxsize=256)
def _deployment_key(names: tuple[str, ...]) -> Callable[[Record], tuple[object, ...]]:
    """Reads the deployment's fields out of a row with these keys. Cached: a file has two or three key sets."""
    present = [name for name in _DEPLOYMENT_FIELDS if name in names]
    # The names go into the key, so that rows of two key sets never share a deployment by accident.
    getter = itemgetter(*present) if len(present) > 1 else (lambda row: tuple(row[name] for name in present))
    return lambda row: (names, getter(row))


def _deployment(row: Record, options: ImportOptions) -> _Deployment:
    image = (text(row, "image") or "").replace("#", "/") or None
    version = _IMAGE_VERSION.search(image) if image else None
    framework = (text(row, "framework") or "").lower()
    disaggregated = boolean(row, "disagg")
    if disaggregated is None:
        disaggregated = framework.startswith(_DISAGGREGATING) or framework.endswith("-disagg")
    several = disaggregated or bool(boolean(row, "is_multinode"))
    if several:
        # num_*_gpu is authoritative there: workers of wide expert parallelism report tp 1.
        prefill, decode = whole(row, "num_prefill_gpu") or 0, whole(row, "num_decode_gpu") or 0
        gpus, output_gpus = prefill + decode, decode or prefill + decode
        if gpus <= 0:
            raise _several_workers(framework)
    else:
        tp = whole(row, "tp") or whole(row, "decode_tp")
        if tp is None:
            dump = "; the row of a database names its configuration elsewhere: import what the API replies"
            raise Refused(Rule.MISSING_VALUE, f"tp is absent{dump if 'config_id' in row else ''}")
        pp = degree(row, "pp") if "pp" in row else degree(row, "decode_pp")
        gpus = output_gpus = tp * pp * degree(row, "pcp_size")
        if not 1 <= gpus <= MAX_DEGREE:
            raise Refused(Rule.TOPOLOGY, f"tp × pp × pcp_size is {gpus:.6g} accelerators")
    try:
        if several:
            raise _several_workers(framework)
        identity: Identity | Refused = _identity(row, framework, gpus, options)
    except Refused as refused:
        # Raised when it is the identity's turn: a row that contradicts itself is refused for that first.
        identity = refused
    return _Deployment(gpus, output_gpus, several, image, version.group(1) if version else None, identity)


def _several_workers(framework: str) -> Refused:
    return Refused(Rule.DISAGGREGATED, f"{framework or 'the deployment'} spreads one load over several workers")


def _identity(row: Record, framework: str, gpus: int, options: ImportOptions) -> Identity:
    speculation = text(row, "spec_decoding") or text(row, "spec_method") or str(row.get("mtp") or "none")
    if speculation.lower() not in ("none", "off", "false"):
        raise Refused(Rule.SPECULATIVE, f"speculative decoding is {speculation}")
    engine = _ENGINES.get(framework)
    if engine is None:
        raise Refused(Rule.UNKNOWN_ENGINE, f"framework {text(row, 'framework') or 'absent'}")
    hw = text(row, "hw") or text(row, "hardware") or "absent"
    family, *runner = re.split("[-_]", hw.lower().rsplit(":", 1)[-1])
    hardware = _HARDWARE.get(family)
    if hardware is None:
        raise Refused(Rule.UNKNOWN_HARDWARE, f"hardware {hw}")
    # What follows is the name of a runner, unless it says that the card is another one.
    other = next((OTHER_FORMS[word] for word in runner if word in OTHER_FORMS), None)
    if other is not None:
        raise Refused(Rule.UNKNOWN_HARDWARE, f"hardware {hw} is {other}")
    precision = text(row, "precision") or "absent"
    quantization = _PRECISIONS.get(precision.lower())
    if quantization is None:
        raise Refused(Rule.UNKNOWN_PRECISION, f"precision {precision}")
    short = text(row, "infmax_model_prefix")
    model_text = text(row, "model") or short or ""
    model = repository(model_text, short or model_text, options.models)
    if model is None:
        hint = f"--model {short or model_text}=owner/name"
        raise Refused(Rule.UNKNOWN_MODEL, f"model {model_text or 'absent'} names no repository: give {hint}")
    parallel = _parallel(row, engine, gpus)
    problem = check_parallel(engine, parallel)
    if problem:
        raise Refused(Rule.TOPOLOGY, problem)
    return Identity(
        role=Role.SERVER,
        model=model,
        quantization=quantization,
        engine=engine,
        hardware=hardware,
        parallel=parallel,
    )


def _parallel(row: Record, engine: Engine, gpus: int) -> Parallel:
    tp = whole(row, "tp") or whole(row, "decode_tp") or 1
    ep = degree(row, "ep") if "ep" in row else degree(row, "decode_ep")
    pp = degree(row, "pp") if "pp" in row else degree(row, "decode_pp")
    cp = degree(row, "pcp_size") * degree(row, "dcp_size")
    attention = boolean(row, "dp_attention") if "dp_attention" in row else boolean(row, "decode_dp_attention")
    if attention and tp == 1:
        # Rows of recipes with --data-parallel-size that counted one accelerator of several (InferenceX#2714).
        raise Refused(Rule.TOPOLOGY, "attention data parallelism over a tensor-parallel degree of 1")
    if not attention:
        return Parallel(gpus=gpus, tp=tp, ep=ep, pp=pp, cp=cp)
    if engine is Engine.VLLM:
        return Parallel(gpus=gpus, tp=1, ep=tp, pp=pp, dp=tp, cp=cp)
    return Parallel(gpus=gpus, tp=tp, ep=ep, pp=pp, dp=tp, cp=cp)


def _day(written: str | None) -> str | None:
    """The day of a day or of a time (a dump of a database writes `2026-01-21T00:00:00.000Z`)."""
    return written[:10] if written is not None and written[10:11] in ("T", " ") else written


def _run_of(path: str) -> str | None:
    found = _RUN.search(path)
    return found.group(1) if found else None


def _hashable(key: tuple[object, ...]) -> bool:
    try:
        hash(key)
    except TypeError:
        raise Refused(Rule.MALFORMED, "a field that names the deployment holds a list or an object") from None
    return True
