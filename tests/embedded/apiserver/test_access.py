"""RBAC, ServiceAccount tokens, reviews, impersonation."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controller.embedded.apiserver import ApiServer, User
from controller.embedded.apiserver.rbac import Attributes, Rbac
from controller.foundation import ManualClock, Resource
from tests.embedded.apiserver.conftest import APPLY_PATCH, LEASES, PODS, WIDGETS, Client, Start, widget
from tests.embedded.apiserver.test_kubectl import KUBECTL, Kubectl

RBAC_VERSION = "rbac.authorization.k8s.io/v1"
REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)


def role(name: str, *rules: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": RBAC_VERSION,
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": metadata,
        "rules": list(rules),
    }


def binding(
    name: str, role_kind: str, role_name: str, *subjects: dict[str, str], namespace: str = ""
) -> dict[str, Any]:
    return {
        "apiVersion": RBAC_VERSION,
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role_name},
        "subjects": list(subjects),
    }


def rule(
    *verbs: str, groups: tuple[str, ...] = ("",), resources: tuple[str, ...] = ("pods",), **more: Any
) -> dict[str, Any]:
    return {"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources), **more}


SUBJECT = {"kind": "ServiceAccount", "name": "scaler", "namespace": "default"}
USER = User("system:serviceaccount:default:scaler", ("system:serviceaccounts", "system:authenticated"))

DECISIONS: list[tuple[str, dict[str, Any], Attributes, bool]] = [
    ("the verb, group and resource of a rule", rule("get"), Attributes("get", "", "pods", namespace="default"), True),
    ("another verb", rule("get"), Attributes("list", "", "pods"), False),
    ("another group", rule("get"), Attributes("get", "apps", "pods"), False),
    ("every verb", rule("*"), Attributes("watch", "", "pods"), True),
    ("everything", rule("*", groups=("*",), resources=("*",)), Attributes("get", "x", "y", "z"), True),
    ("a subresource needs its own name", rule("get"), Attributes("get", "", "pods", "status"), False),
    ("a subresource by name", rule("get", resources=("pods/status",)), Attributes("get", "", "pods", "status"), True),
    ("a subresource of anything", rule("get", resources=("*/status",)), Attributes("get", "", "pods", "status"), True),
    ("a name that is listed", rule("get", resourceNames=["a"]), Attributes("get", "", "pods", name="a"), True),
    ("a name that is not listed", rule("get", resourceNames=["a"]), Attributes("get", "", "pods", name="b"), False),
    ("a list where names are listed", rule("list", resourceNames=["a"]), Attributes("list", "", "pods"), False),
    ("a path", {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}, Attributes("get", path="/metrics"), True),
    ("a path below a star", {"verbs": ["get"], "nonResourceURLs": ["/api/*"]}, Attributes("get", path="/api/v1"), True),
    ("a path of a resource rule", rule("get"), Attributes("get", path="/metrics"), False),
]


@pytest.mark.parametrize(("given", "wanted", "allowed"), [r[1:] for r in DECISIONS], ids=[r[0] for r in DECISIONS])
def test_a_cluster_role_decides(given: dict[str, Any], wanted: Attributes, allowed: bool) -> None:
    server = ApiServer(clock=ManualClock(), rbac=True)
    server.put(role("r", given))
    server.put(binding("b", "ClusterRole", "r", SUBJECT))
    decision = Rbac(server.store).decide(USER, wanted)
    assert decision.allowed is allowed
    assert decision.rule == (("ClusterRole r", 0) if allowed else None)


def test_a_role_binding_grants_in_its_namespace_only() -> None:
    server = ApiServer(clock=ManualClock(), rbac=True)
    server.put(role("r", rule("get"), namespace="default"))
    server.put(binding("b", "Role", "r", {"kind": "ServiceAccount", "name": "scaler"}, namespace="default"))
    rbac = Rbac(server.store)
    assert rbac.decide(USER, Attributes("get", "", "pods", namespace="default")).allowed
    assert not rbac.decide(USER, Attributes("get", "", "pods", namespace="kube-system")).allowed
    assert not rbac.decide(USER, Attributes("get", "", "pods")).allowed


async def test_a_service_account_does_what_its_role_says_and_no_more(start: Start) -> None:
    api = await start(rbac=True, tokens={"root": None})
    server = api.server
    server.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scaler"}})
    server.put(role("r", rule("get", "list", "watch", groups=("example.com",), resources=("widgets",))))
    server.put(binding("b", "ClusterRole", "r", SUBJECT))
    bearer = {"Authorization": f"Bearer {server.service_account_token('scaler')}"}
    assert (await api.get(WIDGETS.path("default"), headers=bearer)).status == 200
    assert server.requests[-1].rule == ("ClusterRole r", 0)
    refused = await api.create(WIDGETS, widget(), headers=bearer)
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.json["message"] == (
        'widgets.example.com is forbidden: User "system:serviceaccount:default:scaler" cannot create resource '
        '"widgets" in API group "example.com" in the namespace "default"'
    )
    assert (await api.get("/apis", headers=bearer)).status == 200
    assert (await api.get(PODS.path(), headers={"Authorization": "Bearer root"})).status == 200
    assert (await api.get(PODS.path())).status == 403
    assert (await api.get("/readyz")).status == 200
    server.delete(Resource("", "v1", "serviceaccounts", "ServiceAccount"), "scaler")
    assert (await api.get("/apis", headers=bearer)).status == 401


async def test_a_rule_with_names_covers_lists_and_watches_of_one_name(start: Start) -> None:
    api = await start(rbac=True, tokens={"jane": User("jane", ("system:authenticated",))})
    api.server.put(role("r", rule("list", "watch", "deletecollection", resourceNames=["a"])))
    api.server.put(binding("b", "ClusterRole", "r", {"kind": "User", "name": "jane"}))
    jane = {"Authorization": "Bearer jane"}

    async def status(method: str = "GET", **query: str) -> int:
        return (await api(method, PODS.path("default"), **query, headers=jane)).status

    assert await status(fieldSelector="metadata.name=a") == 200
    assert await status(fieldSelector="spec.nodeName=n,metadata.name==a") == 200
    assert await status(fieldSelector="metadata.name=b") == 403
    assert await status(fieldSelector="metadata.name!=a") == 403
    assert await status() == 403
    assert await status("DELETE", fieldSelector="metadata.name=a") == 403


async def test_an_update_that_creates_needs_to_be_allowed_to_create(start: Start) -> None:
    api = await start(rbac=True, tokens={"jane": User("jane", ("system:authenticated",))})
    api.server.put(role("r", rule("patch", "update", groups=("coordination.k8s.io",), resources=("leases",))))
    api.server.put(binding("b", "ClusterRole", "r", {"kind": "User", "name": "jane"}))
    jane = {"Authorization": "Bearer jane"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
    path = LEASES.path("default", "a")
    for answer in (
        await api("PUT", path, lease, headers=jane),
        await api("PATCH", path, lease, headers=jane, content_type=APPLY_PATCH, fieldManager="m"),
    ):
        assert answer.status == 403
        assert answer.json["message"] == (
            'leases.coordination.k8s.io "a" is forbidden: User "jane" cannot create resource "leases" in API group '
            '"coordination.k8s.io" in the namespace "default"'
        )
    api.server.put(lease)
    assert (await api("PATCH", path, lease, headers=jane, content_type=APPLY_PATCH, fieldManager="m")).status == 200


async def test_reviews_answer_without_being_stored(start: Start) -> None:
    api = await start(rbac=True, tokens={"root": None})
    root = {"Authorization": "Bearer root"}
    api.server.put(role("r", rule("get")))
    api.server.put(binding("b", "ClusterRole", "r", {"kind": "User", "name": "jane"}))

    async def ask(plural: str, kind: str, spec: dict[str, Any], group: str = "authorization.k8s.io") -> dict[str, Any]:
        body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}, "spec": spec}
        answer = await api("POST", f"/apis/{group}/v1/{plural}", body, headers=root)
        assert answer.status == 201, answer.json
        status: dict[str, Any] = answer.json["status"]
        return status

    pods = {"verb": "get", "resource": "pods", "namespace": "default"}
    jane = {"user": "jane", "resourceAttributes": pods}
    assert (await ask("subjectaccessreviews", "SubjectAccessReview", jane))["allowed"]
    joe = {"user": "joe", "resourceAttributes": pods}
    assert not (await ask("subjectaccessreviews", "SubjectAccessReview", joe))["allowed"]
    assert (await ask(REVIEWS.plural, REVIEWS.kind, {"resourceAttributes": pods}))["allowed"]
    who = await ask("selfsubjectreviews", "SelfSubjectReview", {}, "authentication.k8s.io")
    assert who["userInfo"]["username"] == "admin"
    token = await ask("tokenreviews", "TokenReview", {"token": "root"}, "authentication.k8s.io")
    assert (token["authenticated"], token["user"]["username"]) == (True, "admin")
    unknown = await ask("tokenreviews", "TokenReview", {"token": "x"}, "authentication.k8s.io")
    assert not unknown["authenticated"]
    assert (await api.get(REVIEWS.path(), headers=root)).status == 405


async def test_a_user_may_act_as_another_where_that_is_granted(start: Start) -> None:
    api = await start(rbac=True, tokens={"root": None, "jane": User("jane", ("system:authenticated",))})
    path = PODS.path("default")
    jane = {"Authorization": "Bearer jane"}
    as_root = {**jane, "Impersonate-User": "x", "Impersonate-Group": "system:masters"}
    assert (await api.get(path, headers=as_root)).status == 403
    as_jane = {"Authorization": "Bearer root", "Impersonate-User": "jane"}
    assert (await api.get(path, headers=as_jane)).status == 403
    api.server.put(role("r", rule("list")))
    api.server.put(binding("b", "ClusterRole", "r", {"kind": "User", "name": "jane"}))
    assert (await api.get(path, headers=as_jane)).status == 200


async def test_token_requests_have_bounds(api: Client) -> None:
    account = Resource("", "v1", "serviceaccounts", "ServiceAccount")
    api.server.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}})
    made = await api("POST", account.path("default", "a", "token"), {"spec": {"expirationSeconds": 700}})
    assert made.status == 201
    assert made.json["status"]["token"]
    assert (await api("POST", account.path("default", "a", "token"), {"spec": {"expirationSeconds": 5}})).status == 422
    assert (await api("POST", account.path("default", "b", "token"), {})).status == 404


def certificate(folder: Path) -> tuple[ssl.SSLContext, bytes]:
    """A TLS context with a fresh self-signed certificate for 127.0.0.1, and the certificate as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "embedded")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "server.pem"
    path.write_bytes(pem + private)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path)
    return context, pem


