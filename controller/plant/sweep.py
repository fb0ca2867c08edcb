"""A benchmark sweep of one replica: throughput and latency at a few concurrencies, read from its JSON form.

`read_sweep` promises a `Sweep` whose points are sorted by concurrency, unique, positive and finite, or a `UsageError`
that names the file and the field. It reads `workload.{inputTokens,outputTokens}` and of every point `concurrency`,
`totalTokensPerSecond`, `ttft.p50`, `itl.p50` (milliseconds) and, where present, `outputTokensPerSecond` and `requests`.
Other fields are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import orjson

from controller.foundation import UsageError, describe


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """What was measured at one concurrency. Latencies are medians."""

    concurrency: int
    total_tokens_per_second: float
    output_tokens_per_second: float
    ttft_seconds: float
    itl_seconds: float
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """The points of one replica under one fixed length mix. `input_tokens` is what the engine really got per request:
    a chat template adds to the nominal length, and the ratio of total to output tokens shows by how much."""

    input_tokens: float
    output_tokens: float
    points: tuple[SweepPoint, ...]

    @property
    def saturation_tokens_per_second(self) -> float:
        """The highest throughput that was measured."""
        return max(point.total_tokens_per_second for point in self.points)

    @property
    def last_concurrency(self) -> int:
        """The highest concurrency that was measured."""
        return self.points[-1].concurrency

    @property
    def in_waves(self) -> bool:
        """Whether the load came in waves (send c requests, wait for all, repeat) rather than one by one.

        A client that works in waves completes a whole multiple of the concurrency at every level. Waves prefill
        together, so their time to first token is far above that of the same load spread out.
        """
        counts = [(point.requests, point.concurrency) for point in self.points]
        return all(requests is not None and requests > 0 and requests % c == 0 for requests, c in counts)


def read_sweep(path: Path) -> Sweep:
    """The sweep in a JSON file. Raises UsageError for a file that is missing, unreadable or wrong."""
    try:
        document = orjson.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read the sweep {path}: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise UsageError(f"the sweep {path} is not JSON: {error}") from None
    try:
        return parse_sweep(document)
    except ValueError as error:
        raise UsageError(f"the sweep {path} cannot be used: {error}") from None


def parse_sweep(document: object) -> Sweep:
    """The sweep in a decoded JSON document. Raises ValueError that names the field."""
    root = _mapping(document, "document")
    workload = _mapping(root.get("workload"), "workload")
    nominal_input = _positive(workload.get("inputTokens"), "workload.inputTokens")
    output = _positive(workload.get("outputTokens"), "workload.outputTokens")
    raw_points = root.get("points")
    if not isinstance(raw_points, list) or not raw_points:
        raise ValueError(f"points: must be a list with at least one point, found {describe(raw_points)}")
    points = sorted(
        (_point(raw, f"points[{index}]", nominal_input, output) for index, raw in enumerate(raw_points)),
        key=lambda point: point.concurrency,
    )
    for lower, upper in pairwise(points):
        if lower.concurrency == upper.concurrency:
            raise ValueError(f"points: concurrency {lower.concurrency} occurs twice; keep one point for each")
    total = sum(point.total_tokens_per_second for point in points)
    generated = sum(point.output_tokens_per_second for point in points)
    return Sweep(input_tokens=(total - generated) / generated * output, output_tokens=output, points=tuple(points))


def _point(raw: object, path: str, nominal_input: float, output: float) -> SweepPoint:
    fields = _mapping(raw, path)
    concurrency = fields.get("concurrency")
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise ValueError(f"{path}.concurrency: must be a whole number of at least 1, found {describe(concurrency)}")
    total = _positive(fields.get("totalTokensPerSecond"), f"{path}.totalTokensPerSecond")
    generated = total * output / (nominal_input + output)
    if fields.get("outputTokensPerSecond") is not None:
        generated = _positive(fields["outputTokensPerSecond"], f"{path}.outputTokensPerSecond")
    if generated >= total:
        raise ValueError(f"{path}.outputTokensPerSecond: must be below the total of {total}, found {generated}")
    ttft = _mapping(fields.get("ttft"), f"{path}.ttft")
    itl = _mapping(fields.get("itl"), f"{path}.itl")
    requests = fields.get("requests")
    return SweepPoint(
        concurrency=concurrency,
        total_tokens_per_second=total,
        output_tokens_per_second=generated,
        ttft_seconds=_positive(ttft.get("p50"), f"{path}.ttft.p50") / 1000,
        itl_seconds=_positive(itl.get("p50"), f"{path}.itl.p50") / 1000,
        requests=requests if isinstance(requests, int) and not isinstance(requests, bool) else None,
    )


def _mapping(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{path}: must be an object, found {describe(value)}")
    return value


def _positive(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{path}: must be a number above 0, found {describe(value)}")
    return float(value)
