"""`decide`: one tick of one scaler, from what was seen to what is wanted and why. Pure: no clock, I/O or randomness.

The same five arguments give the same result on every machine; the order of roles, members and dictionary keys never
matters. It never raises, whatever the readings are: what is no measurement counts as not observed.
"""

from __future__ import annotations

import msgspec

from controller.scaling.adaptive import LEVEL_SECONDS, POSTURES, adaptive, learning_lag_seconds
from controller.scaling.capacities import usable_capacities
from controller.scaling.demand import Sampling, observe_role
from controller.scaling.explanation import explained
from controller.scaling.latency import windowed
from controller.scaling.memory import usable_at, with_capacity, with_observation, with_plan
from controller.scaling.planner import plan
from controller.scaling.predictive import predictive
from controller.scaling.proportional import proportional
from controller.scaling.recommendation import Recommended, silent
from controller.scaling.situation import Situation, Supply
from controller.scaling.stages import Context, RoleContext
from controller.scaling.stages.coverage import describe
from controller.scaling.stages.settling import stalled_replicas
from controller.scaling.startup import longest_startup
from controller.scaling.state import RoleState, State
from controller.scaling.throughput import token_throughput, window_seconds
from controller.scaling.ticks import PrefillLoad, RoleTick
from controller.scaling.types import (
    Adaptive,
    Capacity,
    Decision,
    DecisionSpec,
    Metric,
    Observation,
    Pool,
    Predictive,
    Proportional,
    RatioSpec,
    RoleKind,
    RoleObservation,
    RoleSpec,
    TokenThroughput,
)

# What `Proportional` has to have sampled before it may shrink, and the window that status shows means over.
DEFAULT_STABLE_SECONDS = 180.0

# `Adaptive` learns over minutes; its study let nothing shrink before five of them.
ADAPTIVE_STABLE_SECONDS = 300.0

# A known peak is that of one tick, or of ten seconds if ticks are shorter.
SHORTEST_PEAK_SECONDS = 10.0

# Latency is looked at over the last minute, as panic is.
LATENCY_SECONDS = 60.0

# An Encode role without a declared ratio follows its running requests. No catalog measures encoders, so this is a round
# number to be replaced by a ratio: about one batch of images in work and one waiting.
ENCODE_RUNNING_REQUESTS = 8.0


def decide(
    spec: DecisionSpec, capacity: Capacity, state: State, observation: Observation, now: float
) -> tuple[State, Decision]:
    """Decide the replicas of every role of `spec`. Returns the state for the next tick and the whole explanation.

    A role that the observation lacks is held at its last known count; roles that the spec lacks are ignored.
    """
    state, now = usable_at(state, now, spec.sampling_interval_seconds)
    capacity = usable_capacities(capacity)
    stable_seconds = stable_window_seconds(spec)
    observations = _observations(spec, state, observation)
    states, ticks = _observe(spec, capacity, state, observations, stable_seconds=stable_seconds, now=now)

    situations: dict[str, Situation] = {}
    contexts: dict[str, RoleContext] = {}
    for role in spec.roles:
        situation = Situation(
            role=role,
            capacity=capacity.get(role.name),
            state=states[role.name],
            tick=ticks[role.name],
            latencies=windowed(states[role.name].latencies, now, LATENCY_SECONDS, stable_seconds),
            supply=_supply(observations[role.name], states[role.name], ticks[role.name], now),
            current=observations[role.name].current_replicas,
            startup_p90_seconds=longest_startup(states[role.name].startups_seconds),
            interval_seconds=spec.sampling_interval_seconds,
            now=now,
        )
        situations[role.name] = situation
        recommended, kept = _recommend(spec, situation)
        contexts[role.name] = RoleContext(
            role=role,
            observation=observations[role.name],
            state=kept,
            recommended=recommended,
            status=situation.tick.status,
            stable_seconds=stable_seconds,
        )

    plans, context = plan(Context(spec=spec, roles=contexts, pools=_pools(observation), now=now))
    decided = State(
        decided_at=now,
        roles={name: with_plan(role.state, plans[name], spec, now) for name, role in context.roles.items()},
    )
    decisions = tuple(
        explained(situations[name], role.recommended, plans[name], stable_seconds)
        for name, role in context.roles.items()
    )
    return decided, Decision(now=now, roles=decisions)


def stable_window_seconds(spec: DecisionSpec) -> float:
    """How long has to be sampled, after a start or a hole, before anything shrinks."""
    algorithm = spec.algorithm
    if isinstance(algorithm, Proportional):
        return max(DEFAULT_STABLE_SECONDS, spec.behavior.scale_down.stabilization_window_seconds)
    if isinstance(algorithm, Adaptive):
        return window_seconds(ADAPTIVE_STABLE_SECONDS, spec.sampling_interval_seconds)
    reactive = algorithm.token_throughput if isinstance(algorithm, Predictive) else algorithm
    return window_seconds(reactive.stable_window_seconds, spec.sampling_interval_seconds)


