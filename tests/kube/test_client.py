"""Verbs over HTTP: what goes over the wire, what comes back, retries, deadlines, credentials, the write gate."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from controller.foundation import Resource
from controller.kube import (
    ApiError,
    BadAnswer,
    Conflict,
    ConnectFailed,
    Connection,
    ConnectionLost,
    Credentials,
    Expired,
    Invalid,
    JsonPatch,
    KubeClient,
    NotFound,
    NotLeader,
    Outcome,
    ServerFailed,
    SilentObserver,
    Throttled,
    TimedOut,
    TooLarge,
    Transient,
    Unauthorized,
    apply_patch,
    merge_patch,
)
from controller.kube.pages import PageRequest
from controller.kube.transport import _make_socket
from controller.testing import VirtualTimeLoop
from tests.kube.scripted_client import THING, Thing, event, thing
from tests.kube.scripted_server import Answer, ScriptedServer, answer, hang, reset, status, stream

NODE = Resource("", "v1", "nodes", "Node", namespaced=False)


def now() -> float:
    return asyncio.get_running_loop().time()


# ---- reading -------------------------------------------------------------------------------------------------------


async def test_an_answer_is_decoded_into_the_type_that_is_asked_for(server: ScriptedServer, client: KubeClient) -> None:
    server.script(answer(thing("a", 7, size=3)), answer(thing("a", 7)))
    typed = await client.get(THING, "a", "ns", type_=Thing)
    assert isinstance(typed, Thing)
    assert typed.metadata.resource_version == "7"
    untyped = await client.get(THING, "a", "ns")
    assert untyped["metadata"]["name"] == "a"
    assert [seen.path for seen in server.requests] == ["/apis/example.org/v1/namespaces/ns/things/a"] * 2


async def test_a_cluster_scoped_object_and_a_subresource_have_their_paths(
    server: ScriptedServer, client: KubeClient
) -> None:
    server.script(answer({}), answer({}))
    await client.get(NODE, "n1")
    await client.get(THING, "a", "ns", subresource="scale")
    assert [seen.path for seen in server.requests] == [
        "/api/v1/nodes/n1",
        "/apis/example.org/v1/namespaces/ns/things/a/scale",
    ]


async def test_a_list_is_fetched_in_pages_with_its_selectors(server: ScriptedServer, client: KubeClient) -> None:
    """P1, P5, P6."""
    server.script(
        answer(_list(10, thing("a", 1), thing("b", 2), more="c1", remaining=7)), answer(_list(11, thing("c", 3)))
    )
    found = await client.list(THING, "ns", type_=Thing, label_selector="app=x", page_size=2)
    assert [obj.metadata.name for obj in found.items] == ["a", "b", "c"]
    assert found.resource_version == "10"
    assert [seen.query for seen in server.requests] == [
        {"limit": "2", "labelSelector": "app=x"},
        {"limit": "2", "continue": "c1", "labelSelector": "app=x"},
    ]


async def test_a_list_whose_token_expires_is_fetched_whole(server: ScriptedServer, client: KubeClient) -> None:
    """P2."""
    server.script(
        answer(_list(10, thing("old", 1), more="c1")), status(410, "Expired"), answer(_list(20, thing("a", 3)))
    )
    found = await client.list(THING)
    assert [item["metadata"]["name"] for item in found.items] == ["a"]
    assert found.resource_version == "20"
    assert server.requests[2].query == {}


async def test_a_list_whose_tokens_always_expire_is_the_callers(server: ScriptedServer, client: KubeClient) -> None:
    page = answer(_list(10, thing("old", 1), more="c1"))
    server.script(page, status(410, "Expired"), page, status(410, "Expired"))
    with pytest.raises(Expired):
        await client.list(THING)


async def test_pages_that_lead_in_a_circle_are_no_list(server: ScriptedServer, client: KubeClient) -> None:
    server.script(*(answer(_list(10, thing("a", 1), more=token)) for token in ("c1", "c2", "c1")))
    with pytest.raises(BadAnswer, match="leads back"):
        await client.list(THING)


async def test_an_expired_first_page_is_the_callers(server: ScriptedServer, client: KubeClient) -> None:
    """P3, P4."""
    server.script(status(410, "Expired"))
    with pytest.raises(Expired):
        await client.list(THING, resource_version="5")


def _list(version: int, *items: dict[str, Any], more: str = "", remaining: int = 0) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": str(version), "continue": more, "remainingItemCount": remaining}
    return {"kind": "ThingList", "metadata": meta, "items": items}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<html>login</html>", "cannot be read"),
        ('{"kind":"Table","metadata":{}}', "sent Table"),
        ("{", "cannot be read"),
    ],
    ids=["HTML with 200", "a Table", "half a document"],
)
async def test_a_list_that_is_none_is_refused(server: ScriptedServer, client: KubeClient, body: str, text: str) -> None:
    """R24, X3."""
    server.script(answer(text=body))
    with pytest.raises(BadAnswer, match=text):
        await client.list(THING, type_=Thing)


@pytest.mark.parametrize("name", ["../secrets/x", "a/b", "a?b", "a%2Fb", "..", ".", "a#b", ""])
async def test_a_name_that_would_lead_elsewhere_is_refused_here(
    server: ScriptedServer, client: KubeClient, name: str
) -> None:
    """Names come from objects that users write."""
    with pytest.raises(Invalid):
        await client.get(THING, name, "ns")
    with pytest.raises(Invalid):
        await client.get(THING, "a", name)
    assert server.requests == []


# ---- writing -------------------------------------------------------------------------------------------------------


class Spec(msgspec.Struct):
    kind: str = "Thing"


async def test_writes_carry_their_body_type_and_field_manager(server: ScriptedServer, client: KubeClient) -> None:
    server.script(*[answer(thing("a", 1))] * 6)
    await client.create(THING, {"kind": "Thing"}, "ns")
    await client.create(THING, Spec(), "ns", name="a", subresource="eviction")
    await client.replace(THING, "a", b'{"raw":1}', "ns", subresource="status")
    await client.patch(THING, "a", JsonPatch().add("/x", value=1).build(), "ns", type_=Thing)
    await client.patch(THING, "a", merge_patch({"x": 1}), "ns", field_manager="other")
    await client.patch(THING, "a", apply_patch(thing("a", 1)), "ns", force=True)
    seen = server.requests
    assert [(one.method, one.path.rpartition("/ns/")[2]) for one in seen] == [
        ("POST", "things"),
        ("POST", "things/a/eviction"),
        ("PUT", "things/a/status"),
        ("PATCH", "things/a"),
        ("PATCH", "things/a"),
        ("PATCH", "things/a"),
    ]
    assert [one.headers["Content-Type"] for one in seen] == [
        "application/json",
        "application/json",
        "application/json",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
    ]
    assert [one.query for one in seen] == [
        {"fieldManager": "tester"},
        {"fieldManager": "tester"},
        {"fieldManager": "tester"},
        {"fieldManager": "tester"},
        {"fieldManager": "other"},
        {"fieldManager": "tester", "force": "true"},
    ]
    assert seen[1].json() == {"kind": "Thing"}
    assert seen[2].body == b'{"raw":1}'


async def test_a_delete_carries_its_preconditions(server: ScriptedServer, client: KubeClient) -> None:
    server.script(answer(thing("a", 1)), status(409, "Conflict"))
    await client.delete(THING, "a", "ns", uid="u", resource_version="7", grace_seconds=0, propagation="Background")
    assert server.requests[0].json() == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }
    with pytest.raises(Conflict):
        await client.delete(THING, "a", "ns", uid="u")


async def test_an_apply_without_a_manager_is_refused_here(server: ScriptedServer) -> None:
    client = KubeClient(Connection(server.url), user_agent="test/1")
    with pytest.raises(Invalid, match="field manager"):
        await client.patch(THING, "a", apply_patch(thing("a", 1)), "ns")
    await client.close()


# ---- retries -------------------------------------------------------------------------------------------------------

Call = Callable[[KubeClient], Awaitable[Any]]
GET: Call = lambda client: client.get(THING, "a", "ns")  # noqa: E731
PUT: Call = lambda client: client.replace(THING, "a", {}, "ns")  # noqa: E731
POST: Call = lambda client: client.create(THING, {}, "ns")  # noqa: E731
PATCH: Call = lambda client: client.patch(THING, "a", merge_patch({"a": 1}), "ns")  # noqa: E731
BUSY = answer({"message": "busy"}, 429, {"Retry-After": "3"})
DOWN = answer(text="<html>down</html>", status=503, headers={"Retry-After": "2"})
DOWN_SILENTLY = answer(text="<html>down</html>", status=503)

RETRIES: list[tuple[str, Call, list[Answer], int, float]] = [
    ("a throttled read waits as long as it is told", GET, [BUSY, BUSY], 3, 6.0),
    ("a throttled write as well: nothing was done", POST, [BUSY], 2, 3.0),
    ("a throttled patch as well", PATCH, [BUSY], 2, 3.0),
    ("a read is repeated when the server asks for it", GET, [DOWN], 2, 2.0),
    ("an idempotent write is repeated when the server asks for it", PUT, [DOWN], 2, 2.0),
    ("a read whose connection broke is repeated", GET, [reset()], 2, 0.1),
    ("twice at most", GET, [reset(), reset()], 3, 0.3),
]


@pytest.mark.parametrize(
    ("call", "faults", "requests", "seconds"), [row[1:] for row in RETRIES], ids=[row[0] for row in RETRIES]
)
async def test_what_is_sent_again(
    server: ScriptedServer, client: KubeClient, *, call: Call, faults: list[Answer], requests: int, seconds: float
) -> None:
    server.script(*faults, answer(thing("a", 1)))
    started = now()
    await call(client)
    assert len(server.requests) == requests
    assert seconds <= now() - started <= 1.1 * seconds + 0.01


FINAL: list[tuple[str, Call, Answer, type[ApiError], Outcome]] = [
    ("a created object may exist after a 503", POST, DOWN, Transient, Outcome.UNKNOWN),
    ("a patch may be applied after a 503", PATCH, DOWN, Transient, Outcome.UNKNOWN),
    ("a 503 without a hint", GET, DOWN_SILENTLY, Transient, Outcome.UNKNOWN),
    ("an internal error", GET, status(500, "InternalError"), ServerFailed, Outcome.UNKNOWN),
    ("a write whose connection broke", PUT, reset(), ConnectionLost, Outcome.UNKNOWN),
    ("a creation whose connection broke", POST, reset(), ConnectionLost, Outcome.UNKNOWN),
    ("a conflict", PUT, status(409, "Conflict"), Conflict, Outcome.REFUSED),
    ("a missing object", GET, status(404, "NotFound"), NotFound, Outcome.REFUSED),
    ("a body that is too large", POST, answer(text="too big", status=413), TooLarge, Outcome.REFUSED),
    ("a hint that outlasts the deadline", GET, answer({}, 429, {"Retry-After": "60"}), Throttled, Outcome.REFUSED),
    ("a redirect", GET, answer({}, 302, {"Location": "http://elsewhere.invalid/"}), ApiError, Outcome.REFUSED),
]


@pytest.mark.parametrize(
    ("call", "fault", "kind", "outcome"), [row[1:] for row in FINAL], ids=[row[0] for row in FINAL]
)
async def test_what_is_not_sent_again(
    server: ScriptedServer, client: KubeClient, *, call: Call, fault: Answer, kind: type[ApiError], outcome: Outcome
) -> None:
    server.script(fault, answer({}))
    with pytest.raises(kind) as caught:
        await call(client)
    assert len(server.requests) == 1
    assert caught.value.outcome is outcome
    assert now() < 1


async def test_a_read_whose_connection_breaks_three_times_has_failed(
    server: ScriptedServer, client: KubeClient
) -> None:
    server.script(reset(), reset(), reset(), answer({}))
    with pytest.raises(ConnectionLost):
        await GET(client)
    assert len(server.requests) == 3


async def test_a_stale_keep_alive_connection_costs_a_read_nothing(server: ScriptedServer, client: KubeClient) -> None:
    server.script(answer({"n": 1}), answer({"n": 2}))
    assert (await client.get(THING, "a", "ns"))["n"] == 1
    for connection in list(server._runner.server.connections):  # type: ignore[union-attr]
        assert connection.transport is not None
        connection.transport.abort()
    assert (await client.get(THING, "a", "ns"))["n"] == 2


async def test_no_server_at_all_is_a_failed_connection() -> None:
    client = KubeClient(Connection("http://127.0.0.1:9"), user_agent="test/1")
    with pytest.raises(ConnectFailed) as caught:
        await PUT(client)
    assert caught.value.outcome is Outcome.NOT_SENT
    await client.close()


# ---- deadlines and the cap -----------------------------------------------------------------------------------------


async def test_a_call_ends_at_its_deadline_whatever_the_server_does(server: ScriptedServer, client: KubeClient) -> None:
    server.script(hang(), hang())
    with pytest.raises(TimedOut) as caught:
        await client.replace(THING, "a", {}, "ns", timeout_seconds=7)
    assert now() == pytest.approx(7, abs=0.01)
    assert caught.value.outcome is Outcome.UNKNOWN
    with pytest.raises(TimedOut):
        await client.get(THING, "a", "ns")
    assert now() == pytest.approx(37, abs=0.01)


async def test_the_deadline_covers_the_retries(server: ScriptedServer, client: KubeClient) -> None:
    server.script(*[BUSY] * 20)
    with pytest.raises(Throttled):
        await client.get(THING, "a", "ns", timeout_seconds=10)
    assert len(server.requests) == 4
    assert now() < 10


async def test_calls_beyond_the_cap_wait_and_urgent_ones_do_not(server: ScriptedServer) -> None:
    client = KubeClient(Connection(server.url), user_agent="test/1", max_concurrent_requests=2)
    server.script(hang(20), hang(20), answer({"urgent": True}), answer({}), answer({}))
    slow = [asyncio.ensure_future(client.request_raw("GET", f"/slow/{number}")) for number in range(4)]
    await asyncio.sleep(1)
    assert len(server.requests) == 2
    await client.get(THING, "a", "ns", urgent=True)
    assert now() < 2
    await asyncio.gather(*slow)
    assert [seen.path for seen in server.requests][3:] == ["/slow/2", "/slow/3"]
    await client.close()


# ---- the write gate ------------------------------------------------------------------------------------------------


async def test_a_closed_gate_lets_reads_through_and_no_mutation(server: ScriptedServer, client: KubeClient) -> None:
    def closed() -> None:
        raise NotLeader("not leading")

    client.gate = closed
    for mutate in (PUT, POST, PATCH, lambda c: c.delete(THING, "a", "ns"), lambda c: c.request_raw("POST", "/x")):
        with pytest.raises(NotLeader):
            await mutate(client)
    assert server.requests == []
    server.script(answer({}), answer({}))
    await GET(client)
    await client.replace(THING, "a", {}, "ns", gated=False)
    assert server.verbs == ["GET", "PUT"]


async def test_a_gate_that_closes_while_the_connection_is_made_still_stops_the_write(
    server: ScriptedServer, client: KubeClient
) -> None:
    """A loop that stalled after the call was accepted must not write."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    asked = []

    def gate() -> None:
        asked.append(now())
        if len(asked) == 1:
            loop.stall(20)
        elif now() > 15:
            raise NotLeader("the lease ran out")

    client.gate = gate
    with pytest.raises(NotLeader):
        await POST(client)
    assert len(asked) == 2
    assert server.requests == []


