"""llm-d-benchmark reports, versions 0.1 and 0.2 (YAML or JSON): the only format with a complete identity.

Facts that shape the code (capacity-data §2.7): every statistic names its unit (`ms`, `s`, `s/token`; converters
differ); percentiles are `p50`, `P25` (a converter's bug), `p0p1` = 0.1, `p99p9` = 99.9; throughput and concurrency
are those of all replicas together; a stack with prefill and decode engines is a pair and no single replica.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

from catalog.document import Bounds, DocumentError, read_document
from catalog.hardware import HardwareRefusal, resolve_hardware
from catalog.identity import Engine, IdentityError, Quantization, Role, parse_engine
from catalog.importers.candidate import Candidate, Measurement, judge
from catalog.importers.fields import Record, degree, number, section, show, text, whole
from catalog.importers.files import SourceFile
from catalog.importers.guidellm import SERVED_SHARE
from catalog.importers.models import repository
from catalog.importers.options import ImportOptions
from catalog.importers.partial import PartialIdentity
from catalog.importers.rules import Refusal, Refused, Rule
from catalog.importers.settings import degrees_of_settings, refuse_other_engine
from catalog.importers.speculation import refuse_speculative_path
from catalog.quantiles import Quantiles, percent
from catalog.quantization import quantization_of_flag, quantizations_of_repository
from catalog.schema import Source

TOOL: Final = "llm-d-benchmark"
# Reports carry time series and native configuration.
_BOUNDS: Final = Bounds(max_bytes=64 * 1024 * 1024, max_depth=64, max_nodes=5_000_000, min_node_bytes=0)
_DEGREE_FLAGS: Final = {
    **dict.fromkeys(("--tensor-parallel-size", "-tp", "--tp-size", "--tp"), "tp"),
    **dict.fromkeys(("--pipeline-parallel-size", "-pp", "--pp-size"), "pp"),
    **dict.fromkeys(("--data-parallel-size", "-dp", "--dp-size"), "dp"),
}
_PERCENTILE: Final = re.compile(r"[pP]([0-9]{1,2})(?:[p.]([0-9]{1,20}))?")
_MILLISECONDS: Final = {"ms": 1.0, "ms/token": 1.0, "s": 1000.0, "s/token": 1000.0, "us": 1e-3, "us/token": 1e-3}


def read(file: SourceFile, options: ImportOptions) -> Iterator[Measurement | Refusal]:
    """The one measurement of one report, judged. Raises Refused when the file is something else."""
    try:
        document = read_document(file.read(), _BOUNDS)
    except DocumentError as error:
        raise Refused(Rule.UNREADABLE, str(error)) from None
    file.documents = [document]
    if (
        not isinstance(document, dict)
        or "scenario" not in document
        or not ("metrics" in document or "results" in document)
    ):
        raise Refused(Rule.NOT_THIS_FORMAT, "no scenario with results or metrics")
    try:
        yield judge(_candidate(document, file, options), options)
    except Refused as refused:
        yield Refusal(file.label, "", refused.rule, refused.detail)


def _candidate(document: Record, file: SourceFile, options: ImportOptions) -> Candidate:
    performance = section(document, "results", "request_performance", "aggregate") or section(document, "metrics")
    latencies, throughput = section(performance, "latency"), section(performance, "throughput")
    requests = section(performance, "requests")
    identity, replicas = _identity_and_replicas(document, file, options)
    planned, failed = number(requests, "total"), number(requests, "failures")
    incomplete = number(requests, "incomplete") or 0.0
    completed = None if planned is None else planned - (failed or 0.0) - incomplete
    ttft, mean_ttft = _latency(latencies, "time_to_first_token")
    tpot, mean_tpot = _latency(latencies, "time_per_output_token")
    itl, mean_itl = _latency(latencies, "inter_token_latency")
    _, mean_e2el = _latency(latencies, "request_latency")
    rates = {name: _rate(throughput, name) for name in ("total", "output", "input")}
    per_replica = {name: None if rate is None else rate / replicas for name, rate in rates.items()}
    served = _mean(throughput, "request_rate") or number(throughput, "requests_per_sec")
    concurrency = _concurrency(section(document, "scenario", "load", "standardized"), served, mean_e2el)
    run = section(document, "run")
    start = text(section(run, "time"), "start")
    return Candidate(
        identity=identity,
        source=Source(
            tool=TOOL,
            version=_version(document),
            image=options.image or _image(document),
            run=options.run or text(run, "uid"),
            date=options.date or (start[:10] if start else None),
        ),
        engine_version=options.engine_version,
        concurrency=None if concurrency is None else concurrency / replicas,
        total=per_replica["total"],
        output=per_replica["output"],
        input=per_replica["input"],
        input_tokens=number(section(requests, "input_length"), "mean"),
        output_tokens=number(section(requests, "output_length"), "mean"),
        ttft=ttft,
        itl=itl,
        tpot=tpot,
        mean_ttft=mean_ttft,
        mean_itl=mean_itl,
        mean_tpot=mean_tpot,
        mean_e2el=mean_e2el,
        completed=completed,
        failed=failed,
    )


def _latency(latencies: Record, name: str) -> tuple[Quantiles, float | None]:
    statistics = section(latencies, name)
    if not statistics:
        return (), None
    units = text(statistics, "units") or "absent"
    scale = _MILLISECONDS.get(units)
    if scale is None:
        raise Refused(Rule.UNITS, f"{name} has the units {show(units)}")
    measured: dict[float, float] = {}
    for key in statistics:
        match = _PERCENTILE.fullmatch(str(key))
        value = number(statistics, key) if match else None
        if match and value is not None:
            quantile = percent(f"{match.group(1)}.{match.group(2) or 0}")
            if quantile is not None:
                measured[quantile] = value * scale
    mean = number(statistics, "mean")
    return tuple(sorted(measured.items())), None if mean is None else mean * scale


def _mean(holder: Record, name: str) -> float | None:
    value = holder.get(name)
    return number(value, "mean") if isinstance(value, dict) else None


def _rate(throughput: Record, kind: str) -> float | None:
    found = _mean(throughput, f"{kind}_token_rate")
    return found if found is not None else number(throughput, f"{kind}_tokens_per_sec")


def _concurrency(load: Record, served: float | None, mean_e2el: float | None) -> float | None:
    # The converters write Infinity for what a run had no limit of.
    level = None if load.get("concurrency") == math.inf else number(load, "concurrency")
    if level is not None and level > 0:
        return level
    requested = None if load.get("rate_qps") == math.inf else number(load, "rate_qps")
    if requested and served is not None and served < SERVED_SHARE * requested:
        raise Refused(Rule.OVERLOADED, f"served {served:.4g} of {requested:.4g} requests/s")
    if requested and served is not None and mean_e2el is not None:
        return served * mean_e2el / 1000
    return None


def _version(document: Record) -> str | None:
    """The version of the report, which YAML may read as a number."""
    version = document.get("version")
    return str(version) if isinstance(version, int | float) else text(document, "version")


def _image(document: Record) -> str | None:
    for engine in _engines(document):
        version = text(engine, "tool_version")
        if version is not None and "/" in version:
            return version
    return None


def _engines(document: Record) -> list[Record]:
    stack = section(document, "scenario").get("stack")
    entries = (
        [section(entry, "standardized") for entry in stack if isinstance(entry, dict)]
        if isinstance(stack, list)
        else []
    )
    return [entry for entry in entries if entry.get("kind") == "inference_engine"]


def _identity_and_replicas(
    document: Record, file: SourceFile, options: ImportOptions
) -> tuple[PartialIdentity | Refused, float]:
    try:
        refuse_speculative_path(file.path)
        _refuse_shared_prompts(document, options)
        if "stack" in section(document, "scenario"):
            return _identity_of_stack(document, options)
        return _identity_of_host(document, options)
    except Refused as refused:
        return refused, 1.0


def _identity_of_stack(document: Record, options: ImportOptions) -> tuple[PartialIdentity, float]:
    engines = _engines(document)
    roles = {str(engine.get("role")) for engine in engines}
    if len(engines) != 1:
        raise Refused(Rule.DISAGGREGATED, f"the stack holds {len(engines)} inference engines")
    # A lone decode engine behind a router that picks decode Pods serves whole requests only when nothing else prefills.
    if not roles <= {"aggregate", "replica", "both", "None"}:
        raise Refused(Rule.DISAGGREGATED, f"the only engine of the stack has the role {show(roles.pop())}")
    engine = engines[0]
    accelerator = section(engine, "accelerator")
    native = _native_args(document, engine)
    # A switch is written with null.
    refuse_other_engine({flag: True if value is None else value for flag, value in native.items()})
    identity = _identity(
        text(section(engine, "model"), "name"),
        text(engine, "tool"),
        accelerator,
        text(section(engine, "model"), "quantization") or _text(native.get("--quantization")),
        options,
    )
    _check_degrees(identity, native)
    replicas = whole(engine, "replicas")
    if replicas is not None and replicas < 1:
        raise Refused(Rule.NOT_POSITIVE, f"replicas is {replicas}")
    return identity, float(replicas or 1)


def _refuse_shared_prompts(document: Record, options: ImportOptions) -> None:
    load = section(document, "scenario", "load", "standardized")
    turns = section(load, "multi_turn").get("enabled")
    # The length may be a number or a distribution; a prefix of nobody's prompts has none.
    length = section(load, "prefix").get("prefix_len")
    shared = number(length, "value") if isinstance(length, dict) else number({"prefix_len": length}, "prefix_len")
    if not options.all_misses and (turns is True or shared):
        raise Refused(Rule.CACHE_HITS, "prompts share prefixes or turns: add --all-misses if the cache was off")


def _check_degrees(identity: PartialIdentity, native: Record) -> None:
    """The degrees that the engine was started with are those that the report states."""
    for flag in native:
        name = _DEGREE_FLAGS.get(_flag(flag))
        if name is None:
            continue
        started, stated = whole(native, flag), identity.degrees.get(name)
        if started is not None and stated is not None and started != stated:
            raise Refused(
                Rule.IDENTITY_CONTRADICTED, f"{name} is {stated} in the report, {started} in the engine's arguments"
            )
    experts = degrees_of_settings({flag: True if value is None else value for flag, value in native.items()}).get("ep")
    if experts is not None and experts != identity.degrees.get("ep", experts):
        raise Refused(
            Rule.IDENTITY_CONTRADICTED,
            f"ep is {identity.degrees['ep']} in the report, {experts} by the engine's arguments",
        )


def _flag(name: object) -> str:
    return str(name).replace("_", "-")


def _native_args(document: Record, engine: Record) -> Record:
    """The native arguments of the stack entry whose standardized part is `engine`."""
    stack = section(document, "scenario").get("stack")
    for entry in stack if isinstance(stack, list) else ():
        if isinstance(entry, dict) and entry.get("standardized") is engine:
            return section(entry, "native", "args")
    return {}


def _identity_of_host(document: Record, options: ImportOptions) -> tuple[PartialIdentity, float]:
    scenario = section(document, "scenario")
    types = section(scenario, "host").get("type")
    accelerators = section(scenario, "host").get("accelerator")
    engines = section(scenario, "platform").get("engine")
    if not isinstance(types, list) or set(map(str, types)) != {"replica"}:
        raise Refused(Rule.DISAGGREGATED, f"the host types are {show(types)}")
    first = accelerators[0] if isinstance(accelerators, list) and accelerators else {}
    engine = engines[0] if isinstance(engines, list) and engines else {}
    model = section(scenario, "model")
    identity = _identity(
        text(model, "name"),
        text(engine if isinstance(engine, dict) else {}, "name"),
        first if isinstance(first, dict) else {},
        text(model, "quantization"),
        options,
    )
    return identity, float(len(types))


def _identity(
    model: str | None, engine: str | None, accelerator: Record, quantization: str | None, options: ImportOptions
) -> PartialIdentity:
    parallel = section(accelerator, "parallelism")
    name = text(accelerator, "model")
    hardware: str | None = None
    if name is not None:
        resolved = resolve_hardware(name, memory_gib=number(accelerator, "memory"))
        if isinstance(resolved, HardwareRefusal):
            raise Refused(Rule.UNKNOWN_HARDWARE, resolved.message)
        hardware = resolved
    degrees = {
        mine: degree(parallel, theirs)
        for mine, theirs in (("tp", "tp"), ("ep", "ep"), ("pp", "pp"), ("dp", "dp"), ("ldp", "dp_local"))
        if number(parallel, theirs) is not None
    }
    count = number(accelerator, "count")
    if count is not None and count >= 1:
        degrees["gpus"] = int(count)
    return PartialIdentity(
        role=Role.SERVER,
        model=repository(model or "", None, options.models),
        quantization=_quantization(model, quantization),
        engine=_engine(engine),
        hardware=hardware,
        degrees=degrees,
    )


def _engine(name: str | None) -> Engine | None:
    # `llm-d` images hold vLLM, but may hold another engine one day: the person says which.
    try:
        return parse_engine(name) if name else None
    except IdentityError:
        return None


def _quantization(model: str | None, stated: str | None) -> Quantization | None:
    if stated:
        try:
            return Quantization(stated.lower())
        except ValueError:
            return quantization_of_flag(stated)
    found = quantizations_of_repository(model or "")
    return found[0] if len(found) == 1 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
