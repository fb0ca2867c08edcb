"""CustomResourceDefinitions: defaults, pruning, validation, rules, discovery; and our own kinds."""

from __future__ import annotations

import asyncio
import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.api import CUSTOM_RESOURCE_DEFINITIONS, MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, PUBLIC_VERSION
from controller.foundation import Resource
from tests.cluster.api import TABLE, Api
from tests.cluster.definitions import fresh_crd, install
from tests.cluster.objects import GADGETS, GROUP, gadget
from tests.cluster.servers import SERVED_SECONDS

PUBLIC_SCALERS = Resource(
    MODEL_DEPLOYMENT_SCALERS.group, PUBLIC_VERSION, MODEL_DEPLOYMENT_SCALERS.plural, "ModelDeploymentScaler"
)
# The manifest of the original benchmark document, as people have it.
BENCHMARK = yaml.safe_load((Path(__file__).parent / "benchmark-scaler.yaml").read_text(encoding="utf-8"))


def scaler(name: str = "chat", **spec: Any) -> dict[str, Any]:
    """A small valid ModelDeploymentScaler."""
    throughput = {"targetTokensPerSecond": "1000"}
    return {
        "apiVersion": MODEL_DEPLOYMENT_SCALERS.api_version,
        "kind": "ModelDeploymentScaler",
        "metadata": {"name": name},
        "spec": {
            "targetRef": {"name": "chat"},
            "roles": [{"name": "server", "maxReplicas": 4}],
            "algorithm": {"type": "TokenThroughput", "tokenThroughput": throughput},
            **spec,
        },
    }


# ---- any definition --------------------------------------------------------------------------------------------------


async def test_defaults_are_filled_in_and_shown(api: Api):
    stored = (await api.create(GADGETS, gadget("a", roles=[{"name": "x"}]))).ok()
    assert stored["spec"] == {
        "targetRef": {"name": "t"},
        "mode": "Shadow",
        "interval": 15,
        "roles": [{"name": "x", "min": 1}],
    }


async def test_a_null_where_there_is_a_default_becomes_the_default(api: Api):
    assert (await api.create(GADGETS, gadget("a", interval=None))).ok()["spec"]["interval"] == 15


async def test_unknown_fields_are_pruned_except_where_they_are_preserved(api: Api):
    stored = (await api.create(GADGETS, gadget("a", nonsense=1, free={"any": {"thing": [1]}}))).ok()
    assert "nonsense" not in stored["spec"]
    assert stored["spec"]["free"] == {"any": {"thing": [1]}}


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({"interval": 4}, ["spec.interval"], id="below the minimum"),
        pytest.param({"interval": 301}, ["spec.interval"], id="above the maximum"),
        pytest.param({"interval": "15"}, ["spec.interval", "<nil>"], id="text for a number"),
        pytest.param({"interval": 15.5}, ["spec.interval", "<nil>"], id="a fraction for an integer"),
        pytest.param({"mode": "Nonsense"}, ["spec.mode", "<nil>"], id="not one of the allowed"),
        pytest.param({"targetRef": {}}, ["spec.targetRef.name", "<nil>"], id="a required member is missing"),
        pytest.param({"targetRef": {"name": ""}}, ["spec.targetRef.name"], id="too short"),
        pytest.param({"targetRef": {"name": "x" * 64}}, ["spec.targetRef.name", "<nil>"], id="too long"),
        pytest.param({"ratio": 1.5}, ["spec.ratio", "<nil>"], id="a fraction for an integer or text"),
        pytest.param({"tags": [str(n) for n in range(9)]}, ["spec.tags", "<nil>"], id="too many items"),
        pytest.param({"tags": ["x", "x"]}, ["spec.tags[1]"], id="a set with a double"),
        pytest.param({"roles": [{"name": "x"}, {"name": "x"}]}, ["spec.roles[1]"], id="a keyed list with a double"),
        pytest.param({"roles": [{"name": "x", "max": 0}]}, ["spec.roles[0]"], id="a rule that does not hold"),
        pytest.param({"roles": {"name": "x"}}, ["spec.roles", "<nil>"], id="an object for a list"),
    ],
)
async def test_an_invalid_member_is_named(api: Api, spec: dict[str, Any], fields: list[str]):
    """ "<nil>" is the note that rules were not checked, because the schema did not hold."""
    answer = await api.create(GADGETS, gadget("a", **spec))
    assert answer.failure == (422, "Invalid")
    assert list(answer.causes) == fields
    assert (answer.details["kind"], answer.details["group"]) == ("Gadget", GROUP)


