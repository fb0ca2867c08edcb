"""Counts that somebody else wrote are a baseline, and after three reversals a reason to stop."""

import pytest

from controller.reconcile.foreign import Reversal, assess_foreign_writes

NOW = 10_000.0


def _assess(written, declared, known=(), *, interval=15.0, now=NOW, write_time=None, found=None):
    return assess_foreign_writes(
        written,
        declared,
        known,
        interval_seconds=interval,
        now=now,
        manager="argocd",
        write_time=write_time,
        found=found,
    )


CASES = [
    ("our own count is nobody else's", {"server": 2}, {"server": 2}, {}),
    ("before our first write nothing is foreign", {}, {"server": 5}, {}),
    ("a differing count is foreign", {"server": 2}, {"server": 1}, {"server": (2, 1)}),
    ("only the differing role is named", {"decode": 2, "prefill": 1}, {"decode": 3, "prefill": 1}, {"decode": (2, 3)}),
    ("a role that the target lost is not a count", {"gone": 2}, {"server": 1}, {}),
]


@pytest.mark.parametrize(("written", "declared", "roles"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_roles(written, declared, roles):
    assert _assess(written, declared).roles == roles


FOUND = [
    ("what was only found is a baseline", {}, {"server": 1}, {"server": (1, 3)}, 0),
    ("what was written is one, and worth counting", {"server": 2}, {}, {"server": (2, 3)}, 1),
    ("what was written since counts, not what was found before", {"server": 3}, {"server": 1}, {}, 0),
]


@pytest.mark.parametrize(("written", "found", "roles", "reversals"), [c[1:] for c in FOUND], ids=[c[0] for c in FOUND])
def test_only_a_count_of_ours_can_be_reversed(written, found, roles, reversals):
    verdict = _assess(written, {"server": 3}, found=found)
    assert (verdict.roles, len(verdict.reversals)) == (roles, reversals)


def test_the_same_foreign_write_counts_once_however_often_it_is_seen():
    first = _assess({"server": 2}, {"server": 1}, write_time=NOW - 5)
    again = _assess({"server": 2}, {"server": 1}, first.reversals, now=NOW + 15, write_time=NOW - 5)
    assert len(again.reversals) == 1
    assert again.reversals[0] == Reversal(NOW - 5, "argocd")


def test_the_third_reversal_within_the_window_stops_the_writing():
    known: tuple[Reversal, ...] = ()
    holds = []
    for round_ in range(3):
        verdict = _assess({"server": 2}, {"server": 1}, known, now=NOW + 180 * round_, write_time=NOW + 180 * round_)
        known = verdict.reversals
        holds.append(verdict.hold)
    assert holds == [False, False, True]


WINDOWS = [
    ("thirty minutes at a short interval", 15.0, 1799.0, 2),
    ("older than thirty minutes is forgotten", 15.0, 1801.0, 1),
    ("ten intervals where they are longer", 300.0, 2999.0, 2),
    ("older than ten intervals is forgotten", 300.0, 3001.0, 1),
]


@pytest.mark.parametrize(("interval", "age", "count"), [c[1:] for c in WINDOWS], ids=[c[0] for c in WINDOWS])
def test_reversals_are_remembered_for_the_longer_of_ten_intervals_and_thirty_minutes(interval, age, count):
    known = (Reversal(NOW - age, "kubectl"),)
    assert len(_assess({"a": 2}, {"a": 1}, known, interval=interval, write_time=NOW - 1).reversals) == count


def test_once_stopped_time_alone_does_not_start_it_again():
    known = tuple(Reversal(NOW - 1000 - each, "argocd") for each in range(3))
    assert _assess({"a": 2}, {"a": 2}, known, now=NOW + 86_400).hold
