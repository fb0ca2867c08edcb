"""One write that the API server does not take keeps nothing else of the deployment from its work."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api import ELIGIBLE_LABEL, MODEL_DEPLOYMENTS, PODS
from controller.kube import ApiError, Forbidden, Invalid, NotFound, ServerFailed, Throttled, Transient, Unauthorized
from tests.deployment.direct import Fail, Moment
from tests.deployment.world import World

BOTH: list[dict[str, Any]] = [{"name": "server", "replicas": 2}, {"name": "other", "replicas": 1}]
FAILURES = [
    pytest.param(ServerFailed("failed calling webhook", status=500, reason="InternalError"), id="a webhook is down"),
    pytest.param(Throttled("too many", status=429, retry_after_seconds=20.0), id="something asks for patience"),
    pytest.param(Forbidden("denied the request", status=403, reason="Forbidden"), id="a policy forbids it"),
    pytest.param(Invalid("denied the request", status=422, reason="Invalid"), id="a policy finds it invalid"),
]


def _refusing(failure: ApiError, verb: str, plural: str, name: str = "") -> Fail:
    def fail(moment: Moment, *write: str) -> None:
        if moment is Moment.BEFORE and write[:2] == (verb, plural) and name in ("", write[2]):
            raise failure

    return fail


@pytest.fixture
async def world() -> World:
    """Two roles, all Ready."""
    made = World()
    made.declare(BOTH)
    await made.rest()
    return made


@pytest.mark.parametrize("failure", FAILURES)
async def test_pods_that_cannot_be_created_stop_neither_a_retirement_nor_the_status(world: World, failure: ApiError):
    world.start(_refusing(failure, "create", "pods"))
    world.scale(1, 3)
    await world.run(30)
    assert world.names() == ["chat-other-0", "chat-server-0"]
    status = world.deployment.status
    assert [role.desired for role in status.roles or ()] == [1, 3]
    assert failure.message in status.phase_message
    assert "FailedCreate" in world.reasons()
    world.start()
    await world.run(30)
    assert world.eligible() == ["chat-other-0", "chat-other-1", "chat-other-2", "chat-server-0"]
    assert world.deployment.status.phase_message == ""


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_label_that_cannot_be_changed_is_told_and_stops_nothing_else(world: World, failure: ApiError):
    world.slow = {"chat-server-1"}
    world.start(_refusing(failure, "patch", "pods", "chat-server-1"))
    world.kubelet()
    world.scale(2, 2)
    await world.run(10)
    assert world.eligible() == ["chat-other-0", "chat-other-1", "chat-server-0", "chat-server-1"]
    assert "label of Pod chat-server-1" in world.deployment.status.phase_message


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_pod_that_cannot_be_deleted_holds_its_own_retirement_and_nothing_else(world: World, failure: ApiError):
    world.start(_refusing(failure, "delete", "pods"))
    world.scale(1, 2)
    await world.run(60)
    assert world.state == "Deleting"
    assert world.eligible() == ["chat-other-0", "chat-other-1", "chat-server-0"]
    assert "deleting Pod chat-server-1" in world.deployment.status.phase_message
    world.client.fail = None
    await world.run(60)
    assert (world.state, world.names()) == ("", ["chat-other-0", "chat-other-1", "chat-server-0"])


async def test_messages_that_differ_from_try_to_try_are_no_news(world: World):
    tries = iter(range(1000))

    def fail(moment: Moment, verb: str, plural: str, name: str) -> None:
        del name
        if (moment, verb, plural) == (Moment.BEFORE, "create", "pods"):
            raise ServerFailed(f"webhook: no answer, request {next(tries)}", status=500, reason="InternalError")

    world.start(fail)
    world.scale(2, 3)
    await world.run(61)
    assert next(tries) < 20, "every 5 s at most, after the first ones"
    assert world.reasons().count("FailedCreate") == 1


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(Transient("the connection broke"), id="nobody answers"),
        pytest.param(Unauthorized("who are you", status=401), id="the credentials are not accepted"),
    ],
)
async def test_what_is_about_everything_ends_the_pass(world: World, failure: ApiError):
    world.start(_refusing(failure, "create", "pods"))
    world.scale(2, 3)
    with pytest.raises(type(failure)):
        await world.turn()


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        pytest.param("app.kubernetes.io/instance", "app.kubernetes.io/instance=chat", id="of the deployment"),
        pytest.param(
            "modeldeployment.gpustack.ai/pod-ordinal",
            "modeldeployment.gpustack.ai/pod-ordinal=1",
            id="of its place",
        ),
    ],
)
async def test_a_pod_that_was_set_aside_by_its_labels_is_told_and_left_alone(world: World, lost: str, says: str):
    uid = world.uid("chat-server-1")
    world.edit(PODS, "chat-server-1", lambda body: body["metadata"]["labels"].pop(lost))
    await world.run(60)
    assert world.uid("chat-server-1") == uid
    assert f"Pod chat-server-1 has lost its label {says}" in world.deployment.status.phase_message
    world.server.delete(PODS, "chat-server-1", "team", grace_seconds=0)
    await world.run(60)
    assert world.eligible() == ["chat-other-0", "chat-server-0", "chat-server-1"]


@pytest.mark.parametrize("before", ["Ready", "Draining", "Aborted"])
async def test_a_deployment_that_is_deleted_without_its_pods_leaves_them(world: World, before: str):
    if before != "Ready":
        world.engines.holds[world.uid("chat-server-1")] = 1
        world.scale(1, 1)
        await world.run(20 if before == "Draining" else 300)
        assert world.state == before
    names = world.names()
    world.edit(MODEL_DEPLOYMENTS, "chat", lambda body: body["metadata"].update(finalizers=["orphan"]))
    world.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    await world.run(30)
    assert world.names() == names
    # The garbage collector takes the owner's name away, then lets it go. The cache hears of the latter first.
    stale = world.pods()
    for name in names:
        world.edit(PODS, name, lambda body: body["metadata"].pop("ownerReferences"))
    world.edit(MODEL_DEPLOYMENTS, "chat", lambda body: body["metadata"].update(finalizers=[]))
    assert world.server.get(MODEL_DEPLOYMENTS, "chat", "team") is None
    world.seen = stale
    await world.turn()
    world.seen = None
    await world.run(30)
    assert world.names() == names


@pytest.mark.parametrize("finalizers", [[], ["foregroundDeletion"]], ids=["background", "foreground"])
async def test_a_deployment_that_is_deleted_otherwise_takes_them_with_it(world: World, finalizers: list[str]):
    world.edit(MODEL_DEPLOYMENTS, "chat", lambda body: body["metadata"].update(finalizers=finalizers))
    world.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
    await world.run(30)
    assert world.names() == []


async def test_a_label_for_a_pod_that_was_made_again_is_nobodys_problem(world: World):
    """The API server answers a wrong UID with 422."""

    def made_again(moment: Moment, verb: str, plural: str, name: str) -> None:
        if (moment, verb, plural, name) == (Moment.BEFORE, "patch", "pods", "chat-server-1"):
            world.client.fail = None
            body = world.server.get(PODS, name, "team")
            assert body is not None
            world.server.delete(PODS, name, "team", grace_seconds=0)
            fresh = {**body, "metadata": {key: body["metadata"][key] for key in ("name", "namespace", "labels")}}
            world.server.put(fresh, manager="kubectl")
            raise Invalid("Pod is invalid: metadata.uid: field is immutable", status=422, reason="Invalid")

    world.slow = {"chat-server-1"}
    world.start(made_again)
    world.kubelet()
    await world.turn()
    assert world.server.get(PODS, "chat-server-1", "team")["metadata"]["labels"][ELIGIBLE_LABEL] == "true"  # type: ignore[index]
    assert "changing" not in world.deployment.status.phase_message


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("what", ["artifact", "pool"])
async def test_what_pods_are_made_from_and_cannot_be_read_stops_no_retirement(what: str, failure: ApiError):
    """Not known is not gone: nothing is said about weights that nobody could look up."""
    world = World()
    broken = False

    async def read(method: str, path: str) -> bytes:
        if broken:
            raise failure
        if "modelartifacts" not in path:
            raise NotFound("no such kind", status=404)
        return b'{"metadata": {"name": "qwen"}, "spec": {"source": {"huggingFace": {"repository": "Qwen/Qwen3-8B"}}}}'

    world.client.request_raw = read  # type: ignore[method-assign]
    model = {"name": "Qwen/Qwen3-8B", **({"artifactRef": {"name": "qwen"}} if what == "artifact" else {})}
    world.declare(BOTH, model=model)
    await world.rest()
    assert len(world.eligible()) == 3
    uids = {name: world.uid(name) for name in ("chat-server-0", "chat-other-0")}
    world.start()
    world.client.request_raw = read  # type: ignore[method-assign]
    broken = True
    world.scale(1, 3)
    await world.run(30)
    assert world.eligible() == ["chat-other-0", "chat-server-0"]
    assert failure.message in world.deployment.status.phase_message
    condition = world.deployment.condition("WeightsReady")
    assert condition is not None
    assert condition.status == ("Unknown" if what == "artifact" else "True")
    broken = False
    await world.run(60)
    assert len(world.eligible()) == 4
    assert uids == {name: world.uid(name) for name in uids}
