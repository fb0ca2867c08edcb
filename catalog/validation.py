"""From a plain document to a `Catalog`, or to every finding in it.

Validation is total (it never raises for any document and never stops at the first finding, up to a bound) and
deterministic (findings come sorted by path). A catalog with one finding is not used at all: half a catalog would scale
some roles and silently hold others.
"""

from __future__ import annotations

import re
from enum import StrEnum
from itertools import pairwise
from typing import Final, TypeVar

from catalog.findings import Findings, TooManyFindings
from catalog.identity import (
    DEGREES,
    HARDWARE,
    MAX_DEGREE,
    Engine,
    IdentityError,
    Parallel,
    Quantization,
    Role,
    check_model,
    check_parallel,
    parse_engine,
)
from catalog.quantiles import Quantiles, parse_quantile_key, quantile_key, value_at
from catalog.schema import (
    API_VERSION,
    KIND,
    Basis,
    CacheBehavior,
    Catalog,
    Point,
    PointFlag,
    Profile,
    Source,
    Tombstone,
    Workload,
)
from controller.foundation import FieldError, describe

MAX_PROFILES: Final = 1000
MAX_POINTS: Final = 256
MAX_QUANTILES: Final = 64
MAX_TOMBSTONES: Final = 10_000
# Ceilings that only a wrong unit reaches: ten million tokens/s from one replica, a day of latency, ten million tokens.
MAX_TOKENS_PER_SECOND: Final = 1e7
MAX_MILLISECONDS: Final = 86_400_000.0
MAX_TOKENS: Final = 10_000_000
MAX_CONCURRENCY: Final = 1_000_000
MAX_REQUESTS: Final = 2_000_000_000
# Requests in flight by Little's law ÷ stated concurrency, with medians for means. Above: more throughput than these
# latencies allow, which only a wrong unit or accelerator count gives. Below: a slow client can leave slots empty, but
# latencies in seconds are off by a thousand.
LITTLE_BAND: Final = (0.005, 20.0)

_E = TypeVar("_E", bound=StrEnum)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].{1,40})?")
_TOP = ("apiVersion", "kind", "metadata", "profiles", "retired")
_METADATA = ("name", "labels", "annotations", "namespace", "creationTimestamp")
_PROFILE = ("role", "model", "quantization", "engine", "hardware", "parallel", "workload", "points", "source")
_WORKLOAD = ("inputTokens", "outputTokens", "cacheBehavior", "meanInputTokens", "meanOutputTokens")
_POINT = (
    "concurrency",
    "totalTokensPerSecond",
    "outputTokensPerSecond",
    "ttftMilliseconds",
    "itlMilliseconds",
    "tpotMilliseconds",
    "requests",
    "flags",
    "run",
    "date",
)
_SOURCE_TEXTS = {
    "tool": "tool",
    "version": "version",
    "image": "image",
    "run": "run",
    "date": "date",
    "recipeFingerprint": "recipe_fingerprint",
    "notes": "notes",
}
_SOURCE = (*_SOURCE_TEXTS, "basis", "streamInterval", "digests")


def validate_document(document: object) -> tuple[Catalog | None, list[FieldError]]:
    """The catalog of a document, or None with all findings (at most `findings.MAX_FINDINGS`)."""
    findings = Findings()
    catalog: Catalog | None = None
    try:
        catalog = _catalog(document, findings)
    except TooManyFindings:
        catalog = None
    if len(findings):
        return None, findings.sorted()
    return catalog, []


def _catalog(document: object, f: Findings) -> Catalog | None:
    top = f.mapping(document, "", _TOP)
    if top is None:
        return None
    for name, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if top.get(name) != expected:
            f.add(name, f"must be {expected}, found {describe(top.get(name))}")
    name = "catalog"
    metadata = f.mapping(top.get("metadata") or {}, "metadata", _METADATA)
    if metadata and metadata.get("name") is not None:
        name = f.text(metadata["name"], "metadata.name", longest=253) or name
    profiles: dict[str, tuple[int, Profile]] = {}
    for index, value in enumerate(_list(top.get("profiles"), "profiles", MAX_PROFILES, f)):
        profile = _profile(value, f"profiles[{index}]", f)
        if profile is None:
            continue
        first, _ = profiles.setdefault(profile.key, (index, profile))
        if first != index:
            f.add(
                f"profiles[{index}]",
                f"repeats the identity and workload of profiles[{first}] ({profile.identity}, "
                f"{profile.workload.label}): merge the two",
            )
    retired: list[Tombstone] = []
    for index, value in enumerate(_list(top.get("retired"), "retired", MAX_TOMBSTONES, f)):
        tombstone = _tombstone(value, f"retired[{index}]", f)
        if tombstone is not None:
            retired.append(tombstone)
    if len(f):
        return None
    return Catalog(
        name=name,
        profiles=tuple(profile for _, (_, profile) in sorted(profiles.items())),
        retired=tuple(sorted(set(retired), key=lambda t: (t.key, t.digest, t.date, t.reason))),
    )


