"""A sweep as curves over concurrency, for plants that treat work as a fluid.

Between measured points everything is interpolated linearly; below the first, throughput falls in proportion to the
concurrency and latencies are held. Beyond the last measured point throughput stands still (nobody measured more) and
the excess waits: by Little's law c requests in flight at x requests/s stay c / x seconds, so the wait before the first
token grows by (c − last) / x. That holds for a server that admits as many requests as the sweep's last level.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from controller.plant.sweep import Sweep, SweepPoint


@dataclass(frozen=True, slots=True)
class SweepCurve:
    """Throughput and median latencies of one replica as functions of the requests in flight (need not be whole)."""

    sweep: Sweep
    slowdown: float = 1.0

    def total_tokens_per_second(self, concurrency: float) -> float:
        """Prompt and output tokens per second at `concurrency` requests in flight."""
        first = self.sweep.points[0]
        if concurrency < first.concurrency:
            rate = first.total_tokens_per_second * max(0.0, concurrency) / first.concurrency
        else:
            rate = self._between(concurrency, lambda point: point.total_tokens_per_second)
        return rate / self.slowdown

    def ttft_seconds(self, concurrency: float) -> float:
        """Median time to first token, the wait beyond the last measured concurrency included."""
        base = self._between(concurrency, lambda point: point.ttft_seconds) * self.slowdown
        excess = concurrency - self.sweep.last_concurrency
        if excess <= 0:
            return base
        length = self.sweep.input_tokens + self.sweep.output_tokens
        return base + excess * length / self.total_tokens_per_second(concurrency)

    def itl_seconds(self, concurrency: float) -> float:
        """Median inter-token latency."""
        return self._between(concurrency, lambda point: point.itl_seconds) * self.slowdown

    def _between(self, concurrency: float, value: Callable[[SweepPoint], float]) -> float:
        points = self.sweep.points
        index = bisect_right([point.concurrency for point in points], concurrency)
        if index == 0:
            return value(points[0])
        if index == len(points):
            return value(points[-1])
        low, high = points[index - 1], points[index]
        share = (concurrency - low.concurrency) / (high.concurrency - low.concurrency)
        return value(low) + share * (value(high) - value(low))
