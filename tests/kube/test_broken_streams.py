"""Servers that send what no server should: the cache ends up equal to what they meant, and nothing ends the process."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from controller.kube import ApiError, BadAnswer, ConnectionLost, Expired, Informer, KubeClient, StreamingSupport
from controller.kube.envelopes import Added, Bookmark, Deleted, EventDecoder, Failed, Modified, Skipped
from controller.kube.lines import LineSplitter
from controller.kube.listdecoder import ListDecoder
from tests.kube.scripted_client import (
    THING,
    ScriptedBody,
    ScriptedClient,
    Thing,
    bookmark,
    error,
    event,
    thing,
    thing_list,
)
from tests.kube.scripted_server import ScriptedServer, answer, stream
from tests.kube.support import Recorder, ReflectorLog, running

HANG = 1e6
EVENTS = [
    event("ADDED", thing("ä", 11, labels={"語": "😀"})),
    event("MODIFIED", thing("ä", 12)),
    bookmark(13),
    event("ADDED", thing("b", 14)),
    event("DELETED", thing("b", 15)),
]
# JSON may leave characters as they are; here they are in the bytes, to be cut in two.
STREAM = b"".join(json.dumps(json.loads(line), ensure_ascii=False).encode() + b"\n" for line in EVENTS)


@dataclass
class CutStream:
    """So many bytes of a stream, in chunks, and then its end."""

    data: bytes
    chunk_bytes: int
    how: str
    splitter: LineSplitter = field(default_factory=LineSplitter)

    async def next_lines(self) -> list[bytes]:
        while self.data:
            chunk, self.data = self.data[: self.chunk_bytes], self.data[self.chunk_bytes :]
            if lines := self.splitter.feed(chunk):
                return lines
        if self.how == "reset":
            raise ConnectionLost("reset")
        if self.how == "silence":
            await asyncio.sleep(HANG)
        return []


class CutClient:
    """A server whose first watch is cut somewhere; the next one goes on after the version that it is asked for."""

    def __init__(self, cut: int, chunk_bytes: int, how: str) -> None:
        self.streaming = StreamingSupport(refused=True)
        self.lists = 0
        self._first: CutStream | None = CutStream(STREAM[:cut], chunk_bytes, how)

    @asynccontextmanager
    async def open_list(self, path: str, request: Any, selectors: Any) -> AsyncIterator[ScriptedBody]:
        self.lists += 1
        yield ScriptedBody(thing_list(10))

    @asynccontextmanager
    async def watch(self, path: str, query: Iterable[tuple[str, str]], **_: float) -> AsyncIterator[CutStream]:
        first, self._first = self._first, None
        after = int(dict(query)["resourceVersion"])
        later = [line for line in EVENTS if int(json.loads(line)["object"]["metadata"]["resourceVersion"]) > after]
        yield first or CutStream(b"".join(line + b"\n" for line in later), 4096, "silence")


@pytest.mark.parametrize(("how", "chunk_bytes"), [("end", 1), ("reset", 4096)], ids=["it ends", "it is reset"])
async def test_a_stream_may_break_after_any_byte(how: str, chunk_bytes: int) -> None:
    """Half a line, half a character, between two lines: nothing is lost, nothing is told twice, no list is made."""
    for cut in range(len(STREAM) + 1):
        client = CutClient(cut, chunk_bytes, how)
        informer = Informer(client, THING, Thing, rng=random.Random(cut))
        recorder = Recorder()
        informer.add_handler(recorder)
        with capture_logs():
            async with running(informer.run()):
                await asyncio.sleep(20)
            assert [told[:2] for told in recorder.told] == [
                ("add", "ns/ä"),
                ("update", "ns/ä"),
                ("add", "ns/b"),
                ("delete", "ns/b"),
            ], f"cut after {cut} bytes"
            assert informer.resource_version() == "15"
            assert client.lists == 1


mutations = st.lists(
    st.tuples(st.sampled_from(["drop", "set", "insert", "double", "swap"]), st.integers(0, 400), st.integers(0, 255)),
    min_size=1,
    max_size=6,
)


def mutate(data: bytes, changes: list[tuple[str, int, int]]) -> bytes:
    damaged = bytearray(data)
    for how, where, value in changes:
        at = where % (len(damaged) or 1)
        match how:
            case "drop":
                del damaged[at : at + 1 + value % 40]
            case "set" if damaged:
                damaged[at] = value
            case "insert":
                damaged[at:at] = bytes([value]) * (1 + value % 3)
            case "double":
                damaged[at:at] = damaged[at : at + value % 60]
            case "swap":
                damaged[:] = damaged[at:] + damaged[:at]
    return bytes(damaged)


LINES = [*EVENTS, error(410, "Expired", "too old", retryAfterSeconds=1), bookmark(9, "true")]


@given(st.sampled_from(LINES), mutations)
def test_no_line_whatsoever_raises_anything_but_a_bad_answer(line: bytes, changes: list[tuple[str, int, int]]) -> None:
    try:
        decoded = EventDecoder(THING, Thing).decode(mutate(line, changes))
    except BadAnswer:
        return
    assert isinstance(decoded, Added | Modified | Deleted | Bookmark | Failed | Skipped)


LIST = thing_list(12, thing("a", 3), thing("b", 4, labels={"x": "y"}), thing("c", 5), continue_="token")


@given(mutations, st.integers(1, 60))
def test_no_body_whatsoever_raises_anything_but_an_api_error(changes: list[tuple[str, int, int]], size: int) -> None:
    """And in pieces it gives what it gives as a whole."""
    body = mutate(LIST, changes)
    decoder = ListDecoder(THING, Thing)
    try:
        whole = [obj.metadata.key for obj in decoder.decode(body).objects]
    except ApiError:
        whole = None
    parser = decoder.parser()
    try:
        pieces = [
            obj.metadata.key for at in range(0, len(body), size) for obj in parser.feed(body[at : at + size]).objects
        ]
        pieces += [obj.metadata.key for obj in parser.finish().objects]
    except ApiError:
        pieces = None  # what came before is thrown away with the list
    assert pieces == whole


async def test_versions_that_run_backwards_are_followed_as_they_come() -> None:
    """An etcd restored from a backup counts again from there: the server is right, whatever it said before."""
    client = ScriptedClient(streaming=StreamingSupport(refused=True))
    client.lists.append(thing_list(100, thing("a", 90), thing("b", 95)))
    client.watches.append(
        [event("MODIFIED", thing("a", 40)), event("MODIFIED", thing("a", 40)), event("DELETED", thing("b", 41)), HANG]
    )
    informer = Informer(client, THING, Thing)
    recorder = Recorder()
    informer.add_handler(recorder)
    async with running(informer.run()):
        await asyncio.sleep(1)
        assert informer.resource_version() == "41"
        assert sorted(informer.store) == ["ns/a"]
    assert recorder.told[2:] == [("update", "ns/a", "90", "40"), ("delete", "ns/b", "41", "seen")]


async def test_tokens_that_expire_again_and_again_end_in_one_whole_list_for_each_try() -> None:
    client = ScriptedClient(streaming=StreamingSupport(refused=True))
    for number in range(3):
        client.lists.extend([thing_list(10, thing("old", 1), continue_=f"c{number}"), Expired("compacted", status=410)])
        client.lists.append(Expired("and the version as well", status=410))
    client.lists.append(thing_list(30, thing("a", 3)))
    informer = Informer(client, THING, Thing, rng=random.Random(1))
    async with running(informer.run()):
        await asyncio.sleep(60)
        assert sorted(informer.store) == ["ns/a"]
    asked = [(one.query.get("resourceVersion", "-"), one.query.get("continue", "")) for one in client.asked[:10]]
    assert asked[:3] == [("0", ""), ("-", "c0"), ("0", "")]
    assert asked[3:6] == [("-", ""), ("-", "c1"), ("-", "")]
    gaps = [later.at - one.at for one, later in zip(client.asked[5:], client.asked[6:], strict=False)]
    assert max(gaps[:4]) >= 0.8  # even the newest was refused: no longer at once


async def test_pages_that_always_expire_are_a_failed_list_each_time() -> None:
    """A server that cuts every list into pages, and forgets each token, is not asked in a hot loop."""
    client = ScriptedClient(streaming=StreamingSupport(refused=True))
    for number in range(200):
        client.lists.extend([thing_list(10, thing("a", 1), continue_=f"c{number}"), Expired("compacted", status=410)])
    informer = Informer(client, THING, Thing, rng=random.Random(1))
    async with running(informer.run()):
        await asyncio.sleep(60)
    assert not informer.has_synced
    assert len(client.asked) < 60


# ---- what counts as a sign of life -----------------------------------------------------------------------------------


async def test_a_page_of_a_proxy_is_no_sign_of_life(server: ScriptedServer, client: KubeClient) -> None:
    """A portal that answers everything with 200: the liveness probe must see that nothing has been heard."""
    page = answer(text="<html>please log in</html>")
    server.script(
        stream(bookmark(10, "true") + b"\n", 5.0),
        *[page] * 200,
    )
    log = ReflectorLog()
    informer = Informer(client, THING, Thing, observer=log, rng=random.Random(1))
    async with running(informer.run()):
        await asyncio.sleep(900)
        assert informer.silent_seconds() > 880
        assert informer.has_synced
    assert len(log.failures) > 10
    assert len(server.requests) < 60


@pytest.mark.parametrize(
    "watch",
    [
        [part for _ in range(200) for part in (b"x", 20.0)],
        [b"<html>" + b"\n", HANG],
        [error(429, "TooManyRequests") + b"\n"],
        [event("PATCHED", thing("a", 1)) + b"\n", HANG],
    ],
    ids=["a byte now and then", "a line that is none", "errors", "events of an unknown kind"],
)
async def test_only_what_can_be_used_is_a_sign_of_life(
    server: ScriptedServer, client: KubeClient, watch: list[Any]
) -> None:
    server.script(stream(bookmark(10, "true") + b"\n", 5.0), stream(*watch))
    informer = Informer(client, THING, Thing, rng=random.Random(1))
    async with running(informer.run()):
        await asyncio.sleep(5.2)
        opened = informer.silent_seconds()
        await asyncio.sleep(150)
        assert informer.silent_seconds() >= opened + 149


async def test_a_list_that_comes_byte_by_byte_is_no_sign_of_life(server: ScriptedServer, client: KubeClient) -> None:
    client.streaming.refuse()
    body = thing_list(10, thing("a", 1))
    drops = [part for byte in body for part in (bytes([byte]), 20.0)]
    server.script(*[stream(*drops) for _ in range(3)])
    informer = Informer(client, THING, Thing, rng=random.Random(1))
    async with running(informer.run()):
        await asyncio.sleep(1500)
        assert informer.silent_seconds() == float("inf")
        assert len(server.requests) in (2, 3)
