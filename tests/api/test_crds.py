"""The generated CRDs: structural, bounded, and in agreement with the parser."""

from __future__ import annotations

import copy
import json
import re

import pytest
import typer
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from controller.api import (
    crds_as_yaml,
    kinds_reference,
    model_deployment_crd,
    parse_spec,
    reference,
    render,
    render_crds,
    scaler_crd,
)
from controller.cli.crd import crd
from controller.foundation import UsageError
from hack.generate_api import stale
from tests.api.samples import BENCHMARK_SCALER, PD_DEPLOYMENT, PREDICTIVE, TOKEN_THROUGHPUT, scaler_spec, server_spec
from tests.api.schema_rules import instance_problems, structural_problems, unknown_members, with_defaults
from tests.api.test_status import FULL

CRDS = {made["spec"]["names"]["kind"]: made for made in render_crds()}


def schema_of(kind, version=0):
    return CRDS[kind]["spec"]["versions"][version]["schema"]["openAPIV3Schema"]


SCALER = schema_of("ModelDeploymentScaler")
SPEC = SCALER["properties"]["spec"]


def at(schema, path):
    """The schema at a dotted path; list items are entered by themselves."""
    for name in path.split("."):
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    return schema


@pytest.mark.parametrize("kind", CRDS)
def test_every_schema_is_structural_bounded_and_described(kind):
    assert structural_problems(schema_of(kind)) == []


def objects(**members):
    properties = {name: {"description": "d"} | member for name, member in members.items()}
    return {"type": "object", "description": "d", "properties": properties}


TEXT = {"type": "string", "maxLength": 3}
ITEMS = {"type": "object", "description": "d", "properties": {"name": {"description": "d"} | TEXT}}
LIST = {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "atomic", "items": TEXT}
MAP = LIST | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": ITEMS}


@pytest.mark.parametrize(
    ("member", "problem"),
    [
        pytest.param(TEXT, "", id="a bounded string is fine"),
        pytest.param(LIST, "", id="an atomic list is fine"),
        pytest.param({}, "no type", id="no type"),
        pytest.param({"$ref": "#/x"}, "no type", id="a reference"),
        pytest.param(TEXT | {"anyOf": []}, "keyword anyOf", id="anyOf"),
        pytest.param(TEXT | {"nullable": True}, "keyword nullable", id="nullable"),
        pytest.param(
            {"type": "object", "additionalProperties": TEXT}, "keyword additionalProperties", id="open object"
        ),
        pytest.param({"type": "number"}, "no type", id="a float"),
        pytest.param({"type": "integer", "maximum": 2**63 - 1}, "no float64 holds", id="a bound beyond float64"),
        pytest.param({"type": "string"}, "without a bound", id="an unbounded string"),
        pytest.param(
            {"x-kubernetes-int-or-string": True, "type": "string", "maxLength": 3},
            "with a type",
            id="typed int-or-string",
        ),
        pytest.param({k: v for k, v in LIST.items() if k != "maxItems"}, "no maxItems", id="an unbounded list"),
        pytest.param(MAP, "neither required nor defaulted", id="an optional list key"),
        pytest.param(MAP | {"items": ITEMS | {"required": ["name"]}}, "", id="a required list key is fine"),
        pytest.param(TEXT | {"default": "toolong"}, "bad default", id="a default that the schema refuses"),
        pytest.param(TEXT | {"description": ""}, "no description", id="no description"),
        pytest.param(
            ITEMS | {"x-kubernetes-validations": [{"rule": "true", "message": "m", "fieldPath": ".x"}]},
            "fieldPath x does not exist",
            id="a rule about a member that is not there",
        ),
    ],
)
def test_the_checker_of_schemas_can_fail(member, problem):
    found = structural_problems(
        objects(metadata={"type": "object"}) | {"properties": {"a": {"description": "d"} | member}}
    )
    assert (found == []) if problem == "" else any(problem in text for text in found)


@pytest.mark.parametrize("kind", CRDS)
def test_both_versions_share_one_schema_and_one_is_stored(kind):
    spec = CRDS[kind]["spec"]
    assert [(v["name"], v["served"], v["storage"]) for v in spec["versions"]] == [
        ("v1alpha1", True, True),
        ("v1", True, False),
    ]
    first, second = spec["versions"]
    for part in ("schema", "subresources", "additionalPrinterColumns"):
        assert first[part] == second[part]
    assert spec["conversion"] == {"strategy": "None"}
    assert first["subresources"] == {"status": {}}


def test_names_and_labels():
    assert {
        kind: (made["metadata"]["name"], made["spec"]["names"]["shortNames"], made["spec"]["scope"])
        for kind, made in CRDS.items()
    } == {
        "ModelDeploymentScaler": ("modeldeploymentscalers.worker.gpustack.ai", ["mds"], "Namespaced"),
        "ModelDeployment": ("modeldeployments.worker.gpustack.ai", ["md"], "Namespaced"),
        "InstanceType": ("instancetypes.worker.gpustack.ai", ["instype"], "Cluster"),
        "ModelArtifact": ("modelartifacts.worker.gpustack.ai", ["mart"], "Namespaced"),
    }
    for made in CRDS.values():
        assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "model-deployment-scaler"}
        assert made["spec"]["names"]["categories"] == ["gpustack"]


