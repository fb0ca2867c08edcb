"""The rules of list+watch as a state machine: which request comes next, at which version, after which wait."""

from __future__ import annotations

import pytest

from controller.kube.errors import (
    ApiError,
    BadAnswer,
    ConnectFailed,
    ConnectionLost,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ResourceVersionTooLarge,
    ServerFailed,
    Throttled,
    TimedOut,
    Transient,
    Unauthorized,
    Unsupported,
)
from controller.kube.listwatch import (
    MAX_FAILED_WATCHES,
    Delay,
    Listing,
    ListWatch,
    Step,
    Streaming,
    Watching,
)
from controller.kube.observers import RestartReason
from controller.kube.pages import ListMeta, PageRequest, PageWalk
from controller.kube.streaming import StreamingSupport


def lister(page_size: int = 0) -> ListWatch:
    return ListWatch(StreamingSupport(refused=True), page_size)


def streamer() -> ListWatch:
    return ListWatch(StreamingSupport())


def list_request(machine: ListWatch) -> PageRequest:
    step = machine.next_step()
    assert isinstance(step, Listing)
    return step.request


def do_list(machine: ListWatch, version: str, *, in_pages: bool = False) -> str:
    """Make the next list succeed; returns the version that it asked for."""
    request = list_request(machine)
    machine.listed(version, request, in_pages=in_pages)
    return request.resource_version


def fail(machine: ListWatch, error: ApiError, seconds: float = 60.0) -> tuple[Delay, RestartReason]:
    verdict = machine.failed(machine.next_step(), error, seconds)
    return verdict.delay, verdict.reason


def watch_until_relist(machine: ListWatch) -> None:
    """End the watch so that a list follows."""
    fail(machine, Expired("gone", status=410))


# ---- lists ---------------------------------------------------------------------------------------------------------


def test_the_first_list_takes_any_cached_state_in_pages_and_the_watch_starts_from_it() -> None:
    """R1."""
    machine = lister()
    assert list_request(machine).query() == [("resourceVersion", "0"), ("limit", "500")]
    do_list(machine, "10")
    assert machine.next_step() == Watching("10")


def test_a_relist_asks_for_nothing_older_than_what_was_seen() -> None:
    """R5, R9: an expired watch leads to a list at the last version, not to the newest."""
    machine = lister()
    assert do_list(machine, "10") == "0"
    machine.observed("12")
    watch_until_relist(machine)
    assert do_list(machine, "20") == "12"


def test_a_relist_at_a_version_is_not_paged_because_the_cache_answers_it_anyway() -> None:
    """R3."""
    machine = lister()
    do_list(machine, "10")
    watch_until_relist(machine)
    assert list_request(machine) == PageRequest("10", "", 0)


def test_pages_stay_on_when_the_answer_to_zero_came_in_pages() -> None:
    """R4: there is no watch cache. The match is given, or a limit would mean exactly this version."""
    machine = lister()
    do_list(machine, "10", in_pages=True)
    watch_until_relist(machine)
    assert list_request(machine) == PageRequest("10", "NotOlderThan", 500)


def test_a_given_page_size_is_used_for_every_list() -> None:
    """R2."""
    machine = lister(page_size=4)
    assert list_request(machine) == PageRequest("0", "", 4)
    do_list(machine, "10")
    watch_until_relist(machine)
    assert list_request(machine) == PageRequest("10", "NotOlderThan", 4)


@pytest.mark.parametrize(
    "error",
    [Expired("e", status=410), ResourceVersionTooLarge("e", status=504)],
    ids=["an expired version", "a version that is too large"],
)
def test_a_list_whose_version_is_refused_is_repeated_at_once_for_the_newest(error: ApiError) -> None:
    """R6, R7, R8: "0", "10", refused, "", then "20" again as the last version."""
    machine = lister()
    asked = [do_list(machine, "10")]
    for round_ in (1, 2, 3):
        watch_until_relist(machine)
        asked.append(list_request(machine).resource_version)
        assert fail(machine, error)[0] is Delay.NONE
        asked.append(do_list(machine, str(10 + 10 * round_)))
    assert asked == ["0", "10", "", "20", "", "30", ""]


