"""Admission webhooks over real HTTP."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest
from aiohttp import web

from controller.foundation import Resource
from tests.embedded.apiserver.conftest import APPLY_PATCH, CONFIG_MAPS, WIDGETS, Client, Start, config_map, widget

Verdict = Callable[[dict[str, Any]], dict[str, Any]]


class Hook:
    """A webhook server that records the requests it gets and answers with `verdict`."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.verdict: Verdict = lambda request: {"allowed": True}
        self.url = ""

    async def serve(self, request: web.BaseRequest) -> web.Response:
        review = orjson.loads(await request.read())
        self.requests.append({**review["request"], "timeout": request.query["timeout"]})
        answer = {"uid": review["request"]["uid"], **self.verdict(review["request"])}
        body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": answer}
        return web.Response(body=orjson.dumps(body), content_type="application/json")


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    made = Hook()
    runner = web.ServerRunner(web.Server(made.serve))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


def configuration(url: str, kind: str = "Validating", **options: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": f"h-{kind.lower()}"},
        "webhooks": [
            {
                "name": "h.example.com",
                "clientConfig": {"url": url},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "rules": [
                    {
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "apiGroups": ["example.com"],
                        "apiVersions": ["v1"],
                        "resources": ["widgets"],
                    }
                ],
                **options,
            }
        ],
    }


def patching(*operations: dict[str, Any]) -> Verdict:
    patch = base64.b64encode(orjson.dumps(list(operations))).decode()
    return lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def denying(**status: Any) -> Verdict:
    return lambda request: {"allowed": False, "status": status}


async def test_a_validating_webhook_sees_each_write_and_may_refuse(api: Client, hook: Hook) -> None:
    api.server.put(configuration(hook.url, timeoutSeconds=30))
    assert (await api.create(WIDGETS, widget())).status == 201
    seen = hook.requests[0]
    assert (seen["operation"], seen["name"], seen["namespace"], seen["timeout"]) == ("CREATE", "one", "default", "30s")
    assert seen["object"]["spec"]["interval"] == 15, "defaults come before admission"
    assert seen["oldObject"] is None
    assert seen["userInfo"]["username"] == "system:anonymous"
    hook.verdict = denying(message="not today", code=403, reason="Forbidden")
    refused = await api.patch(WIDGETS, "one", {"spec": {"mode": "Active"}})
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.json["message"] == 'admission webhook "h.example.com" denied the request: not today'
    assert hook.requests[1]["oldObject"]["spec"]["mode"] == "Shadow"
    assert (await api.read(WIDGETS, "one")).json["spec"]["mode"] == "Shadow"
    assert (await api.delete(WIDGETS, "one")).status == 403
    assert (hook.requests[2]["operation"], hook.requests[2]["object"]) == ("DELETE", None)


async def test_a_refusal_without_code_is_400_and_without_words_says_so(api: Client, hook: Hook) -> None:
    api.server.put(configuration(hook.url))
    hook.verdict = denying()
    answer = await api.create(WIDGETS, widget())
    assert answer.status == 400
    assert answer.json["message"] == 'admission webhook "h.example.com" denied the request without explanation'


async def test_a_mutating_webhook_changes_what_is_stored_and_is_validated_after(api: Client, hook: Hook) -> None:
    api.server.put(configuration(hook.url, "Mutating"))
    hook.verdict = patching(
        {"op": "add", "path": "/spec/interval", "value": 20}, {"op": "add", "path": "/x", "value": 1}
    )
    created = await api.create(WIDGETS, widget())
    assert created.json["spec"]["interval"] == 20
    assert "x" not in created.json
    hook.verdict = patching({"op": "add", "path": "/spec/interval", "value": 9000})
    assert (await api.create(WIDGETS, widget("two"))).status == 422
    hook.verdict = patching({"op": "add", "path": "/status", "value": {"ready": 1}})
    updated = await api.patch(WIDGETS, "one", {"spec": {"mode": "Active"}})
    assert "status" not in updated.json


async def test_an_apply_is_admitted_too(api: Client, hook: Hook) -> None:
    api.server.put(configuration(hook.url, "Mutating"))
    hook.verdict = patching({"op": "add", "path": "/spec/low", "value": 1})
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"mode": "Shadow"}}
    made = await api.patch(WIDGETS, "one", body, APPLY_PATCH, fieldManager="a")
    assert (made.status, made.json["spec"]["low"]) == (201, 1)


async def test_warnings_of_a_webhook_reach_the_client(api: Client, hook: Hook) -> None:
    api.server.put(configuration(hook.url))
    hook.verdict = lambda request: {"allowed": True, "warnings": ["mind the gap"]}
    assert (await api.create(WIDGETS, widget())).warnings == ["mind the gap"]


async def test_an_equivalent_version_is_converted_and_an_exact_one_is_not_called(api: Client, hook: Hook) -> None:
    older = Resource("example.com", "v1alpha1", "widgets", "Widget")
    api.server.put(configuration(hook.url))
    await api.create(older, widget(api_version="example.com/v1alpha1"))
    seen = hook.requests[0]
    assert seen["kind"]["version"] == seen["object"]["apiVersion"].split("/")[1] == "v1"
    assert seen["requestKind"]["version"] == "v1alpha1"
    api.server.put(configuration(hook.url, matchPolicy="Exact"))
    await api.create(older, widget("two", api_version="example.com/v1alpha1"))
    assert len(hook.requests) == 1


