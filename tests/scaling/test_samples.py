"""A reading becomes a rate only against the same process's earlier one; everything else is a reason not to."""

from __future__ import annotations

import msgspec
import pytest

from controller.scaling import Histogram, Member, MemberReading
from controller.scaling.histograms import Buckets, total_increase
from controller.scaling.samples import MemberState, SampleState, sample, unambiguous
from tests.scaling.world import INTERVAL, T0

NAN, INF = float("nan"), float("inf")


def reading(**values: object) -> MemberReading:
    base = {
        "running_requests": 4.0,
        "waiting_requests": 0.0,
        "computed_prompt_tokens": 1000.0,
        "generation_tokens": 500.0,
        "finished_requests": 10.0,
    }
    return MemberReading(**(base | values))


def member(
    now: float = T0 + INTERVAL, *, incarnation: str = "0", given: MemberReading | None = None, **values: object
) -> Member:
    return Member(
        key="a",
        incarnation=incarnation,
        replica="a",
        ready=True,
        serving=True,
        ready_since=T0 - 600.0,
        sampled_at=now,
        reading=reading(**values) if given is None else given,
    )


def baseline(**values: object) -> MemberState:
    state, _ = sample(None, member(T0, **values), T0, INTERVAL)
    assert state is not None
    return state


GROWN = {"computed_prompt_tokens": 2500.0, "generation_tokens": 800.0, "finished_requests": 13.0}

CASES = [
    pytest.param(
        None, member(**GROWN), SampleState.WARMING, None, id="a first reading is a baseline and gives no rate"
    ),
    pytest.param(
        baseline(),
        member(**GROWN),
        SampleState.FRESH,
        1500.0,
        id="the difference to the same process's last reading is its rate",
    ),
    pytest.param(
        baseline(),
        member(incarnation="1", **GROWN),
        SampleState.RESET,
        None,
        id="another container under the same name starts its counters anew",
    ),
    pytest.param(
        baseline(),
        member(computed_prompt_tokens=10.0, generation_tokens=800.0),
        SampleState.RESET,
        None,
        id="one counter that fell drops the whole interval",
    ),
    pytest.param(
        baseline(finished_requests=10.0),
        member(**(GROWN | {"finished_requests": 9.0})),
        SampleState.RESET,
        None,
        id="a fall of finished requests is a restart too",
    ),
    pytest.param(
        baseline(),
        msgspec.structs.replace(member(), reading=None),
        SampleState.MISSING,
        None,
        id="no reading is missing",
    ),
    pytest.param(
        baseline(),
        member(given=MemberReading()),
        SampleState.MISSING,
        None,
        id="an engine that answers and says nothing is missing",
    ),
    pytest.param(
        baseline(), member(T0 - 3600.0, **GROWN), SampleState.STALE, None, id="a reading from long ago is stale"
    ),
    pytest.param(
        baseline(), member(T0 + 9999.0, **GROWN), SampleState.STALE, None, id="a reading from the future is stale"
    ),
    pytest.param(baseline(), member(NAN, **GROWN), SampleState.STALE, None, id="a reading without a time is stale"),
    pytest.param(
        baseline(), member(T0), SampleState.FRESH, None, id="the same reading again is fresh and gives no second rate"
    ),
    pytest.param(
        baseline(),
        member(**(GROWN | {"computed_prompt_tokens": NAN})),
        SampleState.FRESH,
        None,
        id="NaN makes that one value unknown",
    ),
    pytest.param(
        baseline(),
        member(**(GROWN | {"computed_prompt_tokens": INF})),
        SampleState.FRESH,
        None,
        id="infinity makes that one value unknown",
    ),
    pytest.param(
        baseline(),
        member(**(GROWN | {"computed_prompt_tokens": -1.0})),
        SampleState.FRESH,
        None,
        id="a negative counter is unknown, not a reset",
    ),
    pytest.param(
        baseline(),
        member(**(GROWN | {"computed_prompt_tokens": 1e300})),
        SampleState.FRESH,
        None,
        id="a counter that nobody can have counted is unknown",
    ),
    pytest.param(
        baseline(computed_prompt_tokens=NAN),
        member(**GROWN),
        SampleState.FRESH,
        None,
        id="a value without a baseline gives no rate",
    ),
]


@pytest.mark.parametrize(("before", "now", "state", "prompt"), CASES)
def test_a_reading_is_classified(
    before: MemberState | None, now: Member, state: SampleState, prompt: float | None
) -> None:
    _, seen = sample(before, now, T0 + INTERVAL, INTERVAL)
    assert seen.state is state
    assert seen.increase.computed_prompt_tokens == prompt


