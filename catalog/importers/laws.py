"""The sanity laws: what must hold between the numbers of one row whatever tool wrote it.

Bounds come from the public record (capacity-data reference §0.13, §6). Over all official single-node InferenceX rows
Little's law holds within 0.957…1.0015 and the end-to-end identity within 0.981…1.015; one broken row in 198 of another
source stood at 0.024. Real sweeps with as many requests as slots reach 0.748, because ramp and drain are most of them.
"""

from __future__ import annotations

from typing import Final

from catalog.importers.rules import Refused, Rule
from catalog.point_validation import MAX_CONCURRENCY, MAX_MILLISECONDS, MAX_REQUESTS, MAX_TOKENS_PER_SECOND
from catalog.quantiles import Quantiles, value_at

MAX_FAILURE_RATE: Final = 0.05
TOKEN_SUM_TOLERANCE: Final = 0.01
TOKEN_RATIO_TOLERANCE: Final = 0.03
MAX_MEDIAN_OVER_MEAN: Final = 5.0
# A p95 target needs a measured quantile on both sides of it.
SMALLEST_TAIL: Final = 90.0
LITTLE_BAND: Final = (0.85, 1.05)
LITTLE_BAND_SHORT: Final = (0.70, 1.05)
# From this many requests per slot on, ramp and drain are a small part of the run.
ROUNDS_FOR_STEADY_STATE: Final = 5
END_TO_END_BAND: Final = (0.95, 1.05)
COLD_TAIL_MILLISECONDS: Final = 10_000.0
COLD_TAIL_RATIO: Final = 50.0
# Median gap ÷ median time per token: 0.5…1.0 where every token is its own chunk (prefills of others make it smaller),
# 6…50 where recipes bundle tokens, 0.006 where two events arrive together.
CHUNKED_ABOVE: Final = 1.6
CHUNKED_BELOW: Final = 0.05
# Half a token on average would round to none.
MIN_LENGTH, MAX_LENGTH = 0.5, 10_000_000
# A catalog holds thousandths of milliseconds and of tokens/s; anything smaller would become zero there.
SMALLEST: Final = 0.001
# Rounding an open-loop run's mean concurrency may not move it by more than this.
WHOLE_TOLERANCE: Final = 0.05


def check_completion(completed: float | None, failed: float | None, planned: float | None) -> None:
    """Some request completed, and at most 5 % failed."""
    for name, count in (("failed", failed), ("planned", planned)):
        if count is not None and count < 0:
            raise Refused(Rule.NOT_POSITIVE, f"the number of {name} requests is {count:g}")
    if completed is not None and completed > MAX_REQUESTS:
        raise Refused(Rule.MALFORMED, f"{completed:.3g} requests are more than any run has")
    if completed is not None and completed <= 0:
        raise Refused(Rule.NOTHING_COMPLETED, f"completed {completed:.0f} of {planned or failed or 0:.0f} requests")
    if planned is not None and completed is not None:
        # A run that was stopped counts no failure, and what never ended is missing from its latencies all the same.
        failed = max(failed or 0.0, planned - completed)
    if failed and completed is not None and failed / (failed + completed) > MAX_FAILURE_RATE:
        share = failed / (failed + completed)
        raise Refused(Rule.FAILURE_RATE, f"{failed:.0f} of {failed + completed:.0f} requests failed ({share:.0%})")


def check_throughput(total: float | None, output: float | None, given_input: float | None) -> tuple[float, float]:
    """(total, output), both present and positive, adding up where input is known."""
    if output is None:
        raise Refused(Rule.MISSING_VALUE, "output tokens/s is absent")
    if total is None:
        if given_input is None:
            raise Refused(Rule.MISSING_VALUE, "total tokens/s is absent and cannot be derived")
        total = given_input + output
    if total < SMALLEST or output < SMALLEST:
        raise Refused(Rule.NOT_POSITIVE, f"throughput is {total:g} total, {output:g} output tokens/s")
    if total > MAX_TOKENS_PER_SECOND:
        raise Refused(Rule.UNITS, f"{total:g} tokens/s are more than one replica can serve")
    if output > total:
        raise Refused(Rule.TOKEN_SUM, f"output {output:.1f} is above total {total:.1f} tokens/s")
    if given_input is not None and abs(given_input + output - total) > TOKEN_SUM_TOLERANCE * total:
        raise Refused(
            Rule.TOKEN_SUM, f"input {given_input:.1f} + output {output:.1f} is not total {total:.1f} tokens/s"
        )
    return total, output


def check_lengths(input_tokens: float, output_tokens: float) -> None:
    """Mean lengths are positive and no nonsense."""
    if not (MIN_LENGTH <= input_tokens <= MAX_LENGTH and MIN_LENGTH <= output_tokens <= MAX_LENGTH):
        raise Refused(Rule.NOT_POSITIVE, f"mean lengths are {input_tokens:g} input, {output_tokens:g} output tokens")


def check_token_ratio(total: float, output: float, input_tokens: float, output_tokens: float) -> None:
    """total ÷ output = 1 + input length ÷ output length. Catches a table copied under another workload's heading, and
    output tokens/s stored as total."""
    measured, expected = total / output, 1 + input_tokens / output_tokens
    if abs(measured / expected - 1) > TOKEN_RATIO_TOLERANCE:
        raise Refused(
            Rule.TOKEN_RATIO,
            f"total/output is {measured:.2f}, lengths {input_tokens:.0f}/{output_tokens:.0f} give {expected:.2f}",
        )


