"""A spec against the target it names."""

from __future__ import annotations

import json

import pytest

from controller.api import ModelDeployment, decode_view, engine_request_limit, parse_spec, validate_against_target
from controller.api.deployment_spec import Engine, EnvVar, ModelDeploymentSpec, Role
from controller.api.model_deployment import DeploymentMeta
from tests.api.samples import PD_DEPLOYMENT, PREDICTIVE, TOKEN_THROUGHPUT, scaler_spec, server_spec


def deployment(*roles, engine="vLLM", name="chat"):
    return ModelDeployment(
        metadata=DeploymentMeta(name=name), spec=ModelDeploymentSpec(engine=Engine(name=engine), roles=tuple(roles))
    )


def findings(spec, target):
    read, problems = parse_spec(spec)
    assert problems == []
    return [str(finding) for finding in validate_against_target(read, target)]


def pd(*, limit=None):
    extra = ("--max-num-seqs", str(limit)) if limit else ()
    return deployment(
        Role(name="prefill", kind="Prefill", extra_args=extra), Role(name="decode", kind="Decode", extra_args=extra)
    )


SERVER = Role(name="server", kind="Server", instance_type="nvidia-h200")


def test_the_benchmark_scaler_fits_its_target():
    assert findings(scaler_spec(), pd()) == []


def test_every_role_of_the_target_needs_bounds_and_no_other_role_has_any():
    target = deployment(Role(name="prefill", kind="Prefill"), Role(name="encode", kind="Encode", replicas=3))
    assert findings(scaler_spec(algorithm=TOKEN_THROUGHPUT), target) == [
        'spec.roles: has no bounds for role "encode" of ModelDeployment chat: add {name: encode, maxReplicas: 3} '
        "with the most replicas you allow",
        'spec.roles[1].name: "decode" is no role of ModelDeployment chat, which has encode, prefill: '
        "correct or remove it",
    ]


@pytest.mark.parametrize(
    ("limit", "refused"),
    [
        pytest.param(None, False, id="no limit is readable"),
        pytest.param(4, False, id="the threshold lies below the limit"),
        pytest.param(3, True, id="the threshold lies above the limit"),
    ],
)
def test_a_running_requests_target_that_the_engine_can_never_cross_is_refused(limit, refused):
    found = findings(scaler_spec(), pd(limit=limit))
    assert bool(found) is refused
    if refused:
        assert found[0] == (
            "spec.algorithm.proportional.roleTargets[0].target: "
            'role "prefill" would grow only above 3.3 running requests per replica (target 3, tolerance 0.1), '
            "but its engine runs at most 3: set a target below 2.7, or metric QueueDepth"
        )


def test_a_threshold_exactly_at_the_limit_is_refused():
    spec = scaler_spec()
    spec["algorithm"]["proportional"]["tolerance"] = "1"
    assert len(findings(spec, pd(limit=6))) == 2


def test_waiting_requests_have_no_limit():
    spec = scaler_spec()
    spec["algorithm"]["proportional"]["metric"] = "QueueDepth"
    assert findings(spec, pd(limit=3)) == []


def test_proportional_needs_a_target_for_each_role_but_encode_may_follow_a_ratio():
    roles = [{"name": name, "maxReplicas": 2} for name in ("encode", "prefill", "decode")]
    spec = scaler_spec(roles=roles)
    spec["algorithm"]["proportional"]["roleTargets"].pop()
    target = deployment(
        Role(name="encode", kind="Encode"), Role(name="prefill", kind="Prefill"), Role(name="decode", kind="Decode")
    )
    path = "spec.algorithm.proportional.roleTargets"
    assert findings(spec, target) == [
        f'{path}: has no target for role "decode": add {{name: decode, target: "…"}}',
        f'{path}: has no target for role "encode", and no ratio relates it to another role: add one of the two',
    ]
    spec["ratios"].append({"numeratorRole": "encode", "denominatorRole": "prefill", "target": 1})
    assert [finding for finding in findings(spec, target) if "encode" in finding] == []


