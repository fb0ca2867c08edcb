"""Small documents and catalogs for the tests of this room."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from catalog.loading import LoadedCatalog, load_text
from catalog.schema import Catalog

DATA = Path(__file__).parent.parent / "data" / "priors"


def point_document(concurrency: int = 8, total: float = 6400.0, output: float = 1280.0, **extra: Any) -> dict[str, Any]:
    return {
        "concurrency": concurrency,
        "totalTokensPerSecond": str(total),
        "outputTokensPerSecond": str(output),
        "ttftMilliseconds": {"p50": "100", "p99": "200"},
        "itlMilliseconds": {"p50": "6", "p99": "9"},
        **extra,
    }


def profile_document(**changes: Any) -> dict[str, Any]:
    profile: dict[str, Any] = {
        "role": "Server",
        "model": {"name": "Qwen/Qwen3-8B"},
        "quantization": "bf16",
        "engine": {"name": "vLLM"},
        "hardware": "nvidia-h200",
        "parallel": {"gpus": 1, "tp": 1},
        "workload": {"inputTokens": 1024, "outputTokens": 256, "cacheBehavior": "AllMisses"},
        "points": [point_document(4, 3600.0, 720.0), point_document(8)],
    }
    return {**profile, **changes}


def catalog_document(*profiles: dict[str, Any], retired: list[Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "worker.gpustack.ai/v1alpha1",
        "kind": "ModelDeploymentScalerCapacityPriorCatalog",
        "metadata": {"name": "local"},
        "profiles": copy.deepcopy(list(profiles)),
        "retired": retired or [],
    }


def load(*profiles: dict[str, Any], retired: list[Any] | None = None) -> LoadedCatalog:
    result = load_text(json.dumps(catalog_document(*profiles, retired=retired)), "test catalog")
    assert isinstance(result, LoadedCatalog), result
    return result


def catalog(*profiles: dict[str, Any], retired: list[Any] | None = None) -> Catalog:
    return load(*profiles, retired=retired).catalog
