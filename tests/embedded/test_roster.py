"""Who is used, from when and until when."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from controller.embedded.engine import EngineKind
from controller.embedded.roster import Member, Roster
from controller.foundation import ManualClock

A, B, C = (Member(uid, uid, f"http://{uid}") for uid in "abc")
PREFILL = Member("p", "p", "http://p", EngineKind.PREFILL)


def eligible(roster: Roster) -> dict[str, bool]:
    return {view.member.uid: view.eligible for view in roster.views()}


def test_without_delays_members_come_and_go_at_once() -> None:
    roster = Roster(ManualClock(), 0.0, 0.0)
    roster.set([A, B])
    assert eligible(roster) == {"a": True, "b": True}
    roster.set([B])
    assert eligible(roster) == {"b": True}
    assert roster.next_change_seconds() is None


def test_a_new_member_is_used_only_after_the_delay_and_others_meanwhile() -> None:
    clock = ManualClock()
    roster = Roster(clock, 20.0, 0.0)
    roster.set([A])
    assert roster.views() == ()
    assert roster.choose(EngineKind.SERVER) is None
    assert roster.has(EngineKind.SERVER)
    clock.advance(12.0)
    roster.set([A, B])  # shown again: its time goes on
    assert roster.next_change_seconds() == clock.now() + 8.0
    clock.advance(8.0)
    assert eligible(roster) == {"a": True}
    clock.advance(12.0)
    assert eligible(roster) == {"a": True, "b": True}


def test_a_member_that_is_gone_before_it_was_used_was_never_there() -> None:
    clock = ManualClock()
    roster = Roster(clock, 20.0, 5.0)
    roster.set([A])
    clock.advance(10.0)
    roster.set([])
    clock.advance(30.0)
    assert roster.views() == ()
    assert not roster.has(EngineKind.SERVER)


def test_a_member_that_leaves_is_used_until_its_delay_has_passed() -> None:
    clock = ManualClock()
    roster = Roster(clock, 0.0, 5.0)
    roster.set([A])
    roster.set([])
    assert eligible(roster) == {"a": True}
    clock.advance(5.0)
    assert roster.choose(EngineKind.SERVER) is None
    assert roster.views() == ()


def test_a_member_that_is_shown_again_while_it_leaves_goes_on() -> None:
    clock = ManualClock()
    roster = Roster(clock, 20.0, 5.0)
    roster.set([A])
    clock.advance(20.0)
    roster.set([])
    clock.advance(4.0)
    roster.set([A])
    clock.advance(4.0)
    assert eligible(roster) == {"a": True}


def test_a_dropped_member_stays_in_view_until_its_last_answer_and_comes_back_as_a_new_one() -> None:
    clock = ManualClock()
    roster = Roster(clock, 20.0, 0.0)
    roster.set([A])
    clock.advance(20.0)
    worker = roster.choose(EngineKind.SERVER)
    assert worker is not None
    with roster.using(worker):
        roster.set([])
        assert eligible(roster) == {"a": False}
        roster.set([A])
        assert eligible(roster) == {"a": False}
        clock.advance(20.0)
        assert eligible(roster) == {"a": True}
        roster.set([])
    assert roster.views() == ()


def test_requests_go_to_the_least_loaded_of_their_kind_in_turn() -> None:
    roster = Roster(ManualClock(), 0.0, 0.0)
    roster.set([A, B, C, PREFILL])
    chosen = []
    with ExitStack() as stack:
        for _ in range(6):
            worker = roster.choose(EngineKind.SERVER, without={"c"})
            assert worker is not None
            stack.enter_context(roster.using(worker))
            chosen.append(worker.member.uid)
        assert chosen == ["a", "b"] * 3
        third = roster.choose(EngineKind.SERVER)
        assert third is not None
        assert third.member is C
        prefill = roster.choose(EngineKind.PREFILL)
        assert prefill is not None
        assert prefill.in_flight == 0


@pytest.mark.parametrize("delay", [0.0, 10.0])
def test_what_is_under_way_is_counted_whoever_is_shown(delay: float) -> None:
    clock = ManualClock()
    roster = Roster(clock, 0.0, delay)
    roster.set([A])
    worker = roster.choose(EngineKind.SERVER)
    assert worker is not None
    with roster.using(worker), roster.using(worker):
        roster.set([])
        clock.advance(delay)
        (view,) = roster.views()
        assert (view.in_flight, view.selections, view.eligible) == (2, 2, False)