@pytest.mark.parametrize(
    ("algorithm", "path"),
    [
        ({"type": "TokenThroughput", "tokenThroughput": {}}, "spec.algorithm.tokenThroughput"),
        ({"type": "Predictive", "predictive": {}}, "spec.algorithm.predictive.tokenThroughput"),
        ({"type": "Adaptive", "adaptive": {}}, "spec.algorithm.adaptive"),
    ],
)
def test_a_role_needs_a_capacity_explicit_or_from_a_prior(algorithm, path):
    assert findings(server_spec(algorithm), deployment(SERVER)) == [
        f'{path}.targetTokensPerSecond: is required: role "server" of kind Server needs the tokens/s that one replica '
        "serves; give it, or add spec.algorithm.capacityPrior to take it from a catalog"
    ]


def test_explicit_capacities_of_the_right_kinds_suffice():
    assert findings(scaler_spec(algorithm=TOKEN_THROUGHPUT), pd()) == []
    assert findings(scaler_spec(algorithm=PREDICTIVE), pd()) == []


def test_a_capacity_of_another_kind_does_not_count():
    algorithm = {"type": "Adaptive", "adaptive": {"targetTokensPerSecond": 100}}
    paths = [finding.partition(":")[0] for finding in findings(scaler_spec(algorithm=algorithm), pd())]
    assert paths == [
        "spec.algorithm.adaptive.decodeTargetTokensPerSecond",
        "spec.algorithm.adaptive.prefillTargetTokensPerSecond",
    ]


def test_encode_and_kinds_from_the_future_need_no_token_capacity():
    target = deployment(Role(name="prefill", kind="Encode"), Role(name="decode", kind="Rerank"))
    assert findings(scaler_spec(algorithm={"type": "Adaptive", "adaptive": {}}), target) == []


TTFT, ITL = "spec.algorithm.adaptive.ttftTargetMilliseconds", "spec.algorithm.adaptive.itlTargetMilliseconds"


@pytest.mark.parametrize(
    ("adaptive", "target", "missing"),
    [
        pytest.param({}, deployment(SERVER), [ITL, TTFT], id="server needs both"),
        pytest.param({"ttftTargetMilliseconds": 2000}, deployment(SERVER), [ITL], id="one is given"),
        pytest.param(
            {"ttftTargetMilliseconds": 2000, "itlTargetMilliseconds": "33"}, deployment(SERVER), [], id="both are given"
        ),
        pytest.param(
            {"targetTokensPerSecond": 100}, deployment(SERVER), [], id="no prior is consulted for an explicit capacity"
        ),
        pytest.param({}, deployment(Role(name="server", kind="Prefill")), [TTFT], id="prefill needs the first token"),
        pytest.param({}, deployment(Role(name="server", kind="Decode")), [ITL], id="decode needs the tokens after it"),
        pytest.param({}, deployment(Role(name="server", kind="Encode")), [], id="encode needs none"),
        pytest.param({}, None, [ITL, TTFT], id="without a target any kind may come"),
        pytest.param({"targetTokensPerSecond": 100}, None, [], id="without a target, a server's capacity is explicit"),
        pytest.param(
            {"prefillTargetTokensPerSecond": 100}, None, [ITL], id="without a target, decode is left to the prior"
        ),
        pytest.param(
            {"decodeTargetTokensPerSecond": 100}, None, [TTFT], id="without a target, prefill is left to the prior"
        ),
    ],
)
def test_a_prior_needs_the_latency_targets_of_the_roles_it_serves(adaptive, target, missing):
    spec = server_spec({"type": "Adaptive", "adaptive": adaptive, "capacityPrior": {}})
    assert [finding.partition(":")[0] for finding in findings(spec, target)] == missing


def test_without_a_target_some_capacity_must_be_given():
    assert findings(server_spec({"type": "Adaptive", "adaptive": {}}), None) == [
        "spec.algorithm.adaptive: has no capacity: give targetTokensPerSecond or prefillTargetTokensPerSecond or "
        "decodeTargetTokensPerSecond, or add spec.algorithm.capacityPrior"
    ]
    assert findings(scaler_spec(), None) == []


@pytest.mark.parametrize(
    ("second", "prior", "refused"),
    [
        pytest.param(Role(name="b", instance_type="nvidia-h100"), False, True, id="another pool"),
        pytest.param(Role(name="b", instance_type="nvidia-h200", size=2), False, True, id="more Pods per replica"),
        pytest.param(Role(name="b", instance_type="nvidia-h200"), False, False, id="equal hardware"),
        pytest.param(Role(name="b", instance_type="nvidia-h100"), True, False, id="a prior knows each hardware"),
    ],
)
def test_one_explicit_capacity_is_no_answer_for_differing_hardware(second, prior, refused):
    algorithm = {"type": "Adaptive", "adaptive": {"targetTokensPerSecond": 100}}
    if prior:
        algorithm["capacityPrior"] = {}
    spec = server_spec(algorithm, roles=[{"name": "server", "maxReplicas": 2}, {"name": "b", "maxReplicas": 2}])
    found = findings(spec, deployment(SERVER, second))
    assert bool(found) is refused
    assert all("differing hardware (server on 1 × nvidia-h200, b on" in finding for finding in found)


