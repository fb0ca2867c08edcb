"""Command lines by engine, kind of role and place in the replica."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api import EngineName, RoleKind
from controller.deployment.command_line import command_line, in_flight_terms
from controller.deployment.flags import Flags
from controller.deployment.weights import Weights
from tests.deployment.builders import deployment

MODEL = "Qwen/Qwen3-8B"
VLLM = ["vllm", "serve", MODEL, "--served-model-name", MODEL, "--port", "8000"]
SGLANG = [
    "python3", "-m", "sglang.launch_server", "--model-path", MODEL, "--served-model-name", MODEL,
    "--host", "0.0.0.0", "--port", "8000", "--enable-metrics",
]  # fmt: skip
NIXL = ["--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_both"}']
LEADER = "chat-r-1-m0.chat-r-r1.team.svc"


def _line(engine: str, roles: list[dict[str, Any]], *, member: int = 0, ordinal: int = 1, **weights: Any) -> list[str]:
    made = deployment([{"name": "r", **role} for role in roles], engine={"name": engine, "version": "1"})
    line = command_line(made, made.roles[0], Weights(**{"model": MODEL, **weights}), ordinal, member)
    assert line is not None
    return [*line.command, *line.arguments]


@pytest.mark.parametrize(
    ("engine", "role", "member", "line"),
    [
        pytest.param("vLLM", {}, 0, VLLM, id="a vLLM server"),
        pytest.param("sglang", {}, 0, SGLANG, id="an SGLang server, spelled as older objects do"),
        pytest.param("vLLM", {"extraArgs": ["--max-num-seqs", "8"]}, 0, [*VLLM, "--max-num-seqs", "8"], id="extra arguments come last and win"),
        pytest.param("vLLM", {"ports": [{"port": 9000}]}, 0, [*VLLM[:-1], "9000"], id="the first port serves"),
        pytest.param("vLLM", {"kind": "Prefill"}, 0, [*VLLM, *NIXL], id="a vLLM prefill role hands its cache over"),
        pytest.param("vLLM", {"kind": "Decode"}, 0, [*VLLM, *NIXL], id="a vLLM decode role takes it"),
        pytest.param("vLLM", {"kind": "Decode", "extraArgs": ["--kv_transfer_config.kv_connector", "X"]}, 0, [*VLLM, "--kv_transfer_config.kv_connector", "X"], id="a connector of the user's own is the only one"),
        pytest.param("vLLM", {"kind": "Encode"}, 0, [*VLLM, "--mm-encoder-only", "--no-enable-prefix-caching"], id="a vLLM encode role runs the encoder alone"),
        pytest.param("SGLang", {"kind": "Prefill"}, 0, [*SGLANG, "--disaggregation-mode", "prefill"], id="an SGLang prefill role"),
        pytest.param("SGLang", {"kind": "Decode"}, 0, [*SGLANG, "--disaggregation-mode", "decode"], id="an SGLang decode role"),
        pytest.param("SGLang", {"kind": "Encode"}, 0, [*SGLANG, "--encoder-only"], id="an SGLang encode role"),
        pytest.param("vLLM", {"size": 2}, 0, [*VLLM, "--nnodes", "2", "--node-rank", "0", "--master-addr", LEADER], id="the leader of two vLLM members"),
        pytest.param("vLLM", {"size": 2}, 1, [*VLLM, "--nnodes", "2", "--node-rank", "1", "--master-addr", LEADER, "--headless"], id="a follower of it serves nothing"),
        pytest.param("SGLang", {"size": 2}, 1, [*SGLANG, "--nnodes", "2", "--node-rank", "1", "--dist-init-addr", f"{LEADER}:20000"], id="a follower of an SGLang leader"),
        pytest.param("vLLM", {"size": 2, "extraArgs": ["-dpe", "-dpn", "$(GPUSTACK_MEMBER_INDEX)"]}, 1, [*VLLM, "-dpe", "-dpn", "$(GPUSTACK_MEMBER_INDEX)"], id="members wired by the user are not wired again"),
        pytest.param("vLLM", {"command": ["serve-it", "--now"], "extraArgs": ["--ignored"]}, 0, ["serve-it", "--now"], id="a command of the user's own is the whole of it"),
    ],
)  # fmt: skip
def test_a_command_line(engine: str, role: dict[str, Any], member: int, line: list[str]):
    assert _line(engine, [role], member=member) == line


def test_an_sglang_prefill_role_beside_an_encode_role_asks_its_service():
    line = _line("SGLang", [{"kind": "Prefill"}, {"name": "encode", "kind": "Encode", "ports": [{"port": 9000}]}])
    assert line[-3:] == ["--language-only", "--encoder-urls", "http://chat-encode.team.svc:9000"]


def test_a_revision_is_pinned_unless_the_user_pins_one():
    assert _line("vLLM", [{}], revision="abc")[-2:] == ["--revision", "abc"]
    assert _line("vLLM", [{"extraArgs": ["--revision=main"]}], revision="abc")[-1] == "--revision=main"
    assert "abc" not in _line("vLLM", [{"extraArgs": ["--revision=main"]}], revision="abc")


def test_an_unknown_engine_has_no_command_line():
    made = deployment(engine={"name": "llama.cpp"})
    assert command_line(made, made.roles[0], Weights(MODEL), 0, 0) is None


@pytest.mark.parametrize(
    ("engine", "arguments", "member", "truth"),
    [
        pytest.param(EngineName.VLLM, ["--data_parallel_external_lb"], "every_member_answers", True, id="vLLM takes underscores for dashes"),
        pytest.param(EngineName.SGLANG, ["--dist_init_addr", "x"], "wires_members", False, id="SGLang does not"),
        pytest.param(EngineName.VLLM, ["--", "--port", "1"], "moves_server", False, id="after a bare -- nothing is a flag"),
        pytest.param(EngineName.VLLM, ["--host=::"], "moves_server", True, id="a value may follow an equals sign"),
        pytest.param(EngineName.VLLM, ["--grpc"], "moves_server", True, id="no HTTP is spoken at the port"),
        pytest.param(EngineName.VLLM, ["--ssl-keyfile", "k"], "serves_tls", True, id="a key means https"),
        pytest.param(EngineName.VLLM, ["host"], "moves_server", False, id="a value is no flag"),
        pytest.param(EngineName.VLLM, ["-dpm"], "several_ports", True, id="several servers in one Pod"),
    ],
)  # fmt: skip
def test_reading_flags(engine: EngineName, arguments: list[str], member: str, truth: bool):
    assert getattr(Flags.of(engine, arguments), member) is truth


@pytest.mark.parametrize(
    ("engine", "kind", "holds", "lacks"),
    [
        pytest.param(EngineName.VLLM, RoleKind.ENCODE, "vllm:num_requests_running", "encoder", id="an encoder of vLLM is a server to its metrics"),
        pytest.param(EngineName.SGLANG, RoleKind.PREFILL, "sglang:num_prefill_inflight_queue_reqs", "decode", id="a prefill process has its hand-over queues"),
        pytest.param(EngineName.SGLANG, RoleKind.DECODE, "sglang:num_decode_transfer_queue_reqs", "prefill", id="and so has a decode process"),
        pytest.param(EngineName.SGLANG, RoleKind.ENCODE, "sglang:encoder_requests_received_total", "num_", id="an encoder of SGLang has counters and nothing else"),
    ],
)  # fmt: skip
def test_what_the_hook_sums(engine: EngineName, kind: RoleKind, holds: str, lacks: str):
    terms = in_flight_terms(engine, kind)
    assert holds in terms
    assert lacks not in " ".join(terms)
