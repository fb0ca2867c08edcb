"""Files that the commands are tried on."""

from __future__ import annotations

from pathlib import Path

from tests.catalog.builders import DATA

GPT_OSS = "Server/openai/gpt-oss-120b/fp4/vllm/nvidia-h200/gpus=1,tp=1"
SAMPLES = DATA / "samples" / "inferencex"
SWEEP = DATA / "h200-sweep.yaml"


def official(*runs: str) -> list[Path]:
    return [SAMPLES / f"run_{run}" / "agg_bmk.json" for run in runs]
