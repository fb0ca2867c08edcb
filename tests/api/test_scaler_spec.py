"""What a spec may say, and what it means."""

from __future__ import annotations

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
from tests.api.reading import parsed
from tests.api.samples import BENCHMARK_SCALER, PREDICTIVE, TOKEN_THROUGHPUT, scaler_spec, server_spec


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
