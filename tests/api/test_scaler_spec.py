"""What a spec may say, what it means, and how it is refused."""

from __future__ import annotations

import copy
import json
from decimal import Decimal

import msgspec
import pytest

from controller.api import (
    AlgorithmType,
    Correction,
    MdsView,
    Mode,
    PolicySelect,
    Posture,
    PriorWorkload,
    ProportionalMetric,
    RoleKind,
    Trust,
    parse_spec,
    render,
)
from tests.api.samples import BENCHMARK_SCALER, PREDICTIVE, TOKEN_THROUGHPUT, scaler_spec, server_spec


def parsed(value):
    spec, findings = parse_spec(value)
    assert findings == []
    assert spec is not None
    return spec


def findings_of(value):
    spec, findings = parse_spec(value)
    assert findings, "nothing was refused"
    assert spec is None
    return [str(finding) for finding in findings]


def test_the_benchmark_manifest_is_accepted_and_understood():
    spec = parsed(BENCHMARK_SCALER["spec"])
    assert spec.target_ref.name == "autoscaling-vllm-pd"
    assert spec.mode is Mode.ACTIVE
    assert (spec.sampling.interval_seconds, spec.sampling.pending_timeout_seconds) == (10, 300)
    assert [(role.name, role.min_replicas, role.max_replicas) for role in spec.roles] == [
        ("prefill", 1, 2),
        ("decode", 1, 2),
    ]
    assert spec.ratios[0].target == 1
    assert (spec.ratios[0].min, spec.ratios[0].max) == (None, None)
    block = spec.algorithm.block
    assert block is spec.algorithm.proportional
    assert block.metric is ProportionalMetric.RUNNING_REQUESTS
    assert block.tolerance == Decimal("0.1")


def test_defaults_are_those_of_the_design():
    spec = parsed(server_spec({"type": "Predictive", "predictive": {}, "capacityPrior": {}}))
    assert spec.mode is Mode.SHADOW
    assert spec.suspend is False
    assert spec.sampling.interval_seconds == 15
    assert spec.roles[0].min_replicas == 1
    tokens = spec.algorithm.predictive.token_throughput
    assert (tokens.stable_window_seconds, tokens.panic_window_seconds, tokens.panic_threshold) == (180, 60, 2)
    predictive = spec.algorithm.predictive
    assert (predictive.min_points, predictive.q_level, predictive.measurement_noise) == (3, Decimal("0.02"), 1)
    assert predictive.trust is Trust.EARNED
    prior = spec.algorithm.capacity_prior
    assert (prior.headroom, prior.workload, prior.catalog_ref) == (Decimal("0.75"), PriorWorkload.PROFILE, None)
    up, down = spec.behavior.scale_up, spec.behavior.scale_down
    assert (up.stabilization_window_seconds, down.stabilization_window_seconds) == (0, 300)
    assert (up.max_step_replicas, up.policies, up.select_policy) == (None, (), PolicySelect.MAX)


def test_adaptive_may_be_an_empty_block():
    adaptive = parsed(server_spec({"type": "Adaptive", "adaptive": {}, "capacityPrior": {}})).algorithm.adaptive
    assert (adaptive.posture, adaptive.correction) == (Posture.STANDARD, Correction.LOWER)


def test_defaults_that_depend_on_something_stay_unset():
    spec = parsed(server_spec({"type": "Predictive", "predictive": {}, "capacityPrior": {}}))
    predictive = spec.algorithm.predictive
    assert predictive.horizon_seconds is None
    assert predictive.q_trend is None
    assert predictive.effective_q_trend == Decimal("0.0005")
    assert predictive.token_throughput.ttft_target_milliseconds is None
    assert predictive.token_throughput.itl_target_milliseconds is None


@pytest.mark.parametrize(
    ("block", "bare"),
    [
        pytest.param({"trust": "Always", "qTrend": "0.0005"}, True, id="trusted, and the trend is set explicitly"),
        pytest.param({"trust": "Always"}, False, id="trusted, but the trend is left at its default"),
        pytest.param({"qTrend": "0.3"}, False, id="the trend is set, but must earn its trust"),
    ],
)
def test_the_bare_filter_needs_trust_and_an_explicit_trend(block, bare):
    spec = parsed(server_spec({"type": "Predictive", "predictive": block, "capacityPrior": {}}))
    assert spec.algorithm.predictive.bare_filter is bare


@pytest.mark.parametrize(
    ("adaptive", "quantile"),
    [
        ({}, "0.95"),
        ({"posture": "Economy"}, "0.95"),
        ({"posture": "Strict"}, "0.98"),
        ({"posture": "Strict", "quantile": "0.9"}, "0.9"),
    ],
)
def test_the_quantile_follows_the_posture_unless_it_is_set(adaptive, quantile):
    spec = parsed(server_spec({"type": "Adaptive", "adaptive": adaptive}))
    assert spec.algorithm.adaptive.effective_quantile == Decimal(quantile)


