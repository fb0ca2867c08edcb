"""How long one decision takes.

`python -m hack.bench.decide [--output json]` prints two figures of one core:

- microsecondsPerDecision: one decision for a scaler with three roles (prefill, decode, encode-less server) and 64
  members, every one with a new reading and both latency histograms; garbage collection left on.
- thousandScalersSeconds: one tick of 1,000 scalers with 10 members each.

Both are CPU time of the deciding thread, and the best of several batches, so that a busy machine does not count.
Reading and scanning the metrics is not part of it: `hack.bench.exposition` measures that.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

from controller.scaling import (
    Capacity,
    DecisionSpec,
    Histogram,
    Member,
    MemberReading,
    Observation,
    RoleCapacity,
    RoleKind,
    RoleObservation,
    RoleSpec,
    State,
    TokenThroughput,
    decide,
    initial_state,
)

INTERVAL_SECONDS = 15.0

# The buckets that vLLM exposes, in seconds.
TTFT_BOUNDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
ITL_BOUNDS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip


def histogram(bounds: tuple[float, ...], observations: float, seed: int) -> Histogram:
    """A histogram of `observations` spread over all buckets, the middle ones fullest."""
    shares = [1.0 + ((index * 7 + seed) % 11) for index in range(len(bounds) + 1)]
    total, running, cumulative = sum(shares), 0.0, []
    for share in shares:
        running += share
        cumulative.append(float(int(observations * running / total)))
    # A scrape makes its own bounds: equal ones, not the same.
    return Histogram(tuple(bound + 0.0 for bound in bounds), tuple(cumulative))


def reading(tick: int, index: int) -> MemberReading:
    """What a busy member reports at a tick."""
    finished = 30.0 * tick + index
    return MemberReading(
        running_requests=float(12 + (tick + index) % 5),
        waiting_requests=float((tick * index) % 3),
        waiting_for_kv_requests=0.0,
        computed_prompt_tokens=finished * 1024,
        cached_prompt_tokens=finished * 100,
        generation_tokens=finished * 256,
        finished_requests=finished,
        started_requests=finished + 3,
        ttft=histogram(TTFT_BOUNDS, finished, index),
        itl=histogram(ITL_BOUNDS, finished * 255, index),
    )


def observation(roles: dict[str, int], tick: int) -> Observation:
    """One tick of a scaler; `roles` gives the members of each."""
    now = 1_700_000_000.0 + tick * INTERVAL_SECONDS
    return Observation(
        now=now,
        roles=tuple(
            RoleObservation(
                name=name,
                current_replicas=count,
                ready_replicas=count,
                members=tuple(
                    Member(
                        key=f"{name}-{index}",
                        incarnation="0",
                        replica=f"{name}-{index}",
                        ready=True,
                        serving=True,
                        ready_since=0.0,
                        sampled_at=now - 0.2,
                        reading=reading(tick, index),
                    )
                    for index in range(count)
                ),
            )
            for name, count in roles.items()
        ),
    )


def spec(kinds: dict[str, RoleKind]) -> tuple[DecisionSpec, Capacity]:
    """A scaler of these roles under `TokenThroughput` with both latency targets."""
    roles = tuple(RoleSpec(name=name, kind=kind, min_replicas=1, max_replicas=64) for name, kind in kinds.items())
    algorithm = TokenThroughput(ttft_target_milliseconds=500.0, itl_target_milliseconds=50.0)
    capacity = {name: RoleCapacity(effective_tokens_per_second=4000.0, fingerprint="f") for name in kinds}
    return DecisionSpec(roles=roles, algorithm=algorithm, sampling_interval_seconds=INTERVAL_SECONDS), capacity


def measure_one(batches: int = 8, size: int = 20) -> float:
    """Microseconds of a decision for three roles with 64 members: the median of a batch, of the best batch."""
    kinds = {"prefill": RoleKind.PREFILL, "decode": RoleKind.DECODE, "server": RoleKind.SERVER}
    the_spec, capacity = spec(kinds)
    state, medians = initial_state(), []
    for batch in range(batches + 1):
        taken = []
        for tick in range(batch * size, (batch + 1) * size):
            seen = observation({"prefill": 20, "decode": 24, "server": 20}, tick)
            begun = time.thread_time()
            state, _ = decide(the_spec, capacity, state, seen, seen.now)
            taken.append(time.thread_time() - begun)
        medians.append(statistics.median(taken))
    return min(medians[1:]) * 1e6  # the first fills the windows


def measure_thousand(scalers: int = 1000, ticks: int = 18, best_of: int = 4) -> float:
    """Seconds of one tick of a thousand scalers with ten members each, windows full: the best of the last few."""
    the_spec, capacity = spec({"server": RoleKind.SERVER})
    states: list[State] = [initial_state()] * scalers
    taken = []
    for tick in range(ticks):
        seen = observation({"server": 10}, tick)
        begun = time.thread_time()
        states = [decide(the_spec, capacity, state, seen, seen.now)[0] for state in states]
        taken.append(time.thread_time() - begun)
    return min(taken[-best_of:])


def main(arguments: list[str] | None = None) -> int:
    """Print both figures."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench.decide", description=__doc__.splitlines()[0])
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    figures = {
        "microsecondsPerDecision": round(measure_one(), 1),
        "thousandScalersSeconds": round(measure_thousand(), 3),
    }
    if options.output == "json":
        print(json.dumps(figures))
    else:
        print(f"one decision, 3 roles, 64 members   {figures['microsecondsPerDecision']:>10} µs")
        print(f"1,000 scalers of 10 members, a tick {figures['thousandScalersSeconds']:>10} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
