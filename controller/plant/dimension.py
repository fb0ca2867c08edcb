"""Fitting a trace to a handful of replicas: how far to thin it and how far to slow the engines.

A real hour of traffic may need one fast replica or fifty. A demonstration wants the need to move between one and about
five, with few enough requests that two cores can stream them all. Two knobs do it: keep one request in m, and let
engines run s times slower. The offered load falls with m, the capacity with s, so the need is proportional to s / m.

The rule, for any trace and sweep:

* **s is as large as the longest answer allows.** Slow engines mean few requests. But a replica that is being removed
  has 240 model seconds to finish what it holds, so the longest answer of the trace has to be decoded within
  `longest_decode_seconds` at full batch.
* **m follows from s**: the peak of the 60-second mean load, divided by the capacity with headroom, shall be
  `peak_replicas`. It is never below 1, nor above `most_thinning` (thinning wears the shape of the load away).
* **s is then set exactly** on the thinned requests, which are what will be sent, and never above its bound.

A trace that is too small to need `peak_replicas` even then gets what it can; a large one whose m hits its bound gets
the smaller s that its load calls for, below 1 if need be (engines faster than measured). The capacity is that of the
plant under the trace's own length mix: a sweep's figure holds for the sweep's mix only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.plant.arrivals import thin, token_rate
from controller.plant.batch import BatchLimits
from controller.plant.closed_loop import closed_loop
from controller.plant.service_time import ServiceTime
from controller.plant.traces import RequestTrace

# Requests whose lengths stand for the trace's mix when its capacity is measured: enough that one long prompt in fifty
# does not matter, few enough that it takes a fraction of a second.
_MIX_SAMPLE = 512
# Below this share of the drain budget of 240 s the longest answer ends, with room for its prefill and its queueing.
LONGEST_DECODE_SECONDS = 200.0
_DECODE_MARGIN = 0.95
_NEED_WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Dimension:
    """A trace made to fit. All figures are in model time and at the chosen slowdown."""

    trace: RequestTrace  # thinned
    service: ServiceTime  # slowed
    thinning: float
    slowdown: float
    capacity_tokens_per_second: float  # of one replica under the trace's length mix, at saturation
    effective_tokens_per_second: float  # the same times the headroom
    ttft_target_seconds: float
    itl_target_seconds: float
    need_replicas_peak: float  # of the 60-second mean
    need_replicas_mean: float
    need_replicas_low: float
    need_replicas_start: float  # in the first window: what should be there when the traffic begins
    longest_decode_seconds: float


def dimension(
    trace: RequestTrace,
    service: ServiceTime,
    *,
    seed: int,
    headroom: float = 0.75,
    peak_replicas: float = 5.0,
    most_thinning: float = 5.0,
    longest_decode_seconds: float = LONGEST_DECODE_SECONDS,
    ttft_target_seconds: float = 2.0,
    itl_target_seconds: float = 0.033,
    limits: BatchLimits | None = None,
) -> Dimension:
    """Choose thinning and slowdown for `trace` on engines of `service` (not slowed yet). See the module for the rule.

    The targets are those of the engine at full speed (default: those under which the sweep was judged); they are
    returned stretched by the slowdown, as the engines' latencies will be.
    """
    limits = limits or BatchLimits(max_num_seqs=service.last_batch_size)
    capacity = mix_capacity(trace, service, seed=seed, limits=limits)
    full_batch_step = service.decode_step_seconds(limits.max_num_seqs)
    longest = max(1, int(trace.output_tokens.max())) * full_batch_step
    most_slowdown = _DECODE_MARGIN * longest_decode_seconds / longest
    wanted = peak_replicas * headroom * capacity  # tokens/s at full speed that need `peak_replicas`
    peak = float(token_rate(trace, _NEED_WINDOW_SECONDS).max())
    thinning = min(max(1.0, most_slowdown * peak / wanted), most_thinning)
    thinned = thin(trace, thinning, seed)
    rates = token_rate(thinned, _NEED_WINDOW_SECONDS)
    slowdown = min(wanted / float(rates.max()), most_slowdown)
    effective = headroom * capacity / slowdown
    return Dimension(
        trace=thinned,
        service=service.slowed(slowdown),
        thinning=thinning,
        slowdown=slowdown,
        capacity_tokens_per_second=capacity / slowdown,
        effective_tokens_per_second=effective,
        ttft_target_seconds=ttft_target_seconds * slowdown,
        itl_target_seconds=itl_target_seconds * slowdown,
        need_replicas_peak=float(rates.max()) / effective,
        need_replicas_mean=float(rates.mean()) / effective,
        need_replicas_low=float(rates.min()) / effective,
        need_replicas_start=float(rates[0]) / effective,
        longest_decode_seconds=longest * slowdown,
    )


def mix_capacity(trace: RequestTrace, service: ServiceTime, *, seed: int, limits: BatchLimits) -> float:
    """Tokens per second (prompt and output) of one saturated replica under the length mix of a trace."""
    lengths = _sample_lengths(trace, seed)
    result = closed_loop(
        service,
        limits.max_num_seqs,
        lengths,
        requests=max(len(lengths), 4 * limits.max_num_seqs),
        limits=BatchLimits(limits.max_num_seqs, limits.max_num_batched_tokens, limits.kv_cache_tokens, 1 << 30),
    )
    return result.total_tokens_per_second


def _sample_lengths(trace: RequestTrace, seed: int) -> Sequence[tuple[int, int]]:
    size = min(_MIX_SAMPLE, len(trace))
    chosen = np.random.default_rng(seed).choice(len(trace), size=size, replace=False)
    prompts = np.maximum(trace.prompt_tokens[chosen], 1).tolist()
    outputs = np.maximum(trace.output_tokens[chosen], 1).tolist()
    return list(zip(prompts, outputs, strict=True))
