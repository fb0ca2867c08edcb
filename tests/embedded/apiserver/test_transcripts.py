"""The embedded server answers as a real kube-apiserver did: every case of `cases`, answer by answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from controller.embedded.apiserver import ApiServer
from controller.foundation import WallClock
from tests.embedded.apiserver.cases import CASES, Case
from tests.embedded.apiserver.conftest import WIDGET_CRD
from tests.embedded.apiserver.transcripts import TRANSCRIPTS, Player

RECORDED: dict[str, Any] = json.loads(TRANSCRIPTS.read_text())["cases"]


@pytest.fixture
async def player() -> AsyncIterator[Player]:
    server = ApiServer(clock=WallClock(), future_wait_seconds=0.0, garbage_collection=True)
    server.install_crd(WIDGET_CRD)
    server.store.compact()  # nobody can watch from the beginning of a real server, either
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Player(server.url, session)
    await server.stop()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_as_the_real_server(player: Player, case: Case) -> None:
    played = await player.play(case, "case-999")
    assert len(played) == len(RECORDED[case.name])
    for step, answer, recorded in zip(case.steps, played, RECORDED[case.name], strict=True):
        assert answer == recorded, f"{step.method} {step.path} {step.query}"


def test_every_recorded_case_is_played() -> None:
    assert set(RECORDED) == {case.name for case in CASES}
