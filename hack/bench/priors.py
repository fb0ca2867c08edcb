"""Figures of the capacity priors: import speed, resolution speed, hostile catalogs, held-out workloads.

    python -m hack.bench.priors [--data FOLDER] [--output json]

FOLDER is laid out as `FOLDER/inferencex/official/run_*/agg_bmk.json`; without it the committed extracts of the
embedded catalog serve (the same single-node rows). Held-out: for every image and identity with several workloads, one
workload is left out and predicted at equal concurrency, on clean rows, from each two of the others or from each one;
`accepted` is the share with sigma ≤ 0.20, errors are |predicted ÷ actual − 1| of accepted predictions, and the naive
rules (same total tokens/s, same output tokens/s) are judged on the same cases.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import tracemalloc
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec

from catalog import (
    Catalog,
    CatalogFailure,
    Identified,
    LatencyTargets,
    ObservedMix,
    Profile,
    RoleRequest,
    Source,
    catalog_yaml,
    load_embedded,
    load_text,
    resolve_scaler,
)
from catalog.importers import ImportOptions, import_files
from catalog.importers.assemble import LabelledMeasurement, assemble
from catalog.importers.files import SourceFile
from catalog.importers.run import read_file
from catalog.merge import merge_profiles
from catalog.prediction import predict
from catalog.workload_mix import Curve, MixRefusal, curve_of, fit_curves

EXTRACTS = Path(__file__).parents[1] / "priors" / "sources" / "inferencex"
# The best of many: other programs on the machine make single runs slower, never faster.
REPEATS = 20


class Case(NamedTuple):
    """One prediction of a left-out workload at one concurrency."""

    error: float
    naive_total: float
    naive_output: float
    accepted: bool
    low_holds: bool
    over: bool


def official_files(data: Path | None) -> list[Path]:
    """The result files of a data folder, or the committed extracts."""
    if data is None:
        return sorted(EXTRACTS.glob("*.json"))
    return sorted(data.glob("inferencex/official/*/agg_bmk.json"))


def import_speed(files: list[Path]) -> dict[str, float]:
    """Rows per second of a whole import (read, judge, assemble, merge), best of a few, as wall clock and as CPU
    time."""
    best_wall = best_cpu = math.inf
    rows = 0
    for _ in range(REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        rows = import_files(files, "inferencex", ImportOptions()).read
        best_wall = min(best_wall, time.perf_counter() - wall)
        best_cpu = min(best_cpu, time.process_time() - cpu)
    return {"rows": rows, "rowsPerSecond": rows / best_wall, "rowsPerCpuSecond": rows / best_cpu}


def curves_by_family(files: list[Path]) -> list[list[Curve]]:
    """The clean curves of every image and identity that was measured under at least two workloads."""
    entries: list[LabelledMeasurement] = []
    for path in files:
        entries += [
            e for e in read_file(SourceFile(path), "inferencex", ImportOptions()) if isinstance(e, LabelledMeasurement)
        ]
    families: dict[tuple[str, str | None], list[Profile]] = {}
    for profile in assemble(entries).profiles:
        families.setdefault((profile.identity.key, profile.source.image), []).append(profile)
    result = []
    for _, members in sorted(families.items(), key=lambda item: str(item[0])):
        merged = merge_profiles(members, (), "family").catalog.profiles
        curves = [curve for curve in map(curve_of, merged) if curve is not None]
        if len(curves) >= 2:
            result.append(curves)
    return result


def held_out_cases(families: list[list[Curve]], known_count: int) -> Iterator[Case]:
    """Every case with `known_count` known workloads."""
    for curves in families:
        for held in curves:
            others = [curve for curve in curves if curve is not held]
            for known in combinations(others, known_count):
                yield from _cases(list(known), held)


def _cases(known: list[Curve], held: Curve) -> Iterator[Case]:
    fit = fit_curves(known)
    if isinstance(fit, MixRefusal):
        return
    for point in held.points:
        found = predict(fit, point.concurrency, ObservedMix(input_per_output=point.m, stated=True))
        at_same = [p for curve in known for p in curve.points if p.concurrency == point.concurrency]
        if found is None or len(at_same) < len(known):
            continue
        actual = (1 + point.m) / point.y
        totals = math.exp(sum(math.log((1 + p.m) / p.y) for p in at_same) / len(at_same))
        outputs = math.exp(sum(math.log(1 / p.y) for p in at_same) / len(at_same))
        yield Case(
            error=abs(found.total / actual - 1),
            naive_total=abs(totals / actual - 1),
            naive_output=abs(outputs * point.y - 1),
            accepted=found.refusal is None,
            low_holds=found.low <= actual,
            over=found.total / actual > 1.25,
        )


def summary(cases: list[Case]) -> dict[str, float | None]:
    """Median, p90, share accepted, share over-estimated by more than a quarter, of one kind of case; null for what the
    data has no case of."""
    accepted = [case for case in cases if case.accepted]
    errors = sorted(case.error for case in accepted)
    if not errors:
        rates = dict.fromkeys(("median", "p90", "overByQuarter", "lowerBoundHolds"))
        return {"pairs": len(cases), "accepted": 0.0 if cases else None, **rates}
    return {
        "pairs": len(cases),
        "accepted": len(accepted) / len(cases),
        "median": median(errors),
        "p90": percentile(errors, 0.90),
        "overByQuarter": sum(case.over for case in accepted) / len(accepted),
        "lowerBoundHolds": sum(case.low_holds for case in accepted) / len(accepted),
    }


def naive(cases: list[Case]) -> dict[str, dict[str, float | None]]:
    """The naive rules on the same accepted cases."""
    accepted = [case for case in cases if case.accepted]
    return {
        name: {"median": median(errors), "p90": percentile(errors, 0.90)} if errors else {"median": None, "p90": None}
        for name, errors in (
            ("sameTotal", sorted(case.naive_total for case in accepted)),
            ("sameOutput", sorted(case.naive_output for case in accepted)),
        )
    }


def percentile(ascending: list[float], share: float) -> float:
    """Linear interpolation between closest ranks."""
    position = share * (len(ascending) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (position - low) * (ascending[high] - ascending[low])


HOSTILE: dict[str, str | bytes] = {
    "yamlBomb": "a: &a [x,x]\n" + "".join(f"k{i}: &k{i} [{','.join(['*a'] * 9)}]\n" for i in range(20)),
    "nestedLists": "[" * 1_000_000,
    "garbage": ("%@`!#&*" * 200_000)[: 1 << 20],
    "wideList": "[" + "0," * 500_000 + "0]",
    "wideObjects": '{"a":[' + "{}," * 340_000 + "{}]}",
    "nan": "apiVersion: .nan\nprofiles: [{points: [{concurrency: .nan}]}]\n",
    "duplicateKeys": "a: 1\n" * 2,
    "manyMistakes": "profiles:\n" + "- {a: 1, b: 2}\n" * 999,
}


def hostile() -> dict[str, float]:
    """The worst time and memory of refusing hostile catalogs (memory as Python's allocator sees it)."""
    seconds = mebibytes = 0.0
    for text in HOSTILE.values():
        start = time.perf_counter()
        load_text(text, "hostile")
        seconds = max(seconds, time.perf_counter() - start)
        tracemalloc.start()
        load_text(text, "hostile")
        mebibytes = max(mebibytes, tracemalloc.get_traced_memory()[1] / (1 << 20))
        tracemalloc.stop()
    return {"worstSeconds": seconds, "worstMebibytes": mebibytes}


def resolve_thousand() -> float:
    """Seconds for resolving 1,000 roles against 1,000 profiles, half of the roles without a profile."""
    first = load_embedded().catalog.profiles[0]
    # A catalog of 1,000 profiles must fit into 1 MiB.
    template = msgspec.structs.replace(first, points=first.points[:2], source=Source(tool="bench"))
    profiles = tuple(
        msgspec.structs.replace(
            template,
            model=f"owner/model-{n // 2}",
            workload=msgspec.structs.replace(template.workload, output_tokens=1024 * (1 + n % 2)),
        )
        for n in range(1000)
    )
    loaded = load_text(catalog_yaml(Catalog(name="bench", profiles=profiles)), "bench catalog")
    if isinstance(loaded, CatalogFailure):
        raise SystemExit(loaded.message)
    requests = [
        RoleRequest(
            name=f"role-{n}",
            identity=Identified(msgspec.structs.replace(template.identity, model=f"owner/model-{n}")),
            targets=LatencyTargets(60_000, 1_000),
            observed=ObservedMix(input_per_output=2.0, stated=True),
        )
        for n in range(1000)
    ]
    start = time.perf_counter()
    resolved = resolve_scaler(loaded, requests)
    seconds = time.perf_counter() - start
    if sum(prior.capacity is not None for prior in resolved.roles) != 500:
        raise SystemExit("half of the roles should have resolved")
    return seconds


def main(arguments: list[str]) -> int:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench.priors")
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    files = official_files(options.data)
    if not files:
        parser.error(f"no result files under {options.data}")
    families = curves_by_family(files)
    if not families:
        parser.error("no image and identity was measured under two workloads: nothing can be left out")
    two, one = list(held_out_cases(families, 2)), list(held_out_cases(families, 1))
    figures: dict[str, Any] = {
        **import_speed(files),
        "resolve1000Seconds": resolve_thousand(),
        "hostile": hostile(),
        "families": len(families),
        "heldOut": {
            "twoKnown": summary(two),
            "oneKnown": summary(one),
            "lowerBoundHolds": summary(two + one)["lowerBoundHolds"],
        },
        "naive": {"twoKnown": naive(two), "oneKnown": naive(one)},
    }
    print(json.dumps(figures, indent=1) if options.output == "json" else table(figures))
    return 0


def table(figures: dict[str, Any]) -> str:
    """The figures for a person: the conversion beside the naive rules."""
    lines = [
        f"import: {figures['rowsPerSecond']:,.0f} rows/s ({figures['rows']:,} rows)",
        f"1,000 roles against 1,000 profiles: {figures['resolve1000Seconds']:.3f} s",
        f"worst hostile catalog: {figures['hostile']['worstSeconds']:.2f} s, "
        f"{figures['hostile']['worstMebibytes']:.0f} MiB",
        "",
        "held-out workload at equal concurrency, |predicted / actual - 1| of accepted cases",
        f"{'':24}{'cases':>7}{'accepted':>10}{'median':>9}{'p90':>9}{'low holds':>11}",
    ]
    for name, title in (("twoKnown", "two workloads known"), ("oneKnown", "one workload known")):
        held = figures["heldOut"][name]
        shares = [held[key] for key in ("accepted", "median", "p90", "lowerBoundHolds")]
        lines.append(f"{title:24}{held['pairs']:7}" + "".join(map(_share, shares, (10, 9, 9, 11))))
        for rule, rule_title in (("sameOutput", "  same output tokens/s"), ("sameTotal", "  same total tokens/s")):
            rival = figures["naive"][name][rule]
            lines.append(f"{rule_title:24}{'':17}{_share(rival['median'], 9)}{_share(rival['p90'], 9)}")
    return "\n".join(lines)


def _share(value: float | None, width: int) -> str:
    return f"{'–':>{width}}" if value is None else f"{value:{width}.1%}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