def check_quantiles(name: str, measured: Quantiles, mean: float | None) -> None:
    """Positive, not decreasing, and a median that is not far above the mean."""
    before = 0.0
    for quantile, milliseconds in measured:
        if milliseconds < SMALLEST:
            raise Refused(Rule.NOT_POSITIVE, f"p{quantile:g} {name} is {milliseconds:g} ms")
        if milliseconds < before:
            raise Refused(Rule.DECREASING_QUANTILES, f"p{quantile:g} {name} {milliseconds:g} ms is below {before:g} ms")
        before = milliseconds
    if before > MAX_MILLISECONDS:
        raise Refused(Rule.UNITS, f"{name} of {before:g} ms is longer than a day")
    if mean is None:
        return
    if mean <= 0:
        raise Refused(Rule.NOT_POSITIVE, f"mean {name} is {mean:g} ms")
    median = value_at(measured, 50.0)
    if median is not None and median > MAX_MEDIAN_OVER_MEAN * mean:
        raise Refused(Rule.SKEWED_MEDIAN, f"median {name} {median:g} ms, mean {mean:g} ms")


def check_tail(name: str, measured: Quantiles) -> None:
    """A latency target at p95 can be judged: a quantile at p90 or above was measured."""
    if not measured:
        raise Refused(Rule.MISSING_VALUE, f"no quantile of {name} is recorded (was streaming on?)")
    if measured[-1][0] < SMALLEST_TAIL:
        raise Refused(Rule.TAIL_QUANTILE_MISSING, f"{name} was measured up to p{measured[-1][0]:g} only")


def check_concurrency(concurrency: float | None) -> int:
    """A whole number of requests in flight; an open-loop mean may be rounded a little."""
    if concurrency is None:
        raise Refused(Rule.CONCURRENCY_UNKNOWN, "no limit on requests in flight is recorded: give --concurrency")
    if concurrency > MAX_CONCURRENCY:
        raise Refused(Rule.MALFORMED, f"a concurrency of {concurrency:.3g} is no client's")
    whole = round(concurrency)
    if whole < 1 or abs(whole - concurrency) > WHOLE_TOLERANCE * whole:
        raise Refused(Rule.CONCURRENCY_NOT_WHOLE, f"on average {concurrency:.3g} requests were in flight")
    return whole


def check_little(
    output: float,
    output_tokens: float,
    concurrency: int,
    *,
    mean_e2el: float | None,
    mean_ttft: float | None,
    per_token: float | None,
    requests: float | None,
) -> None:
    """requests/s × mean latency ÷ concurrency lies near 1. Catches wrong accelerator counts, per-accelerator numbers,
    seconds read as milliseconds and runs that hung."""
    if mean_e2el is None and mean_ttft is not None and (per_token is not None or output_tokens <= 1):
        mean_e2el = mean_ttft + (per_token or 0.0) * max(output_tokens - 1, 0)
    if mean_e2el is None:
        return
    ratio = output / output_tokens * mean_e2el / 1000 / concurrency
    steady = requests is None or requests >= ROUNDS_FOR_STEADY_STATE * concurrency
    low, high = LITTLE_BAND if steady else LITTLE_BAND_SHORT
    if not low <= ratio <= high:
        raise Refused(
            Rule.LITTLES_LAW,
            f"requests/s × latency ÷ concurrency is {ratio:.3f} at concurrency {concurrency}, not within {low}…{high}",
        )


def check_end_to_end(
    output_tokens: float,
    mean_e2el: float | None,
    mean_ttft: float | None,
    mean_tpot: float | None,
    mean_itl: float | None,
) -> None:
    """TTFT + per-token time × (output − 1) gives the end-to-end latency. It holds with TPOT when lengths vary little,
    and with the pooled gap whatever the lengths, when every token is its own chunk; one of the two must close."""
    if mean_e2el is None or mean_ttft is None:
        return
    low, high = END_TO_END_BAND
    best: float | None = None
    for per_token in (mean_tpot, mean_itl):
        if per_token is None:
            continue
        ratio = (mean_ttft + per_token * max(output_tokens - 1, 0)) / mean_e2el
        if low <= ratio <= high:
            return
        if best is None or abs(ratio - 1) < abs(best - 1):
            best = ratio
    if best is not None:
        raise Refused(
            Rule.END_TO_END,
            f"TTFT + per-token × (output − 1) is {best:.3f} of the end-to-end latency, not within {low}…{high}",
        )


def has_cold_tail(ttft: Quantiles) -> bool:
    """The largest TTFT quantile is over 10 s and over 50 times the median."""
    median = value_at(ttft, 50.0)
    return bool(median and ttft[-1][1] > COLD_TAIL_MILLISECONDS and ttft[-1][1] > COLD_TAIL_RATIO * median)


def itl_is_chunked(itl: Quantiles, tpot: Quantiles) -> bool:
    """The gaps are between chunks of several tokens (or of none), not between tokens."""
    gap, per_token = value_at(itl, 50.0), value_at(tpot, 50.0)
    if gap is None or per_token is None:
        return False
    return not CHUNKED_BELOW * per_token <= gap <= CHUNKED_ABOVE * per_token
