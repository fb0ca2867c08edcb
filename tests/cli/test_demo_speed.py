"""How fast a demo runs on a machine as it is, and what it says where that was too fast."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from controller.cli import run
from controller.cli.demo_plan import DemoPlan, plan_demo
from controller.cli.demo_report import render_results, summary_table
from controller.cli.demo_run import DemoOptions, DemoOutcome, FellBehind, fallen_behind, is_late
from controller.cli.demo_speed import SpeedPlanner
from controller.embedded.results import Quantiles, RoleResults, WorldResults, WorldSeries, WorldSnapshot
from controller.embedded.retirement_history import Retirements
from controller.planning import Continuity


@pytest.fixture(scope="module")
def plan() -> DemoPlan:
    return plan_demo(None, minutes=None, algorithm="TokenThroughput", seed=1)


def planner(plan: DemoPlan, cores: float, speed: float | None = None) -> SpeedPlanner:
    return SpeedPlanner(plan, speed=speed, measure=lambda: cores)


def test_with_a_core_to_spare_an_hour_ends_within_three_minutes(plan: DemoPlan) -> None:
    idle = planner(plan, 1.0)
    assert plan.trace_seconds / idle.speed < 180.0
    assert not idle.slowed


def test_on_a_busy_machine_it_runs_slower_and_says_for_how_long(plan: DemoPlan) -> None:
    busy = planner(plan, 0.08)  # a core shared by eight
    assert busy.slowed
    assert 3.0 < busy.speed < 10.0
    assert f"--speed {busy.speed:.0f} instead of 28" in busy.announcement
    assert "--minutes 10" in busy.announcement


def test_a_speed_that_was_asked_for_is_kept(plan: DemoPlan) -> None:
    asked = planner(plan, 0.06, speed=60.0)
    assert (asked.speed, asked.slowed, asked.may_slow_down) == (60.0, False, False)
    assert asked.advice() == f"try --speed {int(planner(plan, 0.06).speed)}"


@pytest.mark.parametrize(
    ("cores", "speed", "advice"),
    [
        pytest.param(1.0, 28.0, "try --speed 14", id="half of it at most, though there seems to be room again"),
        pytest.param(0.01, 28.0, "try --speed 1", id="real time where there is next to nothing"),
        pytest.param(0.01, 1.0, "stop what else runs here", id="no slower than real time"),
    ],
)
def test_what_to_do_about_a_speed_that_was_too_fast(plan: DemoPlan, cores: float, speed: float, advice: str) -> None:
    assert advice in planner(plan, cores, speed).advice()


def test_each_attempt_is_at_most_half_as_fast_as_the_one_that_fell_behind(plan: DemoPlan) -> None:
    chosen = planner(plan, 1.0)
    first = chosen.speed
    chosen.slow_down()
    assert 1.0 <= chosen.speed <= first / 2


@pytest.mark.parametrize(
    ("late", "requests", "means_nothing"),
    [
        pytest.param(0, 4000, False, id="none"),
        pytest.param(30, 4000, False, id="one stall of a second"),
        pytest.param(80, 4000, True, id="one in fifty"),
        pytest.param(3, 50, False, id="few of a short trace"),
        pytest.param(5, 50, True, id="a tenth of a short trace"),
    ],
)
def test_when_so_many_are_late_that_the_load_is_not_the_traces(late: int, requests: int, means_nothing: bool) -> None:
    assert is_late(late, requests) is means_nothing


def outcome(**changes: Any) -> DemoOutcome:
    series = WorldSeries(10.0, [], [], [], [], [], [], [], [], [], {"server": []}, [], [])
    latencies = Quantiles(190.0, 1_200.0, 815_001.0)
    results = WorldResults(
        duration_seconds=600.0,
        requests=4000,
        completed=4000,
        lost=0,
        rejected=0,
        abandoned=0,
        tokens=1,
        output_tokens=1,
        roles={"server": RoleResults(1.0, 1.0, 1, 1, 1)},
        ttft_milliseconds=latencies,
        itl_milliseconds=latencies,
        latest_send_seconds=0.0,
        late_requests=0,
        loss_reasons={},
        cut_requests=0,
        writers=None,
        retirements=Retirements(admitted=2, completed=0, aborted=0, adopted=2),
        series=series,
    )
    given = {name: value for name, value in changes.items() if name not in ("early", "shrinks")}
    continuity = Continuity(ticks=0, processes=1, shrinks=changes.get("shrinks", 0), early=changes.get("early", ()))
    return DemoOutcome(replace(results, **given), (), continuity, (), 0.0, None, 20.0, 28.0)


def test_a_result_that_means_nothing_says_so_before_anything_else(plan: DemoPlan) -> None:
    late = outcome(late_requests=3100, latest_send_seconds=1160.0)
    assert late.doubt == (
        "this machine was too slow for --speed 28, so the result is not meaningful: "
        "3,100 of 4,000 requests were sent late, by up to 1160 s"
    )
    assert late.as_json()["meaningful"] is False
    page = render_results(plan, DemoOptions(28.0, None, False, Path(), False), late, f"{late.doubt}; try --speed 9")
    assert page.index("This machine was too slow") < page.index("Lost requests")
    assert outcome(late_requests=10, latest_send_seconds=20.0).doubt == ""


def test_the_page_names_every_figure_once() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "demo.md").read_text(encoding="utf-8")
    table = page.partition("| field | meaning |\n")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines()[1:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(outcome().as_json())


def test_an_error_is_told_once_with_its_count() -> None:
    lost = outcome(lost=7, loss_reasons={"status 502: gone": 6, "cut": 1})
    assert "7 requests were lost: status 502: gone (6 times); cut" in lost.failures
    assert "1 request was lost: cut" in outcome(lost=1, loss_reasons={"cut": 1}).failures


def test_the_table_counts_in_words_and_units_of_people(plan: DemoPlan) -> None:
    table = summary_table(plan, outcome())
    ttft, itl = 1000 * plan.fit.ttft_target_seconds, 1000 * plan.fit.itl_target_seconds
    assert f"190 ms / 1.2 s / 815 s (model time, target at p95 {ttft / 1000:.1f} s)" in table
    assert f"190 ms / 1.2 s / 815 s (model time, target at p95 {itl:.0f} ms)" in table
    assert f"TokenThroughput on {plan.trace_name}" in table
    assert "1 change of the count" in table
    assert "0 completed, 2 called back" in table


def test_an_algorithm_without_latency_targets_is_shown_without_them() -> None:
    proportional = plan_demo(None, minutes=5, algorithm="Proportional", seed=1)
    assert "190 ms / 1.2 s / 815 s (model time)" in summary_table(proportional, outcome())


def test_cycles_are_told_as_such(plan: DemoPlan) -> None:
    cycling = plan_demo(None, minutes=None, algorithm="TokenThroughput", seed=1, cycles=1)
    table = summary_table(cycling, outcome())
    page = render_results(cycling, DemoOptions(28.0, None, False, Path(), False), outcome())
    for shown in (table, page):
        assert "1 cycle of the counts under steady traffic (TokenThroughput only watched)" in shown
        assert "set to 4 and to 1 again" in shown
        assert "the peak needed" not in shown
        assert "target, p95" not in shown
        assert "target at" not in shown
    assert "is replayed" not in page.replace("No trace is replayed", "")
    assert "the demo set them" in page


@pytest.mark.parametrize(
    ("given", "fails", "runs"),
    [
        pytest.param([], 1, 2, id="a speed of its own choice: it begins anew"),
        pytest.param([], 2, 3, id="twice"),
        pytest.param(["--speed", "28"], 0, 1, id="a speed that was asked for: it takes what comes"),
    ],
)
def test_a_demo_that_falls_behind_begins_anew_slower(
    given: list[str], fails: int, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    ran: list[DemoOptions] = []

    async def fake(_: DemoPlan, options: DemoOptions, report: Any) -> DemoOutcome:
        ran.append(options)
        if len(ran) <= fails:
            raise FellBehind("this machine is too slow for this speed")
        report(late := outcome(late_requests=3100, latest_send_seconds=1160.0))
        return late

    monkeypatch.setattr("controller.cli.demo_run.run_demo", fake)
    monkeypatch.setattr("controller.embedded.pace.measured_cores", lambda: 1.0)
    assert run(["demo", "--directory", str(tmp_path), *given]) == 1  # no decision was made
    told = capsys.readouterr()
    assert len(ran) == runs
    assert all(after.speed <= before.speed / 2 for before, after in pairwise(ran))
    assert [each.give_up_when_late for each in ran] == ([True] * fails + [fails < 2] if not given else [False])
    assert told.err.count("beginning anew") == fails
    said = told.err.splitlines()[fails]
    assert "not meaningful" in said
    assert "try --speed" in said


async def test_the_look_at_the_pace_ends_the_run_as_soon_as_it_is_in_vain(plan: DemoPlan) -> None:
    world = FakeWorld(late_requests=round(0.02 * len(plan.fit.trace)) + 1)
    with pytest.raises(FellBehind, match="were sent late, the last by 33 s"):
        await asyncio.wait_for(fallen_behind(world, plan), 60)  # type: ignore[arg-type]


class FakeWorld:
    """A world whose clients lag."""

    def __init__(self, late_requests: int) -> None:
        self.late_requests = late_requests

    def snapshot(self) -> WorldSnapshot:
        return WorldSnapshot(
            t_seconds=1.0,
            duration_seconds=1.0,
            demand_tokens_per_second=0.0,
            served_tokens_per_second=0.0,
            ttft_p50_seconds=None,
            ttft_p95_seconds=None,
            replicas={},
            running_requests=0,
            waiting_requests=0,
            held_requests=0,
            lag_seconds=33.0,
            late_requests=self.late_requests,
            requests=0,
            completed=0,
            lost=0,
        )
