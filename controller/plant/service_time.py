"""How long one step of a continuous-batching engine takes.

An engine works in steps. In a step every decoding request gets one token, and what is left of the token budget goes to
prompts that still have to be prefilled. Both share the step, so

    step = decode_step(number of decoding requests) + prefilled tokens / prefill rate

and the step lasts equally long for everybody in it: a long prompt delays the decoding neighbours, which is where the
tail of the inter-token latency comes from. `controller.plant.batch` runs these steps; `controller.plant.fit` finds the
numbers for a sweep.

Between measured batch sizes the decode step is interpolated. Below the first one it is held (nothing was measured
there). Above the last one it goes on along the steeper of the last segment and the whole curve: a guess, and a careful
one. Engines of this project do not go there by default, because `max_num_seqs` is the last measured concurrency, and
what exceeds it queues.

Not modelled: growth of the decode step with context length (a sweep has one length mix), prefix caching, speculative
decoding.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

# vLLM's default token budget of a step for its API server on H100-class hardware; the sweep's time to first token rises
# in steps of exactly eight 1,024-token prompts, which confirms it.
DEFAULT_MAX_NUM_BATCHED_TOKENS = 8192


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """Step times of one replica. `decode_steps_seconds[i]` belongs to `batch_sizes[i]`, ascending; `slowdown` stretches
    every duration (an engine that runs `slowdown` times slower)."""

    prefill_tokens_per_second: float
    batch_sizes: tuple[int, ...]
    decode_steps_seconds: tuple[float, ...]
    slowdown: float = 1.0

    def __post_init__(self) -> None:
        if not self.batch_sizes or len(self.batch_sizes) != len(self.decode_steps_seconds):
            raise ValueError("a service time needs as many decode steps as batch sizes, at least one")
        if self.slowdown <= 0 or self.prefill_tokens_per_second <= 0 or min(self.decode_steps_seconds) <= 0:
            raise ValueError("slowdown, prefill rate and decode steps must be above 0")

    @property
    def last_batch_size(self) -> int:
        """The largest batch that was measured."""
        return self.batch_sizes[-1]

    def decode_step_seconds(self, batch: int) -> float:
        """Duration of a step in which `batch` requests decode and nothing is prefilled."""
        return self._decode(batch) * self.slowdown

    def step_seconds(self, decoding: int, prefill_tokens: int) -> float:
        """Duration of a step with `decoding` requests that get a token and `prefill_tokens` of prompts."""
        decode = self._decode(decoding) if decoding else 0.0
        return (decode + prefill_tokens / self.prefill_tokens_per_second) * self.slowdown

    def slowed(self, factor: float) -> ServiceTime:
        """The same engine, `factor` times slower than it is now."""
        return replace(self, slowdown=self.slowdown * factor)

    def _decode(self, batch: int) -> float:
        sizes, steps = self.batch_sizes, self.decode_steps_seconds
        index = bisect_right(sizes, batch)
        if index == 0:
            return steps[0]
        if index == len(sizes):
            return steps[-1] + (batch - sizes[-1]) * self._slope_beyond()
        share = (batch - sizes[index - 1]) / (sizes[index] - sizes[index - 1])
        return steps[index - 1] + share * (steps[index] - steps[index - 1])

    def _slope_beyond(self) -> float:
        sizes, steps = self.batch_sizes, self.decode_steps_seconds
        if len(sizes) == 1:
            return steps[0] / sizes[0]  # one point says nothing of the slope: assume no gain from batching
        last = (steps[-1] - steps[-2]) / (sizes[-1] - sizes[-2])
        whole = (steps[-1] - steps[0]) / (sizes[-1] - sizes[0])
        return max(last, whole, 0.0)