def test_printer_columns_are_those_of_the_design_and_point_at_members():
    columns = CRDS["ModelDeploymentScaler"]["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [column["name"].upper() for column in columns] == [
        "TARGET", "MODE", "SUSPENDED", "ALGORITHM", "READY", "DESIRED", "LIMITED BY", "PRIOR", "AGE",
    ]  # fmt: skip
    assert columns[7]["jsonPath"] == '.status.conditions[?(@.type=="CapacityPriorResolved")].reason'
    for kind, made in CRDS.items():
        for column in made["spec"]["versions"][0]["additionalPrinterColumns"]:
            path = re.sub(r"\[.*\]", "", column["jsonPath"]).removeprefix(".")
            if not path.startswith("metadata."):
                assert at(schema_of(kind), path)["description"]


def test_the_benchmark_manifest_passes_the_schema_whole():
    assert instance_problems(SCALER, BENCHMARK_SCALER) == []
    assert unknown_members(SCALER, BENCHMARK_SCALER) == []
    for algorithm in (TOKEN_THROUGHPUT, PREDICTIVE):
        assert instance_problems(SPEC, scaler_spec(algorithm=algorithm)) == []
        assert unknown_members(SPEC, scaler_spec(algorithm=algorithm)) == []


def test_a_deployment_passes_the_schema_whole():
    assert instance_problems(schema_of("ModelDeployment"), PD_DEPLOYMENT) == []
    assert unknown_members(schema_of("ModelDeployment"), PD_DEPLOYMENT) == []


def test_the_status_that_we_write_passes_the_schema_whole():
    written = render(FULL)
    status = SCALER["properties"]["status"]
    assert instance_problems(status, written) == []
    assert unknown_members(status, written) == []


@pytest.mark.parametrize(
    "path",
    [
        "tokenThroughput.ttftTargetMilliseconds",
        "tokenThroughput.itlTargetMilliseconds",
        "predictive.tokenThroughput.ttftTargetMilliseconds",
        "predictive.tokenThroughput.itlTargetMilliseconds",
        "predictive.horizonSeconds",
        "predictive.qTrend",
        "adaptive.ttftTargetMilliseconds",
        "adaptive.itlTargetMilliseconds",
        "adaptive.quantile",
        "capacityPrior.catalogRef",
    ],
)
def test_a_default_that_takes_effect_when_planning_is_described_and_never_stored(path):
    schema = at(SPEC, f"algorithm.{path}")
    assert "default" not in schema
    assert "Unset: " in schema["description"]


def test_a_status_has_no_defaults():
    assert "default" not in json.dumps([schema_of(kind)["properties"]["status"] for kind in CRDS])


@pytest.mark.parametrize(
    "algorithm",
    [
        {"type": "Predictive", "predictive": {"tokenThroughput": {}}, "capacityPrior": {}},
        {"type": "TokenThroughput", "tokenThroughput": {}},
        {"type": "Adaptive", "adaptive": {}},
        scaler_spec()["algorithm"],
    ],
    ids=lambda algorithm: algorithm["type"],
)
def test_the_defaults_of_the_schema_are_those_of_the_parser(algorithm):
    spec = scaler_spec(algorithm=algorithm, behavior={"scaleUp": {}, "scaleDown": {}}, sampling={})
    stored = with_defaults(SPEC, spec)
    assert stored["sampling"] == {"intervalSeconds": 15, "pendingTimeoutSeconds": 300}
    assert parse_spec(stored) == parse_spec(spec)
    assert parse_spec(stored)[1] == []


@pytest.mark.parametrize("written", [0.1, 1.5, True, [], {}, "-3", -3, 0, "three", "1e1000000", "1" * 65, "0.1\n"])
def test_the_schema_refuses_what_is_no_positive_quantity(written):
    target = at(SPEC, "algorithm.proportional.roleTargets.target")
    assert instance_problems(target, written) != []


@pytest.mark.parametrize("written", ["1200", 1200, "0.75", "1.2k", "3e2", "500m", ".5", "2."])
def test_the_schema_takes_a_quantity_in_every_form(written):
    assert instance_problems(at(SPEC, "algorithm.proportional.roleTargets.target"), written) == []


def python_of(rule):
    """A rule of ours as a Python expression over a dict `self`: enough of CEL for what we write on the scaler."""
    expression = re.sub(r"!has\(self\.(\w+)\)", r"('\1' not in self)", rule)
    expression = re.sub(r"has\(self\.(\w+)\)", r"('\1' in self)", expression)
    expression = re.sub(r"self\.(\w+)", r"self['\1']", expression)
    return expression.replace("&&", " and ").replace("||", " or ")