def test_a_server_that_refuses_even_the_newest_gets_a_backoff() -> None:
    machine = lister()
    assert fail(machine, Expired("e", status=410))[0] is Delay.NONE
    assert fail(machine, Expired("e", status=410))[0] is Delay.BACKOFF


@pytest.mark.parametrize(
    "error",
    [
        Forbidden("e", status=403),
        NotFound("e", status=404),
        Unauthorized("e", status=401),
        Throttled("e", status=429),
        Transient("e", status=503),
        ConnectFailed("e"),
        ConnectionLost("e"),
        TimedOut("e"),
        BadAnswer("e"),
        Invalid("e", status=400),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_other_failure_of_a_list_backs_off_and_lists_again(error: ApiError) -> None:
    """R10: no watch without a list; a permission or a CRD may come at any time."""
    machine = lister()
    assert fail(machine, error)[0] is Delay.BACKOFF
    assert list_request(machine).resource_version == "0"


# ---- watches -------------------------------------------------------------------------------------------------------


def test_the_version_follows_events_and_bookmarks() -> None:
    """R20."""
    machine = lister()
    do_list(machine, "5")
    for version in ("10", "20", "30", "40"):
        machine.observed(version)
        assert machine.last_version == version
    assert machine.next_step() == Watching("40")


@pytest.mark.parametrize(
    ("seconds", "events", "delay", "reason"),
    [
        (400.0, 7, Delay.NONE, RestartReason.ENDED),
        (400.0, 0, Delay.NONE, RestartReason.ENDED),
        (0.5, 0, Delay.BACKOFF, RestartReason.SHORT),
        (0.5, 3, Delay.PACE, RestartReason.ENDED),
        (1.0, 0, Delay.NONE, RestartReason.ENDED),
    ],
    ids=[
        "its full time",
        "its full time in silence",
        "at once, without an event",
        "at once, with events",
        "one second",
    ],
)
def test_a_watch_that_ends_is_started_again_from_the_last_version(
    seconds: float, events: int, delay: Delay, reason: RestartReason
) -> None:
    """R18, R19, R28: never hot."""
    machine = lister()
    do_list(machine, "5")
    verdict = machine.ended(seconds, events)
    assert (verdict.delay, verdict.reason) == (delay, reason)
    assert machine.next_step() == Watching("5")


WATCH_FAILURES: list[tuple[str, ApiError, float, Delay, str]] = [
    ("410 when starting it", Expired("e", status=410), 0.1, Delay.BACKOFF, "list"),
    ("410 inside the stream", Expired("e", status=410), 60.0, Delay.BACKOFF, "list"),
    ("refused", ConnectFailed("e"), 0.1, Delay.BACKOFF, "watch"),
    ("throttled when starting it", Throttled("e", status=429), 0.1, Delay.BACKOFF, "watch"),
    ("throttled inside the stream", Throttled("e", status=429), 60.0, Delay.BACKOFF, "watch"),
    ("an internal error", ServerFailed("e", status=500), 60.0, Delay.BACKOFF, "watch"),
    ("a gateway without a backend", Transient("e", status=502), 0.1, Delay.BACKOFF, "watch"),
    ("cut after a while", ConnectionLost("e"), 60.0, Delay.NONE, "watch"),
    ("cut at once", ConnectionLost("e"), 0.1, Delay.BACKOFF, "watch"),
    ("silent", TimedOut("e", reason="Silent"), 120.0, Delay.NONE, "watch"),
    ("garbage", BadAnswer("e"), 0.1, Delay.BACKOFF, "watch"),
    ("forbidden", Forbidden("e", status=403), 0.1, Delay.BACKOFF, "list"),
    ("not found", NotFound("e", status=404), 0.1, Delay.BACKOFF, "list"),
    ("unauthorized", Unauthorized("e", status=401), 0.1, Delay.BACKOFF, "list"),
    ("invalid", Invalid("e", status=400), 0.1, Delay.BACKOFF, "list"),
    ("ahead of the server", ResourceVersionTooLarge("e", status=504), 3.0, Delay.BACKOFF, "list"),
]


@pytest.mark.parametrize(
    ("error", "seconds", "delay", "then"), [row[1:] for row in WATCH_FAILURES], ids=[row[0] for row in WATCH_FAILURES]
)
def test_after_a_failed_watch_it_is_repeated_or_a_list_is_made(
    error: ApiError, seconds: float, delay: Delay, then: str
) -> None:
    """R9, R11, R14, R15, R16, Y3, Y4, Y5."""
    machine = lister()
    do_list(machine, "5")
    assert fail(machine, error, seconds)[0] is delay
    step: Step = machine.next_step()
    assert isinstance(step, Watching if then == "watch" else Listing)


def test_a_watch_that_never_succeeds_at_its_version_leads_to_a_list_in_the_end() -> None:
    """A server answers 500 to a version that it does not understand."""
    machine = lister()
    do_list(machine, "odd")
    for _ in range(MAX_FAILED_WATCHES):
        assert machine.next_step() == Watching("odd")
        fail(machine, ServerFailed("e", status=500), 0.1)
    assert isinstance(machine.next_step(), Listing)


def test_watches_that_all_end_at_once_lead_to_an_ordinary_list() -> None:
    """A proxy may close every watch; a streamed list would fare no better."""
    machine = streamer()
    machine.streamed("10")
    for _ in range(MAX_FAILED_WATCHES):
        assert machine.next_step() == Watching("10")
        assert machine.ended(0.1, 0).delay is Delay.BACKOFF
    assert list_request(machine).resource_version == "10"
    do_list(machine, "20")
    assert machine.next_step() == Watching("20")


def test_a_watch_that_is_idle_for_long_and_ends_leads_to_no_list() -> None:
    machine = lister()
    do_list(machine, "10")
    for _ in range(3 * MAX_FAILED_WATCHES):
        machine.ended(300.0, 0)
        machine.ended(0.5, 1)
    assert machine.next_step() == Watching("10")


@pytest.mark.parametrize(("seconds", "events"), [(0.1, 0), (0.1, 7), (20.0, 7)])
def test_streams_that_never_come_to_their_mark_lead_to_an_ordinary_list(seconds: float, events: int) -> None:
    machine = streamer()
    for _ in range(MAX_FAILED_WATCHES):
        assert machine.next_step() == Streaming("")
        assert machine.ended(seconds, events).delay is not Delay.NONE
    assert list_request(machine).resource_version == "0"


def test_an_event_between_failures_shows_that_the_version_is_fine() -> None:
    machine = lister()
    do_list(machine, "5")
    for number in range(3 * MAX_FAILED_WATCHES):
        fail(machine, ServerFailed("e", status=500), 30.0)
        machine.observed(str(6 + number))
    assert isinstance(machine.next_step(), Watching)


@pytest.mark.parametrize("error", [Throttled("e", status=429), ConnectFailed("e")], ids=["throttled", "refused"])
def test_no_number_of_refused_connections_causes_a_list(error: ApiError) -> None:
    """R11, R15: a list is what an overloaded server needs least."""
    machine = lister()
    do_list(machine, "5")
    for _ in range(50):
        fail(machine, error, 0.1)
    assert machine.next_step() == Watching("5")


# ---- streamed lists --------------------------------------------------------------------------------------------------


def test_streaming_is_tried_first_at_the_newest_version() -> None:
    assert streamer().next_step() == Streaming("")


def test_after_its_mark_a_streamed_list_is_a_watch() -> None:
    """W9, W15: a stream that ends after the mark is continued by a plain watch at the mark's version."""
    machine = streamer()
    machine.streamed("30")
    assert machine.ended(400.0, 5).delay is Delay.NONE
    assert machine.next_step() == Watching("30")


def test_a_relist_streams_from_the_last_version() -> None:
    machine = streamer()
    machine.streamed("30")
    watch_until_relist(machine)
    assert machine.next_step() == Streaming("30")


def test_a_stream_that_ends_before_its_mark_is_begun_again() -> None:
    """W1, W8."""
    machine = streamer()
    verdict = machine.ended(20.0, 100)
    assert verdict.delay is Delay.BACKOFF
    assert machine.next_step() == Streaming("")


@pytest.mark.parametrize(
    "error",
    [
        Invalid("sendInitialEvents is forbidden", status=422),
        Invalid("unknown field", status=400),
        Unsupported("no", status=405),
        TimedOut("silent", reason="Silent"),
        TimedOut("no mark", reason="NoEndMark"),
    ],
    ids=["422", "400", "405", "the parameter is ignored and silence follows", "or no end of events"],
)
def test_a_server_that_cannot_stream_is_remembered_by_all(error: ApiError) -> None:
    """W2, W4, W13."""
    support = StreamingSupport()
    first, second = ListWatch(support), ListWatch(support)
    assert fail(first, error)[0] is Delay.NONE
    assert list_request(first).resource_version == "0"
    assert list_request(second).resource_version == "0"
    do_list(first, "10")
    watch_until_relist(first)
    assert list_request(first).resource_version == "10"


@pytest.mark.parametrize(
    "error",
    [ServerFailed("e", status=500), ConnectionLost("e"), Forbidden("e", status=403), BadAnswer("e")],
    ids=lambda error: type(error).__name__,
)
def test_any_other_failure_of_a_stream_is_answered_with_one_ordinary_list(error: ApiError) -> None:
    """W3: the next relist may stream again."""
    machine = streamer()
    assert fail(machine, error)[0] is Delay.NONE
    do_list(machine, "10")
    watch_until_relist(machine)
    assert machine.next_step() == Streaming("10")


@pytest.mark.parametrize("error", [Throttled("e", status=429), ConnectFailed("e")], ids=["throttled", "refused"])
def test_a_busy_server_is_asked_for_a_stream_again(error: ApiError) -> None:
    """W7."""
    machine = streamer()
    for _ in range(3):
        assert fail(machine, error)[0] is Delay.BACKOFF
        assert machine.next_step() == Streaming("")


def test_a_stream_whose_version_has_expired_starts_at_the_newest() -> None:
    """W10."""
    machine = streamer()
    machine.streamed("30")
    watch_until_relist(machine)
    assert machine.next_step() == Streaming("30")
    assert fail(machine, Expired("e", status=410))[0] is Delay.NONE
    assert machine.next_step() == Streaming("")


# ---- pages ---------------------------------------------------------------------------------------------------------


def test_a_continuation_carries_nothing_but_its_token_and_the_limit() -> None:
    """R2, P5."""
    first = PageRequest("10", "NotOlderThan", 500)
    following = first.following(ListMeta("12", "token"))
    assert following is not None
    assert following.query() == [("limit", "500"), ("continue", "token")]
    assert first.following(ListMeta("12", "")) is None


def test_the_whole_list_is_asked_for_at_the_version_first_asked_for() -> None:
    """P2."""
    assert PageRequest("10", "NotOlderThan", 500).whole().query() == [
        ("resourceVersion", "10"),
        ("resourceVersionMatch", "NotOlderThan"),
    ]
    assert PageRequest(limit=500).whole().query() == []


@pytest.mark.parametrize("tokens", ["aa", "aba", "abcb"], ids=["to itself", "to the one before", "to an earlier one"])
def test_a_page_that_leads_back_ends_the_list(tokens: str) -> None:
    """A broken server would be asked for it for ever."""
    walk = PageWalk(PageRequest("0", limit=500))
    for token in tokens[:-1]:
        walk.arrived(ListMeta("12", token))
    with pytest.raises(BadAnswer, match="leads back"):
        walk.arrived(ListMeta("12", tokens[-1]))


def test_a_whole_list_that_comes_in_pages_and_expires_is_not_begun_again() -> None:
    """A server that never gets to its end would be asked without a pause."""
    walk = PageWalk(PageRequest("0", limit=500))
    walk.arrived(ListMeta("12", "a"))
    walk.expired(Expired("compacted", status=410))
    assert walk.request == PageRequest("0")
    walk.arrived(ListMeta("13", "a"))  # another walk: its tokens may be those of the first
    with pytest.raises(Expired):
        walk.expired(Expired("compacted", status=410))
