"""A permission that is missing, or a webhook that says no: it is told where people look, and nothing runs hot."""

from __future__ import annotations

import orjson
import pytest
from structlog.testing import capture_logs

from controller.api import EVENTS
from controller.embedded.apiserver.faults import Respond
from tests.reconcile.harness import World


def _status(code: int, reason: str, message: str) -> Respond:
    return Respond(code, orjson.dumps({"kind": "Status", "reason": reason, "code": code, "message": message}))


FORBIDDEN = _status(403, "Forbidden", 'User "scaler" cannot patch this')
REFUSALS = [
    ("the finalizer may not be written", FORBIDDEN, {"resource": "modeldeploymentscalers", "subresource": ""}),
    ("the status may not be written", FORBIDDEN, {"resource": "modeldeploymentscalers", "subresource": "status"}),
    ("the target may not be written", FORBIDDEN, {"resource": "modeldeployments"}),
    ("a webhook denies the counts", _status(403, "Forbidden", "admission webhook denied it: too many"), {"resource": "modeldeployments", "nth": 2}),
    ("the server refuses the counts", _status(422, "Invalid", "replicas: too many"), {"resource": "modeldeployments", "nth": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("refusal", "where"), [c[1:] for c in REFUSALS], ids=[c[0] for c in REFUSALS])
async def test_a_write_that_is_refused_for_ever_is_told_once_and_taken_up_when_it_is_allowed(
    team: World, refusal: Respond, where
):
    await team.loaded()
    rule = team.faults.add(refusal, verb="patch", times=None, **where)
    await team.controller()
    await team.until(lambda: rule.fired >= 4, "refused several times")
    await team.until(lambda: "WriteRefused" in team.event_reasons(), "told")
    told = [event for event in team.server.list(EVENTS, "team") if event["reason"] == "WriteRefused"]
    assert len(told) == 1
    assert orjson.loads(refusal.body)["message"] in told[0]["note"]
    team.faults.clear()
    await team.until(lambda: team.count() == 3, "grown once it is allowed")


async def test_events_that_may_not_be_written_cost_nothing_else(team: World):
    await team.loaded()
    team.faults.add(FORBIDDEN, verb="create", resource="events", times=None)
    with capture_logs() as logs:
        await team.controller()
        await team.until(lambda: team.count() == 3, "grown")
    assert not [line for line in logs if line["log_level"] == "error"]
