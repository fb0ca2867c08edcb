"""What the scaler does about the retirements of its target, over the whole loop: lets go on, takes back, stops trying."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from controller.api import EVENTS, FIELD_MANAGER, MODEL_DEPLOYMENTS, PODS, RETIREMENT_RETRY_ANNOTATION
from controller.embedded.apiserver.faults import Drop, LoseResponse
from controller.foundation import format_time
from controller.kube.patches import MERGE_PATCH
from tests.reconcile.harness import World

OPERATOR = "gpustack-operator"


async def _report(team: World, retirement: dict[str, Any] | None, *, writer: str = FIELD_MANAGER) -> None:
    """Write the target's status as whoever runs its retirements does."""
    path = f"{team.server.url}/apis/worker.gpustack.ai/v1alpha1/namespaces/team/modeldeployments/chat/status"
    body = {"status": {"retirement": retirement, "phase": "Ready"}}
    async with aiohttp.ClientSession() as session:
        answer = await session.patch(
            path, json=body, headers={"Content-Type": MERGE_PATCH}, params={"fieldManager": writer}
        )
        assert answer.status == 200, await answer.text()


def _retirement(team: World, state: str, ordinal: int = 2) -> dict[str, Any]:
    return {
        "roleName": "server",
        "replicaOrdinal": ordinal,
        "state": state,
        "observedGeneration": 1,
        "targetWorkloadUID": "",
        "reason": "member chat-server-2 holds 1 in flight",
        "phaseStartedAt": format_time(team.clock.now()),
    }


async def _lowered(team: World, *, writer: str = FIELD_MANAGER) -> None:
    """A target of three that has just been lowered to one."""
    team.target(replicas=3)
    for ordinal in range(3):
        (await team.replica(ordinal)).load(100, 30)
    await _report(team, None, writer=writer)
    team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 1, "lowered")


async def test_an_aborted_retirement_is_taken_back_and_lowered_again_later(team: World):
    await _lowered(team)
    aborted = team.clock.now()  # or later, when it is seen
    await _report(team, _retirement(team, "Aborted"))
    await team.until(lambda: team.count() == 3, "taken back")
    await _report(team, None)
    await team.until(lambda: team.count() == 1, "tried again")
    assert team.clock.now() - aborted >= 60, "not before the pause"
    assert team.status().roles[0].lowering.aborts == 1
    for pod in ("chat-server-1", "chat-server-2"):
        team.server.delete(PODS, pod, "team")
    await team.until(lambda: team.status().roles[0].lowering is None, "and forgotten once it has worked")
    await team.until(lambda: _notes(team, "1 → 3"), "told")
    assert "aborted" in _notes(team, "1 → 3")[0]
    team.audit()


async def test_after_three_aborts_in_a_row_nothing_is_lowered_until_a_person_says_so(team: World):
    await _lowered(team)
    for attempt in range(2):
        await _report(team, _retirement(team, "Aborted"))
        await team.until(lambda: team.count() == 3, f"taken back {attempt}")
        await _report(team, None)
        await team.until(lambda: team.count() == 1, f"tried again {attempt}")
    await _report(team, _retirement(team, "Aborted"))
    await team.until(lambda: team.status().roles[0].lowering.aborts == 3, "the third")
    await team.until(lambda: team.reason("RetirementBlocked") == "RetirementAborted", "said so")
    await team.ticks(8)
    assert team.count() == 1, "left as it is, for the order to retry"
    team.engines[0].load(36_000, 12_000)
    await team.until(lambda: team.count() == 5, "the load may have it back")
    await _report(team, None)
    team.engines[0].load(100, 30)
    await team.until(lambda: team.status().roles[0].recommended_replicas == 1, "one would do")
    await team.ticks(4)
    assert team.count() == 5
    assert team.reason("RetirementBlocked") == "RetirementAborted"
    order = {RETIREMENT_RETRY_ANNOTATION: "server:2:please"}
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["metadata"]["annotations"].update(order))
    await team.until(lambda: team.count() == 1, "lowered on a person's order")
    await team.until(lambda: team.reason("RetirementBlocked") != "RetirementAborted", "and said so")
    team.audit()


async def test_beside_an_operator_an_aborted_retirement_is_reported_and_nothing_else(team: World):
    await _lowered(team, writer=OPERATOR)
    await _report(team, _retirement(team, "Aborted"), writer=OPERATOR)
    await team.until(lambda: team.reason("RetirementBlocked") == "RetirementAborted", "reported")
    writes = len(team.states())
    await team.ticks(20)
    assert len(team.states()) == writes, "no spinning"
    assert "RetirementAborted" in team.event_reasons()


async def test_a_count_that_a_person_lowered_is_not_raised_for_an_aborted_retirement(team: World):
    team.target(replicas=3)
    for ordinal in range(3):
        (await team.replica(ordinal)).load(800, 200)
    await _report(team, None)
    team.scaler(behavior={"scaleUp": {"selectPolicy": "Disabled"}})
    await team.controller()
    await team.until(lambda: "bound-by" in team.annotations(), "bound")
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["metadata"]["annotations"].update(_written("server=3")))
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["spec"]["roles"][0].update(replicas=2))
    await _report(team, _retirement(team, "Aborted"))
    await team.until(lambda: team.reason("RetirementBlocked") == "RetirementAborted", "reported")
    await team.ticks(6)
    assert team.count() == 2


async def test_a_running_retirement_lets_no_count_fall_and_a_raise_go_on(team: World):
    await _lowered(team)
    await _report(team, _retirement(team, "Draining"))
    await team.until(lambda: team.reason("RetirementBlocked") == "RetirementInProgress", "seen")
    team.engines[0].load(36_000, 12_000)
    await team.until(lambda: team.count() == 5, "raised")
    team.engines[0].load(100, 30)
    await team.until(lambda: team.status().roles[0].recommended_replicas == 1, "one would do")
    await team.ticks(4)
    assert team.count() == 5
    await _report(team, None)
    await team.until(lambda: team.count() == 1, "lowered once it is over")


CRASHES = ["before the count is written", "after it, with the answer lost"]


@pytest.mark.parametrize("moment", CRASHES)
async def test_an_abort_is_counted_once_across_a_crash(team: World, moment: str):
    await _lowered(team)
    first = team._controllers[0][0]
    agent = "model-deployment-scaler/first"
    fault = Drop() if moment == CRASHES[0] else LoseResponse()
    died = team.faults.add(fault, verb="patch", resource="modeldeployments", user_agent=agent)
    await _report(team, _retirement(team, "Aborted"))
    await team.until(lambda: died.fired, "about to take it back")
    team.faults.add(Drop(), user_agent=agent, times=None)
    await team.controller("second")
    await team.until(lambda: team.count() == 3, "taken back by the next one")
    await team.ticks(4)
    assert team.status().roles[0].lowering.aborts == 1
    team.audit()
    team.faults.clear()
    await team.stop_controller(first)


def _notes(team: World, part: str) -> list[str]:
    return [event["note"] for event in team.server.list(EVENTS, "team") if part in event.get("note", "")]


def _written(counts: str) -> dict[str, str]:
    return {"scaling.worker.gpustack.ai/written": counts}