def _sampling(spec: DecisionSpec, startups: tuple[float, ...], stable_seconds: float) -> Sampling:
    retention, peak_seconds = max(stable_seconds, DEFAULT_STABLE_SECONDS), SHORTEST_PEAK_SECONDS
    if isinstance(spec.algorithm, Adaptive):
        peak_seconds = POSTURES[spec.algorithm.posture].peak_seconds
        lag = learning_lag_seconds(startups, spec.sampling_interval_seconds)
        retention = max(retention, lag + 2.0 * LEVEL_SECONDS)
    return Sampling(
        interval_seconds=spec.sampling_interval_seconds,
        stable_seconds=stable_seconds,
        retention_seconds=retention,
        peak_seconds=peak_seconds,
    )


def _observations(spec: DecisionSpec, state: State, observation: Observation) -> dict[str, RoleObservation]:
    """One observation for each role of the spec; of a role named twice, the one that comes first in JSON order."""
    given: dict[str, RoleObservation] = {}
    for seen in observation.roles:
        other = given.setdefault(seen.name, seen)
        if other is not seen:
            given[seen.name] = min(other, seen, key=_in_json)
    return {role.name: _plausible(given.get(role.name) or _unseen(role, state)) for role in spec.roles}


def _plausible(seen: RoleObservation) -> RoleObservation:
    """Nobody has fewer than no replicas."""
    return seen if seen.current_replicas >= 0 else msgspec.structs.replace(seen, current_replicas=0)


def _in_json(seen: RoleObservation) -> bytes:
    members = sorted(seen.members, key=msgspec.json.encode)
    return msgspec.json.encode(msgspec.structs.replace(seen, members=tuple(members)))


def _pools(observation: Observation) -> tuple[Pool, ...]:
    """The pools by name; of one named twice, the smaller number."""
    pools: dict[str, Pool] = {}
    for pool in observation.pools:
        known = pools.setdefault(pool.name, pool)
        if pool.free_accelerators < known.free_accelerators:
            pools[pool.name] = pool
    return tuple(pools[name] for name in sorted(pools))


def _unseen(role: RoleSpec, state: State) -> RoleObservation:
    kept = state.roles.get(role.name, RoleState())
    current = role.min_replicas if kept.current_replicas is None else kept.current_replicas
    return RoleObservation(name=role.name, current_replicas=current, ready_replicas=0)


def _observe(
    spec: DecisionSpec,
    capacity: Capacity,
    state: State,
    observations: dict[str, RoleObservation],
    *,
    stable_seconds: float,
    now: float,
) -> tuple[dict[str, RoleState], dict[str, RoleTick]]:
    states: dict[str, RoleState] = {}
    ticks: dict[str, RoleTick] = {}
    # Decode's queue is read against Prefill's, so it comes last; otherwise roles do not depend on each other here.
    for role in sorted(spec.roles, key=lambda role: role.kind is RoleKind.DECODE):
        of_role = capacity.get(role.name)
        kept = with_observation(
            with_capacity(state.roles.get(role.name, RoleState()), of_role, now),
            observations[role.name],
            spec,
            decided_at=state.decided_at,
            stable_seconds=stable_seconds,
            now=now,
        )
        sampling = _sampling(spec, kept.startups_seconds, stable_seconds)
        prefill = _prefill_load(spec, state, states) if role.kind is RoleKind.DECODE else None
        states[role.name], ticks[role.name] = observe_role(
            role, of_role, kept, observations[role.name], now=now, sampling=sampling, prefill=prefill
        )
    return states, ticks


def _prefill_load(spec: DecisionSpec, before: State, now: dict[str, RoleState]) -> PrefillLoad | None:
    names = [role.name for role in spec.roles if role.kind is RoleKind.PREFILL]
    if not names:
        return None

    def total(roles: dict[str, RoleState]) -> float | None:
        loads = [roles[name].requests_in_flight if name in roles else None for name in names]
        return None if any(load is None for load in loads) else sum(load for load in loads if load is not None)

    return PrefillLoad(before=total(before.roles), now=total(now))


def _supply(observed: RoleObservation, kept: RoleState, tick: RoleTick, now: float) -> Supply:
    startup = longest_startup(kept.startups_seconds)
    stalled = min(observed.starting_replicas, stalled_replicas(kept.settling, observed, startup, now))
    return Supply(
        ready=observed.ready_replicas,
        starting=observed.starting_replicas - stalled,
        unadmitted=observed.unadmitted_replicas,
        serving=tick.serving_replicas,
        stalled=stalled,
    )


def _recommend(spec: DecisionSpec, situation: Situation) -> tuple[Recommended, RoleState]:
    algorithm, role, kept = spec.algorithm, situation.role, situation.state
    own_target = isinstance(algorithm, Proportional) and role.name in algorithm.role_targets
    if role.kind is RoleKind.ENCODE and not own_target:
        if any(item.target is not None and role.name in _pair(item) for item in spec.ratios):
            return Recommended(raw=None, reason="follows its ratio", follows_ratio=True), kept
        algorithm = Proportional(metric=Metric.RUNNING_REQUESTS, role_targets={role.name: ENCODE_RUNNING_REQUESTS})
    if not situation.tick.answered_members:
        return silent(describe(situation.tick.status, kept.sampled_at, situation.now)), kept
    match algorithm:
        case Proportional():
            return proportional(algorithm, situation), kept
        case TokenThroughput():
            return token_throughput(algorithm, situation)
        case Predictive():
            return predictive(algorithm, situation)
        case Adaptive():
            return adaptive(algorithm, situation)


def _pair(item: RatioSpec) -> tuple[str, str]:
    return item.numerator_role, item.denominator_role
