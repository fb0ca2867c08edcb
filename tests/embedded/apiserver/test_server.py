"""The server as a whole: life, discovery, OpenAPI, fixtures, tokens, bodies."""

from __future__ import annotations

import base64
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from controller.embedded.apiserver import ApiServer, User
from controller.embedded.apiserver.errors import ApiError
from controller.embedded.apiserver.negotiation import load_yaml
from controller.embedded.apiserver.protobuf import PROTOBUF, decode_envelope
from controller.embedded.apiserver.storage import Change
from controller.foundation import ManualClock, OperationFailed, Resource
from tests.embedded.apiserver.conftest import CONFIG_MAPS, WIDGETS, Client, Start, config_map, widget


async def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OperationFailed) as failure:
            await ApiServer(clock=ManualClock()).start(port=port)
    assert str(failure.value).startswith(f"cannot listen on 127.0.0.1:{port}: the port is in use")
    assert "\n" not in str(failure.value)


async def test_a_server_stops_though_a_client_keeps_its_connection(api: Client) -> None:
    await api.get("/readyz")
    await api.server.stop()
    with pytest.raises(aiohttp.ClientError):
        await api.get("/readyz")


async def test_the_kubeconfig_names_the_server_and_is_for_its_owner_only(api: Client, tmp_path: Path) -> None:
    path = api.server.write_kubeconfig(tmp_path / "deep" / "config", token="secret")
    assert path.stat().st_mode & 0o777 == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == api.server.url
    assert config["users"][0]["user"]["token"] == "secret"
    assert config["current-context"] == config["contexts"][0]["name"]


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping"])
async def test_health(api: Client, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status, answer.raw) == (200, b"ok")


