"""The program that runs in the engine's container when its Pod is deleted."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from controller.api import EngineName, RoleKind
from controller.deployment import drain_hook
from controller.deployment.command_line import in_flight_terms
from controller.deployment.drain_hook import in_flight, wait
from controller.engines import BodyReader, Role
from tests.engines import dumps

GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")
ENCODER = in_flight_terms(EngineName.SGLANG, RoleKind.ENCODE)
DECODE = in_flight_terms(EngineName.SGLANG, RoleKind.DECODE)
RECEIVED = 'sglang:encoder_requests_received_total{modality="image"} 4.0\n'
ENDED = 'sglang:encoder_requests_total{status="success"} 3.0\nsglang:encoder_requests_total{status="error"} 1.0\n'
QUEUES = "".join(f"sglang:num_{each} 0\n" for each in ("running_reqs", "queue_reqs", "decode_prealloc_queue_reqs", "decode_transfer_queue_reqs"))  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("vllm:num_requests_running 1\nvllm:num_requests_waiting 2\n", 3.0, id="gauges are summed"),
        pytest.param('vllm:num_requests_running{engine="0"} 1.0\nvllm:num_requests_running{engine="1"} 4.0\nvllm:num_requests_waiting{m="a}b"} 0.0 1699\n', 5.0, id="over all ranks, whatever their labels hold"),
        pytest.param("# HELP vllm:num_requests_running x\nvllm:num_requests_running 0\n", None, id="a missing gauge is not zero"),
        pytest.param("vllm:num_requests_running zero\nvllm:num_requests_waiting 0\n", None, id="nor is one that is no number"),
        pytest.param("vllm:num_requests_running\nvllm:num_requests_waiting 0\n", None, id="nor one without a value"),
        pytest.param("vllm:num_requests_running_total 7\nvllm:num_requests_running 0\nvllm:num_requests_waiting 0\n", 0.0, id="a name that only begins alike is another one"),
        pytest.param("", None, id="nothing at all"),
    ],
)  # fmt: skip
def test_what_a_body_says(text: str, found: float | None):
    assert in_flight(text, GAUGES) == found


@pytest.mark.parametrize(
    ("terms", "text", "found"),
    [
        pytest.param(ENCODER, RECEIVED + ENDED, 0.0, id="an encoder that has ended what it received is idle, whether well or with errors"),
        pytest.param(ENCODER, RECEIVED + ENDED.splitlines()[0] + "\n", 1.0, id="one request is still being encoded"),
        pytest.param(ENCODER, RECEIVED, 4.0, id="none has ended yet"),
        pytest.param(ENCODER, ENDED, None, id="what came in is not told"),
        pytest.param(ENCODER, RECEIVED + ENDED + ENDED, None, id="more ended than came in: one of them is wrong"),
        pytest.param(ENCODER, 'sglang:encoder_model_forward_seconds_count{modality="image"} 7.0\n', None, id="an encoder that only its health was asked so far"),
        pytest.param(ENCODER, "", None, id="an encoder that prints nothing"),
        pytest.param(ENCODER, RECEIVED + "sglang:encoder_requests_total nan\n", None, id="a value that is no number"),
        pytest.param(DECODE, QUEUES, 0.0, id="an older decode process prints no host-receive queue"),
        pytest.param(DECODE, QUEUES + "sglang:num_decode_host_receive_queue_reqs 2\n", 2.0, id="what a newer one has there counts"),
        pytest.param(DECODE, QUEUES + "sglang:num_grammar_queue_reqs 1\n", 1.0, id="and so does what waits for a grammar"),
        pytest.param(DECODE, QUEUES.replace("prealloc_queue_reqs 0", "prealloc_queue_reqs 3"), 3.0, id="what waits for its prefill is accepted, too"),
        pytest.param(DECODE, QUEUES.replace("prealloc", "unheard_of"), None, id="without the prealloc queue the sum is short"),
        pytest.param(("new|old",), "old 2\n", 2.0, id="an older spelling"),
        pytest.param(("new|old",), "old 2\nnew 3\n", 3.0, id="of two spellings the newer"),
    ],
)  # fmt: skip
def test_what_terms_come_to(terms: tuple[str, ...], text: str, found: float | None):
    assert in_flight(text, terms) == found


@pytest.mark.parametrize(
    ("dump", "engine", "kind"),
    [
        pytest.param("vllm-01", EngineName.VLLM, RoleKind.SERVER, id="vLLM at rest"),
        pytest.param("vllm-02", EngineName.VLLM, RoleKind.SERVER, id="vLLM at work"),
        pytest.param("vllm-05", EngineName.VLLM, RoleKind.ENCODE, id="a vLLM encoder prints what a server prints"),
        pytest.param("vllm-08", EngineName.VLLM, RoleKind.DECODE, id="a vLLM decode process"),
        pytest.param("sglang-01", EngineName.SGLANG, RoleKind.SERVER, id="SGLang"),
        pytest.param("sglang-02", EngineName.SGLANG, RoleKind.PREFILL, id="an SGLang prefill process"),
        pytest.param("sglang-08", EngineName.SGLANG, RoleKind.ENCODE, id="an SGLang encoder"),
    ],
)
def test_the_hook_and_the_drain_agree_on_recorded_engines(dump: str, engine: EngineName, kind: RoleKind):
    body = dumps.dump(dump)
    reading = BodyReader().read(body, engine=engine.lower(), role=Role(kind))
    found = in_flight(body.decode(), in_flight_terms(engine, kind))
    assert found is not None
    assert (found == 0) is (reading.in_flight_requests == 0)


def _played(reads: list[float | None], seconds: float) -> float:
    """How long it waits for an engine that says these, the last for ever."""
    now = 0.0

    def sleep(for_seconds: float) -> None:
        nonlocal now
        now += for_seconds

    def look(url: str, gauges: object) -> float | None:
        return reads.pop(0) if len(reads) > 1 else reads[0]

    wait("http://127.0.0.1/metrics", seconds, GAUGES, look=look, now=lambda: now, sleep=sleep)
    return now


@pytest.mark.parametrize(
    ("reads", "seconds", "waits"),
    [
        pytest.param([0.0], 25, 6.0, id="an idle engine goes as soon as endpoints have settled"),
        pytest.param([3.0, 0.0, 0.0], 25, 7.0, id="requests are waited for"),
        pytest.param([0.0, 1.0, 0.0, 0.0], 25, 8.0, id="idle once is not idle"),
        pytest.param([None], 25, 25.0, id="an engine that does not say, as an SGLang encoder before its first request, gets all the time there is"),
        pytest.param([None, None, 0.0, 0.0], 25, 8.0, id="until it does"),
        pytest.param([9.0], 25, 25.0, id="and so does one that never ends"),
        pytest.param([0.0], 3, 3.0, id="a short grace is not overdrawn"),
    ],
)  # fmt: skip
def test_how_long_it_waits(reads: list[float | None], seconds: float, waits: float):
    assert _played(reads, seconds) == waits


def test_an_engine_that_is_gone_is_not_idle():
    assert drain_hook.read("http://127.0.0.1:9/metrics", GAUGES) is None


def test_it_needs_nothing_but_the_standard_library():
    tree = ast.parse(Path(drain_hook.__file__).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names
