"""From a plain document to a `Catalog`, or to every finding in it.

Validation is total (it never raises for any document and never stops at the first finding, up to a bound) and
deterministic (findings come sorted by path). A catalog with one finding is not used at all: half a catalog would scale
some roles and silently hold others.
"""

from __future__ import annotations

import re
from typing import Final

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
from catalog.point_validation import MAX_POINTS, load_axis_problem, read_points
from catalog.schema import (
    API_VERSION,
    KIND,
    Basis,
    CacheBehavior,
    Catalog,
    Profile,
    Source,
    Tombstone,
    Workload,
)
from controller.foundation import FieldError, describe

MAX_PROFILES: Final = 1000
MAX_TOMBSTONES: Final = 10_000
# A ceiling that only a wrong unit reaches.
MAX_TOKENS: Final = 10_000_000

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_TOP = ("apiVersion", "kind", "metadata", "profiles", "retired")
_METADATA = ("name", "labels", "annotations", "namespace", "creationTimestamp")
_PROFILE = ("role", "model", "quantization", "engine", "hardware", "parallel", "workload", "points", "source")
_WORKLOAD = ("inputTokens", "outputTokens", "cacheBehavior", "meanInputTokens", "meanOutputTokens")
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
    for index, value in enumerate(f.items(top.get("profiles"), "profiles", MAX_PROFILES)):
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
    for index, value in enumerate(f.items(top.get("retired"), "retired", MAX_TOMBSTONES)):
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


def _profile(value: object, path: str, f: Findings) -> Profile | None:
    before = len(f)
    raw = f.mapping(value, path, _PROFILE)
    if raw is None:
        return None
    role = f.choice(Role, f.required(raw, "role", path), f"{path}.role")
    model, revision, tokenizer = _model(f.required(raw, "model", path), f"{path}.model", f)
    quantization = f.choice(Quantization, f.required(raw, "quantization", path), f"{path}.quantization")
    engine, engine_version = _engine(f.required(raw, "engine", path), f"{path}.engine", f)
    hardware = f.required(raw, "hardware", path)
    if hardware is not None and (not isinstance(hardware, str) or hardware not in HARDWARE):
        f.add(f"{path}.hardware", f"must be one of {', '.join(HARDWARE)}, found {describe(hardware)}")
    parallel = _parallel(raw.get("parallel"), f"{path}.parallel", engine, f)
    workload = _workload(f.required(raw, "workload", path), f"{path}.workload", f)
    points = read_points(f.required(raw, "points", path), f"{path}.points", role, f)
    source = _source(raw.get("source"), f"{path}.source", f)
    if workload is not None:
        for index, point in points:
            problem = load_axis_problem(point, workload)
            if problem is not None:
                f.add(f"{path}.points[{index}].concurrency", problem)
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
    return checked, f.optional_text(raw, "revision", path), f.optional_text(raw, "tokenizer", path)


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
    return engine, f.optional_text(raw, "version", path)


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
    cache = f.choice(CacheBehavior, raw.get("cacheBehavior") or CacheBehavior.ALL_MISSES, f"{path}.cacheBehavior")
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


def _source(value: object, path: str, f: Findings) -> Source:
    raw = f.mapping({} if value is None else value, path, _SOURCE)
    if raw is None:
        return Source()
    texts = {
        field: f.optional_text(raw, name, path, longest=2048) for name, field in _SOURCE_TEXTS.items() if name != "date"
    }
    basis = f.choice(Basis, raw.get("basis") or Basis.MEASURED, f"{path}.basis") or Basis.MEASURED
    interval = raw.get("streamInterval")
    digests: list[str] = []
    for index, digest in enumerate(f.items(raw.get("digests"), f"{path}.digests", MAX_POINTS)):
        if isinstance(digest, str) and _DIGEST.fullmatch(digest):
            digests.append(digest)
        else:
            f.add(f"{path}.digests[{index}]", "must be sha256: and 64 hexadecimal digits")
    return Source(
        **texts,
        date=f.optional_date(raw, path),
        basis=basis,
        stream_interval=None if interval is None else f.whole(interval, f"{path}.streamInterval", largest=MAX_TOKENS),
        digests=tuple(sorted(set(digests))),
    )


def _tombstone(value: object, path: str, f: Findings) -> Tombstone | None:
    raw = f.mapping(value, path, ("key", "digest", "date", "reason"))
    if raw is None:
        return None
    key = f.optional_text(raw, "key", path, longest=1024) if f.required(raw, "key", path) is not None else None
    reason = f.optional_text(raw, "reason", path, longest=2048) if f.required(raw, "reason", path) is not None else None
    date = f.optional_date(raw, path) if f.required(raw, "date", path) is not None else None
    digest = f.required(raw, "digest", path)
    if digest is not None and not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        f.add(f"{path}.digest", "must be sha256: and 64 hexadecimal digits")
        digest = None
    if key is None or reason is None or date is None or digest is None:
        return None
    return Tombstone(key=key, digest=str(digest), date=date, reason=reason)
