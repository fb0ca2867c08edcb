"""How the roles of a demo are sized, and that the scaler's manifest is one that the controller takes."""

from __future__ import annotations

import pytest

from controller.api import parse_spec
from controller.cli.demo import DemoAlgorithm, DemoRoles
from controller.cli.demo_plan import DemoPlan, plan_demo
from controller.cli.demo_roles import HEADROOM, MAX_REPLICAS, PEAK_REPLICAS, RolePlan
from controller.embedded.engine import EngineKind
from controller.plant import BatchLimits, closed_loop


def planned(roles: DemoRoles, algorithm: str = "TokenThroughput", **options: int | None) -> DemoPlan:
    return plan_demo(None, minutes=15, algorithm=algorithm, seed=1, roles=roles, **options)


def role(kind: EngineKind, roles: DemoRoles = DemoRoles.EPD) -> RolePlan:
    return next(each for each in planned(roles).roles if each.kind is kind)


@pytest.mark.parametrize("algorithm", [algorithm.value for algorithm in DemoAlgorithm])
@pytest.mark.parametrize("roles", list(DemoRoles))
def test_the_controller_takes_the_manifest_of_every_choice(roles: DemoRoles, algorithm: str) -> None:
    plan = planned(roles, algorithm)
    spec, findings = parse_spec(plan.scaler["spec"])
    assert findings == []
    assert spec is not None
    assert [each.name for each in spec.roles] == [each.name for each in plan.roles]
    assert bool(spec.ratios) is (roles is DemoRoles.EPD)


@pytest.mark.parametrize(
    ("roles", "kinds"),
    [
        (DemoRoles.SERVER, [EngineKind.SERVER]),
        (DemoRoles.PD, [EngineKind.PREFILL, EngineKind.DECODE]),
        (DemoRoles.EPD, [EngineKind.ENCODE, EngineKind.PREFILL, EngineKind.DECODE]),
    ],
)
def test_which_roles_share_the_work(roles: DemoRoles, kinds: list[EngineKind]) -> None:
    plan = planned(roles)
    assert [each.kind for each in plan.roles] == kinds
    assert bool(plan.media_tokens) is (roles is DemoRoles.EPD)


@pytest.mark.parametrize("kind", [EngineKind.PREFILL, EngineKind.DECODE])
def test_the_busiest_minute_needs_about_five_replicas_and_never_more_than_there_may_be(kind: EngineKind) -> None:
    sized = role(kind)
    trace = planned(DemoRoles.PD).fit.trace
    tokens = trace.prompt_tokens if kind is EngineKind.PREFILL else trace.output_tokens
    busiest = max(
        int(tokens[(trace.t_seconds >= start) & (trace.t_seconds < start + 60)].sum()) / 60
        for start in range(0, int(trace.duration_seconds) - 60, 10)
    )
    assert busiest / sized.effective_tokens_per_second == pytest.approx(sized.peak, rel=0.02)
    assert 3.0 <= sized.peak <= PEAK_REPLICAS * 1.3
    assert 1 <= sized.world_role.initial_replicas <= MAX_REPLICAS
    assert sized.effective_tokens_per_second == HEADROOM * sized.tokens_per_second


def test_a_prefill_replica_computes_as_many_prompt_tokens_as_it_is_said_to() -> None:
    sized = role(EngineKind.PREFILL)
    limits = BatchLimits(sized.max_num_seqs, sized.max_num_batched_tokens or 0)
    ran = closed_loop(sized.service, 16, [(1000, 1)], requests=200, limits=limits)
    computed = ran.total_tokens_per_second - ran.output_tokens_per_second
    assert computed == pytest.approx(sized.tokens_per_second, rel=0.05)


def test_a_decode_replica_generates_as_many_tokens_as_it_is_said_to() -> None:
    sized = role(EngineKind.DECODE)
    limits = BatchLimits(sized.max_num_seqs)
    ran = closed_loop(sized.service, sized.max_num_seqs, [(1, 200)], requests=200, limits=limits)
    assert ran.output_tokens_per_second == pytest.approx(sized.tokens_per_second, rel=0.05)


def test_the_longest_answer_ends_within_a_drain() -> None:
    sized = role(EngineKind.DECODE)
    longest = int(planned(DemoRoles.PD).fit.trace.output_tokens.max())
    # 240 s, of which the first minute is left to hand-overs; and what is running has been running for a while.
    assert longest * sized.service.decode_step_seconds(sized.max_num_seqs) <= 180.0


def test_encoders_are_fast_enough_for_their_ratio() -> None:
    encode, prefill = role(EngineKind.ENCODE), role(EngineKind.PREFILL)
    # Every second prefill replica has an encoder, which has at most half of each prompt to do.
    assert encode.tokens_per_second >= 2 * prefill.tokens_per_second / 2


def test_in_cycles_the_scaler_only_watches_and_one_replica_can_carry_the_load() -> None:
    for roles in (DemoRoles.SERVER, DemoRoles.PD):
        plan = planned(roles, cycles=20)
        assert plan.scaler["spec"]["mode"] == "Shadow"
        trace, rate = plan.fit.trace, plan.cycling_requests_per_second()
        prompt, output = float(trace.prompt_tokens.mean()), float(trace.output_tokens.mean())
        loads = [rate * each.demand(prompt, output) / each.tokens_per_second for each in plan.roles]
        assert max(loads) == pytest.approx(0.5)