async def test_every_attempt_asks_the_gate_again(server: ScriptedServer, client: KubeClient) -> None:
    def gate() -> None:
        if now() > 1:
            raise NotLeader("the lease ran out")

    client.gate = gate
    server.script(BUSY, answer({}))
    with pytest.raises(NotLeader):
        await PATCH(client)
    assert len(server.requests) == 1


# ---- credentials ---------------------------------------------------------------------------------------------------


class Rotating:
    """A token source whose token changes every time the server has refused it."""

    def __init__(self) -> None:
        self.loads: list[bool] = []

    async def load(self, *, rejected: bool) -> Credentials:
        self.loads.append(rejected)
        return Credentials({"Authorization": f"Bearer t{len(self.loads)}"})


async def test_a_401_is_answered_once_with_a_token_read_again(server: ScriptedServer) -> None:
    """X8, kopf#926: EKS tokens live an hour."""
    source = Rotating()
    client = KubeClient(Connection(server.url, source=source, now=now), user_agent="test/1")
    server.script(answer({}))
    await GET(client)
    await asyncio.sleep(30)
    server.script(status(401, "Unauthorized"), answer({}))
    await POST(client)
    assert [seen.headers["Authorization"] for seen in server.requests] == ["Bearer t1", "Bearer t1", "Bearer t2"]
    assert source.loads == [False, True]
    await client.close()


