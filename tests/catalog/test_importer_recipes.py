"""What makes a run of a plain replica, and what makes it something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catalog.identity import parse_identity
from catalog.importers import ImportOptions, Rule, import_files
from tests.catalog import tools
from tests.catalog.tools import IDENTITY, Run


def _with(document: Any, path: str, value: Any) -> Any:
    """A copy of a document in which the value at a dotted path is another."""
    changed = json.loads(json.dumps(document))
    *parents, last = path.split(".")
    holder = changed
    for part in parents:
        holder = holder[int(part) if isinstance(holder, list) else part]
    holder[last] = value
    return changed


_ENGINE = "scenario.stack.0.standardized"
_NATIVE = "scenario.stack.0.native.args"
_LOAD = "scenario.load.standardized"
_LOADGEN = "input_config.loadgen"


@pytest.mark.parametrize(
    ("format_name", "document", "rule"),
    [
        pytest.param(
            "vllm",
            tools.vllm_record(Run(), num_prompts=640),
            Rule.FAILURE_RATE,
            id="a stopped vLLM run counts no failure and half of its requests are missing",
        ),
        pytest.param(
            "aiperf",
            _with(tools.aiperf_document(Run()), f"{_LOADGEN}.request_count", 3000),
            Rule.FAILURE_RATE,
            id="an AIPerf run that ended long before its plan",
        ),
        pytest.param(
            "inference-perf",
            tools.inference_perf_stage(Run(), {"count": 960, "concurrency_level": 32}),
            Rule.FAILURE_RATE,
            id="a stage of which two thirds neither succeeded nor failed",
        ),
        pytest.param(
            "aiperf",
            _with(tools.aiperf_document(Run()), "input_config.endpoint.model_names", ["Qwen/Qwen3-8B", "a/b"]),
            Rule.NOT_A_POINT,
            id="one load over two models",
        ),
        pytest.param(
            "vllm",
            tools.vllm_record(Run(), model_id="team/served-32b"),
            Rule.IDENTITY_CONTRADICTED,
            id="a served name that the person maps to another model",
        ),
        pytest.param(
            "llm-d",
            _with(tools.llm_d_report(Run()), _NATIVE, {"--speculative-config": '{"method": "eagle3"}'}),
            Rule.SPECULATIVE,
            id="an engine that was started with speculative decoding",
        ),
        pytest.param(
            "llm-d",
            _with(tools.llm_d_report(Run()), f"{_LOAD}.prefix", {"prefix_len": {"value": 2000}}),
            Rule.CACHE_HITS,
            id="prompts that share a prefix, as a distribution",
        ),
        pytest.param(
            "llm-d",
            _with(tools.llm_d_report(Run()), f"{_LOAD}.prefix", {"prefix_len": 2000}),
            Rule.CACHE_HITS,
            id="prompts that share a prefix, as a number",
        ),
        pytest.param(
            "llm-d",
            _with(tools.llm_d_report(Run()), f"{_LOAD}.multi_turn", {"enabled": True}),
            Rule.CACHE_HITS,
            id="conversations of several turns",
        ),
        pytest.param(
            "llm-d",
            _with(tools.llm_d_report(Run()), f"{_ENGINE}.replicas", 0),
            Rule.NOT_POSITIVE,
            id="no replica, and throughput",
        ),
        pytest.param(
            "llm-d",
            _with(tools.llm_d_report(Run()), f"{_ENGINE}.replicas", 1.5),
            Rule.MALFORMED,
            id="one and a half replicas",
        ),
        pytest.param(
            "llm-d",
            _with(tools.llm_d_report(Run()), _NATIVE, {"--tensor-parallel-size": 8}),
            Rule.IDENTITY_CONTRADICTED,
            id="an engine that was started with more accelerators than the report states",
        ),
        pytest.param(
            "inferencex", tools.inferencex_row(Run(), hw="h200-nvl"), Rule.UNKNOWN_HARDWARE, id="the slower NVL board"
        ),
        pytest.param(
            "inferencex",
            tools.inferencex_row(Run(), hw="cluster:H100_PCIE_3"),
            Rule.UNKNOWN_HARDWARE,
            id="the slower PCIe board behind a runner's name",
        ),
        pytest.param("inferencex", tools.inferencex_row(Run(), hw="mi300x-vf"), Rule.UNKNOWN_HARDWARE, id="a VF"),
        pytest.param("inferencex", tools.inferencex_row(Run(), conc=0), Rule.NOT_POSITIVE, id="a concurrency of 0"),
        pytest.param(
            "inferencex", tools.inferencex_row(Run(), offload_mode="on"), Rule.CACHE_HITS, id="an offloaded KV cache"
        ),
        pytest.param(
            "inferencex",
            tools.inferencex_row(Run(), kv_offloading={"tier": "dram"}),
            Rule.CACHE_HITS,
            id="a described offload of the KV cache",
        ),
    ],
)
def test_what_is_no_plain_replica_is_refused(format_name: str, document: Any, rule: Rule, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document))
    stated = format_name not in ("llm-d", "inferencex")
    options = ImportOptions(
        identity=parse_identity(IDENTITY) if stated else None, models={"team/served-32b": "Qwen/Qwen3-32B"}
    )
    report = import_files([path], format_name, options)
    assert [refusal.rule for refusal in report.refusals] == [rule]
    assert report.catalog.profiles == ()


@pytest.mark.parametrize(
    ("format_name", "document"),
    [
        pytest.param(
            "inferencex",
            tools.inferencex_row(Run(), users=None, request_metrics=None, offload_mode="off", kv_offloading=None),
            id="a row of a table that has the columns of all scenarios",
        ),
        pytest.param("inferencex", tools.inferencex_row(Run(), hw="h200-nb_0"), id="a hardware with a runner's name"),
        pytest.param("vllm", tools.vllm_record(Run(), model_id="team/served"), id="a served name that --model maps"),
        pytest.param(
            "llm-d",
            _with(tools.llm_d_report(Run()), _NATIVE, {"--tensor-parallel-size": 1, "--block-size": 1024}),
            id="an engine that was started as the report states",
        ),
    ],
)
def test_what_is_a_plain_replica_is_imported(format_name: str, document: Any, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document))
    identity = parse_identity(IDENTITY) if format_name == "vllm" else None
    report = import_files(
        [path], format_name, ImportOptions(identity=identity, models={"team/served": "Qwen/Qwen3-8B"})
    )
    assert [str(refusal) for refusal in report.refusals] == []
    assert str(report.catalog.profiles[0].identity).startswith(IDENTITY)
