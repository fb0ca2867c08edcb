"""A small world to decide in: members with counters that a test moves, and a loop that feeds `decide` tick by tick."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec

from controller.scaling import (
    Behavior,
    Capacity,
    Decision,
    DecisionSpec,
    Histogram,
    Member,
    MemberReading,
    Metric,
    Observation,
    Proportional,
    RoleCapacity,
    RoleDecision,
    RoleKind,
    RoleObservation,
    RoleSpec,
    State,
    TokenThroughput,
    decide,
    initial_state,
)

T0 = 1_700_000_000.0
INTERVAL = 15.0


@dataclass
class Engine:
    """One engine process: cumulative counters and gauges that a test sets or moves."""

    name: str
    replica: str = ""
    incarnation: str = "0"
    ready: bool = True
    serving: bool = True
    ready_since: float | None = 0.0
    silent: bool = False
    running: float | None = 0.0
    waiting: float | None = 0.0
    waiting_for_kv: float | None = None
    prompt: float | None = 0.0
    generation: float | None = 0.0
    finished: float | None = 0.0
    ttft: Histogram | None = None
    itl: Histogram | None = None

    def member(self, now: float) -> Member:
        reading = None
        if not self.silent:
            reading = MemberReading(
                running_requests=self.running,
                waiting_requests=self.waiting,
                waiting_for_kv_requests=self.waiting_for_kv,
                computed_prompt_tokens=self.prompt,
                generation_tokens=self.generation,
                finished_requests=self.finished,
                ttft=self.ttft,
                itl=self.itl,
            )
        return Member(
            key=self.name,
            incarnation=self.incarnation,
            replica=self.replica or self.name,
            ready=self.ready,
            serving=self.serving,
            ready_since=self.ready_since,
            sampled_at=now,
            reading=reading,
            failure="Timeout" if self.silent else None,
        )


@dataclass
class Role:
    """One role of the world: its engines and its counts."""

    engines: list[Engine] = field(default_factory=list)
    current: int = 1
    unadmitted: int = 0
    starting: int = 0
    startups: tuple[float, ...] = ()

    def serve(
        self, tokens_per_second: float, seconds: float, *, prompt_share: float = 0.8, tokens_per_request: float = 1000.0
    ) -> None:
        """Spread served tokens evenly over the engines that answer requests."""
        serving = [engine for engine in self.engines if engine.ready]
        for engine in serving:
            tokens = tokens_per_second * seconds / len(serving)
            engine.prompt = (engine.prompt or 0.0) + tokens * prompt_share
            engine.generation = (engine.generation or 0.0) + tokens * (1.0 - prompt_share)
            engine.finished = (engine.finished or 0.0) + tokens / tokens_per_request


class World:
    """Roles, a clock and the state of one scaler."""

    def __init__(self, spec: DecisionSpec, capacity: Capacity | None = None, now: float = T0) -> None:
        self.spec = spec
        self.capacity: Capacity = {} if capacity is None else capacity
        self.now = now
        self.state: State = initial_state()
        self.roles = {role.name: Role() for role in spec.roles}
        self.decisions: list[Decision] = []

    def observe(self) -> Observation:
        return Observation(
            now=self.now,
            roles=tuple(
                RoleObservation(
                    name=name,
                    current_replicas=role.current,
                    ready_replicas=len({engine.replica or engine.name for engine in role.engines if engine.ready}),
                    unadmitted_replicas=role.unadmitted,
                    starting_replicas=role.starting,
                    startups_seconds=role.startups,
                    members=tuple(engine.member(self.now) for engine in role.engines),
                )
                for name, role in self.roles.items()
            ),
        )

    def decide(self) -> Decision:
        """Decide once at the current time."""
        self.state, decision = decide(self.spec, self.capacity, self.state, self.observe(), self.now)
        self.decisions.append(decision)
        return decision

    def tick(self, seconds: float | None = None) -> Decision:
        """Let the time of one interval pass, then decide."""
        self.now += self.spec.sampling_interval_seconds if seconds is None else seconds
        return self.decide()

    def run(self, name: str, tokens_per_second: float, seconds: float, *, follow: bool = False) -> RoleDecision:
        """Serve a constant load on one role, tick by tick; with `follow` the counts and engines obey at once."""
        interval = self.spec.sampling_interval_seconds
        decision = None
        for _ in range(round(seconds / interval)):
            self.roles[name].serve(tokens_per_second, interval)
            decision = self.tick().role(name)
            if follow:
                self.resize(name, decision.desired)
        assert decision is not None
        return decision

    def resize(self, name: str, replicas: int) -> None:
        """Make the declared count and the engines `replicas` at once."""
        role = self.roles[name]
        role.current = replicas
        role.engines = role.engines[:replicas]
        while len(role.engines) < replicas:
            role.engines.append(Engine(f"{name}-{len(role.engines)}", ready_since=self.now))


def server_spec(
    algorithm: TokenThroughput | Proportional | None = None,
    *,
    low: int = 1,
    high: int = 20,
    behavior: Behavior | None = None,
    interval: float = INTERVAL,
) -> DecisionSpec:
    """A scaler with one Server role called `server`."""
    return DecisionSpec(
        roles=(RoleSpec(name="server", kind=RoleKind.SERVER, min_replicas=low, max_replicas=high),),
        algorithm=algorithm or TokenThroughput(),
        behavior=behavior or Behavior(),
        sampling_interval_seconds=interval,
    )


def capacity(tokens_per_second: float = 1000.0, **names: float) -> Capacity:
    """Capacities by role; one number means the role `server`."""
    numbers = names or {"server": tokens_per_second}
    return {name: RoleCapacity(effective_tokens_per_second=number, fingerprint="f") for name, number in numbers.items()}


def server_world(
    replicas: int = 1,
    algorithm: TokenThroughput | Proportional | None = None,
    *,
    per_replica: float = 1000.0,
    **spec: object,
) -> World:
    """A Server role with `replicas` Ready engines; nothing decided yet."""
    world = World(server_spec(algorithm, **spec), capacity(per_replica))  # type: ignore[arg-type]
    world.resize("server", replicas)
    for engine in world.roles["server"].engines:
        engine.ready_since = 0.0
    return world


def running(target: float = 10.0, tolerance: float = 0.1) -> Proportional:
    """Proportional on running requests of the role `server`."""
    return Proportional(metric=Metric.RUNNING_REQUESTS, role_targets={"server": target}, tolerance=tolerance)


__all__ = [
    "INTERVAL",
    "T0",
    "Engine",
    "Role",
    "World",
    "capacity",
    "msgspec",
    "replace",
    "running",
    "server_spec",
    "server_world",
]