async def test_a_token_that_stays_refused_is_not_asked_for_in_a_loop(server: ScriptedServer) -> None:
    class Constant(Rotating):
        async def load(self, *, rejected: bool) -> Credentials:
            await super().load(rejected=rejected)
            return Credentials({"Authorization": "Bearer same"})

    source = Constant()
    client = KubeClient(Connection(server.url, source=source, now=now), user_agent="test/1")
    server.script(*[status(401, "Unauthorized")] * 4)
    for _ in range(4):
        with pytest.raises(Unauthorized):
            await GET(client)
    assert len(server.requests) == 4
    assert len(source.loads) <= 2
    await client.close()


async def test_a_watch_refreshes_its_token_as_well(server: ScriptedServer) -> None:
    source = Rotating()
    client = KubeClient(Connection(server.url, source=source, now=now), user_agent="test/1")
    server.script(answer({}))
    await GET(client)
    await asyncio.sleep(30)
    server.script(status(401, "Unauthorized"), stream(b"{}\n"))
    async with client.watch("/x", [], total_seconds=100, inactivity_seconds=50) as opened:
        assert await opened.next_lines() == [b"{}\n"]
    await client.close()


# ---- watches -------------------------------------------------------------------------------------------------------


async def test_a_watch_gives_whole_lines_and_ends_when_the_server_does(
    server: ScriptedServer, client: KubeClient
) -> None:
    """X2, X9."""
    line = event("ADDED", thing("ä", 1))
    cut = line.index("ä".encode()) + 1 if "ä".encode() in line else 20
    server.script(stream(line[:cut], 1.0, line[cut:] + b"\n" + line + b"\n", 1.0, b'{"half'))
    async with client.watch("/x", [("a", "b")], total_seconds=400, inactivity_seconds=120) as opened:
        assert [found async for found in opened] == [line, line]
    assert server.requests[0].query == {"watch": "true", "a": "b"}