@pytest.mark.parametrize(
    ("algorithm", "reactive", "forecast"),
    [
        pytest.param(
            TOKEN_THROUGHPUT, {"Prefill": 1200, "Decode": 300}, {"Prefill": 1200, "Decode": 300}, id="reactive"
        ),
        pytest.param(
            PREDICTIVE, {"Prefill": 1200, "Decode": 300}, {"Prefill": 2000, "Decode": 2000}, id="both are given"
        ),
        pytest.param(
            {"type": "Predictive", "predictive": {"tokenCapacityPerReplica": "1.2k"}},
            {"Server": 1200},
            {"Server": 1200},
            id="the forecast's capacity also serves the reactive part",
        ),
        pytest.param(
            {"type": "Predictive", "predictive": {"tokenThroughput": {"targetTokensPerSecond": 900}}},
            {"Server": 900},
            {"Server": 900},
            id="the reactive capacity also serves the forecast",
        ),
        pytest.param(
            {"type": "Adaptive", "adaptive": {"decodeTargetTokensPerSecond": "300"}},
            {"Decode": 300},
            {"Decode": 300},
            id="adaptive",
        ),
        pytest.param(scaler_spec()["algorithm"], {}, {}, id="proportional has none"),
    ],
)
def test_explicit_capacities_by_kind_of_role(algorithm, reactive, forecast):
    read = parsed(scaler_spec(algorithm=algorithm)).algorithm
    kinds = [*RoleKind, "Unheard-of"]
    assert {str(k): v for k in kinds if (v := read.explicit_capacity(k)) is not None} == reactive
    assert {str(k): v for k in kinds if (v := read.explicit_forecast_capacity(k)) is not None} == forecast


@pytest.mark.parametrize(
    ("algorithm", "targets"),
    [
        pytest.param({"type": "Adaptive", "adaptive": {}}, (500, 50), id="defaults without a prior"),
        pytest.param({"type": "Adaptive", "adaptive": {}, "capacityPrior": {}}, (None, None), id="none with a prior"),
        pytest.param(
            {"type": "Predictive", "predictive": {"tokenThroughput": {"ttftTargetMilliseconds": "2000"}}},
            (2000, 50),
            id="one is given",
        ),
        pytest.param(scaler_spec()["algorithm"], (None, None), id="proportional has none"),
    ],
)
def test_latency_targets_take_their_defaults_only_without_a_prior(algorithm, targets):
    read = parsed(scaler_spec(algorithm=algorithm)).algorithm
    assert (read.ttft_target_milliseconds, read.itl_target_milliseconds) == targets


@pytest.mark.parametrize("written", ["1200", 1200, "1.2k", "1200.0", "12e2", "+1200"])
def test_a_quantity_may_be_written_in_any_of_kubernetes_ways(written):
    spec = parsed(server_spec({"type": "Adaptive", "adaptive": {"targetTokensPerSecond": written}}))
    assert spec.algorithm.adaptive.target_tokens_per_second == 1200


def test_a_quantity_finer_than_a_nano_is_rounded_up_as_kubernetes_does():
    spec = parsed(server_spec({"type": "Predictive", "predictive": {"qLevel": "0.00000000001"}, "capacityPrior": {}}))
    assert spec.algorithm.predictive.q_level == Decimal("1e-9")


def test_null_is_absent_and_unknown_members_are_ignored():
    spec = scaler_spec(sampling={"intervalSeconds": None, "jitter": 3}, later={"a": [1]})
    spec["suspend"] = None
    spec["behavior"] = None
    read = parsed(spec)
    assert read.sampling.interval_seconds == 15
    assert read.suspend is False


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


def test_a_view_keeps_a_garbage_spec_so_that_it_can_be_reported():
    line = b'{"metadata":{"name":"s","namespace":"n"},"spec":[1,{"mode":7}],"status":"gone"}'
    view = msgspec.json.decode(line, type=MdsView)
    assert view.metadata.key == "n/s"
    spec, findings = view.parse_spec()
    assert spec is None
    assert [str(finding) for finding in findings] == ["spec: must be an object, found a list"]
    status, note = view.parse_status()
    assert status.roles == ()
    assert note == "status: must be an object, found a string"


def test_a_view_does_not_keep_the_line_it_was_read_from():
    line = b'{"metadata":{"name":"s","managedFields":[' + b"{}," * 50_000 + b'{}]},"spec":{"mode":"Active"}}'
    view = msgspec.json.decode(line, type=MdsView)
    assert bytes(view.spec) == b'{"mode":"Active"}'
    assert memoryview(view.spec).obj is not line
    assert len(memoryview(view.spec).obj) < 100


def test_bytes_and_values_are_read_alike():
    spec = scaler_spec(mode="On")
    assert parse_spec(json.dumps(spec).encode()) == parse_spec(spec)


def test_a_spec_survives_being_written_and_read():
    for algorithm in (TOKEN_THROUGHPUT, PREDICTIVE, scaler_spec()["algorithm"]):
        spec = parsed(scaler_spec(algorithm=algorithm))
        assert parsed(render(spec)) == spec


def test_only_what_differs_from_a_default_is_written():
    assert render(parsed(server_spec({"type": "Adaptive", "adaptive": {}, "capacityPrior": {"headroom": "0.75"}}))) == {
        "targetRef": {"name": "chat"},
        "roles": [{"name": "server", "maxReplicas": 4}],
        "algorithm": {"type": "Adaptive", "adaptive": {}, "capacityPrior": {}},
    }


def test_bounds_of_a_role_by_name():
    spec = parsed(scaler_spec())
    assert spec.bounds("decode").max_replicas == 2
    assert spec.bounds("encode") is None


def test_the_type_selects_the_block():
    spec = parsed(scaler_spec(algorithm=PREDICTIVE))
    assert spec.algorithm.type is AlgorithmType.PREDICTIVE
    assert spec.algorithm.block is spec.algorithm.predictive
    assert spec.algorithm.capacities is spec.algorithm.predictive.token_throughput
