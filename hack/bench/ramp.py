"""A fluid plant for loads whose true need is known: one Server role, open-loop demand, one FIFO backlog.

Replicas serve `SEED` tokens/s each, exactly as the capacity says; requests have `REQUEST_TOKENS`; a replica asked for
serves `startup` seconds later, one given up stops at once. Time steps of one second. It is the smallest plant in
which an over-ask can show: `controller/simulation` has the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

from controller.scaling import (
    Adaptive,
    Algorithm,
    DecisionSpec,
    Member,
    MemberReading,
    Metric,
    Observation,
    Predictive,
    Proportional,
    RoleCapacity,
    RoleKind,
    RoleObservation,
    RoleSpec,
    TokenThroughput,
    decide,
    initial_state,
)

SEED = 10_000.0
HEADROOM = 0.75
REQUEST_TOKENS = 1000.0
SLOTS = 32.0
INTERVAL_SECONDS = 10.0
HOLD_SECONDS = 600.0

PEAKS = (2, 4, 8)
RAMP_SECONDS = (30, 120, 600, 3600)
STARTUP_SECONDS = (76, 180)

# Running requests saturate at the engine's slots. This is the highest round target that 1.1 × it still stays below
# them; one that could never be crossed is refused by the API.
TARGET_RUNNING = 28.0

ALGORITHMS: dict[str, Algorithm] = {
    "Proportional": Proportional(metric=Metric.RUNNING_REQUESTS, role_targets={"server": TARGET_RUNNING}),
    "TokenThroughput": TokenThroughput(),
    "Predictive": Predictive(),
    "Adaptive": Adaptive(),
}


@dataclass
class Replica:
    """One replica: when it starts to serve, and its counters."""

    name: str
    serves_from: float
    tokens: float = 0.0
    finished: float = 0.0


@dataclass
class Run:
    """What one run asked for, tick by tick."""

    raw: list[int] = field(default_factory=list)
    needed: list[float] = field(default_factory=list)
    desired: list[int] = field(default_factory=list)

    @property
    def over_ask(self) -> float:
        """Highest raw count ÷ highest need."""
        return max(self.raw) / max(self.needed)


def ramp(peak: float, seconds: float) -> Callable[[float], float]:
    """Demand in seed replicas: 1, up to `peak` in so many seconds, held, and back; ten quiet minutes before and
    after."""

    def demand(t: float) -> float:
        t -= HOLD_SECONDS
        if t < seconds:
            return 1.0 + (peak - 1.0) * max(0.0, t) / seconds
        t -= seconds + HOLD_SECONDS
        if t < seconds:
            return peak - (peak - 1.0) * max(0.0, t) / seconds
        return 1.0

    return demand


def run(algorithm: Algorithm, peak: float, seconds: float, startup: float) -> Run:
    """Drive one algorithm through one ramp."""
    demand = ramp(peak, seconds)
    # What one replica is planned to carry, of its seed: for Proportional that is what its target stands for.
    planned = TARGET_RUNNING / SLOTS if isinstance(algorithm, Proportional) else HEADROOM
    spec = DecisionSpec(
        roles=(RoleSpec(name="server", kind=RoleKind.SERVER, min_replicas=1, max_replicas=1000),),
        algorithm=algorithm,
        sampling_interval_seconds=INTERVAL_SECONDS,
    )
    capacity = {
        "server": RoleCapacity(
            effective_tokens_per_second=SEED * HEADROOM,
            seed_tokens_per_second=SEED,
            headroom=HEADROOM,
            fingerprint="ramp",
        )
    }
    state, outcome, backlog = initial_state(), Run(), 0.0
    count = ceil(1.0 / planned)
    replicas = [Replica(f"r{index}", -1e9) for index in range(count)]
    made, arrivals, started = count, [], ()
    total = 3.0 * HOLD_SECONDS + 2.0 * seconds
    for second in range(int(total)):
        arriving = demand(second) * SEED
        arrivals.append(arriving)
        ready = [replica for replica in replicas if replica.serves_from <= second]
        backlog += arriving
        served = min(backlog, len(ready) * SEED)
        backlog -= served
        for replica in ready:
            replica.tokens += served / len(ready)
            replica.finished += served / len(ready) / REQUEST_TOKENS
        if second % INTERVAL_SECONDS:
            continue
        now = 1_700_000_000.0 + second
        busy = SLOTS * served / (len(ready) * SEED)
        observation = Observation(
            now=now,
            roles=(
                RoleObservation(
                    name="server",
                    current_replicas=len(replicas),
                    ready_replicas=len(ready),
                    starting_replicas=len(replicas) - len(ready),
                    startups_seconds=started,
                    members=tuple(_member(replica, now, busy, backlog, len(ready)) for replica in ready),
                ),
            ),
        )
        started = ()
        state, decision = decide(spec, capacity, state, observation, now)
        role = decision.role("server")
        outcome.desired.append(role.desired)
        if role.raw is not None:
            outcome.raw.append(role.raw)
        recent = arrivals[-60:]
        outcome.needed.append(ceil(sum(recent) / len(recent) / (SEED * planned) - 1e-9))
        while len(replicas) < role.desired:
            replicas.append(Replica(f"r{made}", second + startup))
            made += 1
            started = (startup,)
        replicas = replicas[: role.desired]
    return outcome


def _member(replica: Replica, now: float, busy: float, backlog: float, ready: int) -> Member:
    return Member(
        key=replica.name,
        incarnation="0",
        replica=replica.name,
        ready=True,
        serving=True,
        ready_since=now - 3600.0,
        sampled_at=now,
        reading=MemberReading(
            running_requests=busy,
            waiting_requests=backlog / REQUEST_TOKENS / ready,
            computed_prompt_tokens=replica.tokens * 0.8,
            generation_tokens=replica.tokens * 0.2,
            finished_requests=replica.finished,
        ),
    )
