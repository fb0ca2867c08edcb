from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest

from controller.deployment.kinds import Service
from controller.deployment.replicas import Replica
from controller.deployment.services import ServiceChanges, desired_services, service_changes
from tests.deployment.builders import deployment, group, single

ELIGIBLE = {"modeldeployment.gpustack.ai/endpoint-eligible": "true"}


def _desired(roles: list[dict[str, Any]], *replicas: Replica) -> dict[str, dict[str, Any]]:
    made = deployment(roles)
    return {body["metadata"]["name"]: body for body in desired_services(made, made.roles, replicas)}


def test_the_first_role_answers_for_the_deployment_and_each_role_for_itself():
    services = _desired([{"name": "prefill", "kind": "Prefill"}, {"name": "decode", "kind": "Decode"}])
    component = "app.kubernetes.io/component"
    assert {name: body["spec"]["selector"][component] for name, body in services.items()} == {
        "chat": "prefill",
        "chat-prefill": "prefill",
        "chat-decode": "decode",
    }
    assert all(body["spec"]["selector"].items() >= ELIGIBLE.items() for body in services.values())


def test_members_find_their_leader_through_a_service_of_their_own():
    services = _desired([{"name": "server", "size": 2, "replicas": 1}])
    assert set(services) == {"chat", "chat-server", "chat-server-r0"}
    group = services["chat-server-r0"]["spec"]
    assert (group["clusterIP"], group["publishNotReadyAddresses"]) == ("None", True)
    assert ELIGIBLE.keys().isdisjoint(group["selector"])
    assert services["chat-server"]["spec"]["selector"]["modeldeployment.gpustack.ai/member-index"] == "0"


def test_a_replica_of_several_pods_keeps_its_service_as_long_as_it_is_there():
    services = _desired([{"name": "server"}], group(0, {}, {}), group(3, {}, {}), single(1))
    assert set(services) == {"chat", "chat-server", "chat-server-r0", "chat-server-r3"}


def test_every_member_that_answers_is_an_endpoint():
    services = _desired([{"name": "server", "size": 2, "extraArgs": ["--data-parallel-external-lb"]}])
    assert "modeldeployment.gpustack.ai/member-index" not in services["chat-server"]["spec"]["selector"]


def _stored(body: dict[str, Any], uid: str = "md-1", **spec: Any) -> Service:
    """The Service as the API server would hold it, with its defaults."""
    meta = {**body["metadata"], "resourceVersion": "5"}
    meta["ownerReferences"] = [{"kind": "ModelDeployment", "uid": uid, "controller": True}]
    made = {"metadata": meta, "spec": {**body["spec"], "clusterIP": "10.96.1.2", **spec}}
    return msgspec.json.decode(orjson.dumps(made), type=Service)


def _changes(*present: Service, keep: bool = False) -> ServiceChanges:
    made = deployment()
    return service_changes(made, desired_services(made, made.roles), present, keep=keep)


def test_services_as_they_should_be_are_left_alone():
    bodies = _desired([{"name": "server"}])
    changes = _changes(*(_stored(body) for body in bodies.values()))
    assert changes == ServiceChanges((), (), (), ())


def test_the_service_of_a_dropped_role_stays_until_its_replicas_are_gone():
    bodies = _desired([{"name": "server"}, {"name": "old"}])
    made = deployment()
    present = [_stored(body) for body in bodies.values()]
    changes = [
        service_changes(made, desired_services(made, made.roles), present, keep=False, serving=roles)
        for roles in ({"old"}, set())
    ]
    assert [[service.metadata.name for service in each.delete] for each in changes] == [[], ["chat-old"]]


def test_missing_services_are_created():
    assert [body["metadata"]["name"] for body in _changes().create] == ["chat", "chat-server"]


def test_a_selector_that_somebody_changed_is_put_right_and_what_he_added_is_removed():
    bodies = _desired([{"name": "server"}])
    wrong = _stored(bodies["chat"], selector={"app": "mine"})
    changes = _changes(wrong, _stored(bodies["chat-server"]))
    ((name, patch),) = changes.patch
    assert name == "chat"
    assert patch["metadata"]["resourceVersion"] == "5"
    assert patch["spec"]["selector"] == {"app": None, **bodies["chat"]["spec"]["selector"]}


def test_a_service_of_somebody_else_is_left_alone_and_named():
    bodies = _desired([{"name": "server"}])
    changes = _changes(_stored(bodies["chat"], uid="other"), _stored(bodies["chat-server"]))
    assert (changes.create, changes.patch, changes.delete) == ((), (), ())
    assert "chat belongs to somebody else" in changes.problems[0]


@pytest.mark.parametrize("keep", [False, True])
def test_services_that_are_not_wanted_any_more_go_once_all_roles_can_be_carried_out(keep: bool):
    bodies = _desired([{"name": "server"}, {"name": "old"}])
    changes = _changes(*(_stored(body) for body in bodies.values()), keep=keep)
    assert [service.metadata.name for service in changes.delete] == ([] if keep else ["chat-old"])
