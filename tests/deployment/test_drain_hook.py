"""The program that runs in the engine's container when its Pod is deleted."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from controller.deployment import drain_hook
from controller.deployment.drain_hook import in_flight, wait

GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")


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
        pytest.param([None], 25, 25.0, id="an engine that does not answer gets all the time there is"),
        pytest.param([9.0], 25, 25.0, id="and so does one that never ends"),
        pytest.param([0.0], 3, 3.0, id="a short grace is not overdrawn"),
    ],
)
def test_how_long_it_waits(reads: list[float | None], seconds: float, waits: float):
    assert _played(reads, seconds) == waits


def test_an_engine_that_is_gone_is_not_idle():
    assert drain_hook.read("http://127.0.0.1:9/metrics", GAUGES) is None


def test_it_needs_nothing_but_the_standard_library():
    tree = ast.parse(Path(drain_hook.__file__).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names
