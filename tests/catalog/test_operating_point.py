"""Which point serves under which latency targets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.operating_point import LatencyTargets, NoPoint, OperatingPoint, choose_point
from catalog.schema import Profile
from controller.api import PointSelection
from tests.catalog.builders import catalog, point_document, profile_document


def _profile(*points: dict[str, Any], role: str = "Server") -> Profile:
    return catalog(profile_document(points=list(points), role=role)).profiles[0]


def _point(concurrency: int, total: float, ttft: float, itl: float, **extra: Any) -> dict[str, Any]:
    latencies = {"ttftMilliseconds": {"p95": str(ttft)}, "itlMilliseconds": {"p95": str(itl)}}
    return point_document(concurrency, total, total / 5, **latencies, **extra)


SWEEP = (_point(4, 400, 100, 5), _point(8, 700, 200, 6), _point(16, 1200, 400, 9), _point(32, 1600, 900, 14))

CHOICES: dict[str, tuple[LatencyTargets, int, PointSelection]] = {
    "the sweep ends before the targets": (LatencyTargets(2000, 33), 32, PointSelection.EXPLICIT_SATURATION),
    "TTFT binds": (LatencyTargets(500, 33), 16, PointSelection.BRACKETED),
    "ITL binds": (LatencyTargets(2000, 6), 8, PointSelection.BRACKETED),
    "a target that is met exactly is met": (LatencyTargets(100, 5), 4, PointSelection.BRACKETED),
}


@pytest.mark.parametrize(("targets", "concurrency", "selection"), CHOICES.values(), ids=CHOICES.keys())
def test_the_fastest_point_within_the_targets_serves(
    targets: LatencyTargets, concurrency: int, selection: PointSelection
) -> None:
    found = choose_point(_profile(*SWEEP), targets)
    assert isinstance(found, OperatingPoint)
    assert (found.point.concurrency, found.selection) == (concurrency, selection)


LIMITED: dict[str, tuple[int, LatencyTargets, int, PointSelection]] = {
    "the engine runs fewer than the best point needs": (
        20,
        LatencyTargets(2000, 33),
        16,
        PointSelection.EXPLICIT_SATURATION,
    ),
    "the engine runs exactly as many": (16, LatencyTargets(2000, 33), 16, PointSelection.EXPLICIT_SATURATION),
    "the engine runs more than any point needs": (
        256,
        LatencyTargets(2000, 33),
        32,
        PointSelection.EXPLICIT_SATURATION,
    ),
    "the targets bind before the engine does": (16, LatencyTargets(200, 33), 8, PointSelection.BRACKETED),
}


@pytest.mark.parametrize(("most", "targets", "concurrency", "selection"), LIMITED.values(), ids=LIMITED.keys())
def test_a_point_beyond_what_the_engine_runs_at_once_never_serves(
    most: int, targets: LatencyTargets, concurrency: int, selection: PointSelection
) -> None:
    found = choose_point(_profile(*SWEEP), targets, most)
    assert isinstance(found, OperatingPoint)
    assert (found.point.concurrency, found.selection) == (concurrency, selection)


def test_an_engine_that_runs_fewer_than_any_point_needs_is_told() -> None:
    found = choose_point(_profile(*SWEEP), LatencyTargets(2000, 33), 2)
    assert isinstance(found, NoPoint)
    assert "at most 2 requests" in found.closest
    assert "lowest measured concurrency is 4" in found.closest


def test_all_points_are_looked_at_because_latency_may_fall_again() -> None:
    bumpy = (_point(4, 400, 100, 5), _point(8, 700, 3000, 6), _point(16, 1200, 400, 9))
    found = choose_point(_profile(*bumpy), LatencyTargets(500, 33))
    assert isinstance(found, OperatingPoint)
    assert (found.point.concurrency, found.selection) == (16, PointSelection.EXPLICIT_SATURATION)


def test_the_highest_throughput_serves_even_below_the_highest_concurrency() -> None:
    degrading = (_point(128, 6335, 400, 9), _point(256, 5692, 800, 14))
    found = choose_point(_profile(*degrading), LatencyTargets(2000, 33))
    assert isinstance(found, OperatingPoint)
    assert (found.point.concurrency, found.selection) == (128, PointSelection.EXPLICIT_SATURATION)


def test_no_point_explains_the_nearest_miss_with_the_bracket_it_used() -> None:
    slow = point_document(4, ttftMilliseconds={"p50": "343", "p99": "2409"}, itlMilliseconds={"p50": "8", "p99": "18"})
    found = choose_point(_profile(slow), LatencyTargets(2000, 33))
    assert isinstance(found, NoPoint)
    assert found.closest == (
        "closest is concurrency 4: TTFT p95 2240 ms (p50..p99), over 2000 ms; ITL p95 17 ms (p50..p99), within 33 ms"
    )


def test_a_quantile_beyond_the_measured_ones_does_not_pass() -> None:
    low = point_document(4, ttftMilliseconds={"p50": "1", "p90": "2"})
    found = choose_point(_profile(low), LatencyTargets(2000, 33))
    assert isinstance(found, NoPoint)
    assert "TTFT p95 is not between measured quantiles (p50, p90)" in found.closest


ROLES: dict[str, tuple[str, LatencyTargets, int]] = {
    "Prefill looks at TTFT only": ("Prefill", LatencyTargets(500, 1), 16),
    "Decode looks at ITL only": ("Decode", LatencyTargets(1, 9), 16),
}


@pytest.mark.parametrize(("role", "targets", "concurrency"), ROLES.values(), ids=ROLES.keys())
def test_each_role_has_its_own_target(role: str, targets: LatencyTargets, concurrency: int) -> None:
    found = choose_point(_profile(*SWEEP, role=role), targets)
    assert isinstance(found, OperatingPoint)
    assert found.point.concurrency == concurrency


def test_chunked_gaps_are_not_compared_with_the_target() -> None:
    chunked = _point(8, 700, 200, 120, flags=["ChunkedITL"], tpotMilliseconds={"p95": "12"})
    found = choose_point(_profile(chunked), LatencyTargets(2000, 33))
    assert isinstance(found, OperatingPoint)
    assert (found.per_token_name, found.per_token and found.per_token.milliseconds) == ("TPOT", 12.0)


def test_another_quantile_chooses_another_point() -> None:
    tail = point_document(8, 700, 140, ttftMilliseconds={"p50": "100", "p99": "5000"})
    assert isinstance(choose_point(_profile(tail), LatencyTargets(2000, 33)), NoPoint)
    assert isinstance(choose_point(_profile(tail), LatencyTargets(2000, 33, quantile=50)), OperatingPoint)


@given(
    st.lists(
        st.tuples(st.integers(1, 64), st.floats(10, 5000), st.floats(1, 100)),
        min_size=1,
        max_size=8,
        unique_by=lambda p: p[0],
    ),
    st.floats(10, 5000),
    st.floats(1, 100),
)
def test_a_choice_keeps_its_targets_and_no_faster_point_does(points: Any, ttft: float, itl: float) -> None:
    profile = _profile(*[_point(c, 100.0 * c, round(t, 3), round(i, 3)) for c, t, i in points])
    targets = LatencyTargets(ttft, itl)
    found = choose_point(profile, targets)
    passing = [p for p in profile.points if p.ttft[0][1] <= ttft and p.itl[0][1] <= itl]
    if isinstance(found, NoPoint):
        assert passing == []
    else:
        assert found.point == max(passing, key=lambda p: p.total_tokens_per_second)
