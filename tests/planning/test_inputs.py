"""What the API leaves open is filled in once, at planning."""

import pytest

from controller import scaling
from controller.api import parse_spec
from controller.planning import UnsupportedAlgorithm, capacities, decision_spec
from tests.reconcile.objects import role, target

SERVER = target([role()])
PAIR = target([role("prefill", "Prefill"), role("decode", "Decode")])


def spec(algorithm, *, roles=("server",), **more):
    found, findings = parse_spec(
        {
            "targetRef": {"name": "chat"},
            "roles": [{"name": name, "maxReplicas": 4} for name in roles],
            "algorithm": algorithm,
            **more,
        }
    )
    assert findings == []
    assert found is not None
    return found


def throughput(**block):
    return {"type": "TokenThroughput", "tokenThroughput": block}


def test_unset_latency_targets_get_their_planning_defaults():
    planned = decision_spec(spec(throughput(targetTokensPerSecond="1.2k")), SERVER).algorithm
    assert isinstance(planned, scaling.TokenThroughput)
    assert (planned.ttft_target_milliseconds, planned.itl_target_milliseconds) == (500.0, 50.0)


def test_roles_keep_the_order_of_the_scaler_and_get_their_kind_from_the_target():
    planned = decision_spec(
        spec(
            throughput(prefillTargetTokensPerSecond=1200, decodeTargetTokensPerSecond=300), roles=("decode", "prefill")
        ),
        PAIR,
    )
    assert [(each.name, each.kind) for each in planned.roles] == [("decode", "Decode"), ("prefill", "Prefill")]


def test_each_kind_is_divided_by_its_own_field():
    both = throughput(prefillTargetTokensPerSecond=1200, decodeTargetTokensPerSecond="300")
    found = capacities(spec(both, roles=("prefill", "decode")), PAIR)
    assert {name: each.effective_tokens_per_second for name, each in found.items()} == {"prefill": 1200, "decode": 300}


def test_a_role_without_a_capacity_has_none_rather_than_a_guess():
    assert capacities(
        spec(throughput(prefillTargetTokensPerSecond=1200), roles=("prefill", "decode")), PAIR
    ).keys() == {"prefill"}


def test_the_fingerprint_changes_with_the_number_and_not_with_its_spelling():
    def fingerprint(text):
        return capacities(spec(throughput(targetTokensPerSecond=text)), SERVER)["server"].fingerprint

    assert fingerprint("1200") == fingerprint(1200)
    assert fingerprint("1200") != fingerprint("1201")


def test_behaviour_bounds_and_ratios_arrive_as_they_are():
    planned = decision_spec(
        spec(
            throughput(prefillTargetTokensPerSecond=1, decodeTargetTokensPerSecond=1),
            roles=("prefill", "decode"),
            ratios=[{"numeratorRole": "prefill", "denominatorRole": "decode", "target": "0.5", "min": "0.25"}],
            behavior={
                "scaleUp": {"maxStepReplicas": 2, "policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}]},
                "scaleDown": {"stabilizationWindowSeconds": 120, "selectPolicy": "Disabled"},
            },
        ),
        PAIR,
    )
    assert planned.ratios == (
        scaling.RatioSpec(numerator_role="prefill", denominator_role="decode", target=0.5, min=0.25),
    )
    assert planned.behavior.scale_up.max_step_replicas == 2
    assert planned.behavior.scale_up.policies[0].value == 50
    assert planned.behavior.scale_down.select_policy is scaling.SelectPolicy.DISABLED


def test_a_role_that_the_target_lacks_is_an_error_of_the_caller():
    with pytest.raises(KeyError, match="nosuch"):
        decision_spec(spec(throughput(targetTokensPerSecond=1), roles=("nosuch",)), SERVER)


def test_every_algorithm_of_the_api_is_planned_or_named_as_missing():
    blocks = {"Proportional": {"metric": "QueueDepth", "roleTargets": [{"name": "server", "target": 4}]}}
    for type_ in ("Proportional", "TokenThroughput", "Predictive", "Adaptive"):
        block = blocks.get(type_, {} if type_ != "TokenThroughput" else {"targetTokensPerSecond": 1})
        wanted = spec({"type": type_, type_[0].lower() + type_[1:]: block})
        if type_ in ("Predictive", "Adaptive"):
            with pytest.raises(UnsupportedAlgorithm, match=type_):
                decision_spec(wanted, SERVER)
        else:
            assert type(decision_spec(wanted, SERVER).algorithm).__name__ == type_
