"""What a decision remembers: `State` in memory, and the part of it that outlives the process.

A `State` is immutable and belongs to one scaler. It is JSON through msgspec
(`msgspec.json.encode`/`decode(type=State)`) and comes back equal, so a recorded decision can be replayed. Its size is
bounded: one baseline a member that is there now, rings of at most a few hundred ticks, histories of at most
`LARGEST_HISTORY` steps.

`persist` gives what has to survive a change of leader, per role and at most `LARGEST_PERSISTED_BYTES` of JSON;
`restore` makes a state of it. What is not persisted is measured again, and until that has lasted one stable window
nothing shrinks.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from controller.scaling.forecast import Forecaster, Scores
from controller.scaling.headroom import Weights, compact, expanded
from controller.scaling.histograms import Buckets
from controller.scaling.history import History, compacted, rounded_up
from controller.scaling.kalman import Trend
from controller.scaling.samples import MemberState
from controller.scaling.windows import Flow, coarse

# Per role, of the 1 MiB that one object may take in etcd; a scaler may have many roles and its status other content.
LARGEST_PERSISTED_BYTES = 4096

# The p90 of fewer start-ups is their maximum; more would forget a new node type too slowly.
LARGEST_STARTUPS = 20

# Scale events remembered for policies; beyond it the oldest are merged.
LARGEST_EVENTS = 16

# Ticks of arrivals that are persisted; longer rings are made coarser.
LARGEST_PERSISTED_FLOWS = 20


class LatencyTick(msgspec.Struct, gc=False, frozen=True, array_like=True):
    """The latencies observed in the tick that ended at `end`."""

    end: float
    ttft: Buckets | None
    itl: Buckets | None


class ScaleEvent(msgspec.Struct, gc=False, frozen=True, array_like=True):
    """The declared count changed by `delta` at `time`, whoever did it."""

    time: float
    delta: int


class Panic(msgspec.Struct, frozen=True, kw_only=True):
    """A panic that lasts: begun at `since`, last crossing of the threshold, and the highest count reached in it."""

    since: float
    last_crossing: float
    floor: int


class Settling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How raises fare: since when replicas are unadmitted, whether they were rolled back, and the pauses that
    followed."""

    unadmitted_since: float | None = None
    rolled_back: bool = False
    pauses: int = 0
    raise_not_before: float | None = None
    starting_since: float | None = None


class TokensPerRequest(msgspec.Struct, frozen=True, array_like=True):
    """Decayed sums of tokens and finished requests, and the last ratio whose denominator was large enough."""

    tokens: float = 0.0
    finished: float = 0.0
    ratio: float | None = None


class Factor(msgspec.Struct, frozen=True, array_like=True):
    """Faded sums of served and expected tokens, seconds of measurement in them, and the estimate without a curve."""

    served: float = 0.0
    expected: float = 0.0
    seconds: float = 0.0
    saturated: float = 1.0
    saturated_ticks: int = 0


class RoleState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of one role."""

    # Measured again by every process.
    ticked_at: float | None = None  # the last tick that had new readings, or should have had
    sampling_since: float | None = None  # the first tick of the unbroken span of sampling that lasts
    sampled_at: float | None = None  # the last time any member answered
    members: dict[str, MemberState] = {}
    latencies: tuple[LatencyTick, ...] = ()
    tokens_per_request: TokensPerRequest = TokensPerRequest()
    requests_in_flight: float | None = None  # running + waiting at the last tick
    unseen_floor: int | None = None  # nothing lower is remembered until a window is whole again (`demand`)
    # Persisted.
    current_replicas: int | None = None  # the declared count at the last decision
    desired_replicas: int | None = None  # and what was decided
    flows: tuple[Flow, ...] = ()
    history: History = History()
    events: tuple[ScaleEvent, ...] = ()
    panic: Panic | None = None
    startups_seconds: tuple[float, ...] = ()
    settling: Settling = Settling()
    fingerprint: str | None = None
    peak_tokens_per_second: float = 0.0  # highest demand remembered
    factor: Factor = Factor()
    headroom: Weights = ()  # empty: as the prior has it
    miss_factor: float = 1.0
    forecaster: Forecaster = Forecaster()


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of one scaler between two decisions."""

    decided_at: float | None = None
    roles: dict[str, RoleState] = {}


class PersistedFlow(msgspec.Struct, frozen=True, array_like=True):
    """A flow that ended `age_seconds` before the decision; `high` is None where it equals `low`."""

    age_seconds: float
    seconds: float
    low: float | None
    high: float | None