def rule(**changes: Any) -> dict[str, Any]:
    """A rule for everything, with changes."""
    return {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], **changes}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


NAME_LABEL = "kubernetes.io/metadata.name"
NOT_CALLED: list[tuple[str, dict[str, Any]]] = [
    ("another resource", {"rules": [rule(apiGroups=[""], resources=["pods"])]}),
    ("another operation", {"rules": [rule(operations=["UPDATE"])]}),
    ("cluster scope", {"rules": [rule(scope="Cluster")]}),
    ("an object without the label", {"objectSelector": {"matchLabels": {"a": "b"}}}),
    ("another namespace", {"namespaceSelector": expression(NAME_LABEL, "NotIn", "default")}),
    ("a failed condition", {"matchConditions": [{"name": "c", "expression": "object.spec.mode == 'Active'"}]}),
]


@pytest.mark.parametrize("options", [row[1] for row in NOT_CALLED], ids=[row[0] for row in NOT_CALLED])
async def test_a_webhook_is_not_called_for(api: Client, hook: Hook, options: dict[str, Any]) -> None:
    hook.verdict = denying(message="called")
    api.server.put(configuration(hook.url, **options))
    assert (await api.create(WIDGETS, widget())).status == 201
    assert hook.requests == []


CALLED: list[tuple[str, dict[str, Any]]] = [
    ("everything", {"rules": [rule()]}),
    ("its namespace", {"namespaceSelector": {"matchLabels": {NAME_LABEL: "default"}}}),
    ("a missing label", {"objectSelector": expression("x", "DoesNotExist")}),
    ("a condition that holds", {"matchConditions": [{"name": "c", "expression": "request.operation == 'CREATE'"}]}),
]


@pytest.mark.parametrize("options", [row[1] for row in CALLED], ids=[row[0] for row in CALLED])
async def test_a_webhook_is_called_for(api: Client, hook: Hook, options: dict[str, Any]) -> None:
    api.server.put(configuration(hook.url, **options))
    await api.create(WIDGETS, widget())
    assert len(hook.requests) == 1


async def test_the_status_is_a_resource_of_its_own_to_webhooks(api: Client, hook: Hook) -> None:
    api.server.put(widget())
    api.server.put(configuration(hook.url))
    await api.patch(WIDGETS, "one", {"status": {"ready": 1}}, subresource="status")
    assert hook.requests == []
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["widgets/status"]}]
    api.server.put(configuration(hook.url, rules=rules))
    await api.patch(WIDGETS, "one", {"status": {"ready": 2}}, subresource="status")
    assert [seen["subResource"] for seen in hook.requests] == ["status"]


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
async def test_a_webhook_that_cannot_be_reached(api: Client, policy: str, status: int) -> None:
    api.server.put(configuration("http://127.0.0.1:1/x", failurePolicy=policy))
    answer = await api.create(WIDGETS, widget())
    assert answer.status == status
    if status == 500:
        assert answer.reason == "InternalError"
        assert 'failed calling webhook "h.example.com"' in answer.json["message"]


async def test_an_answer_for_another_request_is_a_failure(api: Client, hook: Hook) -> None:
    api.server.put(configuration(hook.url))
    hook.verdict = lambda request: {"allowed": True, "uid": "other"}
    assert (await api.create(WIDGETS, widget())).status == 500


async def test_a_dry_run_is_refused_where_a_webhook_has_side_effects(api: Client, hook: Hook) -> None:
    api.server.put(configuration(hook.url, sideEffects="Some"))
    assert (await api.create(WIDGETS, widget(), dryRun="All")).status == 400
    api.server.put(configuration(hook.url, sideEffects="NoneOnDryRun"))
    assert (await api.create(WIDGETS, widget(), dryRun="All")).status == 201
    assert hook.requests[-1]["dryRun"] is True


async def test_a_service_is_resolved_by_whoever_runs_the_server(start: Start, hook: Hook) -> None:
    asked: list[tuple[str, str, int]] = []

    def resolve(namespace: str, name: str, port: int) -> str:
        asked.append((namespace, name, port))
        return hook.url

    api = await start(resolve_service=resolve)
    service = {"namespace": "default", "name": "hooks", "path": "/check"}
    api.server.put(configuration("", clientConfig={"service": service}))
    assert (await api.create(WIDGETS, widget())).status == 201
    assert asked == [("default", "hooks", 443)]


async def test_a_write_that_overtook_admission_is_checked_again(api: Client, hook: Hook) -> None:
    api.server.put(config_map(a="1"))
    rules = [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
    api.server.put(configuration(hook.url, rules=rules))

    def interfere(request: dict[str, Any]) -> dict[str, Any]:
        if len(hook.requests) == 1:
            api.server.put(config_map(a="1", b="2"))
        return {"allowed": True}

    hook.verdict = interfere
    answer = await api.patch(CONFIG_MAPS, "one", {"data": {"c": "3"}})
    assert answer.json["data"] == {"a": "1", "b": "2", "c": "3"}
    assert len(hook.requests) == 2
