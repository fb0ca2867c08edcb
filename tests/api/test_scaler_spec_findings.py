"""How a spec is refused: every finding with its path, the value and the way out."""

from __future__ import annotations

import copy

import msgspec
import pytest

from tests.api.reading import findings_of
from tests.api.samples import BENCHMARK_SCALER, scaler_spec, server_spec


def edited(path, value):
    """The benchmark's spec with one member changed; `path` is a list of keys and indices."""
    spec = copy.deepcopy(BENCHMARK_SCALER["spec"])
    at = spec
    for key in path[:-1]:
        at = at[key]
    if isinstance(at, list) and path[-1] == len(at):
        at.append(value)
    else:
        at[path[-1]] = value
    return spec


TARGETS = ["algorithm", "proportional", "roleTargets"]
BAD = [
    pytest.param(
        ["targetRef", "name"],
        "",
        "spec.targetRef.name: must be the name of a ModelDeployment in this namespace, 1 to 253 characters, found ''",
        id="the target's name is empty",
    ),
    pytest.param(
        ["targetRef"],
        {},
        "spec.targetRef.name: is required: the name of a ModelDeployment in this namespace, 1 to 253 characters",
        id="the target has no name",
    ),
    pytest.param(["mode"], "active", "spec.mode: must be one of Shadow, Active, found 'active'", id="an unknown mode"),
    pytest.param(["suspend"], "yes", "spec.suspend: must be true or false, found 'yes'", id="a word for a boolean"),
    pytest.param(
        ["sampling", "intervalSeconds"],
        4,
        "spec.sampling.intervalSeconds: must be a whole number from 5 to 300, found 4",
        id="an interval below its range",
    ),
    pytest.param(
        ["sampling", "intervalSeconds"],
        "10",
        "spec.sampling.intervalSeconds: must be a whole number from 5 to 300, found '10'",
        id="a string for an integer",
    ),
    pytest.param(
        ["sampling", "intervalSeconds"],
        True,
        "spec.sampling.intervalSeconds: must be a whole number from 5 to 300, found True (a boolean)",
        id="a boolean for an integer",
    ),
    pytest.param(
        ["sampling", "pendingTimeoutSeconds"],
        1201,
        "spec.sampling.pendingTimeoutSeconds: must be a whole number from 60 to 1200, found 1201",
        id="a timeout above its range",
    ),
    pytest.param(["roles"], [], "spec.roles: must have at least 1 element, found none", id="no roles"),
    pytest.param(
        ["roles", 0],
        None,
        "spec.roles[0]: must be an object, found null",
        id="null in a list",
    ),
    pytest.param(
        ["roles", 1, "maxReplicas"],
        1025,
        "spec.roles[1].maxReplicas: must be a whole number from 1 to 1024, found 1025",
        id="more replicas than the target allows",
    ),
    pytest.param(
        ["roles", 1, "minReplicas"],
        3,
        "spec.roles[1].maxReplicas: must be at least minReplicas (3), found 2",
        id="the most is less than the fewest",
    ),
    pytest.param(
        ["roles", 2],
        {"name": "prefill", "maxReplicas": 3},
        'spec.roles[2].name: "prefill" is already declared by roles[0]: keep one of them',
        id="a role is declared twice",
    ),
    pytest.param(
        ["ratios", 0, "denominatorRole"],
        "prefill",
        'spec.ratios[0].denominatorRole: must differ from numeratorRole, found "prefill" twice',
        id="a ratio of a role to itself",
    ),
    pytest.param(
        ["ratios", 0, "denominatorRole"],
        "encode",
        'spec.ratios[0].denominatorRole: "encode" is not declared in spec.roles, which has decode, prefill: '
        "declare it or correct the name",
        id="a ratio with a role that is not declared",
    ),
    pytest.param(
        ["ratios", 1],
        {"numeratorRole": "decode", "denominatorRole": "prefill", "target": "1"},
        "spec.ratios[1]: decode and prefill are already related by ratios[0]: keep one of them",
        id="a pair is related twice, the other way round",
    ),
    pytest.param(
        ["ratios", 0],
        {"numeratorRole": "decode", "denominatorRole": "prefill"},
        "spec.ratios[0]: says nothing: give target (a preference), min or max (a hard band)",
        id="a ratio that says nothing",
    ),
    pytest.param(
        ["ratios", 0],
        {"numeratorRole": "decode", "denominatorRole": "prefill", "min": 2, "max": "1.5"},
        "spec.ratios[0].min: must not be above max (1.5), found 2",
        id="a band upside down",
    ),
    pytest.param(
        ["ratios", 0],
        {"numeratorRole": "decode", "denominatorRole": "prefill", "max": "1.5", "target": 2},
        "spec.ratios[0].target: must be a ratio of at most 1.5, found 2",
        id="a preference outside the band",
    ),
    pytest.param(
        ["ratios", 0],
        {"numeratorRole": "decode", "denominatorRole": "prefill", "min": "2.5"},
        "spec.ratios[0]: no counts within the bounds of decode (1–2) and prefill (1–2) have a ratio of at least 2.5: "
        "widen the bounds or the band",
        id="a band that no counts within the bounds can meet",
    ),
    pytest.param(
        ["algorithm", "type"],
        "Magic",
        "spec.algorithm.type: must be one of Proportional, TokenThroughput, Predictive, Adaptive, found 'Magic'",
        id="an unknown algorithm",
    ),
    pytest.param(
        ["algorithm", "adaptive"],
        {},
        "spec.algorithm.adaptive: belongs to type Adaptive, but type is Proportional: "
        "remove this block or change the type",
        id="the block of another algorithm",
    ),
    pytest.param(
        ["algorithm", "proportional"],
        None,
        "spec.algorithm.proportional: is required with type Proportional",
        id="the block of the algorithm is missing",
    ),
    pytest.param(
        ["algorithm", "proportional", "tolerance"],
        0.1,
        'spec.algorithm.proportional.tolerance: must be a quantity such as "1200", 1200 or "0.75", found 0.1 (a float)',
        id="an unquoted fraction",
    ),
    pytest.param(
        ["algorithm", "proportional", "tolerance"],
        "0",
        "spec.algorithm.proportional.tolerance: must be a quantity above 0 and at most 1, found '0'",
        id="a quantity at an exclusive bound",
    ),
    pytest.param(
        [*TARGETS, 0, "target"],
        "many",
        'spec.algorithm.proportional.roleTargets[0].target: must be a quantity such as "1200", "0.75" or "1.2k", '
        "found 'many'",
        id="a word for a quantity",
    ),
    pytest.param(
        [*TARGETS, 0, "target"],
        10**40,
        "spec.algorithm.proportional.roleTargets[0].target: must be a quantity above 0 and at most 1000000, "
        "found 10000000000000000000000000000000000000000",
        id="a number beyond any machine",
    ),
    pytest.param(
        [*TARGETS, 0, "name"],
        "encode",
        'spec.algorithm.proportional.roleTargets[0].name: "encode" is not declared in spec.roles, which has decode, '
        "prefill: declare it or correct the name",
        id="a target for a role that is not declared",
    ),
    pytest.param(
        [*TARGETS, 1, "name"],
        "prefill",
        'spec.algorithm.proportional.roleTargets[1].name: "prefill" already has a target in roleTargets[0]: '
        "keep one of them",
        id="two targets for a role",
    ),
    pytest.param(
        ["behavior"],
        {"scaleUp": {"policies": [{"type": "Percent", "value": 0, "periodSeconds": 15}]}},
        "spec.behavior.scaleUp.policies[0].value: must be a whole number from 1 to 100000, found 0",
        id="a policy that allows nothing",
    ),
]