def _list(value: object, path: str, longest: int, f: Findings) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        f.add(path, f"must be a list, found {describe(value)}")
        return []
    if len(value) > longest:
        f.add(path, f"has {len(value):,} entries; the limit is {longest:,}: split the catalog")
        return []
    return value


def _profile(value: object, path: str, f: Findings) -> Profile | None:
    before = len(f)
    raw = f.mapping(value, path, _PROFILE)
    if raw is None:
        return None
    role = _enum(Role, f.required(raw, "role", path), f"{path}.role", f)
    model, revision, tokenizer = _model(f.required(raw, "model", path), f"{path}.model", f)
    quantization = _enum(Quantization, f.required(raw, "quantization", path), f"{path}.quantization", f)
    engine, engine_version = _engine(f.required(raw, "engine", path), f"{path}.engine", f)
    hardware = f.required(raw, "hardware", path)
    if hardware is not None and (not isinstance(hardware, str) or hardware not in HARDWARE):
        f.add(f"{path}.hardware", f"must be one of {', '.join(HARDWARE)}, found {describe(hardware)}")
    parallel = _parallel(raw.get("parallel"), f"{path}.parallel", engine, f)
    workload = _workload(f.required(raw, "workload", path), f"{path}.workload", f)
    points = _points(f.required(raw, "points", path), f"{path}.points", role, f)
    source = _source(raw.get("source"), f"{path}.source", f)
    if workload is not None:
        for index, point in points:
            _check_load_axis(point, workload, f"{path}.points[{index}]", f)
    if len(f) > before or role is None or quantization is None or engine is None or parallel is None:
        return None
    if workload is None or model is None or not points:
        return None
    return Profile(
        role=role,
        model=model,
        revision=revision,
        tokenizer=tokenizer,
        quantization=quantization,
        engine=engine,
        engine_version=engine_version,
        hardware=str(hardware),
        parallel=parallel,
        workload=workload,
        points=tuple(sorted((point for _, point in points), key=lambda point: point.concurrency)),
        source=source,
    )


def _enum(kind: type[_E], value: object, path: str, f: Findings) -> _E | None:
    if value is None:
        return None  # a missing field is reported by the caller
    try:
        return kind(value if isinstance(value, str) else "")
    except ValueError:
        f.add(path, f"must be one of {', '.join(kind)}, found {describe(value)}")
        return None


def _model(value: object, path: str, f: Findings) -> tuple[str | None, str | None, str | None]:
    raw = f.mapping(value, path, ("name", "revision", "tokenizer")) if value is not None else None
    if raw is None:
        return None, None, None
    name = f.required(raw, "name", path)
    checked: str | None = None
    if name is not None:
        try:
            checked = check_model(name if isinstance(name, str) else "")
        except IdentityError as error:
            f.add(f"{path}.name", str(error))
    return checked, _optional(raw, "revision", path, f), _optional(raw, "tokenizer", path, f)


def _optional(raw: dict[str, object], name: str, path: str, f: Findings, longest: int = 256) -> str | None:
    value = raw.get(name)
    return None if value is None else f.text(value, f"{path}.{name}", longest=longest)


def _engine(value: object, path: str, f: Findings) -> tuple[Engine | None, str | None]:
    raw = f.mapping(value, path, ("name", "version")) if value is not None else None
    if raw is None:
        return None, None
    name = f.required(raw, "name", path)
    engine: Engine | None = None
    if name is not None:
        try:
            engine = parse_engine(name if isinstance(name, str) else "")
        except IdentityError as error:
            f.add(f"{path}.name", str(error))
    return engine, _optional(raw, "version", path, f)


def _parallel(value: object, path: str, engine: Engine | None, f: Findings) -> Parallel | None:
    raw = f.mapping({} if value is None else value, path, DEGREES)
    if raw is None:
        return None
    degrees: dict[str, int] = {}
    for name in DEGREES:
        if raw.get(name) is not None:
            number = f.whole(raw[name], f"{path}.{name}", largest=MAX_DEGREE)
            if number is None:
                return None
            degrees[name] = number
    parallel = Parallel(**degrees)
    problem = check_parallel(engine, parallel) if engine else None
    if problem:
        f.add(path, problem)
        return None
    return parallel


