"""The five arguments of a decision and its result: the types that cross this room's border.

`decide(spec, capacity, state, observation, now) -> (state', decision)` is pure. Everything it needs arrives in these
frozen values, and all of them are plain JSON through msgspec, so that a record of the five arguments replays to the
same decision on another machine and another day. The state has a module of its own (`state`).

Units: tokens per second, seconds, requests, replicas. Times are model time, seconds since the Unix epoch.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class RoleKind(StrEnum):
    """What a role of the target does; decides which tokens are its demand."""

    SERVER = "Server"
    PREFILL = "Prefill"
    DECODE = "Decode"
    ENCODE = "Encode"


class Metric(StrEnum):
    """What `Proportional` compares with its target, per serving replica."""

    RUNNING_REQUESTS = "RunningRequests"
    WAITING_REQUESTS = "WaitingRequests"
    QUEUE_DEPTH = "QueueDepth"


class PolicyType(StrEnum):
    """The unit of a scaling policy's value."""

    REPLICAS = "Replicas"
    PERCENT = "Percent"


class SelectPolicy(StrEnum):
    """Which of several policies binds."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


# ---------------------------------------------------------------- spec


class RoleSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One role of the target and its bounds, in the order of the scaler's spec."""

    name: str
    kind: RoleKind
    min_replicas: int
    max_replicas: int


class RatioSpec(msgspec.Struct, frozen=True, kw_only=True):
    """numerator ÷ denominator of two roles' replicas: `target` is a preference, `min`…`max` a hard band."""

    numerator_role: str
    denominator_role: str
    target: float | None = None
    min: float | None = None
    max: float | None = None


class ScalingPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """At most `value` replicas or percent within any `period_seconds`."""

    type: PolicyType
    value: int
    period_seconds: float


class DirectionBehavior(msgspec.Struct, frozen=True, kw_only=True):
    """How one direction of scaling is paced."""

    stabilization_window_seconds: float
    max_step_replicas: int | None = None
    policies: tuple[ScalingPolicy, ...] = ()
    select_policy: SelectPolicy = SelectPolicy.MAX


class Behavior(msgspec.Struct, frozen=True, kw_only=True):
    """Pacing of both directions; the defaults are those of the API."""

    scale_up: DirectionBehavior = DirectionBehavior(stabilization_window_seconds=0.0)
    scale_down: DirectionBehavior = DirectionBehavior(stabilization_window_seconds=300.0)


class Proportional(msgspec.Struct, frozen=True, kw_only=True, tag="Proportional"):
    """Kubernetes HPA arithmetic on `metric` against a target per replica and role."""

    metric: Metric
    role_targets: dict[str, float]
    tolerance: float = 0.1


class TokenThroughput(msgspec.Struct, frozen=True, kw_only=True, tag="TokenThroughput"):
    """Token demand over a stable and a panic window ÷ capacity, with latency evidence."""

    stable_window_seconds: float = 180.0
    panic_window_seconds: float = 60.0
    panic_threshold: float = 2.0
    ttft_target_milliseconds: float | None = None
    itl_target_milliseconds: float | None = None


class Trust(StrEnum):
    """Whether a forecast has to earn its trust."""

    EARNED = "Earned"
    ALWAYS = "Always"


class Predictive(msgspec.Struct, frozen=True, kw_only=True, tag="Predictive"):
    """`TokenThroughput`, with the forecast of a local linear trend as a floor."""

    token_throughput: TokenThroughput = TokenThroughput()
    horizon_seconds: float | None = None  # unset: the measured start-up and one interval
    min_points: int = 3
    q_level: float = 0.02
    q_trend: float = 0.0005
    measurement_noise: float = 1.0
    trust: Trust = Trust.EARNED


class Posture(StrEnum):
    """How much `Adaptive` pays for safety."""

    ECONOMY = "Economy"
    STANDARD = "Standard"
    STRICT = "Strict"


class Correction(StrEnum):
    """In which direction a measured capacity may correct the prior."""

    LOWER = "Lower"
    BOTH = "Both"
    OFF = "Off"