@pytest.mark.parametrize(
    ("engine", "role", "limit"),
    [
        pytest.param("vLLM", Role(extra_args=("--max-num-seqs", "64")), 64, id="two arguments"),
        pytest.param("vllm", Role(extra_args=("--max-num-seqs=64",)), 64, id="one argument, engine in lower case"),
        pytest.param("vLLM", Role(extra_args=("--max_num_seqs", "64")), 64, id="underscores"),
        pytest.param("vLLM", Role(extra_args=("--max-num-seq", "64")), 64, id="a unique prefix"),
        pytest.param("vLLM", Role(extra_args=("--max-num-seqs=8", "--max-num-seqs", "64")), 64, id="the last one wins"),
        pytest.param(
            "vLLM", Role(extra_args=("--max-num-seqs=8", "--max-num-seqs")), None, id="the last one has no value"
        ),
        pytest.param("vLLM", Role(extra_args=("--max-num-batched-tokens", "64")), None, id="another flag"),
        pytest.param("vLLM", Role(extra_args=("--", "--max-num-seqs", "64")), None, id="after the end of the flags"),
        pytest.param("vLLM", Role(extra_args=("--max-num-seqs", "auto")), None, id="no number"),
        pytest.param("vLLM", Role(extra_args=("--max-num-seqs", "0")), None, id="zero"),
        pytest.param("vLLM", Role(), None, id="nothing is said"),
        pytest.param(
            "vLLM", Role(command=("vllm",), extra_args=("--max-num-seqs", "64")), None, id="command taken over"
        ),
        pytest.param(
            "vLLM", Role(extra_args=("--max-num-seqs=8", "--data-parallel-size", "4")), 32, id="per data-parallel rank"
        ),
        pytest.param("vLLM", Role(extra_args=("--max-num-seqs=8", "-dp", "4")), 32, id="the short spelling of it"),
        pytest.param(
            "vLLM",
            Role(extra_args=("--max-num-seqs=8", "--data-parallel-size=4", "--data-parallel-rank=1")),
            None,
            id="ranks spread in a way that is not read",
        ),
        pytest.param(
            "vLLM",
            Role(extra_args=("--max-num-seqs=8",), env=(EnvVar(name="VLLM_DP_SIZE", value="4"),)),
            None,
            id="ranks from the environment are not read",
        ),
        pytest.param("SGLang", Role(extra_args=("--max-running-requests", "48")), 48, id="sglang"),
        pytest.param(
            "SGLang", Role(extra_args=("--max-running-requests", "48", "--dp-size=2")), None, id="sglang ranks"
        ),
        pytest.param("SGLang", Role(extra_args=("--max-num-seqs", "48")), None, id="another engine's flag"),
        pytest.param("TGI", Role(extra_args=("--max-num-seqs", "48")), None, id="an unknown engine"),
    ],
)
def test_the_engines_own_limit_is_read_from_its_flags(engine, role, limit):
    assert engine_request_limit(role, engine) == limit


def test_findings_are_sorted_and_do_not_depend_on_the_order_of_roles():
    spec = scaler_spec(algorithm={"type": "Adaptive", "adaptive": {}})
    target = pd()
    turned = deployment(*reversed(target.roles))
    assert findings(spec, target) == findings(spec, turned) == sorted(findings(spec, target))


def test_a_real_deployment_is_understood():
    target = decode_view(ModelDeployment, json.dumps(PD_DEPLOYMENT).encode())
    assert target.malformed == ()
    assert findings(scaler_spec(), target) == []


def test_a_target_that_cannot_be_read_proves_nothing():
    target = decode_view(ModelDeployment, b'{"metadata":{"name":"q"},"spec":{"roles":"gone"}}')
    assert target.unreadable
    assert findings(scaler_spec(algorithm={"type": "Adaptive", "adaptive": {}}), target) == []