async def test_a_rule_says_its_own_message(api: Api):
    answer = await api.create(GADGETS, gadget("a", roles=[{"name": "x", "max": 0}]))
    assert answer.causes["spec.roles[0]"].endswith("max must not be below min")


async def test_a_transition_rule_makes_a_member_immutable(api: Api):
    (await api.create(GADGETS, gadget("a"))).ok()
    answer = await api.patch(GADGETS, "a", {"spec": {"targetRef": {"name": "other"}}})
    assert answer.failure == (422, "Invalid")
    assert answer.causes["spec.targetRef"].endswith("targetRef.name is immutable")
    assert (await api.patch(GADGETS, "a", {"spec": {"targetRef": {"name": "t"}}})).status == 200


@pytest.mark.parametrize("value", [3, "3", "1.5", "25%"])
async def test_an_integer_or_text_is_kept_as_it_came(api: Api, value: Any):
    assert (await api.create(GADGETS, gadget("a", ratio=value))).ok()["spec"]["ratio"] == value


async def test_an_old_fault_does_not_forbid_a_change_beside_it(api: Api):
    """Ratcheting: a definition that became stricter refuses changed members only."""
    crd = fresh_crd()
    resource = await install(api, crd)
    (await api("POST", api.path(resource), {**gadget("a", interval=300), "apiVersion": resource.api_version})).ok()
    stricter = (await api("GET", CUSTOM_RESOURCE_DEFINITIONS.path(None, crd["metadata"]["name"]))).ok()
    for version in stricter["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["interval"]["maximum"] = 100
    (await api("PUT", CUSTOM_RESOURCE_DEFINITIONS.path(None, crd["metadata"]["name"]), stricter)).ok()
    async with asyncio.timeout(SERVED_SECONDS):
        while (
            await api(
                "POST",
                api.path(resource),
                {**gadget("b", interval=300), "apiVersion": resource.api_version},
                dryRun="All",
            )
        ).status != 422:
            await asyncio.sleep(0.05)
    assert (await api.patch(resource, "a", {"spec": {"mode": "Active"}})).status == 200
    assert (await api.patch(resource, "a", {"spec": {"interval": 299}})).failure == (422, "Invalid")


async def test_a_rule_of_one_version_does_not_bind_writes_through_another(api: Api):
    """Why both versions of our kinds come from one source."""
    crd = fresh_crd()
    spec_of_v1 = copy.deepcopy(crd["spec"]["versions"][1])
    interval = spec_of_v1["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["interval"]
    interval["x-kubernetes-validations"] = [{"rule": "self < 100", "message": "below a hundred"}]
    crd["spec"]["versions"][1] = spec_of_v1
    for version in crd["spec"]["versions"]:
        del version["selectableFields"]  # equal ones beside different schemas are refused
    alpha = await install(api, crd)
    stable = Resource(alpha.group, "v1", alpha.plural, alpha.kind)
    refused = await api.create(stable, gadget("a", api_version=stable.api_version, interval=200))
    assert refused.causes["spec.interval"].endswith("below a hundred")
    assert (await api.create(alpha, gadget("a", api_version=alpha.api_version, interval=200))).status == 201
    assert (await api.read(stable, "a")).ok()["spec"]["interval"] == 200


async def test_a_definition_reports_that_it_is_established_and_is_served_soon(api: Api):
    crd = fresh_crd()
    resource = await install(api, crd)
    stored = (await api("GET", CUSTOM_RESOURCE_DEFINITIONS.path(None, crd["metadata"]["name"]))).ok()
    conditions = {condition["type"]: condition["status"] for condition in stored["status"]["conditions"]}
    assert (conditions["Established"], conditions["NamesAccepted"]) == ("True", "True")
    assert stored["status"]["storedVersions"] == ["v1alpha1"]
    assert stored["spec"]["names"]["listKind"] == "GadgetList"
    assert (await api.list(resource)).ok()["items"] == []


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        pytest.param(lambda crd: crd["metadata"].update(name="wrong.example.com"), "metadata.name", id="a name that is not plural.group"),
        pytest.param(lambda crd: crd["spec"]["versions"][1].update(storage=True), "spec.versions", id="two storage versions"),
        pytest.param(lambda crd: _schema(crd)["properties"]["spec"].pop("type"), "openAPIV3Schema.properties[spec].type", id="a member without a type"),
        pytest.param(lambda crd: _interval(crd).update(default="x"), "openAPIV3Schema.properties[spec].properties[interval].default", id="a default of another type"),
    ],
)  # fmt: skip
async def test_a_definition_that_cannot_be_served_is_refused(api: Api, spoil: Any, field: str):
    """With equal schemas in all versions the path begins with `spec.validation`, otherwise with the version's."""
    crd = fresh_crd()
    spoil(crd)
    answer = await api("POST", CUSTOM_RESOURCE_DEFINITIONS.path(), crd)
    assert answer.failure == (422, "Invalid")
    assert any(name.endswith(field) for name in answer.causes), answer.causes


