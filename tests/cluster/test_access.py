"""Who may do what: tokens, anonymous access, roles, reviews."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.api import Api
from tests.cluster.conftest import make_namespace
from tests.cluster.objects import CONFIG_MAPS, GADGETS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, config_map, gadget

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def token_of(api: Api, name: str = "default") -> str:
    """A token of a ServiceAccount of the namespace."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = await api("POST", api.path(SERVICE_ACCOUNTS, name, "token"), body)
    assert answer.status == 201, answer.raw
    token: str = answer.json["status"]["token"]
    return token


async def grant(api: Api, *rules: dict[str, Any], account: str = "default") -> None:
    """Let a ServiceAccount of the namespace do something there."""
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": list(rules)}
    (await api.create(ROLES, role)).ok()
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": api.namespace}],
    }
    (await api.create(ROLE_BINDINGS, binding)).ok()


async def test_without_a_token_health_and_version_are_open_and_resources_are_not(api: Api):
    async with Api(api.server, api.namespace, token="") as nobody:
        for path in ("/version", "/healthz", "/livez", "/readyz"):
            assert (await nobody("GET", path)).status == 200
        answer = await nobody.list(CONFIG_MAPS)
        assert answer.failure == (403, "Forbidden")
        assert 'User "system:anonymous" cannot list resource "configmaps"' in answer.message
        assert (await nobody("GET", "/apis")).status == 403


async def test_a_token_that_nobody_issued_is_401(api: Api):
    async with Api(api.server, api.namespace, token="nonsense") as stranger:
        assert (await stranger.list(CONFIG_MAPS)).failure == (401, "Unauthorized")
        assert (await stranger("GET", "/version")).status == 401


async def test_a_service_account_may_do_nothing_but_discover(api: Api):
    async with Api(api.server, api.namespace, await token_of(api)) as account:
        assert (await account("GET", "/version")).status == 200
        assert (await account("GET", "/apis")).status == 200
        answer = await account.create(GADGETS, gadget("a"))
        assert answer.failure == (403, "Forbidden")
        user = f"system:serviceaccount:{api.namespace}:default"
        assert answer.message == (
            f'gadgets.conformance.example.com is forbidden: User "{user}" cannot create resource "gadgets" in API '
            f'group "conformance.example.com" in the namespace "{api.namespace}"'
        )
        assert (answer.details["group"], answer.details["kind"]) == (GADGETS.group, "gadgets")


async def test_a_role_lets_exactly_its_verbs_through(api: Api):
    await grant(api, {"apiGroups": [GADGETS.group], "resources": ["gadgets"], "verbs": ["create", "get"]})
    async with Api(api.server, api.namespace, await token_of(api)) as account:
        assert (await account.create(GADGETS, gadget("a"))).status == 201
        assert (await account.read(GADGETS, "a")).status == 200
        for answer in (
            await account.list(GADGETS),
            await account.delete(GADGETS, "a"),
            await account.patch(GADGETS, "a", {"spec": {"interval": 20}}),
            await account.patch(GADGETS, "a", {"status": {"phase": "x"}}, subresource="status"),
            await account.list(CONFIG_MAPS),
        ):
            assert answer.failure == (403, "Forbidden")
        assert (await account.watch(GADGETS)).status == 403


async def test_a_role_of_one_namespace_does_not_reach_another(api: Api):
    await grant(api, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]})
    other = f"{api.namespace}-other"
    await make_namespace(api, other)
    async with Api(api.server, other, await token_of(api)) as account:
        assert (await account.list(CONFIG_MAPS)).failure == (403, "Forbidden")
        assert (await account("GET", CONFIG_MAPS.path())).failure == (403, "Forbidden"), "nor all namespaces"


async def test_a_subresource_is_a_resource_of_its_own(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    await grant(api, {"apiGroups": [GADGETS.group], "resources": ["gadgets/status"], "verbs": ["patch"]})
    async with Api(api.server, api.namespace, await token_of(api)) as account:
        assert (await account.patch(GADGETS, "a", {"status": {"phase": "x"}}, subresource="status")).status == 200
        assert (await account.patch(GADGETS, "a", {"spec": {"interval": 20}})).failure == (403, "Forbidden")


async def test_a_rule_may_name_objects_which_leaves_create_out(api: Api):
    for name in ("a", "b"):
        (await api.create(CONFIG_MAPS, config_map(name))).ok()
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["a"],
        "verbs": ["get", "update", "create", "list", "watch"],
    }
    await grant(api, rule)
    async with Api(api.server, api.namespace, await token_of(api)) as account:
        assert (await account.read(CONFIG_MAPS, "a")).status == 200
        assert (await account.read(CONFIG_MAPS, "b")).failure == (403, "Forbidden")
        assert (await account.create(CONFIG_MAPS, config_map("a"))).failure == (403, "Forbidden")
        assert (await account.list(CONFIG_MAPS)).failure == (403, "Forbidden")
        assert (await account.list(CONFIG_MAPS, fieldSelector="metadata.name=a")).status == 200


async def test_creating_by_apply_needs_create_as_well(api: Api):
    await grant(api, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]})
    (await api.create(CONFIG_MAPS, config_map("old"))).ok()
    async with Api(api.server, api.namespace, await token_of(api)) as account:
        assert (await account.apply(CONFIG_MAPS, config_map("new"), "m")).failure == (403, "Forbidden")
        assert (await account.apply(CONFIG_MAPS, config_map("old"), "m")).status == 200


@pytest.mark.parametrize(("verb", "allowed"), [("get", True), ("delete", False)])
async def test_a_review_says_what_would_happen(api: Api, verb: str, allowed: bool):
    await grant(api, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]})
    wanted = {"verb": verb, "resource": "configmaps", "namespace": api.namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    }
    async with Api(api.server, api.namespace, await token_of(api)) as account:
        answer = await account("POST", REVIEWS, body)
        assert answer.status == 201
        assert answer.json["status"]["allowed"] is allowed


async def test_a_token_names_when_it_expires(api: Api):
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    status = (await api("POST", api.path(SERVICE_ACCOUNTS, "default", "token"), body)).json["status"]
    assert status["token"].count(".") == 2 or api.server.name == "embedded"
    assert status["expirationTimestamp"].endswith("Z")
    short = {**body, "spec": {"expirationSeconds": 60}}
    assert (await api("POST", api.path(SERVICE_ACCOUNTS, "default", "token"), short)).failure == (422, "Invalid")
