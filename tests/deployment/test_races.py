"""Retirement while others write as well: leaders that change, Pods that are made again, counts that rise meanwhile."""

from __future__ import annotations

from typing import cast

import pytest

from controller.api import ELIGIBLE_LABEL, MODEL_DEPLOYMENTS, PODS, RETIREMENT_RETRY_ANNOTATION, Pod
from controller.deployment.writes import Writes
from controller.kube import Conflict, ConsistencyStore, KubeClient, Transient
from tests.deployment.direct import Moment
from tests.deployment.world import World


async def test_a_new_leader_starts_the_phase_it_finds_afresh(chat: World):
    chat.engines.holds[chat.uid("chat-server-1")] = 1
    chat.scale(1)
    await chat.run(230)
    assert chat.state == "Draining"
    chat.start()  # nobody led for a quarter of an hour
    chat.clock.advance(900)
    await chat.run(230)
    assert chat.state == "Draining"
    assert "RetirementResumed" in chat.reasons()
    await chat.run(20)
    assert chat.state == "Aborted"


async def test_a_pod_of_the_same_name_is_not_touched_by_a_deletion(chat: World):
    """A deletion whose target went meanwhile finds another Pod of the name."""
    chat.scale(1)
    victim: list[Pod] = [pod for pod in chat.pods() if pod.metadata.name == "chat-server-1"]

    def swap(moment: Moment, verb: str, plural: str, name: str) -> None:
        if (moment, verb, plural) == (Moment.BEFORE, "delete", "pods") and victim:
            victim.clear()
            _made_by_somebody(chat, name)

    chat.start(swap)
    await chat.run(60)
    assert victim == []
    assert chat.names() == ["chat-server-0", "chat-server-1"]
    assert chat.state == ""


async def test_a_pod_of_the_same_name_is_not_offered_requests(chat: World):
    """The Pod that became Ready went meanwhile, and somebody made another one of its name."""
    chat.slow = {"chat-server-2"}
    chat.scale(3)
    await chat.rest()
    chat.slow.clear()
    swapped: list[str] = []

    def swap(moment: Moment, verb: str, plural: str, name: str) -> None:
        if (moment, verb, plural, name) == (Moment.BEFORE, "patch", "pods", "chat-server-2") and not swapped:
            swapped.append(name)
            _made_by_somebody(chat, name)

    chat.start(swap)
    chat.kubelet()
    await chat.turn()
    assert swapped
    body = chat.server.get(PODS, "chat-server-2", "team")
    assert body is not None
    assert ELIGIBLE_LABEL not in body["metadata"]["labels"]


async def test_a_pod_that_a_cache_has_lost_is_not_gone_while_the_api_server_has_it(chat: World):
    chat.lingering = True
    chat.scale(1)
    await chat.run(60)
    assert chat.state == "Deleting"
    chat.seen = [pod for pod in chat.pods() if pod.ordinal == 0]
    await chat.run(60)
    assert chat.state == "Deleting"


async def test_the_pods_of_a_deployment_that_a_cache_does_not_show_yet_are_left_alone(chat: World, monkeypatch):
    names = chat.names()
    monkeypatch.setattr(chat, "_deployment", lambda _: None)
    chat.start()
    await chat.run(10)
    assert chat.names() == names
    assert all(not pod.deleting for pod in chat.pods())


async def test_an_order_to_retry_that_was_changed_meanwhile_is_not_taken_away(chat: World):
    before = chat.deployment
    chat.edit(
        MODEL_DEPLOYMENTS,
        "chat",
        lambda obj: obj["metadata"].update(annotations={RETIREMENT_RETRY_ANNOTATION: "server:1:newer"}),
    )
    writes = Writes(cast("KubeClient", chat.client), ConsistencyStore(), chat.clock)
    with pytest.raises(Conflict):
        await writes.consume_retry(before)
    assert chat.deployment.metadata.annotation(RETIREMENT_RETRY_ANNOTATION) == "server:1:newer"


async def test_a_count_that_rises_between_the_look_and_the_writing_down_wins(chat: World):
    """The step to Deleting is refused when anything of the deployment has changed since it was looked at."""
    chat.scale(1)
    raced: list[str] = []

    def raise_the_count(moment: Moment, verb: str, plural: str, name: str) -> None:
        del name
        operation = chat.retirement
        ready = operation is not None and operation.state == "Draining" and chat.engines.reads == 2
        if ready and (moment, verb, plural) == (Moment.BEFORE, "patch", "modeldeployments") and not raced:
            raced.append("now")
            chat.scale(2)

    uid = chat.uid("chat-server-1")
    chat.start(raise_the_count)
    await chat.run(30)
    assert raced == ["now"]
    assert chat.uid("chat-server-1") == uid
    assert chat.eligible() == ["chat-server-0", "chat-server-1"]
    assert "Deleting" not in chat.states()


