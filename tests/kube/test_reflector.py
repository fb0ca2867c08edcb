"""The shell around list+watch: what is asked when, what reaches the store, and that it never gives up."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.kube import Informer, KubeError, StreamingSupport
from controller.kube.endmark import INITIAL_SECONDS, INITIAL_SILENCE_SECONDS
from controller.kube.errors import (
    ApiError,
    ConnectFailed,
    ConnectionLost,
    Expired,
    Forbidden,
    Invalid,
    ServerFailed,
    Throttled,
    Transient,
)
from controller.kube.observers import RestartReason
from controller.kube.reflector import INACTIVITY_SECONDS
from tests.kube.scripted_client import THING, ScriptedClient, Thing, bookmark, error, event, thing, thing_list
from tests.kube.support import Recorder, ReflectorLog, running


class World:
    """An informer over a script, with everything that can be heard of it."""

    def __init__(self, *, streaming: bool = False) -> None:
        self.client = ScriptedClient(streaming=StreamingSupport(refused=not streaming))
        self.log = ReflectorLog()
        self.recorder = Recorder()
        self.informer: Informer[Thing] = Informer(
            self.client, THING, Thing, observer=self.log, rng=random.Random(1), namespace="ns"
        )
        self.informer.add_handler(self.recorder)

    def names(self) -> list[str]:
        return sorted(obj.metadata.name for obj in self.informer.store.list())


HANG = 1e6  # a watch that stays open; its deadlines end it


# ---- requests ------------------------------------------------------------------------------------------------------


async def test_options_of_the_first_list_and_watch() -> None:
    """R1, R17."""
    world = World()
    world.client.lists.append(thing_list(10, thing("a", 3)))
    async with running(world.informer.run()):
        await asyncio.sleep(1)
    listed, watched = world.client.asked
    assert listed.path == "/apis/example.org/v1/namespaces/ns/things"
    assert listed.query == {"resourceVersion": "0", "limit": "500"}
    assert watched.query["resourceVersion"] == "10"
    assert watched.query["allowWatchBookmarks"] == "true"
    assert 300 <= int(watched.query["timeoutSeconds"]) <= 600
    assert "sendInitialEvents" not in watched.query


async def test_watch_timeouts_are_spread_over_five_to_ten_minutes() -> None:
    """R17: a value below five minutes cannot be had."""
    world = World()
    world.client.lists.append(thing_list(1))
    world.client.watches.extend([[5.0, bookmark(2)] for _ in range(40)])
    async with running(world.informer.run()):
        await asyncio.sleep(1000)
    drawn = [int(asked.query["timeoutSeconds"]) for asked in world.client.asked if asked.verb == "watch"]
    assert min(drawn) >= 300
    assert max(drawn) <= 600
    assert len(set(drawn)) > 20


async def test_pages_are_put_together_and_the_version_is_that_of_the_first() -> None:
    """R2, P1, P5."""
    world = World()
    world.client.lists.extend(
        [
            thing_list(10, thing("a", 1), thing("b", 2), continue_="c1"),
            thing_list(11, thing("c", 3), continue_="c2"),
            thing_list(12, thing("d", 4)),
        ]
    )
    async with running(world.informer.run()):
        await asyncio.sleep(1)
    assert world.names() == ["a", "b", "c", "d"]
    assert [asked.query for asked in world.client.asked[:3]] == [
        {"resourceVersion": "0", "limit": "500"},
        {"limit": "500", "continue": "c1"},
        {"limit": "500", "continue": "c2"},
    ]
    assert world.client.asked[3].query["resourceVersion"] == "10"
    assert world.log.lists == [4]


async def test_a_dead_continue_token_leads_to_one_complete_list() -> None:
    """P2: what the pages brought so far is thrown away."""
    world = World()
    world.client.lists.extend(
        [
            thing_list(10, thing("old", 1), continue_="c1"),
            Expired("compacted", status=410),
            thing_list(20, thing("a", 15)),
        ]
    )
    async with running(world.informer.run()):
        await asyncio.sleep(1)
    assert world.names() == ["a"]
    assert world.client.asked[2].query == {"resourceVersion": "0"}
    assert world.client.asked[3].query["resourceVersion"] == "20"


async def test_an_error_on_the_first_page_is_a_failed_list() -> None:
    """P4, I6: and the observer hears of it."""
    world = World()
    world.client.lists.extend([ServerFailed("e", status=500), thing_list(10, thing("a", 1))])
    async with running(world.informer.run()):
        await asyncio.sleep(0.5)
        assert world.names() == []
        await asyncio.sleep(5)
    assert world.names() == ["a"]
    assert world.log.failures == [("server", 1)]


# ---- failures ------------------------------------------------------------------------------------------------------


ERRORS: list[ApiError] = [
    ConnectFailed("refused"),
    ConnectionLost("reset"),
    Transient("bad gateway", status=502),
    ServerFailed("etcd", status=500),
    Forbidden("no list", status=403),
    Throttled("busy", status=429),
]


@pytest.mark.parametrize("failure", ERRORS, ids=lambda failure: type(failure).__name__)
async def test_the_first_list_is_tried_until_it_succeeds(failure: ApiError) -> None:
    """kopf#787, #1077, #248: an outage or a missing permission at the start must not end the watcher."""
    world = World()
    world.client.lists.extend([failure] * 12)
    world.client.lists.append(thing_list(10, thing("a", 1)))
    async with running(world.informer.run()):
        await asyncio.sleep(600)
        assert world.names() == ["a"]
    gaps = [later.at - asked.at for asked, later in zip(world.client.asked[:12], world.client.asked[1:], strict=False)]
    for gap, base in zip(gaps, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, *[30.0] * 6], strict=True):
        assert base <= gap <= 2 * base + 0.001