async def test_discovery_lists_groups_versions_and_resources(api: Client) -> None:
    groups = {group["name"]: group for group in (await api.get("/apis")).json["groups"]}
    assert [v["version"] for v in groups["example.com"]["versions"]] == ["v1", "v1alpha1"]
    assert groups["example.com"]["preferredVersion"]["version"] == "v1"
    resources = {r["name"]: r for r in (await api.get("/apis/example.com/v1")).json["resources"]}
    assert set(resources) == {"widgets", "widgets/status"}
    assert resources["widgets"]["shortNames"] == ["wd"]
    assert resources["widgets"]["categories"] == ["all"]
    core = {r["name"]: r for r in (await api.get("/api/v1")).json["resources"]}
    assert {"pods", "pods/status", "configmaps", "events", "secrets", "nodes", "namespaces"} <= set(core)
    assert not core["nodes"]["namespaced"]
    assert (await api.get("/apis/none.example.com/v1")).status == 404
    assert (await api.get("/version")).json["minor"] >= "34"


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
async def test_aggregated_discovery_says_the_same_in_one_document(api: Client, version: str) -> None:
    accept = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList,application/json"
    answer = await api.get("/apis", headers={"Accept": accept})
    assert answer.headers["Content-Type"].endswith("as=APIGroupDiscoveryList")
    assert answer.json["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    group = next(item for item in answer.json["items"] if item["metadata"]["name"] == "example.com")
    (resource,) = group["versions"][0]["resources"]
    assert (resource["resource"], resource["scope"]) == ("widgets", "Namespaced")
    assert resource["subresources"][0]["subresource"] == "status"


async def test_openapi_describes_kinds_and_declares_field_validation(api: Client) -> None:
    index = (await api.get("/openapi/v3")).json["paths"]
    url = index["apis/example.com/v1"]["serverRelativeURL"]
    document = (await api.get(url.split("?")[0], hash=url.split("=")[1])).json
    schema = document["components"]["schemas"]["com.example.v1.Widget"]
    kind = {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert schema["x-kubernetes-group-version-kind"] == [kind]
    assert schema["properties"]["spec"]["properties"]["target"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    patch = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == kind
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    assert "com.example.v1.Widget" in (await api.get("/openapi/v2")).json["definitions"]
    protobuf = {"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    assert (await api.get("/openapi/v2", headers=protobuf)).status == 406


async def test_the_index_of_openapi_changes_with_a_definition(api: Client) -> None:
    before = (await api.get("/openapi/v3")).json["paths"]["apis/example.com/v1"]
    crd = api.server.get(
        Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "", namespaced=False), "widgets.example.com"
    )
    assert crd is not None
    for version in crd["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["description"] = "Changed."
    api.server.install_crd(crd)
    assert (await api.get("/openapi/v3")).json["paths"]["apis/example.com/v1"] != before


async def test_history_is_every_stored_version_of_one_object(api: Client) -> None:
    await api.create(WIDGETS, widget())
    await api.create(WIDGETS, widget("other"))
    await api.patch(WIDGETS, "one", {"spec": {"mode": "Active"}})
    await api.delete(WIDGETS, "one")
    versions = api.server.history(WIDGETS, "one")
    assert [(v.change, v.object["spec"]["mode"]) for v in versions] == [
        (Change.ADDED, "Shadow"),
        (Change.MODIFIED, "Active"),
        (Change.DELETED, "Active"),
    ]
    assert versions[0].object["apiVersion"] == "example.com/v1"


async def test_history_that_is_no_longer_whole_is_refused(start: Start) -> None:
    api = await start(history_limit=2)
    for number in range(4):
        api.server.put(config_map(n=str(number)))
    with pytest.raises(OperationFailed, match="raise history_limit"):
        api.server.history(CONFIG_MAPS, "one")


async def test_fixtures_are_written_whole_and_checked(api: Client) -> None:
    stored = api.server.put({**widget(), "status": {"ready": 1}})
    assert stored["status"] == {"ready": 1}
    again = api.server.put({**widget(mode="Active"), "status": {"ready": 2}})
    assert (again["spec"]["mode"], again["status"]) == ("Active", {"ready": 2})
    assert len(api.server.history(WIDGETS, "one")) == 2
    with pytest.raises(ApiError, match="Unsupported value"):
        api.server.put(widget(mode="Loud"))
    with pytest.raises(OperationFailed, match="is not served"):
        api.server.put({"apiVersion": "example.com/v9", "kind": "Widget", "metadata": {"name": "x"}})
    copy = api.server.get(WIDGETS, "one")
    assert copy is not None
    copy["spec"]["mode"] = "Changed"
    assert api.server.list(WIDGETS)[0]["spec"]["mode"] == "Active"


TOKENS: list[tuple[str, str, str, int]] = [
    ("a known token reads resources", "Bearer good", "/api/v1/pods", 200),
    ("an unknown token is refused", "Bearer bad", "/api/v1/pods", 401),
    ("an unknown token is refused even for health", "Bearer bad", "/healthz", 401),
    ("nobody reads no resources", "", "/api/v1/pods", 403),
    ("nobody reads health", "", "/readyz", 200),
    ("nobody reads the version", "", "/version", 200),
    ("nobody reads no discovery", "", "/apis", 403),
]


@pytest.mark.parametrize(("header", "path", "status"), [row[1:] for row in TOKENS], ids=[row[0] for row in TOKENS])
async def test_tokens(start: Start, header: str, path: str, status: int) -> None:
    api = await start(tokens={"good": None, "other": User("jane")}, anonymous=False)
    answer = await api.get(path, headers={"Authorization": header} if header else None)
    assert answer.status == status
    if status == 403 and path.startswith("/api/"):
        assert answer.json["message"] == (
            'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" '
            "at the cluster scope"
        )


async def test_without_tokens_everybody_is_welcome(api: Client) -> None:
    assert (await api.get("/api/v1/pods", headers={"Authorization": "Bearer anything"})).status == 200


def field(number: int, value: bytes | str | int) -> bytes:
    """One protobuf field, as a client encodes it (short values only)."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    raw = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(raw)]) + raw


def envelope(kind: str, body: bytes, api_version: str = "v1") -> bytes:
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, body) + field(3, "") + field(4, "")


async def test_a_protobuf_body_is_read(api: Client) -> None:
    metadata = field(1, "typed") + field(3, "default") + field(11, field(1, "a") + field(2, "b"))
    body = envelope("ConfigMap", field(1, metadata) + field(2, field(1, "k") + field(2, "v")) + field(4, 1))
    answer = await api("POST", CONFIG_MAPS.path("default"), body, content_type=PROTOBUF)
    assert answer.status == 201
    assert answer.json["data"] == {"k": "v"}
    assert answer.json["immutable"] is True
    assert answer.json["metadata"]["labels"] == {"a": "b"}


def test_protobuf_bytes_become_base64_and_lists_lists() -> None:
    secret = decode_envelope(envelope("Secret", field(2, field(1, "k") + field(2, b"\xff"))))
    assert secret["data"] == {"k": base64.b64encode(b"\xff").decode()}
    role = decode_envelope(envelope("Role", field(2, field(1, "get") + field(1, "list") + field(3, "pods"))))
    assert role["rules"] == [{"verbs": ["get", "list"], "resources": ["pods"]}]


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        envelope("Job", b""),
        envelope("ConfigMap", field(9, "x")),
        envelope("ConfigMap", b"\x0a\x7f"),
        b"k8s\0\x0b",
    ],
    ids=["no magic", "an unknown kind", "an unknown field", "a truncated field", "a bad wire type"],
)
def test_protobuf_that_cannot_be_read_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(ApiError) as failure:
        decode_envelope(body)
    assert failure.value.code == 400


YAML: list[tuple[str, str, Any]] = [
    ("a date stays text", "a: 2026-01-01", {"a": "2026-01-01"}),
    ("keys become text", "on: 1\n2: x", {"true": 1, "2": "x"}),
    ("nested", "a: [{b: c}]", {"a": [{"b": "c"}]}),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in YAML], ids=[row[0] for row in YAML])
def test_yaml(text: str, expected: Any) -> None:
    assert load_yaml(text) == expected


async def test_yaml_bodies_are_read_and_aliases_refused(api: Client) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {a: b}\n"
    answer = await api("POST", CONFIG_MAPS.path("default"), text, content_type="application/yaml")
    assert answer.status == 201
    bomb = b"a: &a [x, x]\nb: [*a, *a]\n"
    assert (await api("POST", CONFIG_MAPS.path("default"), bomb, content_type="application/yaml")).status == 400


async def test_a_body_that_breaks_a_default_is_the_servers_failure_not_its_end(api: Client) -> None:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": "none"}
    answer = await api.create(Resource("", "v1", "services", "Service"), body)
    assert answer.status in (400, 422, 500)
    assert answer.json["kind"] == "Status"
    assert (await api.get("/readyz")).status == 200