async def test_silence_ends_a_watch_as_timed_out(server: ScriptedServer, client: KubeClient) -> None:
    """X5: a server that accepts and never writes."""
    server.script(stream(b"{}\n", 1e6))
    async with client.watch("/x", [], total_seconds=400, inactivity_seconds=120) as opened:
        assert await opened.next_lines() == [b"{}\n"]
        with pytest.raises(TimedOut) as caught:
            await opened.next_lines()
    assert caught.value.reason == "Silent"
    assert now() == pytest.approx(120, abs=2)


async def test_a_server_that_does_not_close_in_time_is_closed_by_us(server: ScriptedServer, client: KubeClient) -> None:
    server.script(stream(*[part for _ in range(20) for part in (b"{}\n", 50.0)]))
    async with client.watch("/x", [], total_seconds=330, inactivity_seconds=120) as opened:
        lines = [found async for found in opened]
    assert len(lines) == 7
    assert now() == pytest.approx(330, abs=2)


async def test_a_watch_that_is_never_answered_fails_in_time(server: ScriptedServer, client: KubeClient) -> None:
    server.script(hang())
    with pytest.raises(TimedOut):
        async with client.watch("/x", [], total_seconds=400, inactivity_seconds=120):
            pass
    assert now() == pytest.approx(120, abs=2)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (status(410, "Expired"), Expired),
        (answer({"message": "slow down"}, 429, {"Retry-After": "5"}), Throttled),
        (answer(text="<html>Bad Gateway</html>", status=502), Transient),
        (reset(), ConnectionLost),
    ],
    ids=["410", "429", "HTML 502", "reset"],
)
async def test_a_watch_that_does_not_start_says_why(
    server: ScriptedServer, client: KubeClient, fault: Answer, kind: type[ApiError]
) -> None:
    """First and second shape of 410; X3."""
    server.script(fault)
    with pytest.raises(kind):
        async with client.watch("/x", [], total_seconds=400, inactivity_seconds=120):
            pass
    assert len(server.requests) == 1


