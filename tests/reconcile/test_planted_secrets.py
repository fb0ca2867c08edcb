"""Values of a role's variables reach no status, event, annotation or log line, whatever they are planted in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from controller.api import EVENTS, MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from tests.reconcile.harness import World
from tests.reconcile.prior_world import artifact, config_map, local_prior, pool, prior_world, target

SECRET = 'hunter2/Sesam-öffne"dich'
ENV = [{"name": "HF_TOKEN", "value": SECRET}, {"name": "VLLM_API_KEY", "value": SECRET[4:12]}]


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[World]:
    async with prior_world(tmp_path) as made:
        yield made


def _annotated(value: str) -> dict[str, Any]:
    return {"scaling.worker.gpustack.ai/identity.server": value}


PLANTED = [
    ("a flag refers to it", {"extraArgs": ["--quantization", "$(HF_TOKEN)"]}, {}),
    ("a degree is typed out with it", {"extraArgs": ["-tp", f"1{SECRET}"]}, {}),
    ("a shell string holds it", {"command": ["sh", "-c", f"HF_TOKEN={SECRET} vllm serve"]}, {}),
    ("it stands where a number of ranks should", {"env": [*ENV, {"name": "VLLM_DP_SIZE", "value": SECRET}]}, {}),
    ("the declared identity holds it", {}, _annotated(f"Server/{SECRET}/bf16/vllm/nvidia-h200/gpus=1")),
    ("the partition is called by it", {"resources": {"acceleratorPartitionedProfile": SECRET}}, {}),
    ("the pool is called by it", {"instanceType": SECRET[:7]}, {}),
    ("a resolved role has it", {}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("role", "annotations"), [c[1:] for c in PLANTED], ids=[c[0] for c in PLANTED])
async def test_a_secret_of_the_target_is_never_told(team: World, role, annotations, capsys):
    target(team, **{"env": ENV, **role})
    team.edit(MODEL_DEPLOYMENTS, "chat", lambda obj: obj["metadata"].setdefault("annotations", {}).update(annotations))
    config_map(team, "1333.334")
    (await team.replica(0)).load(1800, 600)
    team.scaler(algorithm=local_prior())
    await team.controller()
    await team.until(lambda: team.reason("ScalingActive"), "looked at")
    await team.quiet(15)
    _assert_untold(team, capsys)


async def test_a_secret_in_the_model_and_the_board_is_never_told(team: World, capsys):
    artifact(team, f"owner/{SECRET[:7]}")
    pool(team, {"manufacturer": "nvidia", "product": f"NVIDIA {SECRET}"}, group=f"nvidia-{SECRET[:7]}")
    target(team, env=[{"name": "A", "value": SECRET}, {"name": "B", "value": SECRET[:7]}])
    config_map(team, "1333.334")
    (await team.replica(0)).load(1800, 600)
    team.scaler(algorithm=local_prior())
    await team.controller()
    await team.until(lambda: team.reason("CapacityPriorResolved") == "RoleIdentityUnresolved", "refused")
    _assert_untold(team, capsys, (SECRET, SECRET[:7]))


DAMAGED = [
    ("variables as one text", f"HF_TOKEN={SECRET}"),
    ("variables as texts", [f"HF_TOKEN={SECRET}"]),
    ("a variable whose value is an object", [{"name": "HF_TOKEN", "value": {"secret": SECRET}}]),
    ("a variable whose value is a list", [{"name": "HF_TOKEN", "value": [SECRET]}]),
    ("a variable called by it", [{"name": {SECRET: 1}, "value": SECRET}]),
]


@pytest.mark.parametrize("env", [c[1] for c in DAMAGED], ids=[c[0] for c in DAMAGED])
async def test_a_secret_in_damaged_variables_is_never_told(tmp_path: Path, env, capsys):
    async with prior_world(tmp_path, schemas=False) as team:
        target(team, env=env)
        config_map(team, "1333.334")
        (await team.replica(0)).load(1800, 600)
        team.scaler(algorithm=local_prior())
        await team.controller()
        await team.until(lambda: team.reason("ScalingActive"), "looked at")
        await team.quiet(15)
        _assert_untold(team, capsys)


def _assert_untold(team: World, capsys: pytest.CaptureFixture[str], secrets: tuple[str, ...] = (SECRET,)) -> None:
    """`json.dumps` escapes, so the secret is looked for in every spelling."""
    told = [
        *(json.dumps(obj, ensure_ascii=False) for obj in team.server.list(MODEL_DEPLOYMENT_SCALERS, "team")),
        *(json.dumps(obj, ensure_ascii=False) for obj in team.server.list(EVENTS, "team")),
        json.dumps(team.annotations() | {"identity.server": ""}, ensure_ascii=False),
        "".join(capsys.readouterr()),
    ]
    assert len(told[-1]) > 100, "there are log lines"
    for secret in secrets:
        for spelling in {
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            repr(secret)[1:-1],
        }:
            for text in told:
                assert spelling not in text
