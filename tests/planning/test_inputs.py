"""What the API leaves open is filled in once, at planning."""

import pytest

from controller import scaling
from controller.api import parse_spec
from controller.planning import capacities, decision_spec
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
    found = capacities(spec(both, roles=("prefill", "decode")), PAIR, None)
    assert {name: each.effective_tokens_per_second for name, each in found.items()} == {"prefill": 1200, "decode": 300}


def test_a_role_without_a_capacity_has_none_rather_than_a_guess():
    assert capacities(
        spec(throughput(prefillTargetTokensPerSecond=1200), roles=("prefill", "decode")), PAIR, None
    ).keys() == {"prefill"}


def test_the_fingerprint_changes_with_the_number_and_not_with_its_spelling():
    def fingerprint(text):
        return capacities(spec(throughput(targetTokensPerSecond=text)), SERVER, None)["server"].fingerprint

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


def test_every_algorithm_of_the_api_is_planned():
    blocks = {
        "Proportional": {"metric": "QueueDepth", "roleTargets": [{"name": "server", "target": 4}]},
        "TokenThroughput": {"targetTokensPerSecond": 1},
        "Predictive": {"tokenThroughput": {"targetTokensPerSecond": 1}},
        "Adaptive": {"targetTokensPerSecond": 1},
    }
    for type_, block in blocks.items():
        wanted = spec({"type": type_, type_[0].lower() + type_[1:]: block})
        assert type(decision_spec(wanted, SERVER).algorithm).__name__ == type_


def test_a_forecast_has_its_own_capacity_where_one_is_given():
    block = {"tokenThroughput": {"targetTokensPerSecond": 1200}, "tokenCapacityPerReplica": 2000}
    found = capacities(spec({"type": "Predictive", "predictive": block}), SERVER, None)["server"]
    assert (found.effective_tokens_per_second, found.forecast_tokens_per_second) == (1200, 2000)


TRUST = [
    ("by default a slope earns its trust", {}, "Earned"),
    ("Always alone does not make an unset slope believed", {"trust": "Always"}, "Earned"),
    ("Always with an explicit slope gives the bare filter", {"trust": "Always", "qTrend": "0.3"}, "Always"),
]


@pytest.mark.parametrize(("more", "trust"), [c[1:] for c in TRUST], ids=[c[0] for c in TRUST])
def test_trust(more, trust):
    block = {"tokenThroughput": {"targetTokensPerSecond": 1}, **more}
    planned = decision_spec(spec({"type": "Predictive", "predictive": block}), SERVER).algorithm
    assert isinstance(planned, scaling.Predictive)
    assert planned.trust == trust