@pytest.mark.skipif(KUBECTL is None, reason="no kubectl on this machine: its cases did not run")
async def test_kubectl_with_a_token_over_tls(tmp_path: Path) -> None:
    server = ApiServer(clock=ManualClock(), rbac=True, tokens={"root": None}, anonymous=False)
    context, pem = certificate(tmp_path)
    await server.start(tls=context, certificate_authority=pem)
    try:
        assert server.url.startswith("https://")
        kubectl = Kubectl(server, tmp_path)
        server.write_kubeconfig(tmp_path / "kubeconfig", token="root")
        await kubectl("create", "serviceaccount", "scaler")
        token = (await kubectl("create", "token", "scaler")).strip()
        assert "no" in (await kubectl.run("--token", token, "auth", "can-i", "list", "pods"))[1]
        await kubectl("create", "clusterrole", "r", "--verb=list", "--resource=pods")
        await kubectl("create", "clusterrolebinding", "b", "--clusterrole=r", "--serviceaccount=default:scaler")
        server.write_kubeconfig(tmp_path / "kubeconfig", token=token)
        assert "yes" in await kubectl("auth", "can-i", "list", "pods")
        assert "system:serviceaccount:default:scaler" in await kubectl("auth", "whoami")
        assert "cannot list resource" in await kubectl.refused("get", "secrets")
    finally:
        await server.stop()
