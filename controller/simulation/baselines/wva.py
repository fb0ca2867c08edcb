"""llm-d workload-variant-autoscaler: saturation v1, token capacity v2, and the choice among variants by cost.

Source: llm-d/llm-d-workload-variant-autoscaler `internal/saturation/analyzer.go`,
`internal/engines/analyzers/saturation_v2`, `internal/engines/pipeline` (snapshot of 2026-02-19).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from controller.simulation.baselines.arithmetic import up

KV_SATURATED, QUEUE_SATURATED = 0.80, 5.0
KV_SPARE, QUEUE_SPARE = 0.10, 3.0
# Of the KV cache, what may be planned with.
KV_USABLE = 0.80
SCALE_UP_UTILIZATION, SCALE_DOWN_UTILIZATION = 0.85, 0.70


@dataclass(frozen=True, slots=True)
class Replica:
    """KV use 0…1 and waiting requests of one replica."""

    kv: float
    queue: float

    @property
    def saturated(self) -> bool:
        """Whether it can take no more."""
        return self.kv >= KV_SATURATED or self.queue >= QUEUE_SATURATED


def scale_up(replicas: Sequence[Replica]) -> bool:
    """v1: whether the replicas that are not saturated have too little left on average."""
    if not replicas:
        return False
    free = [replica for replica in replicas if not replica.saturated]
    if not free:
        return True
    kv = sum(KV_SATURATED - replica.kv for replica in free) / len(free)
    queue = sum(QUEUE_SATURATED - replica.queue for replica in free) / len(free)
    return kv < KV_SPARE or queue < QUEUE_SPARE


def scale_down_safe(replicas: Sequence[Replica]) -> bool:
    """v1: whether one replica less would leave the others what scaling up asks for."""
    free = [replica for replica in replicas if not replica.saturated]
    if len(free) < 2:
        return False
    factor = len(free) / (len(free) - 1)
    kv = sum(replica.kv for replica in free) / len(free) * factor
    queue = sum(replica.queue for replica in free) / len(free) * factor
    return KV_SATURATED - kv >= KV_SPARE and QUEUE_SATURATED - queue >= QUEUE_SPARE


def capacity_from_flags(batched_tokens: float, sequences: float, prompt: float, output: float) -> float:
    """v2: tokens in flight that the engine's limits allow at a mix; 0 when the output length is unknown."""
    if output <= 0.0:
        return 0.0
    concurrent = min(batched_tokens * output / (prompt + output), sequences)
    return concurrent * (prompt + output / 2.0)


def token_capacity(
    kv_tokens: float,
    in_use: float,
    queue: float,
    *,
    history: Sequence[float] = (),
    from_flags: float = 0.0,
) -> float:
    """v2: a replica's capacity in tokens: of memory, and of compute as far as it is known.

    Compute is what is in use while it queues, else the mean of past such readings at this output length, else what the
    engine's flags allow.
    """
    memory = kv_tokens * KV_USABLE
    if queue >= QUEUE_SATURATED:
        compute = in_use
    elif history:
        compute = sum(history) / len(history)
    else:
        compute = from_flags if from_flags > 0.0 else memory
    return min(memory, compute)


def balance(demand: float, ready_supply: float, pending_supply: float) -> tuple[float, float]:
    """v2: (tokens required beyond the supply, tokens to spare)."""
    required = demand / SCALE_UP_UTILIZATION - (ready_supply + pending_supply)
    spare = ready_supply - demand / SCALE_DOWN_UTILIZATION
    return max(0.0, required), max(0.0, spare)


@dataclass(frozen=True, slots=True)
class Variant:
    """One kind of replica of a model."""

    name: str
    cost: float
    capacity: float
    replicas: int


def cost_aware(variants: Sequence[Variant], required: float, spare: float) -> dict[str, int]:
    """Counts by variant: growth on the cheapest capacity, shrinking from the dearest, and the last one kept."""
    counts = {variant.name: variant.replicas for variant in variants}
    if not variants:
        return counts
    if required > 0.0:
        best = min(variants, key=lambda variant: (variant.cost / variant.capacity, variant.name))
        counts[best.name] += up(required / best.capacity)
        return counts
    cheapest = min(variants, key=lambda variant: (variant.cost, variant.name))
    for variant in sorted(variants, key=lambda variant: (-variant.cost, variant.name)):
        removed = min(counts[variant.name], floor(spare / variant.capacity + 1e-9))
        others = sum(count for name, count in counts.items() if name != variant.name)
        if variant is cheapest and not others:
            removed = min(removed, max(0, counts[variant.name] - 1))
        counts[variant.name] -= removed
        spare -= removed * variant.capacity
    return counts
