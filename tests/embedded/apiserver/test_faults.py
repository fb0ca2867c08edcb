"""Fault scripts and the request log."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from controller.embedded.apiserver import FaultPlan
from controller.embedded.apiserver.faults import (
    Action,
    Cut,
    CutStream,
    Delay,
    Drop,
    LoseResponse,
    RepeatLines,
    Reset,
    Respond,
    Stall,
    bad_gateway,
    expired_event,
    expired_response,
    gone_event,
    gone_response,
    plain_too_many_requests,
    too_many_requests,
)
from tests.embedded.apiserver.conftest import CONFIG_MAPS, SECONDS, WIDGETS, Client, config_map, widget

PATH = CONFIG_MAPS.path("default")

ANSWERS: list[tuple[str, Respond, int, str]] = [
    ("429 with Retry-After", too_many_requests(3), 429, "TooManyRequests"),
    ("410 Expired", expired_response(), 410, "Expired"),
    ("410 Gone", gone_response(), 410, "Gone"),
]


@pytest.mark.parametrize(("action", "status", "reason"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
async def test_a_scripted_answer(api: Client, action: Respond, status: int, reason: str) -> None:
    api.server.faults.add(action, verb="list", resource="configmaps")
    answer = await api.get(PATH)
    assert (answer.status, answer.reason) == (status, reason)
    assert (await api.get(PATH)).status == 200, "the fault fires once"


async def test_answers_that_are_no_status(api: Client) -> None:
    api.server.faults.add(bad_gateway())
    api.server.faults.add(plain_too_many_requests(7), nth=2)
    html = await api.get(PATH)
    assert (html.status, html.headers["Content-Type"]) == (502, "text/html")
    text = await api.get(PATH)
    assert (text.status, text.headers["Retry-After"], text.raw[:3]) == (429, "7", b"Too")


async def test_the_nth_of_several_requests_is_hit_as_often_as_wanted(api: Client) -> None:
    rule = api.server.faults.add(bad_gateway(), verb="get", resource="configmaps", name="one", nth=2, times=2)
    api.server.put(config_map())
    statuses = [(await api.read(CONFIG_MAPS, "one")).status for _ in range(4)]
    await api.read(CONFIG_MAPS, "two")
    assert statuses == [200, 502, 502, 200]
    assert (rule.matched, rule.fired) == (4, 2)


@pytest.mark.parametrize("action", [Drop(), Reset()], ids=["dropped", "reset"])
async def test_a_request_is_lost_with_its_connection(api: Client, action: Action) -> None:
    api.server.faults.add(action, verb="create")
    with pytest.raises(aiohttp.ClientError):
        await api.create(WIDGETS, widget())
    assert (await api.read(WIDGETS, "one")).status == 404


async def test_a_write_can_happen_though_its_answer_is_lost(api: Client) -> None:
    api.server.faults.add(LoseResponse(), verb="create")
    with pytest.raises(aiohttp.ClientError):
        await api.create(WIDGETS, widget())
    assert (await api.read(WIDGETS, "one")).status == 200


async def test_a_stalled_request_never_answers(api: Client) -> None:
    api.server.faults.add(Stall(), verb="list")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(api.get(PATH), 0.05)


async def test_a_delayed_request_answers_later(api: Client) -> None:
    api.server.faults.add(Delay(0.03))
    loop = asyncio.get_running_loop()
    start = loop.time()
    assert (await api.get(PATH)).status == 200
    assert loop.time() - start >= 0.03


CUTS: list[tuple[str, Cut, bool]] = [
    ("at its end", Cut.END, True),
    ("by the network", Cut.DROP, False),
    ("within a line", Cut.HALF_LINE, False),
]


async def raw_watch(api: Client) -> bytes:
    """Everything that a watch sends until its connection ends, headers and chunk framing included."""
    host, port = api.server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {PATH}?watch=1 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    try:
        return await asyncio.wait_for(reader.read(), SECONDS)
    finally:
        writer.close()


@pytest.mark.parametrize(("how", "clean"), [row[1:] for row in CUTS], ids=[row[0] for row in CUTS])
async def test_a_watch_is_cut(api: Client, how: Cut, clean: bool) -> None:
    for name in ("a", "b", "c"):
        api.server.put(config_map(name))
    api.server.faults.add(CutStream(how, after_lines=2), verb="watch")
    sent = await raw_watch(api)
    assert sent.count(b"}\n") == 2
    assert sent.endswith(b"0\r\n\r\n") is clean
    assert (b'"name":"c"' in sent) is (how is Cut.HALF_LINE)


async def test_a_watch_is_reset(api: Client) -> None:
    api.server.put(config_map("a"))
    api.server.faults.add(CutStream(Cut.RESET, after_lines=1), verb="watch")
    with pytest.raises(ConnectionResetError):
        await raw_watch(api)


async def test_half_a_line_is_really_sent(api: Client) -> None:
    api.server.put(config_map("a"))
    api.server.faults.add(CutStream(Cut.HALF_LINE), verb="watch")
    watch = await api.watch(PATH)
    chunk = await watch.response.content.readany()
    assert chunk.startswith(b'{"type":"ADDED"')
    assert b"\n" not in chunk


async def test_a_watch_falls_silent(api: Client) -> None:
    api.server.faults.add(CutStream(Cut.STALL, after_lines=1), verb="watch")
    watch = await api.watch(PATH, resourceVersion="1")
    api.server.put(config_map("a"))
    api.server.put(config_map("b"))
    assert await watch.take(1) == [("ADDED", "a")]
    assert await watch.is_silent()


@pytest.mark.parametrize(("action", "reason"), [(expired_event(1), "Expired"), (gone_event(1), "Gone")])
async def test_410_arrives_in_the_stream(api: Client, action: Action, reason: str) -> None:
    api.server.faults.add(action, verb="watch")
    watch = await api.watch(PATH, resourceVersion="1")
    api.server.put(config_map("a"))
    assert await watch.take(1) == [("ADDED", "a")]
    event = await watch.next()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, reason)
    assert await watch.rest() == b""


async def test_lines_may_come_twice(api: Client) -> None:
    api.server.faults.add(RepeatLines(), verb="watch")
    watch = await api.watch(PATH, resourceVersion="1")
    api.server.put(config_map("a"))
    assert await watch.take(2) == [("ADDED", "a")] * 2


def test_a_rule_counts_from_one() -> None:
    with pytest.raises(ValueError, match="count from 1"):
        FaultPlan().add(Drop(), nth=0)


async def test_the_request_log_says_who_asked_for_what_and_got_what(api: Client) -> None:
    api.server.put(widget())
    api.server.requests.clear()
    await api.read(WIDGETS, "one")
    await api.patch(WIDGETS, "none", {}, subresource="status")
    await api.get("/version")
    watch = await api.watch(WIDGETS.path())
    watch.close()
    seen = [
        (r.info.verb, r.info.group, r.info.resource, r.info.subresource, r.info.namespace, r.info.name, r.status)
        for r in api.server.requests
    ]
    assert seen == [
        ("get", "example.com", "widgets", "", "default", "one", 200),
        ("patch", "example.com", "widgets", "status", "default", "none", 404),
        ("get", "", "", "", "", "", 200),
        ("watch", "example.com", "widgets", "", "", "", 200),
    ]
    assert api.server.requests[0].info.user_agent == "tests/1"
