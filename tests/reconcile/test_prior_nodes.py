"""Hardware read from the labels of Nodes, where an InstanceType does not say it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.api import find_condition
from controller.embedded.apiserver import faults
from controller.embedded.apiserver.errors import ApiError
from tests.reconcile.harness import World
from tests.reconcile.prior_world import config_map, local_prior, node, pool, prior_world, target


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[World]:
    async with prior_world(tmp_path) as made:
        target(made)
        config_map(made, "1333.334")
        (await made.replica(0)).load(1800, 600)
        yield made


def _nodes_asked_for(team: World) -> bool:
    return any(record.info.resource == "nodes" for record in team.server.requests)


def _message(team: World) -> str:
    condition = find_condition(team.status().conditions, "CapacityPriorResolved")
    return "" if condition is None else condition.message


OF_THE_GROUP = {"acceleratable_feature_gpustack_ai__bench-gpu": "true"}
H200 = {"nvidia_com__gpu_product": "NVIDIA-H200", "nvidia_com__gpu_memory": "143771"}
H100 = {"nvidia_com__gpu_product": "NVIDIA-H100-80GB-HBM3", "nvidia_com__gpu_memory": "81559"}
READ = [
    ("the nodes of the pool's group name the board", "bench-gpu", [{**OF_THE_GROUP, **H200}, H100]),
    ("the operator's own labels do", "bench-gpu", [{**OF_THE_GROUP, "acceleratable_feature_gpustack_ai__bench-gpu_product": "NVIDIA-H200"}]),
    ("without nodes of the group, the node that the replica runs on", "bench-gpu", [H200, H100]),
    ("a node that is said to have no accelerator is passed over", "bench-gpu", [{**OF_THE_GROUP, **H200}, {**OF_THE_GROUP, "feature_gpustack_ai__acceleratable": "false"}]),
]  # fmt: skip


@pytest.mark.parametrize(("group", "nodes"), [c[1:] for c in READ], ids=[c[0] for c in READ])
async def test_hardware_is_read_from_nodes_where_the_pool_does_not_say_it(team: World, group, nodes):
    pool(team, None, group)
    for number, labels in enumerate(nodes):
        node(team, "n" if number == 0 else f"n{number}", **labels)
    team.scaler(algorithm=local_prior())
    await team.controller()
    await team.until(lambda: team.reason("CapacityPriorResolved") == "CatalogResolved", "resolved")
    assert team.status().roles[0].capacity.identity.startswith("Server/Qwen/Qwen3-8B/bf16/vllm/nvidia-h200/")


REFUSED = [
    ("two boards in one pool", "bench-gpu", [{**OF_THE_GROUP, **H200}, {**OF_THE_GROUP, **H100}], "several"),
    ("a node of the pool that names no board", "bench-gpu", [{**OF_THE_GROUP, **H200}, OF_THE_GROUP], "no label that names"),
    ("a partitioned board", "bench-gpu", [{**OF_THE_GROUP, "nvidia_com__gpu_product": "NVIDIA-H200-MIG-1g.18gb"}], "MIG partition"),
    ("a shared board", "bench-gpu", [{**OF_THE_GROUP, **H200, "nvidia_com__gpu_sharing-strategy": "mps"}], "shared"),
    ("another memory than the board has", "bench-gpu", [{**OF_THE_GROUP, **H200, "nvidia_com__gpu_memory": "81559"}], "memory"),
    ("no node at all", "bench-gpu", [], "no node is known"),
]  # fmt: skip


@pytest.mark.parametrize(("group", "nodes", "part"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
async def test_nodes_that_do_not_agree_on_a_measured_board_leave_the_identity_open(team: World, group, nodes, part):
    pool(team, None, group)
    for number, labels in enumerate(nodes):
        node(team, f"n{number}", **labels)
    team.scaler(algorithm=local_prior())
    await team.controller()
    await team.until(lambda: part in _message(team), part)
    assert team.reason("CapacityPriorResolved") == "RoleIdentityUnresolved"
    await team.ticks(3)
    assert team.count() == 1


async def test_a_node_that_gets_its_labels_resolves_the_prior(team: World):
    pool(team, None, "bench-gpu")
    team.scaler(algorithm=local_prior(), sampling={"intervalSeconds": 300})
    await team.controller()
    await team.until(lambda: team.reason("CapacityPriorResolved") == "RoleIdentityUnresolved", "unresolved")
    await team.until(lambda: _nodes_asked_for(team), "followed")
    node(team, "n0", **OF_THE_GROUP, **H200)
    await team.until(lambda: team.reason("CapacityPriorResolved") == "CatalogResolved", "long before the interval")
    await team.until(lambda: team.count() == 3, "and the role grows")


async def test_nodes_are_not_asked_for_where_the_pool_says_its_hardware(team: World):
    team.scaler(algorithm=local_prior())
    await team.controller()
    await team.until(lambda: team.count() == 3, "scaled")
    assert not _nodes_asked_for(team)


async def test_nodes_that_may_not_be_read_leave_the_identity_open_and_stop_nothing(team: World):
    pool(team, None, "bench-gpu")
    team.faults.add(faults.failure(ApiError(403, "Forbidden", "nodes is forbidden")), resource="nodes", times=1000)
    team.scaler(algorithm=local_prior())
    team.target("other")
    (await team.replica(0, "other")).load(1800, 600)
    team.scaler("other", target="other")
    await team.controller()
    await team.until(lambda: team.reason("CapacityPriorResolved") == "RoleIdentityUnresolved", "unresolved")
    await team.until(lambda: team.count("other") == 3, "the neighbour is scaled")
    await team.ticks(3)
    assert "no node is known" in _message(team)