@pytest.mark.parametrize(
    ("path", "value", "broken"),
    [
        ("roles", {"minReplicas": 1, "maxReplicas": 1}, []),
        ("roles", {"minReplicas": 2, "maxReplicas": 1}, [".maxReplicas"]),
        ("ratios", {"numeratorRole": "a", "denominatorRole": "b", "min": 1}, []),
        ("ratios", {"numeratorRole": "a", "denominatorRole": "a", "max": 1}, [".denominatorRole"]),
        ("ratios", {"numeratorRole": "a", "denominatorRole": "b"}, [""]),
        ("algorithm", {"type": "Adaptive", "adaptive": {}}, []),
        ("algorithm", {"type": "Adaptive", "adaptive": {}, "predictive": {}}, [".predictive"]),
        ("algorithm", {"type": "Predictive", "adaptive": {}}, [".predictive", ".adaptive"]),
        ("algorithm.tokenThroughput", {"stableWindowSeconds": 60, "panicWindowSeconds": 60}, []),
        ("algorithm.tokenThroughput", {"stableWindowSeconds": 60, "panicWindowSeconds": 61}, [".panicWindowSeconds"]),
        ("algorithm.tokenThroughput", {"panicWindowSeconds": 61}, []),
    ],
)
def test_rules_of_the_schema_hold_exactly_where_they_should(path, value, broken):
    rules = at(SPEC, path)["x-kubernetes-validations"]
    found = [
        rule.get("fieldPath", "")
        for rule in rules
        if not eval(python_of(rule["rule"]), {"__builtins__": {}}, {"self": value})
    ]
    assert found == broken


def test_the_target_is_immutable():
    (rule,) = at(SPEC, "targetRef.name")["x-kubernetes-validations"]
    assert rule["rule"] == "self == oldSelf"
    assert rule["message"].startswith("targetRef.name is immutable")


GOOD = [
    BENCHMARK_SCALER["spec"],
    scaler_spec(algorithm=PREDICTIVE),
    server_spec({"type": "Adaptive", "adaptive": {}, "capacityPrior": {}}),
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 2000)
    | st.sampled_from(["", "a", "1200", "0.5", "-1", "Active", "1.2k"])
)
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from(["name", "type", "x"]), SCALARS)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_what_the_schema_refuses_the_parser_refuses_too(data):
    """The controller must never act on a spec that the API server would not have let through."""
    spec = copy.deepcopy(data.draw(st.sampled_from(GOOD)))
    for _ in range(data.draw(st.integers(1, 3))):
        here = spec
        while True:
            keys = sorted(here) if isinstance(here, dict) else list(range(len(here)))
            key = data.draw(st.sampled_from(keys))
            child = here[key]
            if not isinstance(child, dict | list) or not child or data.draw(st.integers(0, 3)) == 0:
                here[key] = data.draw(VALUES)
                break
            here = child
    read, findings = parse_spec(spec)
    if instance_problems(SPEC, spec):
        assert findings
    assert (read is None) is bool(findings)


def test_generated_files_are_up_to_date():
    assert [str(path) for path in stale()] == [], "run python -m hack.generate_api"


def test_rendering_twice_gives_the_same_bytes_and_no_aliases():
    text = crds_as_yaml(render_crds())
    assert text == crds_as_yaml(render_crds())
    assert not re.search(r"^\s*\S+: [&*]id", text, re.MULTILINE)
    assert list(yaml.safe_load_all(text)) == render_crds()


def test_kinds_are_found_by_any_of_their_names():
    assert render_crds(["MDS", "modeldeployments", "md", "InstanceType"]) == [
        scaler_crd(),
        model_deployment_crd(),
        CRDS["InstanceType"],
    ]
    with pytest.raises(UsageError, match="unknown kind 'pod': the kinds are ModelDeploymentScaler, ModelDeployment"):
        render_crds(["pod"])


app = typer.Typer()
app.command()(crd)


def run(*arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_prints_only_our_own_kind_unless_asked():
    """Beside an operator, the other kinds are the operator's: piping this into kubectl must not overwrite them."""
    assert list(yaml.safe_load_all(run())) == [scaler_crd()]


def test_the_command_prints_what_is_asked_for():
    assert list(yaml.safe_load_all(run("--kind", "all"))) == render_crds()
    assert json.loads(run("--kind", "md", "--kind", "mart", "--output", "json")) == {
        "apiVersion": "v1",
        "kind": "List",
        "items": [CRDS["ModelDeployment"], CRDS["ModelArtifact"]],
    }


def test_the_page_of_the_other_kinds_has_every_member_and_marks_those_without_a_reader() -> None:
    page = kinds_reference()
    rows = re.findall(r"^\| `(\S+)` \| ([^|]+) \| ([^|]+) \| (.+) \|$", page, flags=re.MULTILINE)
    assert {path for path, *_, meaning in rows if meaning.endswith("*Not used.*")} == {
        path for paths in reference._NOT_USED.values() for path in paths
    }
    required = {path for path, _, default, _ in rows if default == "required"}
    assert {"spec.engine.name", "spec.roles[]", "spec.roles[].name", "spec.source"} <= required
    assert "spec.roles[].replicas" not in required
    kinds = {path: type_ for path, type_, *_ in rows}
    assert kinds["spec.roles[].kind"] == "`Server`, `Prefill`, `Decode`, `Encode`"
