"""A world in which priors can be asked for: the model's artifact, a pool of H200s, a catalog with one profile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from controller.api import MODEL_DEPLOYMENTS, render_crds
from tests.reconcile.harness import World, world

PRIOR = {
    "type": "TokenThroughput",
    "tokenThroughput": {
        "ttftTargetMilliseconds": "2000",
        "itlTargetMilliseconds": "33",
        "stableWindowSeconds": 20,
        "panicWindowSeconds": 10,
    },
    "capacityPrior": {},
}


def catalog(total: str) -> str:
    """One profile of Qwen3-8B on one H200: the highest point of the published sweep, with its throughput as given."""
    return catalog_of({32: total})


def catalog_of(curve: dict[int, str], *, input_tokens: int = 1024, output_tokens: int = 256, **fields: Any) -> str:
    """One profile with this total throughput by concurrency, under one mix of lengths."""
    return catalog_with(profile(curve, input_tokens, output_tokens, **fields))


def catalog_with(*profiles: dict[str, Any]) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "worker.gpustack.ai/v1alpha1",
            "kind": "ModelDeploymentScalerCapacityPriorCatalog",
            "metadata": {"name": "local"},
            "profiles": list(profiles),
        }
    )


def profile(curve: dict[int, str], input_tokens: int, output_tokens: int, **fields: Any) -> dict[str, Any]:
    share = output_tokens / (input_tokens + output_tokens)
    return {
        "role": "Server",
        "model": {"name": "Qwen/Qwen3-8B"},
        "quantization": "bf16",
        "engine": {"name": "vLLM"},
        "hardware": "nvidia-h200",
        "parallel": {"gpus": 1, "tp": 1},
        "workload": {"inputTokens": input_tokens, "outputTokens": output_tokens, "cacheBehavior": "AllMisses"},
        "points": [
            {
                "concurrency": concurrency,
                "totalTokensPerSecond": total,
                "outputTokensPerSecond": str(float(total) * share),
                "ttftMilliseconds": {"p50": "490.591", "p90": "689.956", "p99": "736.115"},
                "itlMilliseconds": {"p50": "6.576", "p90": "6.824", "p99": "20.012"},
                "requests": 800,
            }
            for concurrency, total in curve.items()
        ],
        **fields,
    }


@asynccontextmanager
async def prior_world(directory: Path, *, schemas: bool = True) -> AsyncIterator[World]:
    async with world(directory, schemas=schemas) as made:
        for crd in render_crds(["ModelArtifact", "InstanceType"]):
            made.server.install_crd(crd)
        artifact(made, "Qwen/Qwen3-8B")
        pool(made, {"manufacturer": "nvidia", "product": "NVIDIA H200", "memory": "143771Mi"})
        yield made


def artifact(team: World, repository: str, name: str = "weights", **status: Any) -> dict[str, Any]:
    return team.server.put(
        {
            "apiVersion": "worker.gpustack.ai/v1alpha1",
            "kind": "ModelArtifact",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"source": {"huggingFace": {"repository": repository}}},
            "status": status,
        }
    )


def pool(
    team: World, detail: dict[str, str] | None, group: str = "nvidia-h200", name: str = "h200", **status: Any
) -> dict[str, Any]:
    known = {} if detail is None else {"detail": detail}
    return team.server.put(
        {
            "apiVersion": "worker.gpustack.ai/v1alpha1",
            "kind": "InstanceType",
            "metadata": {"name": name},
            "spec": {"acceleratable": True, "acceleratorGroup": group, "os": "linux", "arch": "amd64"},
            "status": known | status,
        }
    )


def node(team: World, name: str, **labels: str) -> None:
    """A Node; in label keys two underscores stand for a slash and one for a dot."""
    keys = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    team.server.put(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": keys},
            "status": {"nodeInfo": {"kubeletVersion": "v1.34.0"}},
        }
    )


def target(team: World, **role: Any) -> None:
    team.target()

    def complete(obj: dict[str, Any]) -> None:
        obj["spec"]["model"]["artifactRef"] = {"name": "weights"}
        obj["spec"]["roles"][0].update({"extraArgs": ["--tensor-parallel-size", "1"], **role})

    team.edit(MODEL_DEPLOYMENTS, "chat", complete)


def config_map(team: World, total: str, **metadata: Any) -> None:
    config_map_of(team, catalog(total), **metadata)


def config_map_of(team: World, text: str, **metadata: Any) -> None:
    team.server.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "local", "namespace": "team", **metadata},
            "data": {"catalog.yaml": text},
        }
    )


def local_prior(**more: Any) -> dict[str, Any]:
    return {**PRIOR, "capacityPrior": {"catalogRef": {"name": "local"}, **more}}
