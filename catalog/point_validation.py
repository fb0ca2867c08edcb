"""Validation of the points of a profile: numbers, quantiles, and whether they describe one load."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from catalog.findings import Findings
from catalog.identity import Role
from catalog.quantiles import Quantiles, parse_quantile_key, quantile_key, value_at
from catalog.schema import Point, PointFlag, Workload
from controller.foundation import describe

MAX_POINTS: Final = 256
MAX_QUANTILES: Final = 256
# Ceilings that only a wrong unit reaches: ten million tokens/s from one replica, a day of latency.
MAX_TOKENS_PER_SECOND: Final = 1e7
MAX_MILLISECONDS: Final = 86_400_000.0
MAX_CONCURRENCY: Final = 1_000_000
MAX_REQUESTS: Final = 2_000_000_000
# Requests in flight by Little's law ÷ stated concurrency, with medians for means. Above: more throughput than these
# latencies allow, which only a wrong unit or accelerator count gives. Below: a slow client can leave slots empty, but
# latencies in seconds are off by a thousand.
LITTLE_BAND: Final = (0.005, 20.0)

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


def read_points(value: object, path: str, role: Role | None, f: Findings) -> list[tuple[int, Point]]:
    """(index in the document, point) of every readable point."""
    entries = f.items(value, path, MAX_POINTS)
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
    elif total is not None and output == total and role is not Role.DECODE:
        f.add(f"{path}.totalTokensPerSecond", f"equals the output ({total:g}): total counts input and output")
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
        f.choice(PointFlag, flag, f"{path}.flags[{i}]")
        for i, flag in enumerate(f.items(raw.get("flags"), f"{path}.flags", 16))
    ]
    run, date = f.optional_text(raw, "run", path), f.optional_date(raw, path)
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


def load_axis_problem(point: Point, workload: Workload) -> str | None:
    """Why concurrency, throughput and latency do not describe one load (Little's law, loosely: medians for means); None
    where they may."""
    if point.requests is not None and point.requests < point.concurrency:
        return f"load axis is incoherent: {point.requests} requests cannot keep {point.concurrency} in flight"
    first_token, per_token = value_at(point.ttft, 50), value_at(point.per_token, 50)
    if first_token is None or per_token is None:
        return None
    output_tokens = workload.lengths[1]
    seconds = (first_token + per_token * max(output_tokens - 1, 0)) / 1000
    in_flight = point.output_tokens_per_second / output_tokens * seconds
    if LITTLE_BAND[0] <= in_flight / point.concurrency <= LITTLE_BAND[1]:
        return None
    return (
        f"load axis is incoherent: this throughput at these latencies keeps about {in_flight:.3g} requests in "
        f"flight, not {point.concurrency}; check units (milliseconds, tokens/s of the whole replica)"
    )