def test_a_rate_is_over_the_members_own_elapsed_time() -> None:
    _, seen = sample(baseline(), member(T0 + 12.5, **GROWN), T0 + INTERVAL, INTERVAL)
    assert seen.elapsed_seconds == 12.5


def test_gauges_count_from_the_first_reading_on() -> None:
    _, first = sample(None, member(running_requests=7.0), T0 + INTERVAL, INTERVAL)
    _, restarted = sample(baseline(), member(incarnation="1", running_requests=7.0), T0 + INTERVAL, INTERVAL)
    assert (first.running, restarted.running) == (7.0, 7.0)


def test_a_missing_reading_keeps_the_baseline_so_that_the_next_one_spans_the_gap() -> None:
    state = baseline()
    state, _ = sample(state, msgspec.structs.replace(member(), reading=None), T0 + INTERVAL, INTERVAL)
    _, seen = sample(state, member(T0 + 2 * INTERVAL, **GROWN), T0 + 2 * INTERVAL, INTERVAL)
    assert (seen.increase.computed_prompt_tokens, seen.elapsed_seconds) == (1500.0, 2 * INTERVAL)


def test_a_gauge_is_distrusted_at_the_third_sample_without_any_progress() -> None:
    state: MemberState | None = baseline(running_requests=8.0)
    seen_running = []
    for tick in range(1, 5):
        at = T0 + tick * INTERVAL
        state, seen = sample(state, member(at, running_requests=8.0), at, INTERVAL)
        seen_running.append(seen.running)
    assert seen_running == [8.0, 8.0, None, None]
    at = T0 + 5 * INTERVAL
    _, seen = sample(state, member(at, running_requests=8.0, generation_tokens=501.0), at, INTERVAL)
    assert seen.running == 8.0, "one token of progress restores the trust"


def test_an_idle_engine_is_trusted_for_ever() -> None:
    state: MemberState | None = baseline(running_requests=0.0)
    for tick in range(1, 9):
        at = T0 + tick * INTERVAL
        state, seen = sample(state, member(at, running_requests=0.0), at, INTERVAL)
        assert seen.running == 0.0


HISTOGRAMS = [
    pytest.param((1.0, 2.0, 3.0), True, id="growing buckets are observations"),
    pytest.param((0.0, 2.0, 3.0), False, id="a bucket that fell gives no observations"),
    pytest.param((1.0, NAN, 3.0), False, id="NaN in a bucket gives none"),
    pytest.param((1.0, INF, 3.0), False, id="infinity in a bucket gives none"),
    pytest.param((1.0, 2.0), False, id="a bucket too few gives none"),
    pytest.param((), False, id="no bucket at all gives none"),
]


@pytest.mark.parametrize(("counts", "usable"), HISTOGRAMS)
def test_a_histogram_counts_only_against_a_comparable_one(counts: tuple[float, ...], usable: bool) -> None:
    bounds = (0.1, 0.5)
    before = baseline(ttft=Histogram(bounds, (1.0, 1.0, 1.0)))
    state, seen = sample(before, member(ttft=Histogram(bounds, counts), **GROWN), T0 + INTERVAL, INTERVAL)
    now, then = seen.gauges.ttft, seen.before.ttft
    found = total_increase([(now, then)]) if now is not None and then is not None else None
    assert found == (Buckets(bounds, (0.0, 1.0, 2.0)) if usable else None)
    assert msgspec.json.decode(msgspec.json.encode(state), type=MemberState) == state


def test_a_histogram_whose_count_fell_is_a_restart() -> None:
    before = baseline(ttft=Histogram((0.1,), (5.0, 9.0)))
    _, seen = sample(before, member(ttft=Histogram((0.1,), (1.0, 2.0)), **GROWN), T0 + INTERVAL, INTERVAL)
    assert seen.state is SampleState.RESET


def test_of_members_with_one_key_the_newest_attempt_counts_in_any_order() -> None:
    old, new = member(T0), member(T0 + 5.0)
    assert unambiguous((old, new)) == unambiguous((new, old)) == {"a": new}


def test_two_equally_new_members_of_one_key_have_no_reading() -> None:
    one, two = member(running_requests=1.0), member(running_requests=2.0)
    chosen = unambiguous((one, two))
    assert chosen == unambiguous((two, one))
    assert chosen["a"].reading is None
    assert unambiguous((one, one)) == {"a": one}, "twice the same is no contradiction"