async def test_discovery_lists_names_verbs_and_categories(api: Api):
    listed = (await api("GET", f"/apis/{GROUP}/v1")).ok()
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", f"{GROUP}/v1")
    resources = {resource["name"]: resource for resource in listed["resources"]}
    main = resources["gadgets"]
    assert (main["singularName"], main["kind"], main["namespaced"]) == ("gadget", "Gadget", True)
    assert (main["shortNames"], main["categories"]) == (["gd"], ["toys"])
    assert set(main["verbs"]) == {"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
    assert set(resources["gadgets/status"]["verbs"]) == {"get", "patch", "update"}
    group = (await api("GET", f"/apis/{GROUP}")).ok()
    assert (group["kind"], group["preferredVersion"]["version"]) == ("APIGroup", "v1")
    assert [version["version"] for version in group["versions"]] == ["v1", "v1alpha1"]
    groups = (await api("GET", "/apis")).ok()["groups"]
    assert GROUP in {each["name"] for each in groups}


async def test_the_openapi_document_of_the_group_describes_the_kind(api: Api):
    async with asyncio.timeout(SERVED_SECONDS):
        while GROUP not in str((await api("GET", "/openapi/v3")).ok()["paths"].keys()):
            await asyncio.sleep(0.1)
    document = (await api("GET", f"/openapi/v3/apis/{GROUP}/v1")).ok()
    (schema,) = [
        schema
        for schema in document["components"]["schemas"].values()
        if any(gvk["kind"] == "Gadget" for gvk in schema.get("x-kubernetes-group-version-kind", ()))
    ]
    assert schema["properties"]["spec"]["properties"]["interval"]["default"] == 15


# ---- our own kinds ---------------------------------------------------------------------------------------------------


async def test_the_manifest_of_the_benchmark_is_accepted_unchanged_at_v1(api: Api):
    """And is read back at v1alpha1, where the controller looks."""
    answer = await api.create(PUBLIC_SCALERS, BENCHMARK, fieldValidation="Strict")
    assert answer.status == 201
    seen = (await api.read(MODEL_DEPLOYMENT_SCALERS, BENCHMARK["metadata"]["name"])).ok()
    assert seen["apiVersion"] == MODEL_DEPLOYMENT_SCALERS.api_version
    assert seen["spec"]["algorithm"] == BENCHMARK["spec"]["algorithm"]
    assert seen["spec"]["sampling"] == {"intervalSeconds": 10, "pendingTimeoutSeconds": 300}


async def test_a_scaler_starts_in_shadow_with_its_defaults(api: Api):
    spec = (await api.create(MODEL_DEPLOYMENT_SCALERS, scaler())).ok()["spec"]
    assert (spec["mode"], spec["suspend"]) == ("Shadow", False)
    assert spec["roles"] == [{"name": "server", "minReplicas": 1, "maxReplicas": 4}]
    throughput = spec["algorithm"]["tokenThroughput"]
    assert (throughput["stableWindowSeconds"], throughput["panicWindowSeconds"]) == (180, 60)
    assert "ttftTargetMilliseconds" not in throughput, "the latency targets are never defaults of the schema"


@pytest.mark.parametrize("value", ["1200", 1200, "0.75", "1.2k"])
async def test_quantities_are_numbers_or_text(api: Api, value: Any):
    spec = scaler(algorithm={"type": "TokenThroughput", "tokenThroughput": {"targetTokensPerSecond": value}})
    stored = (await api.create(MODEL_DEPLOYMENT_SCALERS, spec)).ok()
    assert stored["spec"]["algorithm"]["tokenThroughput"]["targetTokensPerSecond"] == value


async def test_a_fraction_without_quotes_is_refused(api: Api):
    spec = scaler(algorithm={"type": "TokenThroughput", "tokenThroughput": {"targetTokensPerSecond": 0.75}})
    answer = await api.create(MODEL_DEPLOYMENT_SCALERS, spec)
    assert answer.failure == (422, "Invalid")
    assert "spec.algorithm.tokenThroughput.targetTokensPerSecond" in answer.causes


async def test_the_target_of_a_scaler_is_immutable_through_both_versions(api: Api):
    (await api.create(MODEL_DEPLOYMENT_SCALERS, scaler())).ok()
    for resource in (MODEL_DEPLOYMENT_SCALERS, PUBLIC_SCALERS):
        answer = await api.patch(resource, "chat", {"spec": {"targetRef": {"name": "other"}}})
        assert answer.failure == (422, "Invalid")
        assert any(field.startswith("spec.targetRef") for field in answer.causes)
        assert "immutable" in answer.message


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"roles": [{"name": "server", "minReplicas": 5, "maxReplicas": 4}]}, r"spec\.roles\[0\].*", id="max below min"),
        pytest.param({"roles": [{"name": "server", "maxReplicas": 2000}]}, r"spec\.roles\[0\]\.maxReplicas", id="more replicas than allowed"),
        pytest.param({"roles": [{"name": "a", "maxReplicas": 1}] * 2}, r"spec\.roles\[1\]", id="a role declared twice"),
        pytest.param({"sampling": {"intervalSeconds": 4}}, r"spec\.sampling\.intervalSeconds", id="sampled too often"),
        pytest.param({"mode": "Eager"}, r"spec\.mode", id="an unknown mode"),
        pytest.param({"algorithm": {"type": "Proportional"}}, r"spec\.algorithm.*", id="an algorithm without its block"),
        pytest.param({"targetRef": {"name": ""}}, r"spec\.targetRef\.name", id="no target"),
    ],
)  # fmt: skip
async def test_a_scaler_that_breaks_a_rule_is_refused_with_the_path(api: Api, spec: dict[str, Any], field: str):
    answer = await api.create(MODEL_DEPLOYMENT_SCALERS, scaler(**spec))
    assert answer.failure == (422, "Invalid")
    assert any(re.fullmatch(field, name) for name in answer.causes), answer.causes


