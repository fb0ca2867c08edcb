"""What a fitted identity does at a live mix: throughput with its confidence, latencies, and the best concurrency.

Formulas (3) to (6) of workload-mix §4. Cached prompt tokens cost nothing (hit ratio h leaves m·(1−h)) but count in the
totals, as engine counters count them. A prediction whose sigma exceeds 0.20 is refused, and so is one at a clamp of the
fit, with too few requests behind the live lengths, or with prompts more than twice as long as any that was measured.
Tails do not transfer: TTFT and ITL at p90 and above come from the start burst and from prefill stalls.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import msgspec

from catalog.workload_mix import Curve, CurvePoint, MixFit, MixRefusal

SIGMA_LIMIT: Final = 0.20
SIGMA_FLOOR: Final = 0.04
# low = total·exp(−1.28·sigma): nine of ten lie above it.
LOW_QUANTILE: Final = 1.28
MIN_REQUESTS: Final = 200
MAX_LENGTH_RATIO: Final = 2.0
# A measured hit ratio is at least this uncertain, once it matters.
HIT_SIGMA: Final = 0.05
HIT_MATTERS: Final = 0.1
# Guards on predicted latencies: without them one binding target in six is missed by more than a quarter.
TTFT_GUARD: Final = 1.3
TPOT_GUARD: Final = 1.1
_STEP: Final = 0.975
_TTFT_PER_INPUT: Final = 1.15
_TTFT_EXPONENT: Final = 0.58
_APART: Final = 2.0


class ObservedMix(msgspec.Struct, frozen=True, kw_only=True):
    """The live mix of a role. `input_per_output` is Δ prompt tokens ÷ Δ generation tokens from engine counters.

    Mean lengths and the number of finished requests are None where they are unknown; a person who states a mix knows no
    number of requests and is believed. `hit_ratio` must be measured on the same replicas, never a theoretical one.
    """

    input_per_output: float
    mean_input_tokens: float | None = None
    mean_output_tokens: float | None = None
    requests: int | None = None
    stated: bool = False
    hit_ratio: float = 0.0
    hit_ratio_sigma: float = 0.0

    @property
    def is_known(self) -> bool:
        """Enough requests stand behind the ratio to act on it."""
        return self.input_per_output > 0 and (self.stated or (self.requests or 0) >= MIN_REQUESTS)


class Prediction(NamedTuple):
    """Tokens/s of one replica at one concurrency and mix. `refusal` is set where it may not be used; the numbers stand
    all the same, because a mismatch is reported even when it is not acted on."""

    concurrency: int
    total: float
    output: float
    rho: float
    sigma: float
    low: float
    refusal: MixRefusal | None


class MixLatency(NamedTuple):
    """Predicted medians in seconds; None where nothing was measured that they could be predicted from."""

    ttft: float | None
    tpot: float | None
    itl: float | None


def predict(fit: MixFit, concurrency: int, mix: ObservedMix) -> Prediction | None:
    """The prediction at a measured concurrency; None where this concurrency is not in the grid."""
    index = fit.at(concurrency)
    if index is None:
        return None
    m, b = mix.input_per_output, fit.b[index]
    hit = min(max(mix.hit_ratio, 0.0), 1.0)
    effective = m * (1 - hit)
    y = b + fit.a * effective
    hit_sigma = max(mix.hit_ratio_sigma, HIT_SIGMA) if hit > HIT_MATTERS else 0.0
    relative = abs(effective - fit.mean_m[index]) * fit.sd_a * max(1.0, fit.residual / 0.03) / y
    sigma = math.sqrt(max(SIGMA_FLOOR, fit.residual) ** 2 + relative**2 + (hit_sigma * fit.a * m / y) ** 2)
    total = (1 + m) / y
    return Prediction(
        concurrency=concurrency,
        total=total,
        output=1 / y,
        rho=fit.a / b,
        sigma=sigma,
        low=total * math.exp(-LOW_QUANTILE * sigma),
        refusal=_refusal(fit, index, mix, sigma),
    )


def _refusal(fit: MixFit, index: int, mix: ObservedMix, sigma: float) -> MixRefusal | None:
    if not mix.is_known or (mix.mean_input_tokens is None and not mix.stated):
        return MixRefusal.TOO_FEW_REQUESTS
    longest = max(curve.input_tokens for curve in fit.curves)
    if mix.mean_input_tokens is not None and mix.mean_input_tokens > MAX_LENGTH_RATIO * longest:
        return MixRefusal.LENGTHS_BEYOND_MEASURED
    if fit.clamped[index]:
        return MixRefusal.AT_CLAMP
    return MixRefusal.SIGMA_TOO_LARGE if sigma > SIGMA_LIMIT else None


def predict_latency(fit: MixFit, concurrency: int, mix: ObservedMix) -> MixLatency:
    """Median latencies at a measured concurrency and mix."""
    index = fit.at(concurrency)
    known = [(curve, point) for curve in fit.curves for point in curve.points if point.concurrency == concurrency]
    if index is None or not known:
        return MixLatency(None, None, None)
    effective = mix.input_per_output * (1 - min(max(mix.hit_ratio, 0.0), 1.0))
    y = fit.b[index] + fit.a * effective
    ttft = _ttft(fit, known, mix.mean_input_tokens)
    output_tokens = mix.mean_output_tokens
    if output_tokens is None and mix.mean_input_tokens is not None and mix.input_per_output > 0:
        output_tokens = mix.mean_input_tokens / mix.input_per_output
    tpot = _STEP * concurrency * y
    if ttft is not None and output_tokens:
        tpot -= ttft / output_tokens
    gaps = [point.itl for _, point in known if point.itl is not None]
    itl = math.exp(sum(map(math.log, gaps)) / len(gaps)) if gaps else None
    return MixLatency(ttft, max(tpot, 0.0), itl)


def _ttft(fit: MixFit, known: list[tuple[Curve, CurvePoint]], input_tokens: float | None) -> float | None:
    measured = sorted((curve.input_tokens, point.ttft) for curve, point in known if point.ttft is not None)
    if not measured or input_tokens is None:
        return None
    lengths = [length for length, _ in measured]
    if lengths[-1] > _APART * lengths[0]:
        return _line(measured, input_tokens)
    estimates = []
    for length, ttft in measured:
        shifted = max(ttft + _TTFT_PER_INPUT * fit.a * (input_tokens - length), ttft / 4)
        estimates += [shifted, ttft * (input_tokens / length) ** _TTFT_EXPONENT]
    return math.exp(sum(map(math.log, estimates)) / len(estimates))


def _line(measured: list[tuple[float, float]], at: float) -> float:
    """Least-squares line through (length, TTFT), never below a quarter of the smallest measured TTFT."""
    count = len(measured)
    mean_x = sum(x for x, _ in measured) / count
    mean_y = sum(y for _, y in measured) / count
    spread = sum((x - mean_x) ** 2 for x, _ in measured)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in measured) / spread
    return max(mean_y + slope * (at - mean_x), min(y for _, y in measured) / 4)


def best_concurrency(
    fit: MixFit,
    mix: ObservedMix,
    *,
    ttft_seconds: float | None,
    tpot_seconds: float | None,
    most_requests: int | None = None,
) -> Prediction | None:
    """The prediction of highest total among the measured concurrencies, not beyond the largest that all workloads
    share nor beyond what the engine runs at once, whose predicted medians keep the targets with a guard. None where
    none does or a latency cannot be predicted."""
    best: Prediction | None = None
    for concurrency in fit.grid:
        if concurrency > fit.largest_common or (most_requests is not None and concurrency > most_requests):
            break
        latency = predict_latency(fit, concurrency, mix)
        if ttft_seconds is not None and (latency.ttft is None or latency.ttft * TTFT_GUARD > ttft_seconds):
            continue
        if tpot_seconds is not None and (latency.tpot is None or latency.tpot * TPOT_GUARD > tpot_seconds):
            continue
        found = predict(fit, concurrency, mix)
        if found is not None and (best is None or found.total > best.total):
            best = found
    return best
