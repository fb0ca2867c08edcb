"""Random arguments of `decide`: sane specs, and observations of any kind, however malformed."""

from __future__ import annotations

from hypothesis import strategies as st

from controller.scaling import (
    Adaptive,
    Behavior,
    Capacity,
    DecisionSpec,
    DirectionBehavior,
    Histogram,
    Member,
    MemberReading,
    Metric,
    Observation,
    PolicyType,
    Predictive,
    Proportional,
    RatioSpec,
    RoleCapacity,
    RoleKind,
    RoleObservation,
    RoleSpec,
    ScalingPolicy,
    SelectPolicy,
    TokenThroughput,
)

# What an engine, a broken engine, or an attacker may print.
any_number = st.one_of(
    st.none(),
    st.just(0.0),
    st.floats(0, 1e6),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([float("nan"), float("inf"), float("-inf"), -1.0, 1e300, 2.0**53, 5e-324]),
)

any_bounds = st.sampled_from(
    [(), (0.1, 0.5, 1.0), (0.5, 1.0), (1.0, 0.5), (0.1, 0.1), (float("nan"),), (0.1, float("inf"))]
)
any_histogram = st.one_of(
    st.none(),
    st.builds(
        Histogram,
        bounds=any_bounds,
        cumulative=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=5).map(tuple),
    ),
    st.lists(st.floats(0, 1e6), min_size=4, max_size=4).map(
        lambda counts: Histogram((0.1, 0.5, 1.0), tuple(sorted(counts)))
    ),
)

any_reading = st.builds(
    MemberReading,
    running_requests=any_number,
    waiting_requests=any_number,
    waiting_for_kv_requests=any_number,
    computed_prompt_tokens=any_number,
    cached_prompt_tokens=any_number,
    generation_tokens=any_number,
    finished_requests=any_number,
    started_requests=any_number,
    ttft=any_histogram,
    itl=any_histogram,
)


def any_member(now: float) -> st.SearchStrategy[Member]:
    return st.builds(
        Member,
        key=st.sampled_from("abcdef"),
        incarnation=st.sampled_from("01"),
        replica=st.sampled_from("abc"),
        ready=st.booleans(),
        serving=st.booleans(),
        ready_since=st.one_of(st.none(), st.just(now - 100.0)),
        sampled_at=st.one_of(
            st.sampled_from([now, now - 1.0, now - 10.0, now - 1000.0, now + 1e6, float("nan"), float("-inf")])
        ),
        reading=st.one_of(st.none(), any_reading),
    )


def any_observation(names: tuple[str, ...], now: float) -> st.SearchStrategy[Observation]:
    counts = st.integers(0, 12)
    role = st.builds(
        RoleObservation,
        name=st.sampled_from((*names, "stranger")),
        current_replicas=counts,
        ready_replicas=counts,
        unadmitted_replicas=st.integers(0, 4),
        starting_replicas=st.integers(0, 4),
        retiring_replicas=st.integers(0, 2),
        members=st.lists(any_member(now), max_size=6).map(tuple),
        startups_seconds=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=3).map(tuple),
        starting_since=st.lists(st.floats(0, now), max_size=2).map(tuple),
    )
    return st.builds(Observation, now=st.just(now), roles=st.lists(role, max_size=5).map(tuple))


optional_target = st.one_of(st.none(), st.floats(1.0, 5000.0))
policies = st.lists(
    st.builds(
        ScalingPolicy,
        type=st.sampled_from(PolicyType),
        value=st.integers(1, 200),
        period_seconds=st.sampled_from([15.0, 60.0, 300.0]),
    ),
    max_size=2,
).map(tuple)
directions = st.builds(
    DirectionBehavior,
    stabilization_window_seconds=st.sampled_from([0.0, 60.0, 300.0]),
    max_step_replicas=st.one_of(st.none(), st.integers(1, 4)),
    policies=policies,
    select_policy=st.sampled_from(SelectPolicy),
)

KINDS = {
    "server": RoleKind.SERVER,
    "prefill": RoleKind.PREFILL,
    "decode": RoleKind.DECODE,
    "encode": RoleKind.ENCODE,
}


@st.composite
def any_spec(draw: st.DrawFn) -> tuple[DecisionSpec, Capacity]:
    """A spec that admission would let pass, and capacities for some of its roles."""
    names = draw(st.sampled_from([("server",), ("prefill", "decode"), ("encode", "prefill", "decode"), ("encode",)]))
    roles = []
    for name in names:
        low = draw(st.integers(1, 5))
        roles.append(
            RoleSpec(name=name, kind=KINDS[name], min_replicas=low, max_replicas=low + draw(st.integers(0, 8)))
        )
    targets = {
        "ttft_target_milliseconds": draw(optional_target),
        "itl_target_milliseconds": draw(optional_target),
    }
    throughput = TokenThroughput(
        stable_window_seconds=draw(st.sampled_from([30.0, 180.0])),
        panic_window_seconds=draw(st.sampled_from([10.0, 60.0])),
        panic_threshold=draw(st.sampled_from([1.1, 2.0, 10.0])),
        **targets,
    )
    proportional = Proportional(
        metric=draw(st.sampled_from(Metric)),
        role_targets={name: draw(st.floats(0.1, 50.0)) for name in names},
        tolerance=draw(st.sampled_from([0.01, 0.1, 0.5])),
    )
    algorithm = draw(
        st.sampled_from([proportional, throughput, Predictive(token_throughput=throughput), Adaptive(**targets)])
    )
    ratios = []
    for above, below in (("prefill", "decode"), ("encode", "prefill")):
        if above in names and below in names and draw(st.booleans()):
            low_band = draw(st.one_of(st.none(), st.floats(0.2, 1.0)))
            ratios.append(
                RatioSpec(
                    numerator_role=above,
                    denominator_role=below,
                    target=draw(st.one_of(st.none(), st.floats(0.2, 4.0))),
                    min=low_band,
                    max=draw(st.one_of(st.none(), st.floats(1.0, 5.0))),
                )
            )
    behavior = Behavior(scale_up=draw(directions), scale_down=draw(directions))
    capacity = {
        name: RoleCapacity(
            effective_tokens_per_second=draw(st.sampled_from([0.0, 1.0, 1000.0, float("nan"), -5.0, 1e12])),
            fingerprint=draw(st.sampled_from(["", "a", "b"])),
        )
        for name in names
        if draw(st.booleans())
    }
    return (
        DecisionSpec(
            roles=tuple(roles),
            algorithm=algorithm,
            ratios=tuple(ratios),
            behavior=behavior,
            sampling_interval_seconds=draw(st.sampled_from([5.0, 15.0])),
            pending_timeout_seconds=draw(st.sampled_from([60.0, 300.0])),
        ),
        capacity,
    )