async def test_a_connection_that_breaks_in_a_watch_is_lost(server: ScriptedServer, client: KubeClient) -> None:
    server.script(stream(b"{}\n", 5.0, abort=True))
    async with client.watch("/x", [], total_seconds=400, inactivity_seconds=120) as opened:
        assert await opened.next_lines() == [b"{}\n"]
        with pytest.raises(ConnectionLost):
            await opened.next_lines()


async def test_a_watch_does_not_take_a_slot_from_the_calls(server: ScriptedServer) -> None:
    client = KubeClient(Connection(server.url), user_agent="test/1", max_concurrent_requests=1)
    server.script(stream(b"{}\n", 50.0), answer({"fine": True}))
    async with client.watch("/x", [], total_seconds=400, inactivity_seconds=120) as opened:
        await opened.next_lines()
        assert (await client.get(THING, "a", "ns"))["fine"]
    await client.close()


# ---- lists as they come ----------------------------------------------------------------------------------------------


async def read_all(client: KubeClient) -> bytes:
    body = b""
    async with client.open_list("/x", PageRequest("0", limit=500), [("labelSelector", "a=b")]) as opened:
        while chunk := await opened.next_chunk():
            body += chunk
    return body


async def test_a_list_is_handed_over_while_it_comes(server: ScriptedServer, client: KubeClient) -> None:
    server.script(stream(b"{", 100.0, b"}"), stream(b"x" * 300_000))
    with pytest.raises(TimedOut):  # the server fell silent for longer than any request may take
        await read_all(client)
    assert await read_all(client) == b"x" * 300_000
    assert server.requests[0].query == {"resourceVersion": "0", "limit": "500", "labelSelector": "a=b"}


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (stream(b'{"items":[', abort=True), ConnectionLost),
        (status(410, "Expired"), Expired),
        (answer({}, 429, {"Retry-After": "9"}), Throttled),
        (reset(), ConnectionLost),
    ],
    ids=["cut in the middle", "410", "429", "cut before"],
)
async def test_a_list_that_fails_says_why_and_is_left_to_its_caller(
    server: ScriptedServer, client: KubeClient, fault: Answer, kind: type[ApiError]
) -> None:
    server.script(fault)
    with pytest.raises(kind):
        await read_all(client)
    assert len(server.requests) == 1