async def test_a_server_is_never_asked_sooner_than_it_said() -> None:
    """kopf#1108: the hint counts when it is longer than our own back-off."""
    world = World()
    world.client.lists.extend([Throttled("e", status=429, retry_after_seconds=17.0), thing_list(10)])
    async with running(world.informer.run()):
        await asyncio.sleep(60)
    assert world.client.asked[1].at - world.client.asked[0].at == pytest.approx(17.0)


async def test_refused_connections_repeat_the_watch_and_make_no_list() -> None:
    """R11, R15."""
    world = World()
    world.client.lists.append(thing_list(10, thing("a", 1)))
    world.client.watches.extend([ConnectFailed("refused"), Throttled("busy", status=429), ConnectFailed("refused")])
    world.client.watches.append([event("ADDED", thing("b", 11)), HANG])
    async with running(world.informer.run()):
        await asyncio.sleep(60)
    assert world.client.versions == [("list", "0"), *[("watch", "10")] * 4]
    assert world.names() == ["a", "b"]


async def test_an_expired_watch_is_followed_by_a_list_at_the_last_version() -> None:
    """R9, and 410 in an HTTP 200 stream (k8s#35068)."""
    world = World()
    world.client.lists.extend([thing_list(10, thing("a", 1), thing("b", 2)), thing_list(30, thing("a", 1))])
    world.client.watches.append([event("MODIFIED", thing("b", 12)), error(410, "Expired"), HANG])
    async with running(world.informer.run()):
        await asyncio.sleep(60)
    assert world.client.versions == [("list", "0"), ("watch", "10"), ("list", "12"), ("watch", "30")]
    assert world.log.relists == [RestartReason.EXPIRED]
    assert world.recorder.told[-1] == ("delete", "ns/b", "12", "inferred")


async def test_every_watch_starts_after_a_version_that_a_list_or_an_event_gave() -> None:
    """Y1."""
    world = World()
    world.client.lists.extend([thing_list(10), thing_list(20)])
    world.client.watches.extend([[], ConnectionLost("reset"), [5.0, bookmark(12)], Expired("e", status=410), []])
    async with running(world.informer.run()):
        await asyncio.sleep(300)
    watched = [asked.query["resourceVersion"] for asked in world.client.asked if asked.verb == "watch"]
    assert watched == ["10", "10", "10", "12", "20", "20"]


async def test_410_as_the_answer_to_a_watch_is_the_same() -> None:
    world = World()
    world.client.lists.extend([thing_list(10), thing_list(30)])
    world.client.watches.append(Expired("gone", status=410))
    async with running(world.informer.run()):
        await asyncio.sleep(60)
    assert world.client.versions == [("list", "0"), ("watch", "10"), ("list", "10"), ("watch", "30")]


async def test_410_for_a_list_asks_for_the_newest() -> None:
    """R6, R7."""
    world = World()
    world.client.lists.extend([thing_list(10), Expired("e", status=410), thing_list(30)])
    world.client.watches.append(Expired("gone", status=410))
    async with running(world.informer.run()):
        await asyncio.sleep(60)
    assert world.client.versions[2:] == [("list", "10"), ("list", "-"), ("watch", "30")]


