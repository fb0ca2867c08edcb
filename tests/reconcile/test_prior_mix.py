"""The length mix of live traffic, from the engines' counters to the capacity: observed, published, converted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.api import find_condition
from tests.reconcile.harness import World
from tests.reconcile.prior_world import catalog_with, config_map_of, local_prior, prior_world, profile, target

# y = B + A·m with A = 1/10,000 and, at four requests in flight, B = 1/400: (1 + m) / y in total.
SHORT, LONG = (1024, 1024), (8192, 1024)
A = 1e-4


def _curve(m: float) -> dict[int, str]:
    return {c: f"{(1 + m) / (1 / base + A * m):.3f}" for c, base in ((4, 400.0), (8, 700.0))}


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[World]:
    async with prior_world(tmp_path) as made:
        target(made)
        profiles = [profile(_curve(i / o), i, o) for i, o in (SHORT, LONG)]
        config_map_of(made, catalog_with(*profiles))
        yield made


def _capacity(team: World):
    roles = team.status().roles
    return roles[0].capacity if roles else None


def _message(team: World) -> str:
    condition = find_condition(team.status().conditions, "CapacityPriorResolved")
    return "" if condition is None else condition.message


async def test_the_workload_nearest_to_the_observed_mix_serves_and_status_shows_both(team: World):
    # Eight prompt tokens per answer token, 100 tokens an answer; 600 requests in five minutes.
    (await team.replica(0)).load(1600, 200)
    team.scaler(mode="Shadow", algorithm=local_prior())
    await team.controller()
    await team.until(lambda: team.reason("CapacityPriorResolved") == "CatalogResolved", "resolved")
    # Too high a capacity starves users: until a mix is known the slowest workload serves.
    assert (_capacity(team).workload, _capacity(team).observed_workload) == ("1024/1024", "")
    assert _capacity(team).mix_factor is None
    await team.until(lambda: _capacity(team).observed_workload, "observed after five minutes")
    capacity = _capacity(team)
    assert (capacity.workload, capacity.observed_workload) == ("8192/1024", "800/100")
    assert float(capacity.mix_factor) == pytest.approx(1.0, abs=0.03)
    assert 0 < float(capacity.sigma) <= 0.2
    assert "observed mix × " in _message(team)


async def test_observed_converts_demand_and_capacity_to_output_equivalents(team: World):
    (await team.replica(0)).load(800, 200)
    team.scaler(mode="Shadow", algorithm=local_prior(workload="Observed"))
    await team.controller()
    await team.until(lambda: _message(team).count("output-equivalent"), "converted")
    capacity = _capacity(team)
    assert str(capacity.selection) == "LatencyNotTransferable"
    # At eight in flight B is 1/700, and an input token costs A/B = 0.07 output tokens.
    assert float(capacity.seed_tokens_per_second) == pytest.approx(700, rel=0.05)
    await team.until(
        lambda: 200 < float(team.status().roles[0].observed.tokens_per_second or 0) < 300, "200 + 0.07 × 800"
    )


async def test_profile_keeps_the_measured_number_and_only_reports_the_factor(team: World):
    (await team.replica(0)).load(800, 200)
    team.scaler(mode="Shadow", algorithm=local_prior())
    await team.controller()
    await team.until(lambda: _capacity(team) and _capacity(team).observed_workload, "observed")
    capacity = _capacity(team)
    assert str(capacity.seed_tokens_per_second) in (_curve(1)[8], _curve(8)[8])
    assert abs(float(capacity.mix_factor) - 1) > 0.2
    assert "output-equivalent" not in _message(team)


async def test_a_mix_that_no_fit_may_be_trusted_with_leaves_the_measured_point(team: World):
    # Prompts of 20,000 tokens: more than twice as long as any measured one.
    (await team.replica(0)).load(40_000, 200)
    team.scaler(mode="Shadow", algorithm=local_prior(workload="Observed"))
    await team.controller()
    await team.until(lambda: "not converted: LengthsBeyondMeasured" in _message(team), "refused, and said so")
    assert str(_capacity(team).seed_tokens_per_second) == _curve(8)[8]


async def test_the_workload_that_served_goes_on_after_a_restart_until_a_mix_is_observed(team: World):
    (await team.replica(0)).load(1600, 200)
    team.scaler(mode="Shadow", algorithm=local_prior())
    first = await team.controller()
    await team.until(lambda: _capacity(team) and _capacity(team).workload == "8192/1024", "observed")
    await team.stop_controller(first)
    for engine in team.engines:
        engine.load(0, 0)
    await team.controller("second")
    await team.ticks(10)
    assert _capacity(team).workload == "8192/1024"