def _workload(value: object, path: str, f: Findings) -> Workload | None:
    raw = f.mapping(value, path, _WORKLOAD) if value is not None else None
    if raw is None:
        return None
    tokens = {
        name: None
        if (found := f.required(raw, name, path)) is None
        else f.whole(found, f"{path}.{name}", largest=MAX_TOKENS)
        for name in ("inputTokens", "outputTokens")
    }
    cache = _enum(CacheBehavior, raw.get("cacheBehavior") or CacheBehavior.ALL_MISSES, f"{path}.cacheBehavior", f)
    means = {
        name: None if raw.get(name) is None else f.positive(raw[name], f"{path}.{name}", largest=MAX_TOKENS)
        for name in ("meanInputTokens", "meanOutputTokens")
    }
    if tokens["inputTokens"] is None or tokens["outputTokens"] is None or cache is None:
        return None
    return Workload(
        input_tokens=tokens["inputTokens"],
        output_tokens=tokens["outputTokens"],
        cache_behavior=cache,
        mean_input_tokens=means["meanInputTokens"],
        mean_output_tokens=means["meanOutputTokens"],
    )


def _points(value: object, path: str, role: Role | None, f: Findings) -> list[tuple[int, Point]]:
    entries = _list(value, path, MAX_POINTS, f)
    if value is not None and not entries and isinstance(value, list) and not value:
        f.add(path, "must hold at least one point")
    points: list[tuple[int, Point]] = []
    first_at: dict[int, int] = {}
    for index, entry in enumerate(entries):
        point = _point(entry, f"{path}[{index}]", role, f)
        if point is None:
            continue
        if point.concurrency in first_at:
            f.add(
                f"{path}[{index}].concurrency",
                f"{point.concurrency} is already measured by points[{first_at[point.concurrency]}]: keep one",
            )
        first_at.setdefault(point.concurrency, index)
        points.append((index, point))
    return points


def _point(value: object, path: str, role: Role | None, f: Findings) -> Point | None:
    before = len(f)
    raw = f.mapping(value, path, _POINT)
    if raw is None:
        return None
    found = f.required(raw, "concurrency", path)
    concurrency = None if found is None else f.whole(found, f"{path}.concurrency", largest=MAX_CONCURRENCY)
    rates = {}
    for name in ("totalTokensPerSecond", "outputTokensPerSecond"):
        found = f.required(raw, name, path)
        rates[name] = None if found is None else f.positive(found, f"{path}.{name}", largest=MAX_TOKENS_PER_SECOND)
    total, output = rates["totalTokensPerSecond"], rates["outputTokensPerSecond"]
    if total is not None and output is not None and output > total:
        f.add(
            f"{path}.outputTokensPerSecond",
            f"is above the total ({output:g} > {total:g}): total counts input and output",
        )
    ttft, itl, tpot = (
        _quantiles(raw, name, path, f) for name in ("ttftMilliseconds", "itlMilliseconds", "tpotMilliseconds")
    )
    if role in (Role.SERVER, Role.PREFILL) and not ttft and raw.get("ttftMilliseconds") is None:
        f.add(f"{path}.ttftMilliseconds", "is required: without it no TTFT target can be checked")
    if (
        role in (Role.SERVER, Role.DECODE)
        and raw.get("itlMilliseconds") is None
        and raw.get("tpotMilliseconds") is None
    ):
        f.add(f"{path}.itlMilliseconds", "is required (or tpotMilliseconds): without it no ITL target can be checked")
    requests = (
        None if raw.get("requests") is None else f.whole(raw["requests"], f"{path}.requests", largest=MAX_REQUESTS)
    )
    flags = [
        _enum(PointFlag, flag, f"{path}.flags[{i}]", f)
        for i, flag in enumerate(_list(raw.get("flags"), f"{path}.flags", 16, f))
    ]
    run, date = _optional(raw, "run", path, f), _date(raw, path, f)
    if len(f) > before or concurrency is None or total is None or output is None:
        return None
    return Point(
        concurrency=concurrency,
        total_tokens_per_second=total,
        output_tokens_per_second=output,
        ttft=ttft,
        itl=itl,
        tpot=tpot,
        requests=requests,
        flags=tuple(sorted({flag for flag in flags if flag})),
        run=run,
        date=date,
    )


