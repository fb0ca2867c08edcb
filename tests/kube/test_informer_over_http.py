"""The whole chain once over real sockets: client, reflector, store, handlers."""

from __future__ import annotations

import asyncio

from controller.kube import Informer, KubeClient
from tests.kube.scripted_client import THING, Thing, bookmark, event, thing
from tests.kube.scripted_server import ScriptedServer, answer, status, stream
from tests.kube.support import Recorder, running


async def test_a_cache_follows_a_server_that_cannot_stream_lists(server: ScriptedServer, client: KubeClient) -> None:
    server.script(
        status(422, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
        answer({"kind": "ThingList", "metadata": {"resourceVersion": "5"}, "items": [thing("a", 3), thing("b", 4)]}),
        stream(
            event("MODIFIED", thing("a", 6)) + b"\n",
            1.0,
            event("DELETED", thing("b", 7)) + b"\n" + bookmark(9) + b"\n",
            1000.0,
        ),
    )
    informer = Informer(client, THING, Thing, label_selector="app=x")
    recorder = Recorder()
    registration = informer.add_handler(recorder)
    async with running(informer.run()):
        await registration.wait_synced()
        await asyncio.sleep(20)
        assert informer.resource_version() == "9"
        assert [obj.metadata.key for obj in informer.store.list()] == ["ns/a"]
    assert recorder.told == [
        ("add", "ns/a", "3", "initial"),
        ("add", "ns/b", "4", "initial"),
        ("update", "ns/a", "3", "6"),
        ("delete", "ns/b", "7", "seen"),
    ]
    streamed, listed, watched = (seen.query for seen in server.requests)
    assert streamed["sendInitialEvents"] == "true"
    assert listed == {"resourceVersion": "0", "limit": "500", "labelSelector": "app=x"}
    assert watched["resourceVersion"] == "5"
    assert all(seen.query["labelSelector"] == "app=x" for seen in server.requests)
    assert {seen.headers["User-Agent"] for seen in server.requests} == {"test/1"}
    assert {seen.headers["Accept-Encoding"] for seen in server.requests} == {"identity"}
