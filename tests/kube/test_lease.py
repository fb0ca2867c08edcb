"""Leader election as pure decisions."""

from __future__ import annotations

import pytest

from controller.foundation import ObjectMeta, UsageError
from controller.kube import Lease, LeaseSpec, LeaseTimes
from controller.kube.lease import Create, Observation, Renew, TakeOver, Wait, claim, decide, released, whole_seconds

TIMES = LeaseTimes()
ME = "me"


def lease(holder: str | None, duration: int | None = 15, version: int = 1, **spec: object) -> Lease:
    meta = ObjectMeta(name="l", resource_version=str(version))
    return Lease(meta, LeaseSpec(holder_identity=holder, lease_duration_seconds=duration, **spec))  # type: ignore[arg-type]


ANCIENT = "2001-01-01T00:00:00.000000Z"
FUTURE = "2101-01-01T00:00:00.000000Z"

DECISIONS: list[tuple[str, Observation | None, float, object]] = [
    ("A1: there is no lease", None, 0, Create()),
    ("A2: a lease without a holder", Observation(lease(None), 0), 0, TakeOver()),
    ("A6: a lease that was released", Observation(lease(""), 0), 0, TakeOver()),
    ("A23: a lease without a spec", Observation(Lease(), 0), 0, TakeOver()),
    (
        "A3: a held lease at first sight, however old it says it is",
        Observation(lease("x", renew_time=ANCIENT), 100),
        100,
        Wait(115),
    ),
    ("A3: a held lease just before it expires", Observation(lease("x"), 100), 114.9, Wait(115)),
    ("A4: a held lease that has not changed for its duration", Observation(lease("x"), 100), 115, TakeOver()),
    (
        "A27: a renewTime in the future changes nothing",
        Observation(lease("x", renew_time=FUTURE), 100),
        115,
        TakeOver(),
    ),
    ("A5: the record's own duration counts, a longer one", Observation(lease("x", 60), 100), 130, Wait(160)),
    ("A5: and a shorter one", Observation(lease("x", 5), 100), 105, TakeOver()),
    ("A23: without a duration ours counts", Observation(lease("x", None), 100), 114, Wait(115)),
    ("A23: a duration that is none counts as none", Observation(lease("x", -5), 100), 114, Wait(115)),
    ("A23: and so does one that no Lease can have", Observation(lease("x", 10**400), 100), 114, Wait(115)),
    ("A7: our own lease", Observation(lease(ME), 0), 999, Renew()),
]

GONE: list[tuple[str, Observation | None, float, object]] = [
    ("a lease that never was", None, 0, Create()),
    ("one whose holder cannot know yet that it is gone", Observation(lease("x"), 100), 114.9, Wait(115)),
    ("one whose holder must have stopped", Observation(lease("x"), 100), 115, Create()),
    ("one that was free", Observation(lease(""), 100), 101, Create()),
    ("our own", Observation(lease(ME), 100), 101, Create()),
]


@pytest.mark.parametrize(
    ("observation", "now", "action"), [row[1:] for row in DECISIONS], ids=[row[0] for row in DECISIONS]
)
def test_decision(observation: Observation | None, now: float, action: object) -> None:
    assert decide(observation, ME, now, TIMES) == action


@pytest.mark.parametrize(("observation", "now", "action"), [row[1:] for row in GONE], ids=[row[0] for row in GONE])
def test_a_deleted_lease_is_not_free_at_once(observation: Observation | None, now: float, action: object) -> None:
    assert decide(observation, ME, now, TIMES, missing=True) == action


@pytest.mark.parametrize(
    ("before", "after"),
    [(3, 4), (None, 1), (-7, 1), (2**31 - 1, 2**31 - 1), (2**40, 2**31 - 1)],
    ids=["one more", "none yet", "a negative number", "the largest", "beyond it"],
)
def test_transitions_stay_a_number_that_the_server_takes(before: int | None, after: int) -> None:
    """The field is an int32 and not negative: otherwise nobody could ever write the record again."""
    spec = claim(TakeOver(), lease("x", lease_transitions=before), ME, 0.0, TIMES)
    assert spec.lease_transitions == after
    again = released(Lease(spec=spec), 0.0)
    assert again.lease_transitions == after


def test_the_timer_starts_anew_only_when_the_spec_changes() -> None:
    first = Observation(lease("x", renew_time="a"), 10)
    assert first.updated(lease("x", renew_time="a", version=2), 20).seen_at == 10
    assert first.updated(lease("x", renew_time="b", version=2), 20).seen_at == 20
    assert first.updated(lease("x", renew_time="a", version=2), 20).lease.metadata.resource_version == "2"


def test_a_first_lease_has_no_transitions() -> None:
    """A1."""
    spec = claim(Create(), None, ME, 0.0, TIMES)
    assert spec == LeaseSpec(ME, 15, "1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:00.000000Z", 0)


def test_a_takeover_counts_and_starts_its_own_time() -> None:
    """A2, A4."""
    spec = claim(TakeOver(), lease("x", acquire_time=ANCIENT, lease_transitions=4), ME, 1.0, TIMES)
    assert spec.lease_transitions == 5
    assert spec.acquire_time == spec.renew_time == "1970-01-01T00:00:01.000000Z"
    assert claim(TakeOver(), Lease(), ME, 1.0, TIMES).lease_transitions == 1


def test_a_renewal_keeps_its_history() -> None:
    """A7."""
    spec = claim(Renew(), lease(ME, acquire_time=ANCIENT, lease_transitions=4), ME, 1.5, TIMES)
    assert (spec.lease_transitions, spec.acquire_time) == (4, ANCIENT)
    assert spec.renew_time == "1970-01-01T00:00:01.500000Z"


def test_a_released_lease_is_free_at_once_and_keeps_its_count() -> None:
    """A10."""
    spec = released(lease(ME, lease_transitions=4), 1.0)
    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("", 1, 4)


@pytest.mark.parametrize(("seconds", "whole"), [(15.0, 15), (3.2, 4), (0.5, 1), (3.0, 3)])
def test_the_duration_in_the_record_is_never_shorter_than_ours(seconds: float, whole: int) -> None:
    assert whole_seconds(seconds) == whole


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ((10, 10, 2), "must be longer than the renew deadline"),
        ((15, 10, 0), "retry period must be positive"),
        ((15, 10, -1), "retry period must be positive"),
        ((15, 2.4, 2), "must be longer than 1.2 × the retry period"),
        ((0.9, 0.5, 0.1), "at least 1 s"),
    ],
    ids=["lease = deadline", "no retry", "negative retry", "deadline = 1.2 retry", "less than a second"],
)
def test_impossible_times_are_refused(times: tuple[float, float, float], message: str) -> None:
    """A16."""
    with pytest.raises(UsageError, match=message):
        LeaseTimes(*times)


@pytest.mark.parametrize("times", [(15, 10, 2), (3, 2, 0.5), (137, 107, 26)], ids=["default", "demo", "OpenShift"])
def test_the_usual_times_are_fine(times: tuple[float, float, float]) -> None:
    assert LeaseTimes(*times).lease_seconds == times[0]
