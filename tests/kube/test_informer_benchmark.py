"""The benchmark's own parts: a measurement of the wrong thing is worse than none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.kube import Connection, HandlerFunctions, Informer, KubeClient
from hack.bench import client_go, informer
from hack.bench.failover import failovers
from hack.bench.pod_server import SENT_ANNOTATION, PodServer
from hack.bench.pods import POD, Pod
from tests.kube.support import running

COUNT = 250


@pytest.fixture(params=[False, True], ids=["the Pods are a list", "the Pods are changes"])
async def served(request: pytest.FixtureRequest) -> AsyncIterator[tuple[str, bool]]:
    pods = PodServer(COUNT, as_changes=request.param)
    server = await asyncio.start_server(pods.answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", request.param


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "listed"])
async def test_the_pod_server_serves_every_pod_and_changes_them_when_asked(
    served: tuple[str, bool], streamed: bool
) -> None:
    url, as_changes = served
    client = KubeClient(Connection(url), user_agent="test/1")
    if not streamed or as_changes:
        client.streaming.refuse()
    pods = Informer(client, POD, Pod)
    added: list[bool] = []
    sent: list[int] = []
    pods.add_handler(
        HandlerFunctions(
            added=lambda _, initial: added.append(initial),
            updated=lambda _, pod: sent.append(int(pod.metadata.annotation(SENT_ANNOTATION) or 0)),
        )
    )
    async with running(pods.run()), asyncio.timeout(60):
        while len(added) < COUNT:
            await asyncio.sleep(0.005)
        assert set(added) == {not as_changes}
        await client.request_raw("GET", "/change?rate=5000&seconds=0.02")
        while len(sent) < 100:
            await asyncio.sleep(0.005)
        assert sent == sorted(sent)
        assert sent[0] > 0
    await client.close()


async def test_a_relist_brings_every_hundredth_pod_anew() -> None:
    pods = PodServer(COUNT, as_changes=False)
    async with await asyncio.start_server(pods.answer, "127.0.0.1", 0) as server:
        client = KubeClient(Connection(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"), user_agent="test/1")
        cache = Informer(client, POD, Pod)
        changed: list[str] = []
        cache.add_handler(HandlerFunctions(updated=lambda _, pod: changed.append(pod.metadata.name[-6:])))
        async with running(cache.run()), asyncio.timeout(60):
            await cache.wait_synced()
            await client.request_raw("GET", "/relist")
            while len(changed) < 3:
                await asyncio.sleep(0.02)
        assert changed == ["000000", "000100", "000200"]
        await client.close()


def test_without_go_the_figures_of_client_go_are_null_and_a_note_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    progress = informer.Progress()
    assert informer.find_peer(tmp_path, progress) is None
    assert progress.notes == [f"client-go was not measured: {client_go.NO_GO}"]
    assert informer.ratio([1.0, 2.0], [], 2) is None
    assert informer.ratio([30.0, 10.0, 20.0], [10.0, 10.0, 10.0], 2) == 2.0


def test_a_crashed_leader_is_missed_longer_than_one_that_says_goodbye() -> None:
    clean, crash = failovers(1, clean=True), failovers(1, clean=False)
    assert 0.0 <= clean[0] < 3.0
    assert 5.0 < crash[0] <= 18.0