async def test_a_compressed_answer_is_understood_although_none_is_asked_for(
    server: ScriptedServer, client: KubeClient
) -> None:
    """X7: a proxy in between may compress all the same."""
    packed = gzip.compress(json.dumps(_list(5, thing("a", 1))).encode())

    async def reply(_: web.Request) -> web.StreamResponse:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})

    server.script(reply, reply)
    assert len((await client.list(THING, type_=Thing)).items) == 1
    assert json.loads(await read_all(client))["kind"] == "ThingList"


# ---- the way to the server -------------------------------------------------------------------------------------------


async def test_a_proxy_is_asked_for_the_servers_address(server: ScriptedServer) -> None:
    client = KubeClient(Connection("http://api.invalid:8001", proxy=server.url), user_agent="test/1")
    server.script(answer({"ok": True}), stream(b"{}\n"))
    assert (await client.get(THING, "a", "ns"))["ok"]
    async with client.watch("/x", [], total_seconds=400, inactivity_seconds=120) as opened:
        assert await opened.next_lines() == [b"{}\n"]
    assert {seen.headers["Host"] for seen in server.requests} == {"api.invalid:8001"}
    await client.close()


@pytest.mark.parametrize("server_url", ["http://api.invalid:8001", "https://api.invalid:6443"], ids=["http", "https"])
async def test_a_proxy_is_given_its_password_and_no_message_is(server_url: str) -> None:
    """One that refuses: the library's error quotes the address that it was given, and the header that it sent."""
    heads: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    client = KubeClient(Connection(server_url, proxy=f"http://user:hunt%40er2@127.0.0.1:{port}"), user_agent="test/1")
    with pytest.raises(ApiError, match="407") as caught:
        await POST(client)
    await client.close()
    proxy.close()
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"user:hunt@er2") in heads[0]
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert "hunt" not in told
    assert base64.b64encode(b"user:hunt@er2").decode() not in told