class PersistedRole(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What status keeps of one role. At most `LARGEST_PERSISTED_BYTES` of JSON.

    Everything from `flows` on moves with every tick and is no reason to write a status of its own.
    """

    history: History = History()
    events: tuple[ScaleEvent, ...] = ()
    panic: Panic | None = None
    settling: Settling = Settling()
    fingerprint: str | None = None
    current_replicas: int | None = None
    desired_replicas: int | None = None
    decided_at: float | None = None
    flows: tuple[PersistedFlow, ...] = ()
    startups_seconds: tuple[float, ...] = ()
    tokens_per_request: float | None = None
    peak_tokens_per_second: float = 0.0
    factor: Factor = Factor()
    headroom: tuple[tuple[int, float], ...] = ()
    miss_factor: float = 1.0
    trend: Trend | None = None
    trend_at: float | None = None
    scores: Scores = Scores()


Learnt = TypeVar("Learnt", Factor, Trend, Scores)


def initial_state() -> State:
    """Nothing seen, nothing remembered: the first decision may grow and may not shrink."""
    return State()


def persist(state: State, role: str) -> PersistedRole:
    """What has to survive of one role; of a role never decided, an empty record."""
    kept = state.roles.get(role)
    if kept is None:
        return PersistedRole()
    at = state.decided_at or 0.0
    return PersistedRole(
        history=compacted(kept.history),
        events=tuple(ScaleEvent(rounded_up(event.time), event.delta) for event in kept.events),
        panic=kept.panic,
        settling=kept.settling,
        fingerprint=kept.fingerprint,
        current_replicas=kept.current_replicas,
        desired_replicas=kept.desired_replicas,
        decided_at=state.decided_at,
        flows=tuple(_persisted_flow(flow, at) for flow in coarse(kept.flows, LARGEST_PERSISTED_FLOWS)),
        startups_seconds=tuple(round(seconds, 1) for seconds in kept.startups_seconds),
        tokens_per_request=_short(kept.tokens_per_request.ratio),
        peak_tokens_per_second=float(f"{kept.peak_tokens_per_second:.9g}"),
        factor=_shortened(kept.factor),
        headroom=compact(kept.headroom),
        miss_factor=float(f"{kept.miss_factor:.9g}"),
        trend=None if kept.forecaster.trend is None else _shortened(kept.forecaster.trend),
        trend_at=kept.forecaster.updated_at,
        scores=_shortened(kept.forecaster.scores),
    )


def restore(persisted: dict[str, PersistedRole], now: float) -> State:
    """The state of a process that begins at `now` with what an earlier one persisted.

    A record from the future (the clock was set back) is not believed: its times would never pass.
    """
    roles: dict[str, RoleState] = {}
    decided: float | None = None
    for name, record in sorted(persisted.items()):
        if record.decided_at is not None and record.decided_at > now:
            continue
        at = record.decided_at or 0.0
        roles[name] = RoleState(
            history=record.history,
            events=record.events,
            panic=record.panic,
            settling=record.settling,
            fingerprint=record.fingerprint,
            current_replicas=record.current_replicas,
            desired_replicas=record.desired_replicas,
            flows=tuple(_restored_flow(flow, at) for flow in record.flows),
            startups_seconds=record.startups_seconds,
            tokens_per_request=TokensPerRequest(ratio=record.tokens_per_request),
            peak_tokens_per_second=record.peak_tokens_per_second,
            factor=record.factor,
            headroom=expanded(record.headroom) if record.headroom else (),
            miss_factor=record.miss_factor,
            forecaster=Forecaster(trend=record.trend, updated_at=record.trend_at, scores=record.scores),
        )
        if record.decided_at is not None:
            decided = record.decided_at if decided is None else max(decided, record.decided_at)
    return State(decided_at=decided, roles=roles)


def _persisted_flow(flow: Flow, at: float) -> PersistedFlow:
    low, high = _short(flow.low), _short(flow.high)
    return PersistedFlow(round(at - flow.end, 3), round(flow.seconds, 3), low, None if high == low else high)


def _restored_flow(flow: PersistedFlow, at: float) -> Flow:
    return Flow(at - flow.age_seconds, flow.seconds, flow.low, flow.low if flow.high is None else flow.high)


def _shortened(learnt: Learnt) -> Learnt:
    """Nine significant digits of everything that was learnt: more than any of it is worth."""
    values = {name: getattr(learnt, name) for name in learnt.__struct_fields__}
    short = {name: float(f"{value:.9g}") for name, value in values.items() if isinstance(value, float)}
    return msgspec.structs.replace(learnt, **short)


def _short(value: float | None) -> float | None:
    """Six significant digits: a millionth of a rate decides nothing, and status is small."""
    return None if value is None else float(f"{value:.6g}")