class Adaptive(msgspec.Struct, frozen=True, kw_only=True, tag="Adaptive"):
    """Headroom and capacity learnt from what happens, on the seed capacity; nothing to guess."""

    ttft_target_milliseconds: float | None = None
    itl_target_milliseconds: float | None = None
    posture: Posture = Posture.STANDARD
    quantile: float | None = None  # unset: the posture's
    correction: Correction = Correction.LOWER


Algorithm = Proportional | TokenThroughput | Predictive | Adaptive


class DecisionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the person asked for, with the effective defaults filled in and the kinds of the target's roles."""

    roles: tuple[RoleSpec, ...]
    algorithm: Algorithm
    ratios: tuple[RatioSpec, ...] = ()
    behavior: Behavior = Behavior()
    sampling_interval_seconds: float = 15.0
    pending_timeout_seconds: float = 300.0


# ---------------------------------------------------------------- capacity


class RoleCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica of a role can serve, in the role's own demand unit (tokens per second)."""

    effective_tokens_per_second: float
    seed_tokens_per_second: float | None = None
    headroom: float | None = None
    # What divides the forecast of `Predictive` where it differs from what divides the reactive part.
    forecast_tokens_per_second: float | None = None
    # Digest of everything the number was computed from; when it changes, the role's memory is dropped.
    fingerprint: str = ""
    # (running requests, tokens per second) of the measured operating points, ascending; empty for an explicit number.
    curve: tuple[tuple[float, float], ...] = ()
    # What a computed prompt token of a Server counts against a generated one: 1 in a catalog's own mix (`Profile`), ρ
    # of the fit under `Observed`.
    prompt_token_weight: float = 1.0


Capacity = dict[str, RoleCapacity]


# ---------------------------------------------------------------- observation

# `gc=False`: these hold plain values and can form no cycle, and there are many of them; a collector that need not
# look at them costs nothing.


class Histogram(msgspec.Struct, gc=False, frozen=True):
    """A cumulative Prometheus histogram: `bounds` are the finite upper bounds in seconds, ascending; `cumulative` has
    one more entry, the last being the count of the +Inf bucket."""

    bounds: tuple[float, ...]
    cumulative: tuple[float, ...]
    sum: float | None = None