async def test_a_server_that_closes_every_stream_is_not_asked_in_a_hot_loop() -> None:
    """R18: kubernetes_asyncio made 1,821 requests in two seconds here."""
    world = World()
    world.client.lists.append(thing_list(10))
    world.client.watches.extend([[] for _ in range(50)])
    async with running(world.informer.run()):
        await asyncio.sleep(60)
    assert len(world.client.asked) < 8
    assert {reason for reason, _ in world.log.ended} == {RestartReason.SHORT}


@pytest.mark.parametrize(
    "watch", [[], [thing_list(99, thing("a", 99))]], ids=["that it closes at once", "with the list in its place"]
)
async def test_behind_a_proxy_that_answers_no_watch_the_store_follows_by_lists(watch: list[bytes]) -> None:
    world = World()
    world.client.lists.extend([thing_list(10, thing("a", 1)), thing_list(20, thing("a", 1), thing("b", 15))])
    world.client.watches.extend([list(watch) for _ in range(100)])
    async with running(world.informer.run()):
        await asyncio.sleep(300)
        assert world.names() == ["a", "b"]
    assert len(world.client.asked) < 60


async def test_short_watches_that_bring_events_are_started_once_a_second_at_most() -> None:
    """R19: that is no failure."""
    world = World()
    world.client.lists.append(thing_list(10))
    world.client.watches.extend([[event("MODIFIED", thing("a", 11 + number))] for number in range(50)])
    async with running(world.informer.run()):
        await asyncio.sleep(30)
    assert 28 <= len(world.client.asked) <= 33
    assert world.log.failures == []


async def test_a_normal_end_is_followed_by_a_watch_at_the_last_version_without_a_word() -> None:
    """R28; a load balancer that cuts after a minute is ordinary life (KA#308)."""
    world = World()
    world.client.lists.append(thing_list(10))
    world.client.watches.extend([[60.0, bookmark(20 + number)] for number in range(5)])
    async with running(world.informer.run()):
        await asyncio.sleep(310)
    assert world.client.versions[1:] == [("watch", str(version)) for version in (10, 20, 21, 22, 23, 24)]
    assert world.log.failures == []


async def test_silence_is_noticed_and_the_watch_started_again() -> None:
    """X5, KA#360: a half-open connection delivers nothing, for ever."""
    world = World()
    world.client.lists.append(thing_list(10))
    world.client.watches.extend([[HANG], [bookmark(15), HANG]])
    async with running(world.informer.run()):
        await asyncio.sleep(INACTIVITY_SECONDS + 1)
        assert world.client.versions == [("list", "0"), ("watch", "10"), ("watch", "10")]
        assert world.informer.resource_version() == "15"
    assert world.log.ended[0] == (RestartReason.SILENT, 0)


async def test_unusable_events_are_skipped_counted_and_do_not_move_the_version() -> None:
    """R21, R22, R23."""
    world = World()
    world.client.lists.append(thing_list(10))
    world.client.watches.append(
        [
            event("ADDED", {**thing("x", 11), "kind": "Other"}),
            event("PATCHED", thing("y", 12)),
            event("ADDED", {"kind": "Thing"}),
            1.0,
            event("ADDED", thing("a", 14)),
            HANG,
        ]
    )
    async with running(world.informer.run()):
        await asyncio.sleep(0.5)
        assert world.informer.resource_version() == "10"
        await asyncio.sleep(5)
        assert world.names() == ["a"]
    assert world.log.skips == 3
    assert len(world.client.asked) == 2


async def test_a_state_that_cannot_be_read_keeps_the_last_readable_one() -> None:
    """An object that a person broke must not look deleted: never shrink on missing data."""
    world = World()
    broken = {**thing("a", 20), "spec": {"size": "big"}}
    world.client.lists.extend([thing_list(10, thing("a", 1), thing("b", 2)), thing_list(30, broken)])
    world.client.watches.extend([[event("MODIFIED", broken), error(410, "Gone"), HANG]])
    async with running(world.informer.run()):
        await asyncio.sleep(60)
        assert world.names() == ["a"]
        stored = world.informer.store.get("ns/a")
        assert stored is not None
        assert stored.metadata.resource_version == "1"
    assert world.log.skips == 2


async def test_a_broken_line_ends_the_stream_and_the_events_before_it_count() -> None:
    """X3, X9."""
    world = World()
    world.client.lists.append(thing_list(10))
    world.client.watches.extend([[event("ADDED", thing("a", 11)), b'{"type":"ADD'], [bookmark(12), HANG]])
    async with running(world.informer.run()):
        await asyncio.sleep(60)
    assert world.client.versions == [("list", "0"), ("watch", "10"), ("watch", "11")]
    assert world.names() == ["a"]


