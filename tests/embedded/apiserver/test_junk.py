"""Nothing that a client sends may break the server: every member of every kind, replaced by what does not belong there,
is accepted or refused, but never an internal failure."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.embedded.apiserver.conftest import WIDGET_CRD, Client

JUNK: tuple[Any, ...] = (None, "x", 5, 1.5, True, [], {}, [None], ["x"], [{}], {"a": None}, {"a": 5}, 2**63)
MICRO = "2026-11-29T15:49:15.250000Z"
RBAC = "rbac.authorization.k8s.io/v1"
HOOKS = "admissionregistration.k8s.io/v1"
CONTAINER = {
    "name": "c",
    "image": "i",
    "ports": [{"containerPort": 80}],
    "env": [{"name": "a", "value": "b"}],
    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
}
HOOK = {
    "name": "a.b.c",
    "clientConfig": {"service": {"name": "s", "namespace": "n"}, "caBundle": "YQ=="},
    "rules": [{"operations": ["CREATE"], "apiGroups": ["x"], "apiVersions": ["*"], "resources": ["y"]}],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "namespaceSelector": {"matchLabels": {"a": "b"}},
    "objectSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]},
    "matchConditions": [{"name": "x", "expression": "true"}],
}


def kind(api_version: str, name: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": name, **parts}


BODIES: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/configmaps": kind("v1", "ConfigMap", data={"a": "b"}, binaryData={"c": "YQ=="}),
    "/api/v1/namespaces/default/secrets": kind(
        "v1", "Secret", data={"c": "YQ=="}, stringData={"a": "b"}, type="Opaque"
    ),
    "/api/v1/namespaces/default/pods": kind(
        "v1",
        "Pod",
        spec={"containers": [CONTAINER], "nodeName": "n"},
        status={
            "podIP": "1.2.3.4",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "ready": True, "state": {"waiting": {"reason": "x"}}}],
        },
    ),
    "/api/v1/namespaces/default/services": kind(
        "v1", "Service", spec={"ports": [{"port": 80}], "selector": {"a": "b"}}
    ),
    "/api/v1/namespaces/default/endpoints": kind(
        "v1", "Endpoints", subsets=[{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}]
    ),
    "/api/v1/namespaces/default/events": kind(
        "v1",
        "Event",
        involvedObject={"kind": "Pod", "name": "p", "namespace": "default"},
        reason="R",
        message="m",
        count=1,
        source={"component": "c"},
        firstTimestamp="2026-11-29T15:49:15Z",
        series={"count": 2, "lastObservedTime": MICRO},
    ),
    "/apis/events.k8s.io/v1/namespaces/default/events": kind(
        "events.k8s.io/v1",
        "Event",
        regarding={"kind": "Pod", "name": "p", "namespace": "default"},
        eventTime=MICRO,
        reportingController="c",
        reportingInstance="i",
        action="a",
        reason="R",
        type="Normal",
        note="n",
        series={"count": 2, "lastObservedTime": MICRO},
    ),
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": kind(
        "coordination.k8s.io/v1",
        "Lease",
        spec={"holderIdentity": "x", "renewTime": MICRO, "leaseDurationSeconds": 15, "leaseTransitions": 1},
    ),
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": kind(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        addressType="IPv4",
        endpoints=[{"addresses": ["1.2.3.4"], "conditions": {"ready": True}}],
        ports=[{"port": 80, "name": "x"}],
    ),
    "/apis/apps/v1/namespaces/default/deployments": kind(
        "apps/v1",
        "Deployment",
        spec={
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"spec": {"containers": [CONTAINER]}},
        },
        status={"replicas": 1},
    ),
    "/api/v1/nodes": kind(
        "v1",
        "Node",
        spec={"taints": [{"key": "a", "effect": "NoSchedule"}]},
        status={"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}},
    ),
    "/api/v1/namespaces": kind("v1", "Namespace", spec={"finalizers": ["kubernetes"]}, status={"phase": "Active"}),
    f"/apis/{RBAC}/clusterroles": kind(
        RBAC, "ClusterRole", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    ),
    f"/apis/{RBAC}/namespaces/default/rolebindings": kind(
        RBAC, "RoleBinding", roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "User", "name": "u"}]
    ),
    f"/apis/{HOOKS}/validatingwebhookconfigurations": kind(HOOKS, "ValidatingWebhookConfiguration", webhooks=[HOOK]),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": WIDGET_CRD,
    "/apis/example.com/v1/namespaces/default/widgets": kind(
        "example.com/v1",
        "Widget",
        spec={
            "mode": "Shadow",
            "roles": [{"name": "d", "replicas": 1}],
            "labels": {"a": "b"},
            "tags": ["x"],
            "steps": [1],
        },
    ),
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": kind(
        "authorization.k8s.io/v1",
        "SubjectAccessReview",
        spec={"user": "u", "groups": ["g"], "resourceAttributes": {"verb": "get", "resource": "pods"}},
    ),
    "/apis/authentication.k8s.io/v1/tokenreviews": kind("authentication.k8s.io/v1", "TokenReview", spec={"token": "x"}),
}
METADATA = {
    "name": "one",
    "labels": {"a": "b"},
    "annotations": {"x": "y"},
    "finalizers": ["a/b"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    if isinstance(value, dict):
        for name, member in value.items():
            yield from places(member, (*at, name))
    elif isinstance(value, list):
        for index, item in enumerate(value[:1]):
            yield from places(item, (*at, index))


def spoilt(body: dict[str, Any], place: tuple[Any, ...], junk: Any) -> dict[str, Any]:
    made = copy.deepcopy(body)
    holder: Any = made
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = junk
    return made


@pytest.mark.parametrize("path", BODIES)
async def test_a_body_is_refused_or_accepted_whatever_is_in_it(api: Client, path: str) -> None:
    body = {"metadata": METADATA, **BODIES[path]}
    for number, place in enumerate(places(body)):
        # A few kinds of junk for each place, others for the next: all of them at all places would take minutes.
        for junk in JUNK[number % 3 :: 3]:
            made = spoilt(body, place, junk)
            answer = await api("POST", path, made, dryRun="All")
            assert answer.status in (201, 400, 409, 422), (place, junk, answer.json)


@pytest.mark.parametrize("path", [path for path in BODIES if "reviews" not in path and "definitions" not in path])
async def test_what_is_stored_can_be_shown_in_every_form(api: Client, path: str) -> None:
    body = {"metadata": METADATA, **BODIES[path]}
    for number, place in enumerate(places(body)):
        made = spoilt(body, place, JUNK[number % len(JUNK)])
        made["metadata"] = {"name": f"n{number}"}
        await api("POST", path, made)
    for form in ("Table", "PartialObjectMetadataList"):
        answer = await api("GET", path, headers={"Accept": f"application/json;as={form};v=v1;g=meta.k8s.io"})
        assert answer.status == 200, answer.json
    assert (await api("GET", path)).json["items"]
