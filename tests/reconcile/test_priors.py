"""Capacity priors in the loop: resolved once, shown in status, and a changed catalog makes a role start anew."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.api import CONFIG_MAPS, MODEL_DEPLOYMENT_SCALERS, find_condition
from controller.reconcile import reconciler
from tests.reconcile.harness import World
from tests.reconcile.prior_world import PRIOR, config_map, local_prior, prior_world, target


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[World]:
    async with prior_world(tmp_path) as made:
        yield made


async def test_a_role_is_divided_by_its_resolved_prior_and_status_says_which(team: World):
    target(team)
    config_map(team, "1333.334")
    (await team.replica(0)).load(1800, 600)
    team.scaler(algorithm=local_prior())
    await team.controller()
    await team.until(lambda: team.count() == 3, "2,400 tokens/s need three of 1,000.0005")
    assert team.reason("CapacityPriorResolved") == "CatalogResolved"
    capacity = team.status().roles[0].capacity
    assert capacity is not None
    assert (str(capacity.source), str(capacity.selection), capacity.operating_point.concurrency) == (
        "Catalog",
        "ExplicitSaturation",
        32,
    )
    assert capacity.identity.startswith("Server/Qwen/Qwen3-8B/bf16/vllm/nvidia-h200/")
    assert str(capacity.effective_tokens_per_second) == "1000.0005"


async def test_what_the_published_sweep_gives(team: World):
    target(team)
    config_map(team, "17135.159")
    (await team.replica(0)).load(1800, 600)
    team.scaler(mode="Shadow", algorithm=local_prior())
    await team.controller()
    await team.until(lambda: team.reason("CapacityPriorResolved") == "CatalogResolved", "resolved")
    capacity = team.status().roles[0].capacity
    assert (str(capacity.seed_tokens_per_second), str(capacity.effective_tokens_per_second)) == (
        "17135.159",
        "12851.36925",
    )


REASONS = [
    ("no such ConfigMap", {"catalogRef": {"name": "nosuch"}}, {}, "ConfigMapNotFound"),
    ("a ConfigMap without a catalog in it", {"catalogRef": {"name": "empty"}}, {}, "CatalogInvalid"),
    ("a model the embedded catalog does not have at this quantization", {}, {"extraArgs": ["--quantization", "int4"]}, "ProfileNotFound"),
    ("a pool that does not exist", {"catalogRef": {"name": "local"}}, {"instanceType": "nosuch"}, "RoleIdentityUnresolved"),
]  # fmt: skip


@pytest.mark.parametrize(("prior", "role", "reason"), [c[1:] for c in REASONS], ids=[c[0] for c in REASONS])
async def test_an_unresolved_prior_holds_the_count_and_says_why(team: World, prior, role, reason):
    target(team, **role)
    config_map(team, "1333.334")
    team.server.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "empty", "namespace": "team"},
            "data": {"a": "b"},
        }
    )
    (await team.replica(0)).load(1800, 600)
    team.scaler(algorithm={**PRIOR, "capacityPrior": prior})
    await team.controller()
    await team.until(lambda: team.reason("CapacityPriorResolved") == reason, reason)
    await team.until(lambda: team.reason("ScalingActive") == "NoCapacity", "nothing to divide by")
    await team.ticks(3)
    assert team.count() == 1
    assert "bound-by" not in team.annotations(), "without a plan nothing is taken"
    message = next(each.message for each in team.status().conditions if each.type == "ScalingActive")
    assert "CapacityPriorResolved says why" in message
    assert "ask for a prior" not in message, "it did"


async def test_a_scaler_without_a_plan_leaves_the_target_to_a_younger_one_and_takes_it_with_its_first_plan(team: World):
    target(team)
    (await team.replica(0)).load(1800, 600)
    team.scaler("planless", algorithm=local_prior())
    await team.controller()
    await team.until(lambda: team.reason("ScalingActive", "planless") == "NoCapacity", "no catalog, no plan")
    await team.clock.sleep(2)  # creation times have whole seconds
    team.scaler("younger")
    await team.until(lambda: team.count() == 3, "the younger one works")
    config_map(team, "1333.334")
    await team.until(lambda: team.annotations()["bound-by"].startswith("planless/"), "the older one has a plan now")
    await team.until(lambda: team.reason("Bound", "younger") == "HeldByAnotherScaler", "the younger one waits")
    team.audit()


async def test_a_scaler_that_loses_its_capacity_keeps_its_target_and_holds_the_count(team: World):
    target(team)
    config_map(team, "1333.334")
    (await team.replica(0)).load(1800, 600)
    team.scaler(algorithm=local_prior())
    await team.controller()
    await team.until(lambda: team.count() == 3, "three of 1,000")
    name = team.server.list(CONFIG_MAPS, "team")[0]["metadata"]["name"]
    team.server.delete(CONFIG_MAPS, name, "team")
    await team.until(lambda: team.reason("ScalingActive") == "NoCapacity", "nothing to divide by")
    await team.ticks(3)
    assert team.count() == 3
    assert team.annotations()["bound-by"]


async def test_what_was_said_of_the_binding_in_shadow_is_gone_with_it_though_there_is_no_plan_to_take_the_target_for(
    team: World,
):
    target(team)
    (await team.replica(0)).load(1800, 600)
    team.scaler(mode="Shadow", algorithm=local_prior())
    await team.controller()
    await team.until(lambda: team.reason("Bound") == "Shadow", "nothing is written in Shadow")
    team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["spec"].update(mode="Active"))
    await team.until(lambda: team.status().observed_generation == 2, "it is Active")
    assert team.reason("ScalingActive") == "NoCapacity"
    assert team.reason("Bound") == "", "as of a scaler that was Active from the start"


async def test_bounds_alone_are_a_plan(team: World):
    target(team)
    (await team.replica(0)).load(1800, 600)
    team.scaler(algorithm=local_prior(), roles=[{"name": "server", "minReplicas": 2, "maxReplicas": 5}])
    await team.controller()
    await team.until(lambda: team.count() == 2, "the minimum holds without any capacity")


async def test_a_changed_catalog_changes_the_fingerprint_and_the_role_forgets_what_it_computed_before(team: World):
    target(team)
    config_map(team, "1333.334")
    (await team.replica(0)).load(1800, 600)
    team.scaler(algorithm=local_prior())
    await team.controller()
    await team.until(lambda: team.count() == 3, "three of 1,000")
    before = team.status().roles[0].capacity.fingerprint
    config_map(team, "4000")
    await team.until(
        lambda: team.status().roles[0].capacity.fingerprint != before, "taken up without a change of the scaler"
    )
    history = team.status().roles[0].stabilization_history
    assert all(entry.replicas <= 3 for entry in history)
    await team.until(lambda: team.count() == 1, "2,400 tokens/s need one of 3,000")


async def test_an_explicit_capacity_wins_over_the_prior(team: World):
    target(team)
    config_map(team, "17135.159")
    (await team.replica(0)).load(1800, 600)
    explicit = {**PRIOR["tokenThroughput"], "targetTokensPerSecond": "1000"}
    team.scaler(algorithm={**PRIOR, "tokenThroughput": explicit, "capacityPrior": {"catalogRef": {"name": "local"}}})
    await team.controller()
    await team.until(lambda: team.count() == 3, "the person's number")
    assert str(team.status().roles[0].capacity.source) == "Explicit"


async def test_without_a_prior_asked_for_there_is_no_condition(team: World):
    target(team)
    (await team.replica(0)).load(1800, 600)
    team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 3, "scaled")
    assert team.reason("CapacityPriorResolved") == ""
    assert team.server.get(CONFIG_MAPS, "local", "team") is None


async def test_priors_are_resolved_once_for_each_decision(team: World, monkeypatch: pytest.MonkeyPatch):
    resolved: list[str] = []
    original = reconciler.resolve_priors

    def counting(spec, target, *rest):
        resolved.append(target.metadata.name)
        return original(spec, target, *rest)

    monkeypatch.setattr(reconciler, "resolve_priors", counting)
    target(team)
    config_map(team, "1333.334")
    (await team.replica(0)).load(1800, 600)
    team.scaler(algorithm=local_prior())
    controller = await team.controller()
    await team.until(lambda: team.count() == 3, "bound, decided, committed, reported")
    await team.stop_controller(controller)
    records = (team.directory / "records" / "team_chat.jsonl").read_bytes()
    assert len(resolved) == records.count(b"\n")


def _history(team: World) -> set[int]:
    return {entry.replicas for entry in team.status().roles[0].stabilization_history}


async def test_a_history_computed_under_another_number_is_not_restored(team: World):
    """A changed catalog voids what status remembers, also when it changed while no controller ran."""
    target(team)
    config_map(team, "1333.334")
    for ordinal in range(3):
        (await team.replica(ordinal)).load(600, 200)
    calm = {"scaleDown": {"stabilizationWindowSeconds": 3600}}
    team.scaler(algorithm=local_prior(), behavior=calm)
    first = await team.controller()
    await team.until(lambda: team.count() == 3, "three of 1,000")
    await team.until(lambda: 3 in _history(team), "remembered")
    await team.stop_controller(first)
    before = team.status().roles[0].capacity.fingerprint
    config_map(team, "6000")
    await team.controller("second")
    await team.until(lambda: team.status().roles[0].capacity.fingerprint != before, "one of 4,500")
    await team.ticks(6)
    assert _history(team) == {1}


async def test_a_catalog_under_another_key_is_named_in_the_message(team: World):
    target(team)
    team.server.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "local", "namespace": "team"},
            "data": {"priors.yaml": "x" * 1000, "README": "see the wiki"},
        }
    )
    (await team.replica(0)).load(1800, 600)
    team.scaler(algorithm=local_prior())
    await team.controller()
    await team.until(lambda: team.reason("CapacityPriorResolved") == "CatalogInvalid", "no catalog")
    condition = find_condition(team.status().conditions, "CapacityPriorResolved")
    assert condition is not None
    assert "has no key catalog.yaml (keys: README, priors.yaml)" in condition.message