async def test_a_server_behind_a_path_keeps_its_prefix(server: ScriptedServer) -> None:
    client = KubeClient(Connection(f"{server.url}/k8s/clusters/c-1/"), user_agent="test/1")
    server.script(answer({}))
    await client.get(NODE, "n1")
    assert server.requests[0].path == "/k8s/clusters/c-1/api/v1/nodes/n1"
    await client.close()


def test_sockets_find_out_about_dead_peers() -> None:
    """kopf#860: a reset that a load balancer swallowed leaves a stream that looks alive for hours."""
    made = _make_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0)))
    assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
    assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    made.close()


# ---- metrics -------------------------------------------------------------------------------------------------------


class RequestLog(SilentObserver):
    def __init__(self) -> None:
        self.finished_requests: list[tuple[str, str]] = []
        self.retried_requests: list[str] = []

    def request_finished(self, verb: str, host: str, code: str, seconds: float) -> None:
        assert host.startswith("127.0.0.1:")
        self.finished_requests.append((verb, code))

    def request_retried(self, verb: str, host: str, code: str) -> None:
        self.retried_requests.append(code)


async def test_every_attempt_is_counted_once_with_its_code(server: ScriptedServer) -> None:
    log = RequestLog()
    client = KubeClient(Connection(server.url), user_agent="test/1", observer=log)
    server.script(BUSY, reset(), answer({}), status(404, "NotFound"), stream(b"{}\n"))
    await GET(client)
    with pytest.raises(NotFound):
        await client.delete(THING, "a", "ns")
    async with client.watch("/x", [], total_seconds=400, inactivity_seconds=120):
        pass
    assert log.finished_requests == [
        ("GET", "429"),
        ("GET", "<error>"),
        ("GET", "200"),
        ("DELETE", "404"),
        ("GET", "200"),
    ]
    assert log.retried_requests == ["429", "<error>"]
    await client.close()


async def test_request_raw_hands_over_bytes(server: ScriptedServer, client: KubeClient) -> None:
    server.script(answer(text="[+]ping ok"))
    assert await client.request_raw("GET", "/readyz", query=[("verbose", "")]) == b"[+]ping ok"
    assert json.loads(json.dumps(server.requests[0].query)) == {"verbose": ""}
