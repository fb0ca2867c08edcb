"""Fewer points, same picture.

A chart is some hundred pixels wide; an hour sampled every second has 3,600 points, a week far more. Of every bucket of
time the first, lowest, highest and last known point are kept (the M4 rule: Jugel, Jerzak, Hackenbroich, Markl, VLDB
2014): no spike is lost, and a step holds its true level until the next bucket. A gap between kept points stays a gap.
"""

from __future__ import annotations

from collections.abc import Sequence

Point = tuple[float, float | None]


def downsample(times: Sequence[float], values: Sequence[float | None], buckets: int) -> tuple[Point, ...]:
    """The points to draw, in order; an unknown value marks a gap.

    At most four known points a bucket and one gap beside each; nothing is made up, every point is one of the input's.
    A series that is short enough already keeps all its points. Times are finite and do not decrease.
    """
    if buckets < 1:
        raise ValueError(f"needs at least one bucket, got {buckets}")
    if len(times) <= 4 * buckets:
        return tuple(zip(times, values, strict=True))
    width = (times[-1] - times[0]) / buckets or 1.0
    kept: list[Point] = []
    bucket: list[int] = []
    number = 0
    for index, time in enumerate(times):
        here = min(buckets - 1, int((time - times[0]) / width))
        if here != number:
            _keep(times, values, bucket, kept)
            bucket, number = [], here
        bucket.append(index)
    _keep(times, values, bucket, kept)
    return tuple(kept)


def _keep(times: Sequence[float], values: Sequence[float | None], bucket: Sequence[int], kept: list[Point]) -> None:
    known = [(value, index) for index in bucket if (value := values[index]) is not None]
    wanted = {known[0][1], min(known)[1], max(known)[1], known[-1][1]} if known else set()
    for index in bucket:
        gap = values[index] is None
        if index in wanted or (gap and (not kept or kept[-1][1] is not None)):
            kept.append((times[index], values[index]))