@pytest.mark.parametrize(("path", "value", "finding"), BAD)
def test_a_bad_member_is_refused_with_path_value_and_way_out(path, value, finding):
    assert findings_of(edited(path, value)) == [finding]


@pytest.mark.parametrize(
    ("predictive", "path"),
    [
        (False, "spec.algorithm.tokenThroughput.panicWindowSeconds"),
        (True, "spec.algorithm.predictive.tokenThroughput.panicWindowSeconds"),
    ],
)
def test_the_panic_window_fits_into_the_stable_window(predictive, path):
    tokens = {"stableWindowSeconds": 60, "panicWindowSeconds": 120}
    algorithm = (
        {"type": "Predictive", "predictive": {"tokenThroughput": tokens}}
        if predictive
        else {"type": "TokenThroughput", "tokenThroughput": tokens}
    )
    assert findings_of(server_spec(algorithm)) == [
        f"{path}: must not be longer than stableWindowSeconds (60), found 120"
    ]


def test_every_finding_is_returned_at_once_sorted_by_path():
    spec = scaler_spec(mode="On")
    spec["roles"][0]["maxReplicas"] = "x"
    spec["algorithm"] = {"type": "Adaptive", "proportional": {"tolerance": 2}}
    paths = [finding.partition(":")[0] for finding in findings_of(spec)]
    assert paths == sorted(paths)
    assert paths == [
        "spec.algorithm.adaptive",
        "spec.algorithm.proportional",
        "spec.algorithm.proportional.metric",
        "spec.algorithm.proportional.roleTargets",
        "spec.algorithm.proportional.tolerance",
        "spec.mode",
        "spec.roles[0].maxReplicas",
    ]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"type": "Adaptive", "adaptive": 5}, id="a block that is no object is not also missing"),
        pytest.param(
            {"type": "TokenThroughput", "tokenThroughput": {"stableWindowSeconds": "x", "panicWindowSeconds": 300}},
            id="a refused window is not compared with its default",
        ),
    ],
)
def test_one_mistake_is_one_finding(block):
    assert len(findings_of(server_spec(block))) == 1


def test_a_ratio_with_a_bad_target_is_not_also_empty():
    spec = edited(["ratios", 0, "target"], 0.5)
    assert [finding.partition(":")[0] for finding in findings_of(spec)] == ["spec.ratios[0].target"]


@pytest.mark.parametrize(
    ("value", "finding"),
    [
        pytest.param(None, "spec: is required: targetRef, roles and algorithm must be given", id="no spec"),
        pytest.param(msgspec.Raw(), "spec: is required: targetRef, roles and algorithm must be given", id="no bytes"),
        pytest.param(b"null", "spec: is required: targetRef, roles and algorithm must be given", id="null"),
        pytest.param(b"[]", "spec: must be an object, found a list", id="a list"),
        pytest.param(b'"x"', "spec: must be an object, found 'x'", id="a string"),
        pytest.param(17, "spec: must be an object, found 17", id="a number"),
        pytest.param(b"1e400", "spec: is no readable JSON: Number out of range", id="a number that no float holds"),
    ],
)
def test_what_is_no_object_is_one_finding(value, finding):
    assert findings_of(value) == [finding]


def test_a_nesting_without_end_is_a_finding_not_a_crash():
    (finding,) = findings_of(b'{"roles":' + b"[" * 50_000 + b"]" * 50_000 + b"}")
    assert finding.startswith("spec: is no readable JSON")
