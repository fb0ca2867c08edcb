"""Random observations, however malformed, through `decide`.

`python -m hack.bench.fuzz [--count 100000] [--seed 0] [--output json]` builds scalers of every algorithm and shape,
feeds each a run of ticks (NaN, infinities, negatives, impossible magnitudes, missing, duplicate, unordered, stale and
reset members, clocks that jump), and checks after each tick that nothing was raised, that the bounds hold, that no
count falls without evidence, and that state and record are JSON that comes back equal.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator

import msgspec

from controller.scaling import (
    Adaptive,
    Algorithm,
    Behavior,
    Capacity,
    Correction,
    Decision,
    DecisionSpec,
    DirectionBehavior,
    Histogram,
    Member,
    MemberReading,
    Metric,
    Observation,
    PolicyType,
    Pool,
    Posture,
    Predictive,
    Proportional,
    RatioSpec,
    RoleCapacity,
    RoleDecision,
    RoleKind,
    RoleObservation,
    RoleSpec,
    ScalingPolicy,
    SelectPolicy,
    State,
    TokenThroughput,
    Trust,
    decide,
    initial_state,
    persist,
    restore,
)
from controller.scaling.state import LARGEST_PERSISTED_BYTES

TICKS_PER_SCALER = 20
START = 1_700_000_000.0

NAN, INF = float("nan"), float("inf")
ODD = (NAN, INF, -INF, -1.0, -1e-9, 1e300, 2.0**53, 5e-324, None)
KINDS = {
    "server": RoleKind.SERVER,
    "prefill": RoleKind.PREFILL,
    "decode": RoleKind.DECODE,
    "encode": RoleKind.ENCODE,
}
SHAPES = (("server",), ("prefill", "decode"), ("encode", "prefill", "decode"), ("server", "encode"))
BOUNDS = ((), (0.1, 0.5, 1.0), (0.5, 1.0), (1.0, 0.5), (0.1, 0.1), (NAN,), (0.1, INF))


class Violation(AssertionError):
    """A promise was broken; the message says which and by what."""


def number(rng: random.Random, scale: float = 1e4) -> float | None:
    """Mostly a plausible number."""
    return rng.choice(ODD) if rng.random() < 0.15 else rng.random() * scale


def histogram(rng: random.Random, total: float) -> Histogram | None:
    """Mostly a growing histogram."""
    if rng.random() < 0.2:
        return Histogram(rng.choice(BOUNDS), tuple(number(rng) or 0.0 for _ in range(rng.randrange(6))))
    if rng.random() < 0.3:
        return None
    shares = sorted(rng.random() for _ in range(3))
    return Histogram((0.1, 0.5, 1.0), (*(round(share * total) * 1.0 for share in shares), float(round(total))))


def reading(rng: random.Random, progress: float) -> MemberReading | None:
    """What a member may print after some progress."""
    if rng.random() < 0.1:
        return None

    def counter(per_unit: float) -> float | None:
        return rng.choice(ODD) if rng.random() < 0.1 else progress * per_unit

    return MemberReading(
        running_requests=number(rng, 40.0),
        waiting_requests=number(rng, 100.0),
        waiting_for_kv_requests=number(rng, 20.0),
        computed_prompt_tokens=counter(800.0),
        cached_prompt_tokens=counter(50.0),
        generation_tokens=counter(200.0),
        finished_requests=counter(1.0),
        started_requests=counter(1.1),
        ttft=histogram(rng, progress),
        itl=histogram(rng, progress * 100.0),
    )


def members(rng: random.Random, now: float) -> tuple[Member, ...]:
    """Members with colliding names, odd times and odd readings, in any order."""
    made = [
        Member(
            key=rng.choice("abcdefgh"),
            incarnation=rng.choice("000001"),
            replica=rng.choice("abcdefgh"),
            ready=rng.random() < 0.85,
            serving=rng.random() < 0.8,
            ready_since=rng.choice((None, now - 3600.0, now - 10.0)),
            sampled_at=rng.choice((now, now, now, now - 1.0, now - 1000.0, now + 1e6, NAN)),
            reading=reading(rng, (now - START) * rng.random() * 5.0),
        )
        for _ in range(rng.randrange(9))
    ]
    rng.shuffle(made)
    return tuple(made)


def observation(rng: random.Random, names: tuple[str, ...], now: float, counts: dict[str, int]) -> Observation:
    """One tick: roles that are missing, doubled, or unknown among them."""
    present = [name for name in (*names, "stranger") if rng.random() < 0.9]
    if rng.random() < 0.1:
        present += present
    rng.shuffle(present)
    return Observation(
        now=now,
        roles=tuple(
            RoleObservation(
                name=name,
                current_replicas=counts.get(name, 1) if rng.random() < 0.9 else rng.randrange(-2, 15),
                ready_replicas=rng.randrange(9),
                unadmitted_replicas=rng.choice((0, 0, 0, 1, 3)),
                starting_replicas=rng.choice((0, 0, 1, 4)),
                retiring_replicas=rng.choice((0, 0, 1)),
                pool=rng.choice((None, "h200", "b200")),
                accelerators_per_replica=rng.choice((1.0, 2.0, 8.0)),
                members=members(rng, now),
                startups_seconds=tuple(number(rng, 300.0) or 0.0 for _ in range(rng.randrange(3))),
                starting_since=tuple(now - rng.random() * 1e4 for _ in range(rng.randrange(3))),
            )
            for name in present
        ),
        pools=tuple(
            Pool(name=rng.choice(("h200", "b200")), free_accelerators=rng.choice((-3.0, 0.0, 5.0, INF, NAN)))
            for _ in range(rng.randrange(3))
        ),
    )


def direction(rng: random.Random) -> DirectionBehavior:
    """How one direction is paced."""
    return DirectionBehavior(
        stabilization_window_seconds=rng.choice((0.0, 60.0, 300.0)),
        max_step_replicas=rng.choice((None, None, 1, 3)),
        policies=tuple(
            ScalingPolicy(type=rng.choice(list(PolicyType)), value=rng.randrange(1, 200), period_seconds=60.0)
            for _ in range(rng.choice((0, 0, 1, 2)))
        ),
        select_policy=rng.choice(list(SelectPolicy)),
    )


def algorithm(rng: random.Random, names: tuple[str, ...]) -> Algorithm:
    """One of the four, with parameters anywhere in their ranges."""
    targets = {
        "ttft_target_milliseconds": rng.choice((None, 500.0)),
        "itl_target_milliseconds": rng.choice((None, 50.0)),
    }
    throughput = TokenThroughput(
        stable_window_seconds=rng.choice((30.0, 180.0, 3600.0)),
        panic_window_seconds=rng.choice((10.0, 60.0)),
        panic_threshold=rng.choice((1.1, 2.0, 10.0)),
        **targets,
    )
    return rng.choice(
        (
            Proportional(metric=rng.choice(list(Metric)), role_targets=dict.fromkeys(names, rng.random() * 50.0 + 0.1)),
            throughput,
            Predictive(
                token_throughput=throughput,
                horizon_seconds=rng.choice((None, 30.0, 3600.0)),
                min_points=rng.randrange(1, 6),
                q_level=rng.choice((0.0, 0.02, 5.0)),
                measurement_noise=rng.choice((1e-9, 1.0, 1e6)),
                trust=rng.choice(list(Trust)),
            ),
            Adaptive(
                posture=rng.choice(list(Posture)),
                quantile=rng.choice((None, 0.5, 0.999)),
                correction=rng.choice(list(Correction)),
                **targets,
            ),
        )
    )


def scaler(rng: random.Random) -> tuple[DecisionSpec, Capacity]:
    """A spec that admission would let pass, and capacities that nobody checked."""
    names = rng.choice(SHAPES)
    roles = []
    for name in names:
        low = rng.randrange(1, 6)
        roles.append(RoleSpec(name=name, kind=KINDS[name], min_replicas=low, max_replicas=low + rng.randrange(9)))
    ratios = tuple(
        RatioSpec(
            numerator_role=above,
            denominator_role=below,
            target=rng.choice((None, 0.5, 2.0)),
            min=rng.choice((None, 0.25, 1.0)),
            max=rng.choice((None, 1.0, 3.0)),
        )
        for above, below in (("prefill", "decode"), ("encode", "prefill"))
        if above in names and below in names and rng.random() < 0.7
    )
    spec = DecisionSpec(
        roles=tuple(roles),
        algorithm=algorithm(rng, names),
        ratios=ratios,
        behavior=Behavior(scale_up=direction(rng), scale_down=direction(rng)),
        sampling_interval_seconds=rng.choice((5.0, 15.0, 60.0)),
        pending_timeout_seconds=rng.choice((60.0, 300.0)),
    )
    capacity = {
        name: RoleCapacity(
            effective_tokens_per_second=rng.choice((0.0, 1.0, 1000.0, 5000.0, NAN, -5.0, INF, 1e12, 5e-324)),
            seed_tokens_per_second=rng.choice((None, 4000.0, NAN, 0.0, 5e-324)),
            headroom=rng.choice((None, 0.75, 0.0, -1.0, NAN)),
            forecast_tokens_per_second=rng.choice((None, None, 2000.0, NAN, 1e-300)),
            fingerprint=rng.choice(("", "a", "a", "a", "b")),
            curve=rng.choice(((), ((2.0, 500.0), (8.0, 1500.0), (32.0, 4000.0)), ((8.0, NAN), (2.0, 0.0)))),
            prompt_token_weight=rng.choice((1.0, 0.3, NAN, -1.0)),
        )
        for name in names
        if rng.random() < 0.9
    }
    return spec, capacity


def check(spec: DecisionSpec, before: State, after: State, decision: Decision, *, json_too: bool) -> None:
    """Raise Violation unless the promises hold after one tick."""
    for role, decided in zip(spec.roles, decision.roles, strict=True):
        if not role.min_replicas <= decided.desired <= role.max_replicas:
            raise Violation(f"{role.name}: {decided.desired} is outside its bounds")
        if decided.desired < min(decided.current, role.max_replicas) and not _evidence(decided, before, role.name):
            raise Violation(
                f"{role.name}: fell from {decided.current} to {decided.desired} without evidence: {decided}"
            )
        if json_too and len(msgspec.json.encode(persist(after, role.name))) > LARGEST_PERSISTED_BYTES:
            raise Violation(f"{role.name}: persists more than {LARGEST_PERSISTED_BYTES} bytes")
    if json_too:
        for value in (after, decision):
            if msgspec.json.decode(msgspec.json.encode(value), type=type(value)) != value:
                raise Violation(f"{type(value).__name__} is not what its JSON says")


def _evidence(decided: RoleDecision, before: State, name: str) -> bool:
    """Fresh samples, an expired admission, or a partner that a ratio follows."""
    kept = before.roles.get(name)
    expired = kept is not None and kept.settling.unadmitted_since is not None
    followed = decided.algorithm_reason == "follows its ratio"
    return (decided.raw is not None and decided.last_sample_time is not None) or expired or followed


def runs(rng: random.Random, count: int) -> Iterator[float]:
    """Feed `count` observations; yields the seconds each decision took."""
    done = 0
    while done < count:
        spec, capacity = scaler(rng)
        names = tuple(role.name for role in spec.roles)
        state, now = initial_state(), START
        counts = {role.name: role.min_replicas for role in spec.roles}
        for _ in range(min(TICKS_PER_SCALER, count - done)):
            now += rng.choice((0.0, 1.0, *(3 * (spec.sampling_interval_seconds,)), 100.0, 4000.0, -3.0, -9000.0))
            seen = observation(rng, names, now, counts)
            begun = time.perf_counter()
            after, decision = decide(spec, capacity, state, seen, now)
            yield time.perf_counter() - begun
            check(spec, state, after, decision, json_too=done % 10 == 0)
            counts = {role.name: role.desired for role in decision.roles}
            state = after
            if rng.random() < 0.02:
                state = restore({name: persist(after, name) for name in names}, now)
            done += 1


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        prog="python -m hack.bench.fuzz", description="Random observations through decide."
    )
    parser.add_argument("--count", type=int, default=100_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    rng, taken, failure = random.Random(options.seed), [], None
    try:
        taken.extend(runs(rng, options.count))
    except Exception as error:  # noqa: BLE001 (any exception is what this looks for)
        failure = f"{type(error).__name__}: {error}"
    result = {
        "observations": len(taken),
        "seed": options.seed,
        "secondsDeciding": round(sum(taken), 2),
        "failure": failure,
    }
    print(json.dumps(result) if options.output == "json" else "\n".join(f"{k:>16} {v}" for k, v in result.items()))
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