def _quantiles(raw: dict[str, object], name: str, path: str, f: Findings) -> Quantiles:
    value = raw.get(name)
    where = f"{path}.{name}"
    if value is None:
        return ()
    if not isinstance(value, dict) or not value or len(value) > MAX_QUANTILES:
        f.add(where, f"must map 1 to {MAX_QUANTILES} quantiles such as p50 to milliseconds, found {describe(value)}")
        return ()
    measured: dict[float, float] = {}
    for key, entry in value.items():
        try:
            quantile = parse_quantile_key(key)
        except ValueError as error:
            f.add(where, str(error))
            continue
        milliseconds = f.positive(entry, f"{where}.{key}", largest=MAX_MILLISECONDS)
        if quantile in measured:
            f.add(f"{where}.{key}", f"quantile {quantile_key(quantile)} is given twice")
        elif milliseconds is not None:
            measured[quantile] = milliseconds
    ordered = sorted(measured.items())
    for (low, at_low), (high, at_high) in pairwise(ordered):
        if at_high < at_low:
            f.add(where, f"{quantile_key(high)} ({at_high:g}) is below {quantile_key(low)} ({at_low:g})")
    return tuple(ordered)


def _check_load_axis(point: Point, workload: Workload, path: str, f: Findings) -> None:
    """Concurrency, throughput and latency must describe the same load (Little's law, loosely: medians for means)."""
    if point.requests is not None and point.requests < point.concurrency:
        f.add(
            f"{path}.concurrency",
            f"load axis is incoherent: {point.requests} requests cannot keep {point.concurrency} in flight",
        )
    first_token, per_token = value_at(point.ttft, 50), value_at(point.per_token, 50)
    if first_token is None or per_token is None:
        return
    output_tokens = workload.lengths[1]
    seconds = (first_token + per_token * max(output_tokens - 1, 0)) / 1000
    in_flight = point.output_tokens_per_second / output_tokens * seconds
    if not LITTLE_BAND[0] <= in_flight / point.concurrency <= LITTLE_BAND[1]:
        f.add(
            f"{path}.concurrency",
            f"load axis is incoherent: this throughput at these latencies keeps about {in_flight:.3g} requests in "
            f"flight, not {point.concurrency}; check units (milliseconds, tokens/s of the whole replica)",
        )


def _date(raw: dict[str, object], path: str, f: Findings) -> str | None:
    text = _optional(raw, "date", path, f)
    if text is not None and not _DATE.fullmatch(text):
        f.add(f"{path}.date", f"must start with a date such as 2026-01-21, found {describe(text)}")
        return None
    return text


def _source(value: object, path: str, f: Findings) -> Source:
    raw = f.mapping({} if value is None else value, path, _SOURCE)
    if raw is None:
        return Source()
    texts = {
        field: _optional(raw, name, path, f, longest=2048) for name, field in _SOURCE_TEXTS.items() if name != "date"
    }
    basis = _enum(Basis, raw.get("basis") or Basis.MEASURED, f"{path}.basis", f) or Basis.MEASURED
    interval = raw.get("streamInterval")
    digests: list[str] = []
    for index, digest in enumerate(_list(raw.get("digests"), f"{path}.digests", MAX_POINTS, f)):
        if isinstance(digest, str) and _DIGEST.fullmatch(digest):
            digests.append(digest)
        else:
            f.add(f"{path}.digests[{index}]", "must be sha256: and 64 hexadecimal digits")
    return Source(
        **texts,
        date=_date(raw, path, f),
        basis=basis,
        stream_interval=None if interval is None else f.whole(interval, f"{path}.streamInterval", largest=MAX_TOKENS),
        digests=tuple(sorted(set(digests))),
    )


def _tombstone(value: object, path: str, f: Findings) -> Tombstone | None:
    raw = f.mapping(value, path, ("key", "digest", "date", "reason"))
    if raw is None:
        return None
    key = _optional(raw, "key", path, f, longest=1024) if f.required(raw, "key", path) is not None else None
    reason = _optional(raw, "reason", path, f, longest=2048) if f.required(raw, "reason", path) is not None else None
    date = _date(raw, path, f) if f.required(raw, "date", path) is not None else None
    digest = f.required(raw, "digest", path)
    if digest is not None and not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        f.add(f"{path}.digest", "must be sha256: and 64 hexadecimal digits")
        digest = None
    if key is None or reason is None or date is None or digest is None:
        return None
    return Tombstone(key=key, digest=str(digest), date=date, reason=reason)
