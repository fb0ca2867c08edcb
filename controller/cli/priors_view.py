"""How `mdscaler priors …` prints: plain text for people, one JSON object for programs.

JSON numbers are rounded like a catalog's (three decimals; an effective capacity two, as status shows it).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

from catalog import (
    CatalogFailure,
    CatalogResult,
    LoadedCatalog,
    MergeResult,
    Profile,
    ResolvedCapacity,
    RolePrior,
    ScalerPriors,
    catalog_digest,
)
from catalog.importers import MEANING, ImportReport, Refusal
from controller.cli.options import Output
from controller.foundation import format_quantity, printable


def say(text: str) -> None:
    """Print what one of the functions below gives. Names out of files must not move a cursor or break an encoder; the
    escapes are JSON's, so that an object stays one."""
    typer.echo("\n".join(printable(line) for line in text.split("\n")))


def validation(results: Sequence[tuple[Path, CatalogResult]], output: Output) -> str:
    """What `validate` says."""
    if output is Output.JSON:
        files = [_validated(path, result) for path, result in results]
        return _json({"valid": all(entry["valid"] for entry in files), "files": files})
    lines = []
    for path, result in results:
        if isinstance(result, CatalogFailure):
            lines.append(f"{result.source or path}: INVALID, {_counted(len(result.findings), 'error')}")
            lines += [f"  {str(finding).removeprefix(': ')}" for finding in result.findings]
        else:
            held = result.catalog
            points = sum(len(profile.points) for profile in held.profiles)
            counts = f"{_counted(len(held.profiles), 'profile')}, {_counted(points, 'point')}"
            stones = _counted(len(held.retired), "tombstone")
            lines.append(f"{result.source}: valid, {counts}, {stones}, {catalog_digest(held)}")
    return "\n".join(lines)


def _validated(path: Path, result: CatalogResult) -> dict[str, Any]:
    if isinstance(result, CatalogFailure):
        errors = [{"path": finding.path, "message": finding.message} for finding in result.findings]
        return {"file": str(path), "valid": False, "errors": errors}
    return {
        "file": str(path),
        "valid": True,
        "profiles": len(result.catalog.profiles),
        "points": sum(len(profile.points) for profile in result.catalog.profiles),
        "retired": len(result.catalog.retired),
        "digest": catalog_digest(result.catalog),
    }


def imported(report: ImportReport, out: Path | None, output: Output, *, every_refusal: bool) -> str:
    """What `import` says: the summary, and an example of each rule that refused something."""
    examples = _examples(report.refusals)
    files, rows = sum(report.refused_files.values()), sum(report.refused_rows.values())
    if output is Output.JSON:
        summary: dict[str, Any] = {
            # A file that gave no row counts as one, so that nothing is missing from the sum: read = imported + refused.
            "read": report.read + files,
            "imported": report.imported,
            "profiles": len(report.catalog.profiles),
            "superseded": report.superseded,
            "refused": report.refused,
            "filesRefused": report.refused_files,
            "examples": {rule: _refusal(refusal) for rule, refusal in examples.items()},
            "out": None if out is None else str(out),
            "digest": catalog_digest(report.catalog),
        }
        if every_refusal:
            summary["refusals"] = [_refusal(refusal) for refusal in report.refusals]
        return _json(summary)
    whole = f"; {_counted(files, 'file')} refused whole" if files else ""
    lines = [
        f"{_counted(report.read, 'row')} read, {report.imported:,} imported into "
        f"{_counted(len(report.catalog.profiles), 'profile')} "
        f"({report.superseded} superseded by newer runs), {rows:,} refused{whole}"
    ]
    for rule, count in report.refused.items():
        lines.append(f"  {count:6,}  {rule}: {MEANING[examples[rule].rule]}")
        lines.append(f"          e.g. {_where(examples[rule])}{examples[rule].detail}")
    if every_refusal:
        lines += [str(refusal) for refusal in report.refusals]
    lines.append(
        f"written: {out}" if out else "nothing was written: give --out FILE" if report.imported else "nothing to write"
    )
    return "\n".join(lines)


def _examples(refusals: Iterable[Refusal]) -> dict[str, Refusal]:
    examples: dict[str, Refusal] = {}
    for refusal in refusals:
        examples.setdefault(refusal.rule.value, refusal)
    return examples


def _where(refusal: Refusal) -> str:
    return f"{refusal.file} {refusal.row}".strip() + ": "


def _refusal(refusal: Refusal) -> dict[str, str]:
    return {"file": refusal.file, "row": refusal.row, "rule": refusal.rule.value, "detail": refusal.detail}


def merged(result: MergeResult, out: Path | None, output: Output) -> str:
    """What `merge` says."""
    profiles = len(result.catalog.profiles)
    if output is Output.JSON:
        return _json(
            {
                "profiles": profiles,
                "superseded": result.superseded,
                "retired": len(result.retired),
                "digest": catalog_digest(result.catalog),
                "out": None if out is None else str(out),
            }
        )
    where = f"written: {out}" if out else "nothing was written: give --out FILE"
    kept_out = f"{len(result.retired)} kept out by tombstones"
    return f"{_counted(profiles, 'profile')}, {result.superseded} superseded, {kept_out}\n{where}"