async def test_a_bookmark_moves_the_version_and_reaches_no_handler() -> None:
    """R20, I22: several states of one object in one read come in their order."""
    world = World()
    world.client.lists.append(thing_list(5))
    world.client.watches.append(
        [
            event("ADDED", thing("a", 10)),
            event("MODIFIED", thing("a", 20)),
            event("DELETED", thing("a", 30)),
            bookmark(40),
            HANG,
        ]
    )
    async with running(world.informer.run()):
        await asyncio.sleep(1)
        assert world.informer.resource_version() == "40"
    assert [told[0] for told in world.recorder.told] == ["add", "update", "delete"]


async def test_an_event_without_a_version_does_not_lose_the_last_one() -> None:
    world = World()
    world.client.lists.append(thing_list(5))
    world.client.watches.extend([[event("ADDED", thing("a", 10)), event("ADDED", thing("b", ""))], [HANG]])
    async with running(world.informer.run()):
        await asyncio.sleep(60)
        assert world.informer.resource_version() == "10"
    assert world.client.versions[-1] == ("watch", "10")
    assert world.names() == ["a", "b"]


# ---- the end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0.0, 0.2, 1.5, 100.0], ids=["at once", "in the list", "in the watch", "in silence"])
async def test_cancellation_ends_it_promptly_and_closes_the_stream_once(at: float) -> None:
    """R25, R26, R27."""
    world = World()
    world.client.lists.append(thing_list(10))
    world.client.watches.append([1.0, event("ADDED", thing("a", 11)), HANG])
    async with running(world.informer.run()) as (task,):
        await asyncio.sleep(at)
        task.cancel()
        before = asyncio.get_running_loop().time()
        await asyncio.wait((task,))
        assert asyncio.get_running_loop().time() == before
        assert task.cancelled()
    assert world.client.opened == world.client.closed


async def test_what_is_no_api_error_escapes_and_ends_the_process() -> None:
    """Clause 1: a bug must not turn into a cache that has silently stopped."""

    class Broken(ScriptedClient):
        def open_list(self, *arguments: object, **more: object) -> Any:
            raise ZeroDivisionError

    informer = Informer(Broken(), THING, Thing)
    with pytest.raises(ExceptionGroup) as caught:
        await informer.run()
    assert caught.group_contains(ZeroDivisionError)
    assert not issubclass(ZeroDivisionError, KubeError)


# ---- streamed lists --------------------------------------------------------------------------------------------------


