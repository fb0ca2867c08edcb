"""The memory of decisions survives in status, whole where it can be read, carefully where it cannot."""

import msgspec
import pytest

from controller import scaling
from controller.api import HistoryEntry, RoleStatus, ScalerStatus, parse_status, render
from controller.planning import remembered, restored
from tests.planning.test_record import START, Run


@pytest.fixture
def run():
    made = Run()
    made.tick(450, 12)
    return made


def test_what_is_written_into_status_comes_back_as_it_was(run):
    status = ScalerStatus(roles=(remembered(RoleStatus(name="server"), run.state),))
    back, note = parse_status(render(status))
    assert note == ""
    state = restored(back.roles, run.now)
    assert scaling.persist(state, "server") == scaling.persist(run.state, "server")


def test_the_fields_for_people_say_the_same(run):
    role = remembered(RoleStatus(name="server"), run.state)
    assert role.stabilization_history[-1].replicas == run.current
    assert len(role.memory) <= 4096


UNREADABLE = [
    "",
    "nonsense",
    '{"history": 7}',
    '{"history": {"highs": [[1e300, 2]]}}',
    '{"history": {"highs": [[1.8e9, -7]]}}',
    '{"panic": {"since": -1, "last_crossing": 1, "floor": 2}}',
    '{"panic": {"since": 1, "last_crossing": 1, "floor": 4294967296}}',
    '{"settling": {"pauses": -1}}',
    '{"startups_seconds": [-5.0]}',
    '{"factor": [0.0, 0.0, 0.0, 0.0, 0]}',
]


@pytest.mark.parametrize("memory", UNREADABLE)
def test_without_a_readable_memory_the_history_for_people_serves(run, memory):
    role = msgspec.structs.replace(remembered(RoleStatus(name="server"), run.state), memory=memory)
    kept = scaling.persist(restored([role], run.now), "server")
    assert kept.history.highs[-1].replicas == run.current


def test_the_last_recommendation_counts_as_repeated_until_the_restart(run):
    role = remembered(RoleStatus(name="server"), run.state)
    later = run.now + 45  # the status may be up to a minute old
    assert scaling.persist(restored([role], later), "server").history.highs[-1].time == later


def test_of_a_history_in_any_order_only_what_can_still_be_a_maximum_is_kept():
    entries = tuple(HistoryEntry(time=START + at, replicas=count) for at, count in [(30, 2), (10, 5), (20, 3), (40, 3)])
    role = RoleStatus(name="server", stabilization_history=entries)
    highs = scaling.persist(restored([role], START + 40), "server").history.highs
    assert [entry.replicas for entry in highs] == [5, 3]