class MemberReading(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """What one serving member reported. `None` means "not observed", never zero. Counters are cumulative and
    resettable."""

    running_requests: float | None = None
    waiting_requests: float | None = None
    # Of `waiting_requests`: those that wait for KV blocks from a prefill replica (a Decode member only).
    waiting_for_kv_requests: float | None = None
    computed_prompt_tokens: float | None = None  # counter; not served from the prefix cache
    cached_prompt_tokens: float | None = None  # counter
    generation_tokens: float | None = None  # counter
    finished_requests: float | None = None  # counter
    started_requests: float | None = None  # counter; requests that got a first token
    ttft: Histogram | None = None
    itl: Histogram | None = None


class Member(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """One process that answers for a replica (several for external data parallelism)."""

    key: str  # stable name of the process: Pod UID, and port where a Pod has several
    incarnation: str  # container id, restart count, process start: another value means counters started anew
    replica: str  # which replica it belongs to
    ready: bool
    serving: bool  # ready, eligible, and known to the router where there is one that reports it
    ready_since: float | None  # model time at which this controller first saw it ready
    sampled_at: float  # model time of the attempt
    reading: MemberReading | None = None
    failure: str | None = None  # why there is no reading; one of the scraper's reasons


class RoleObservation(msgspec.Struct, frozen=True, kw_only=True):
    """One role of the target as seen at this tick."""

    name: str
    current_replicas: int  # the declared count: what our last write, or somebody else's, asked for
    ready_replicas: int
    unadmitted_replicas: int = 0  # no quota reservation or no scheduled Pod
    starting_replicas: int = 0  # admitted, not Ready
    retiring_replicas: int = 0
    # The pool that a new replica takes accelerators from, and how many; None where admission cannot be foreseen.
    pool: str | None = None
    accelerators_per_replica: float = 1.0
    members: tuple[Member, ...] = ()
    # First sight of each starting replica, where the caller tracks them; finds those whose start has stalled.
    starting_since: tuple[float, ...] = ()
    # Measured seconds from Pod creation to Ready, of replicas that became Ready since the last tick.
    startups_seconds: tuple[float, ...] = ()


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Accelerators that several roles, also of other targets, are admitted to."""

    name: str
    free_accelerators: float  # not reserved by anybody


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything seen at one tick. `now` is the model time at which it was complete and equals the argument `now`."""

    now: float
    roles: tuple[RoleObservation, ...]
    retirement_in_progress: bool = False
    pools: tuple[Pool, ...] = ()


# ---------------------------------------------------------------- decision


class Stage(StrEnum):
    """The planner stages in their order; `limitedBy` names the last one that changed a role."""

    COVERAGE = "coverage"
    RATIO = "ratio"
    BOUNDS = "bounds"
    STABILIZATION = "stabilization"
    STEP = "step"
    CONSOLIDATION = "consolidation"
    QUOTA = "quota"
    SETTLING = "settling"
    JOINT = "joint"


class StageRecord(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """What one stage did to one role, for people."""

    stage: Stage
    before: int
    after: int
    floor: int | None = None
    ceiling: int | None = None
    reason: str = ""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What the samples of a role add up to at this tick; None where nothing was observed."""

    demand_tokens_per_second: float | None = None  # arrivals, in the role's demand unit, mean of the stable window
    served_tokens_per_second: float | None = None
    running_requests: float | None = None
    waiting_requests: float | None = None
    ttft_milliseconds: float | None = None  # windowed p95
    itl_milliseconds: float | None = None  # windowed p95
    # The buckets those lie in, (lower, upper); the upper end is None, and the value too, above the last finite bound.
    ttft_interval_milliseconds: tuple[float, float | None] | None = None
    itl_interval_milliseconds: tuple[float, float | None] | None = None
    input_output_ratio: float | None = None
    coverage: float | None = None  # fresh members ÷ Ready members; None with no Ready member


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """What `Adaptive` goes by, for people."""

    headroom: float  # learnt ratio of coming to present demand
    peak_replicas: float  # highest demand remembered
    miss_factor: float  # raise for missed latency targets
    capacity_factor: float  # what was applied of the measured capacity factor


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What `Predictive` expects at its horizon, in tokens per second, and how far the trend is trusted."""

    horizon_seconds: float
    tokens_per_second: float
    level_tokens_per_second: float
    trend_share: float


class MetricsStatus(StrEnum):
    """Reasons of the condition MetricsAvailable."""

    SAMPLED = "Sampled"
    PARTIAL_COVERAGE = "PartialCoverage"
    NO_READY_REPLICAS = "NoReadyReplicas"
    ALL_SCRAPES_FAILED = "AllScrapesFailed"
    STALE_SAMPLES = "StaleSamples"


class RoleDecision(msgspec.Struct, frozen=True, kw_only=True):
    """One role's chain raw → desired. `raw` is None when the samples or the capacity do not say anything."""

    name: str
    current: int
    raw: int | None
    desired: int
    limited_by: Stage | None  # None: nothing bound
    stages: tuple[StageRecord, ...] = ()
    observed: Observed = Observed()
    algorithm_reason: str = ""  # how raw came about, in words and figures
    next_change_time: float | None = None  # the earliest time at which the count could change, where a window decides
    metrics: MetricsStatus = MetricsStatus.SAMPLED
    last_sample_time: float | None = None
    # Measured throughput ÷ the prior's at the same concurrency (κ); None without a capacity or before a measurement.
    capacity_factor: float | None = None
    startup_p50_seconds: float | None = None
    startup_p90_seconds: float | None = None
    startup_stalled_replicas: int = 0  # starting for so long that they no longer count as supply
    learned: Learned | None = None
    forecast: Forecast | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The whole explanation of one tick: the same JSON in status, event, log, `explain` and the simulator."""

    now: float
    roles: tuple[RoleDecision, ...]

    @property
    def changes(self) -> dict[str, tuple[int, int]]:
        """role → (current, desired) where they differ."""
        return {role.name: (role.current, role.desired) for role in self.roles if role.current != role.desired}

    def role(self, name: str) -> RoleDecision:
        """The decision of one role. Raises KeyError for a role that the spec does not have."""
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(name)
