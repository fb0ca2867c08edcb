"""From traces to open-loop arrivals: cutting, spreading, thinning, and the token rate they offer.

Open loop means that a request is sent at its time whether or not earlier ones were answered, as independent users do.
Everything random takes a seed; the same seed gives the same arrivals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from controller.foundation import UsageError
from controller.plant.traces import BinnedTrace, RequestTrace

_Trace = TypeVar("_Trace", RequestTrace, BinnedTrace)
# More requests than this are a mistake on one machine: at three arrays of eight bytes each they fill a gigabyte.
_MOST_REQUESTS = 40_000_000


class Arrival(NamedTuple):
    """One request to send, `t_seconds` after the start of the trace."""

    t_seconds: float
    prompt_tokens: int
    output_tokens: int


def arrivals(trace: RequestTrace) -> Iterator[Arrival]:
    """The requests to send, in order. A row without prompt or output tokens is a request that failed or was empty at
    the source: nothing to serve, so it is left out."""
    rows = zip(trace.t_seconds.tolist(), trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)
    return (Arrival(t, prompt, output) for t, prompt, output in rows if prompt > 0 and output > 0)


def window(trace: _Trace, start_minutes: float, minutes: float) -> _Trace:
    """What lies between `start_minutes` and `minutes` later; time starts anew. Bins are taken whole, by their start.
    Raises UsageError when nothing is left. Cut a long binned trace before `spread` turns it into requests."""
    start, end = start_minutes * 60, (start_minutes + minutes) * 60
    first, last = np.searchsorted(trace.t_seconds, [start, end], side="left")
    part = slice(first, last)
    if first >= last or (isinstance(trace, BinnedTrace) and not trace.requests[part].any()):
        raise UsageError(
            f"the trace lasts {trace.duration_seconds / 60:.1f} minutes and has no requests between minute "
            f"{start_minutes:g} and minute {start_minutes + minutes:g}"
        )
    times = trace.t_seconds[part] - start
    prompts, outputs = trace.prompt_tokens[part], trace.output_tokens[part]
    if isinstance(trace, BinnedTrace):
        return BinnedTrace(times, trace.requests[part], prompts, outputs, trace.bin_seconds)
    return RequestTrace(times, prompts, outputs, min(trace.duration_seconds, end) - start)


def thin(trace: RequestTrace, factor: float, seed: int) -> RequestTrace:
    """Keep each request with probability 1 / factor (a factor of 1 or less keeps all). At least one request is kept.

    Thinning keeps the profile of the load and the length mix; counts come closer to Poisson than the source.
    """
    if factor <= 1.0:
        return trace
    keep = np.random.default_rng(seed).random(len(trace)) < 1.0 / factor
    if not keep.any():
        keep[0] = True
    return RequestTrace(
        t_seconds=trace.t_seconds[keep],
        prompt_tokens=trace.prompt_tokens[keep],
        output_tokens=trace.output_tokens[keep],
        duration_seconds=trace.duration_seconds,
    )


def spread(trace: RequestTrace | BinnedTrace, seed: int) -> RequestTrace:
    """Requests for every bin of a binned trace; a raw trace is returned as it is.

    Arrival times are uniform inside the bin, which is a Poisson process given its count. A whole count is kept exactly,
    a fractional one is rounded up with the probability of its fraction. Lengths vary exponentially; the token totals of
    a bin are conserved exactly (rounded to whole tokens), as long as it has a request to carry them: the tokens of a
    bin that got none go to the next one that has some, or back to the last. Every request gets at least one of each.
    Raises UsageError for a trace of more requests than memory should hold.
    """
    if isinstance(trace, RequestTrace):
        return trace
    if trace.requests.sum() > _MOST_REQUESTS:
        raise UsageError(
            f"the trace holds {trace.requests.sum():,.0f} requests, more than {_MOST_REQUESTS:,}; take a shorter window"
        )
    random = np.random.default_rng(seed)
    whole = np.floor(trace.requests)
    counts = (whole + (random.random(len(trace)) < trace.requests - whole)).astype(np.int64)
    if not counts.any():
        counts[int(trace.requests.argmax())] = 1
    starts = np.repeat(trace.t_seconds, counts)
    times = starts + random.random(len(starts)) * trace.bin_seconds
    prompts = _share_out(trace.prompt_tokens, counts, random)
    outputs = _share_out(trace.output_tokens, counts, random)
    order = np.argsort(times, kind="stable")
    return RequestTrace(times[order], prompts[order], outputs[order], trace.duration_seconds)


def _share_out(
    totals: NDArray[np.float64], counts: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """Whole tokens for every request, bin by bin, each bin adding up to its total (see `spread`)."""
    shares: list[NDArray[np.int64]] = []
    carried = 0.0
    for total, count in zip(totals.tolist(), counts.tolist(), strict=True):
        carried += total
        if count == 0:
            continue
        tokens = max(round(carried), count)
        carried -= tokens
        shares.append(1 + _largest_remainder(tokens - count, random.exponential(size=count)))
    if carried >= 1.0:
        shares[-1][-1] += int(carried)
    return np.concatenate(shares, dtype=np.int64)


def _largest_remainder(total: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers in proportion to `weights` that add up to `total`."""
    exact = total * weights / weights.sum()
    parts: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    missing = total - int(parts.sum())
    parts[np.argsort(parts - exact, kind="stable")[:missing]] += 1
    return parts


def token_rate(trace: RequestTrace, window_seconds: float, *, step_seconds: float = 10.0) -> NDArray[np.float64]:
    """Offered tokens per second (prompt and output, credited at arrival): the mean over each window of
    `window_seconds`, at every `step_seconds`. A trace shorter than the window gives its mean as the only value."""
    tokens = (trace.prompt_tokens + trace.output_tokens).astype(np.float64)
    bins = max(1, int(np.ceil(max(trace.duration_seconds, step_seconds) / step_seconds)))
    index = np.minimum((trace.t_seconds / step_seconds).astype(np.int64), bins - 1)
    per_bin = np.bincount(index, weights=tokens, minlength=bins)
    width = max(1, round(window_seconds / step_seconds))
    if width >= bins:
        return np.array([per_bin.sum() / max(trace.duration_seconds, step_seconds)])
    sums = np.convolve(per_bin, np.ones(width), mode="valid")
    means: NDArray[np.float64] = sums / (width * step_seconds)
    return means
