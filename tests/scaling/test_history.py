"""Past recommendations as running extremes: what a window can still need, and how far back that is known."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.scaling.history import LARGEST_HISTORY, History, compacted, complete, highest, lowest, recorded

UP, DOWN, GAP = 60.0, 300.0, 180.0


def told(
    items: Iterable[tuple[float, int]], history: History | None = None, *, up: float = UP, down: float = DOWN
) -> History:
    history = history or History()
    for time, replicas in items:
        history = recorded(history, time, replicas, up_window_seconds=up, down_window_seconds=down, longest_gap=GAP)
    return history


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 30)), min_size=1, max_size=80))
def test_the_extremes_are_those_of_every_recommendation_in_the_window(steps: list[tuple[int, int]]) -> None:
    now, seen, history = 0.0, [], History()
    for gap, replicas in steps:
        now += gap
        seen.append((now, replicas))
        history = told([(now, replicas)], history)
        inside = [count for time, count in seen if now - time < DOWN]
        top, bottom = highest(history, now, DOWN), lowest(history, now, UP)
        assert top is not None
        assert top.replicas == max(inside)
        assert bottom is not None
        assert bottom.replicas == min(count for time, count in seen if now - time < UP)


def test_only_what_can_still_become_an_extreme_is_kept() -> None:
    history = told([(float(second), 5) for second in range(0, 100, 10)])
    assert len(history.highs) == len(history.lows) == 1
    assert history.highs[0].time == 90.0, "of equal recommendations the newest lasts longest"


def test_a_window_is_known_once_it_has_been_remembered_whole() -> None:
    history = told([(0.0, 3), (100.0, 3), (250.0, 3)])
    assert not complete(history, 250.0, DOWN)
    assert complete(told([(300.0, 3)], history), 300.0, DOWN)
    assert not complete(History(), 0.0, 0.0), "nothing is known of an empty memory"


def test_a_window_that_grows_does_not_know_what_was_forgotten() -> None:
    history = told([(float(t), 3) for t in range(0, 1000, 100)], down=200.0)
    assert complete(history, 900.0, 200.0)
    assert not complete(history, 900.0, 600.0)


def test_a_long_silence_begins_a_new_memory() -> None:
    history = told([(0.0, 9), (100.0, 9), (100.0 + GAP + 1.0, 2)])
    assert [item.replicas for item in history.highs] == [2]
    assert history.known_since == 100.0 + GAP + 1.0


def test_a_short_silence_does_not() -> None:
    history = told([(0.0, 9), (100.0, 9), (100.0 + GAP, 2)])
    assert [item.replicas for item in history.highs] == [9, 2]


def test_a_clock_set_back_begins_a_new_memory() -> None:
    history = told([(1000.0, 9), (500.0, 2)])
    assert [item.replicas for item in history.highs] == [2]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=100))
@example([*range(100, 0, -1)])  # every one of them may still be the largest of a window
@example([*range(100)])  # or the smallest
def test_a_compact_history_never_allows_more(counts: list[int]) -> None:
    history = told([(float(index), count) for index, count in enumerate(counts)], up=DOWN)
    short = compacted(history)
    assert len(short.highs) <= LARGEST_HISTORY
    assert len(short.lows) <= LARGEST_HISTORY
    now = float(len(counts))
    for later in range(int(DOWN)):
        exact, kept = highest(history, now + later, DOWN), highest(short, now + later, DOWN)
        if exact is not None:
            assert kept is not None
            assert kept.replicas >= exact.replicas
        exact, kept = lowest(history, now + later, DOWN), lowest(short, now + later, DOWN)
        if exact is not None:
            assert kept is not None
            assert kept.replicas <= exact.replicas


def test_rare_steps_are_not_merged() -> None:
    history = told([(float(index), 20 - index) for index in range(LARGEST_HISTORY)])
    assert compacted(history) == history


@pytest.mark.parametrize("window", [0.0, 1.0])
def test_a_window_of_zero_holds_nothing(window: float) -> None:
    history = told([(0.0, 7)], up=window, down=window)
    assert (highest(history, 0.0, window) is None) is (window == 0.0)