def retired(profiles: Sequence[Profile], out: Path, output: Output) -> str:
    """What `retire` says."""
    names = [f"{profile.identity} {profile.workload.label}" for profile in profiles]
    if output is Output.JSON:
        return _json({"retired": names, "out": str(out)})
    return "\n".join([*(f"retired: {name}" for name in names), f"written: {out}"])


def resolved(priors: ScalerPriors, output: Output) -> str:
    """What `resolve` says. In JSON the fields of a single role also stand at the top, so that a script need not
    index."""
    if output is Output.TEXT:
        lines = [priors.reason.value]
        for prior in priors.roles:
            lines += [f"  {prior.message}", *(() if prior.capacity is None else (f"    {_point(prior.capacity)}",))]
        return "\n".join(lines)
    roles = [_role(prior) for prior in priors.roles]
    condition = {"resolved": priors.resolved, "reason": priors.reason.value, "message": priors.message}
    top = roles[0] | condition if len(roles) == 1 else condition
    return _json(top | {"roles": roles})


def _point(capacity: ResolvedCapacity) -> str:
    """The operating point, with where its latencies were read: tools report different quantiles."""
    point = capacity.point
    said = [f"measured at concurrency {capacity.concurrency}"]
    if point.ttft is not None:
        said.append(f"TTFT {point.ttft.milliseconds:g} ms ({point.ttft.basis})")
    if point.per_token is not None:
        said.append(f"{point.per_token_name.upper()} {point.per_token.milliseconds:g} ms ({point.per_token.basis})")
    return ", ".join(said)


def _role(prior: RolePrior) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "role": prior.role,
        "reason": prior.reason.value,
        "message": prior.message,
        "identity": prior.identity,
        "declared": prior.declared,
    }
    if prior.capacity is not None:
        fields |= _capacity(prior.capacity)
    if prior.mix is not None:
        fields["mixFactor"] = _number(prior.mix.factor)
        fields["sigma"] = _number(prior.mix.sigma)
        fields["mixRefusal"] = None if prior.mix.refusal is None else prior.mix.refusal.value
    return fields


def _capacity(capacity: ResolvedCapacity) -> dict[str, Any]:
    point = capacity.point
    return {
        "seedTokensPerSecond": _number(capacity.seed_tokens_per_second),
        "effectiveTokensPerSecond": _number(capacity.effective_tokens_per_second, 2),
        "headroom": capacity.headroom,
        "unit": capacity.unit.value,
        "rho": _number(capacity.rho, 6),
        "selection": capacity.selection.value,
        "workload": capacity.workload,
        "operatingPoint": {
            "concurrency": capacity.concurrency,
            "ttftMilliseconds": None if point.ttft is None else _number(point.ttft.milliseconds),
            "ttftReadFrom": None if point.ttft is None else point.ttft.basis,
            "itlMilliseconds": None if point.per_token is None else _number(point.per_token.milliseconds),
            "itlReadFrom": None if point.per_token is None else f"{point.per_token_name} {point.per_token.basis}",
        },
        "profileDigest": capacity.profile_digest,
        "fingerprint": capacity.fingerprint,
        "curve": [
            {"concurrency": concurrency, "tokensPerSecond": _number(rate)} for concurrency, rate in capacity.curve
        ],
    }


def shown(loaded: LoadedCatalog, profiles: Sequence[Profile], output: Output) -> str:
    """What `show` says."""
    if output is Output.JSON:
        entries = [
            {
                "identity": str(profile.identity),
                "workload": profile.workload.label,
                "digest": loaded.index.digest(profile),
                "engineVersion": profile.engine_version,
                "source": {"tool": profile.source.tool, "image": profile.source.image, "run": profile.source.run},
                "points": [
                    {
                        "concurrency": point.concurrency,
                        "totalTokensPerSecond": point.total_tokens_per_second,
                        "outputTokensPerSecond": point.output_tokens_per_second,
                    }
                    for point in profile.points
                ],
            }
            for profile in profiles
        ]
        return _json({"catalog": loaded.source, "digest": catalog_digest(loaded.catalog), "profiles": entries})
    lines = [f"{loaded.source} {catalog_digest(loaded.catalog)}: {_counted(len(profiles), 'profile')}"]
    for profile in profiles:
        lines.append(f"{profile.identity} {profile.workload.label}")
        lines.append(f"  {loaded.index.digest(profile)}")
        curve = ", ".join(f"{p.concurrency}: {format_quantity(p.total_tokens_per_second)}" for p in profile.points)
        lines.append(f"  total tokens/s by concurrency: {curve}")
    lines += [f"retired {stone.date}: {stone.key} ({stone.reason})" for stone in loaded.catalog.retired]
    return "\n".join(lines)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _number(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