async def test_a_streamed_list_is_one_replace_and_the_same_stream_goes_on() -> None:
    """W5, W6, W12, W14: the version is the mark's, not that of any object."""
    world = World(streaming=True)
    world.client.watches.append(
        [
            event("ADDED", thing("a", 99)),
            event("ADDED", thing("b", 2)),
            event("ADDED", thing("c", 3)),
            2.0,
            event("MODIFIED", thing("b", 25)),
            event("DELETED", thing("c", 26)),
            bookmark(27),
            2.0,
            bookmark(30, "true"),
            event("ADDED", thing("d", 31)),
            5.0,
            event("DELETED", thing("a", 32)),
            HANG,
        ]
    )
    async with running(world.informer.run()):
        await asyncio.sleep(3.9)
        assert world.names() == []
        assert not world.informer.has_synced
        await asyncio.sleep(0.2)
        assert world.names() == ["a", "b", "d"]
        assert world.informer.has_synced
        assert world.informer.resource_version() == "31"
        await asyncio.sleep(10)
        assert world.names() == ["b", "d"]
    assert world.recorder.told == [
        ("add", "ns/a", "99", "initial"),
        ("add", "ns/b", "25", "initial"),
        ("add", "ns/d", "31", "live"),
        ("delete", "ns/a", "32", "seen"),
    ]
    (asked,) = world.client.asked
    assert asked.verb == "watch"
    assert asked.query["sendInitialEvents"] == "true"
    assert asked.query["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in asked.query


async def test_a_stream_cut_before_its_mark_leaves_the_store_empty_and_is_begun_again() -> None:
    """W1, W8: what it brought is thrown away."""
    world = World(streaming=True)
    world.client.watches.extend(
        [
            [event("ADDED", thing("ghost", 1)), 5.0],
            [event("ADDED", thing("a", 2)), bookmark(10, "true"), HANG],
        ]
    )
    async with running(world.informer.run()):
        await asyncio.sleep(5)
        assert world.names() == []
        await asyncio.sleep(30)
        assert world.names() == ["a"]
    assert [asked.query.get("sendInitialEvents") for asked in world.client.asked] == ["true", "true"]


@pytest.mark.parametrize(
    "failure",
    [Invalid("sendInitialEvents is forbidden", status=422), Invalid("bad", status=400)],
    ids=["422", "400"],
)
async def test_a_server_that_refuses_streams_gets_a_list_at_once(failure: ApiError) -> None:
    """W4."""
    world = World(streaming=True)
    world.client.watches.append(failure)
    world.client.lists.append(thing_list(10, thing("a", 1)))
    async with running(world.informer.run()):
        await asyncio.sleep(0.1)
    assert world.names() == ["a"]
    assert world.client.streaming.refused
    assert world.log.failures == []


async def test_a_list_whose_end_is_long_in_coming_is_warned_about_every_ten_seconds() -> None:
    """W13: whoever looks at the log of a controller that does not get ready must see what it waits for."""
    world = World(streaming=True)
    world.client.watches.append(
        [*[part for n in range(5) for part in (event("ADDED", thing("a", n + 1)), 7.0)], bookmark(10, "true"), HANG]
    )
    with capture_logs() as lines:
        async with running(world.informer.run()):
            await asyncio.sleep(100)
            assert world.informer.has_synced
    assert [(line["log_level"], line["resource"], line["seconds"]) for line in lines] == [
        ("warning", "things.example.org", seconds) for seconds in (10, 20, 30)
    ]


async def test_a_busy_server_that_ignores_the_parameter_is_found_out_as_well() -> None:
    """Before 1.27, where it was never silent: its live events would go on for ten minutes, and again, for ever."""
    world = World(streaming=True)
    world.client.watches.append([part for n in range(500) for part in (event("ADDED", thing("a", n + 1)), 1.0)])
    world.client.lists.append(thing_list(100, thing("a", 70)))
    async with running(world.informer.run()):
        await asyncio.sleep(INITIAL_SECONDS - 1)
        assert world.names() == []
        await asyncio.sleep(2)
        assert world.names() == ["a"]
    assert world.client.streaming.refused


async def test_a_server_that_ignores_the_parameter_is_found_out_by_its_silence() -> None:
    """Before 1.27: objects, and then nothing, without a mark."""
    world = World(streaming=True)
    world.client.watches.append([event("ADDED", thing("a", 1)), HANG])
    world.client.lists.append(thing_list(10, thing("a", 1)))
    async with running(world.informer.run()):
        await asyncio.sleep(INITIAL_SILENCE_SECONDS - 1)
        assert world.names() == []
        await asyncio.sleep(2)
        assert world.names() == ["a"]
    assert world.client.streaming.refused


async def test_any_other_failure_of_the_stream_is_answered_with_a_list() -> None:
    """W3."""
    world = World(streaming=True)
    world.client.watches.append([event("ADDED", thing("x", 1)), ServerFailed("e", status=500)])
    world.client.lists.append(thing_list(10, thing("a", 1)))
    async with running(world.informer.run()):
        await asyncio.sleep(0.1)
    assert world.names() == ["a"]
    assert not world.client.streaming.refused


async def test_a_throttled_stream_is_asked_for_again() -> None:
    """W7."""
    world = World(streaming=True)
    world.client.watches.extend([Throttled("busy", status=429)] * 3)
    world.client.watches.append([bookmark(10, "true"), HANG])
    async with running(world.informer.run()):
        await asyncio.sleep(60)
        assert world.informer.has_synced
    assert [asked.query["sendInitialEvents"] for asked in world.client.asked] == ["true"] * 4


async def test_an_expired_stream_starts_again_at_the_newest() -> None:
    """W10."""
    world = World(streaming=True)
    world.client.watches.extend(
        [
            [bookmark(10, "true"), 5.0, error(410, "Expired")],
            Expired("gone", status=410),
            [event("ADDED", thing("a", 20)), bookmark(30, "true"), HANG],
        ]
    )
    async with running(world.informer.run()):
        await asyncio.sleep(60)
    assert [version for _, version in world.client.versions] == ["-", "10", "-"]
    assert world.names() == ["a"]


async def test_after_the_mark_a_watch_goes_on_without_initial_events() -> None:
    """W9, W15."""
    world = World(streaming=True)
    world.client.watches.extend([[bookmark(10, "true"), 90.0, bookmark(12)], [HANG]])
    async with running(world.informer.run()):
        await asyncio.sleep(100)
    assert "sendInitialEvents" not in world.client.asked[1].query
    assert world.client.versions[1] == ("watch", "12")