async def test_a_read_that_straddles_a_restart_counts_for_nothing(chat: World):
    chat.scale(1)
    await chat.run(0)
    while chat.engines.reads < 1:
        await chat.turn()
        chat.clock.advance(1)
    chat.restart_container("chat-server-1")
    await chat.run(2)
    assert chat.state == "Draining"
    await chat.run(5)
    assert chat.names() == ["chat-server-0"]


async def test_an_api_server_that_fails_for_a_while_costs_time_and_nothing_else(chat: World):
    failures = iter(range(1000))

    def flaky(moment: Moment, verb: str, plural: str, name: str) -> None:
        del verb, plural, name
        if next(failures) % 3 == 0:
            raise Transient(f"the connection broke {moment.value}")

    chat.start(flaky)
    chat.scale(1)
    for _ in range(200):
        try:
            await chat.turn()
        except Transient:
            chat.kubelet()
        chat.clock.advance(1)
    assert (chat.state, chat.eligible()) == ("", ["chat-server-0"])


@pytest.mark.parametrize("jump", [-3600.0, -100.0, 3600.0], ids=["an hour back", "a little back", "an hour forward"])
@pytest.mark.parametrize("at", ["Disqualified", "Draining"])
async def test_a_clock_that_is_set_costs_a_retirement_no_time_and_gives_it_none(chat: World, at: str, jump: float):
    chat.routes.stuck = at == "Disqualified"
    chat.engines.holds[chat.uid("chat-server-1")] = 1
    chat.scale(1)
    await chat.run(20)
    assert chat.state == at
    chat.clock._now += jump
    left = (30 if at == "Disqualified" else 240) - 20
    await chat.run(left - 5)
    assert chat.state == at
    await chat.run(12)
    assert chat.state == "Aborted"


@pytest.mark.parametrize("jump", [-3600.0, 3600.0], ids=["back", "forward"])
@pytest.mark.parametrize("kind", ["Prefill", "Decode"])
async def test_a_clock_that_is_set_keeps_no_idle_replica(kind: str, jump: float):
    world = World()
    world.declare([{"name": each.lower(), "kind": each, "replicas": 2} for each in ("Prefill", "Decode")])
    await world.rest()
    world.scale(*([1, 2] if kind == "Prefill" else [2, 1]))
    await world.run(30)
    world.clock._now += jump
    await world.run(45)
    assert (world.state, len(world.names())) == ("", 3)
    assert "Aborted" not in world.states()


@pytest.mark.parametrize("seconds", [60.0, 300.0, 7200.0])
async def test_a_process_that_was_stopped_for_a_while_aborts_nothing_by_that(chat: World, seconds: float):
    chat.engines.holds[chat.uid("chat-server-1")] = 1
    chat.scale(1)
    await chat.run(10)
    chat.clock.advance(seconds)
    chat.engines.holds.clear()
    await chat.run(5)
    assert (chat.state, chat.names()) == ("", ["chat-server-0"])
    assert "Aborted" not in chat.states()


async def test_passes_that_are_always_late_come_to_an_end_all_the_same(chat: World):
    chat.scale(1)
    for _ in range(40):
        await chat.turn()
        chat.clock.advance(60)
    assert (chat.state, chat.names()) == ("", ["chat-server-0"])


async def test_an_api_server_that_went_back_in_time_is_not_waited_for_for_ever(chat: World):
    """After etcd was restored its versions are lower than those of our last writes."""
    written = chat.consistency
    written.register(PODS, lambda _: "7")
    written.wrote("team/chat", chat.deployment.metadata.uid, PODS, "team", "1000000")
    chat.scale(1)
    waited = 0.0
    while not chat.state:
        again = await chat.turn()
        assert again is not None
        waited += again
        assert waited < 400
    assert waited > 240, "but long enough for a watch that is cut and opened again"
    written.register(PODS, lambda _: "1000000")
    await chat.run(30)
    assert chat.names() == ["chat-server-0"]


def _made_by_somebody(chat: World, name: str) -> None:
    """A Pod like this one takes its place."""
    body = chat.server.get(PODS, name, "team")
    assert body is not None
    chat.server.delete(PODS, name, "team")
    for member in ("uid", "resourceVersion", "creationTimestamp"):
        body["metadata"].pop(member)
    body["metadata"]["ownerReferences"] = []
    chat.server.put(body, manager="somebody")