async def test_the_columns_of_a_scaler_come_from_its_summary(api: Api):
    (await api.create(MODEL_DEPLOYMENT_SCALERS, scaler(mode="Active"))).ok()
    status = {
        "summary": {"ready": "server=1", "desired": "server=3", "limitedBy": "step"},
        "conditions": [
            {
                "type": "CapacityPriorResolved",
                "status": "True",
                "reason": "CatalogResolved",
                "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }
    (await api.patch(MODEL_DEPLOYMENT_SCALERS, "chat", {"status": status}, subresource="status")).ok()
    table = (await api.list(MODEL_DEPLOYMENT_SCALERS, headers={"Accept": TABLE})).ok()
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name", "Target", "Mode", "Suspended", "Algorithm", "Ready", "Desired", "Limited By", "Prior", "Age",
    ]  # fmt: skip
    (row,) = table["rows"]
    assert row["cells"][:9] == [
        "chat",
        "chat",
        "Active",
        False,
        "TokenThroughput",
        "server=1",
        "server=3",
        "step",
        "CatalogResolved",
    ]


async def test_a_model_deployment_is_scaled_by_its_roles(api: Api):
    body = {
        "apiVersion": MODEL_DEPLOYMENTS.api_version,
        "kind": "ModelDeployment",
        "metadata": {"name": "chat"},
        "spec": {
            "model": {"name": "m"},
            "engine": {"name": "vLLM"},
            "roles": [{"name": "server", "kind": "Server", "replicas": 1, "instanceType": "h200"}],
        },
    }
    (await api.create(MODEL_DEPLOYMENTS, body)).ok()
    stored = (await api.patch(MODEL_DEPLOYMENTS, "chat", {"status": {"phase": "Running"}}, subresource="status")).ok()
    assert (stored["status"]["phase"], stored["metadata"]["generation"]) == ("Running", 1)


def _schema(crd: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _interval(crd: dict[str, Any]) -> dict[str, Any]:
    interval: dict[str, Any] = _schema(crd)["properties"]["spec"]["properties"]["interval"]
    return interval
