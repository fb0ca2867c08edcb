"""An orderly stop, whenever it is asked for: nothing looks like a failure, and what was begun is ended."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from controller.api import EVENTS
from controller.embedded.apiserver.faults import Delay, Stall
from tests.reconcile.harness import World


@pytest.mark.parametrize("stalled", ["/version", "/apis/apiextensions.k8s.io", "/apis/worker.gpustack.ai", "/api/v1"])
async def test_a_stop_during_a_start_that_hangs_is_clean(team: World, stalled: str):
    rule = team.faults.add(Stall(), path=stalled, times=None)
    with capture_logs() as logs:
        controller = await team.controller()
        await team.until(lambda: rule.fired, "it hangs")
        assert await team.stop_controller(controller) == 0
    assert [line for line in logs if line["log_level"] in ("warning", "error")] == []


async def test_what_was_told_last_reaches_the_server_before_the_connection_is_closed(team: World):
    await team.loaded()
    slow = team.faults.add(Delay(0.3), verb="create", resource="events", times=None)
    controller = await team.controller()
    await team.until(lambda: slow.fired, "the first event is on its way")
    await team.until(lambda: team.count() == 3, "grown")
    assert await team.stop_controller(controller) == 0
    assert "Rescaled" in {event["reason"] for event in team.server.list(EVENTS, "team")}
