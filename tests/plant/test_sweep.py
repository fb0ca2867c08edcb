"""A sweep file is read by its fields, and a wrong one is refused with the field's name."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from controller.foundation import UsageError
from controller.plant import DEFAULT_SWEEP, SweepCurve, parse_sweep, read_sweep

DOCUMENT: dict[str, Any] = orjson.loads(DEFAULT_SWEEP.read_bytes())


def changed(path: list[str | int], value: object) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


def test_the_points_come_out_sorted_and_the_prompt_length_is_what_the_engine_got() -> None:
    document = changed(["points"], list(reversed(DOCUMENT["points"])))
    sweep = parse_sweep(document)
    assert [point.concurrency for point in sweep.points] == [2, 4, 8, 16, 24, 32]
    assert sweep.saturation_tokens_per_second == 17135.159
    assert sweep.input_tokens == pytest.approx(1045.7, abs=0.1)  # 1,024 and the chat template
    assert sweep.in_waves  # 88, 172, … 800 requests: whole multiples of the concurrency


def test_a_sweep_without_request_counts_or_output_rates_is_read_by_its_nominal_mix() -> None:
    document = copy.deepcopy(DOCUMENT)
    for point in document["points"]:
        del point["requests"], point["outputTokensPerSecond"]
    sweep = parse_sweep(document)
    assert not sweep.in_waves
    assert sweep.input_tokens == pytest.approx(1024)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        pytest.param(["points"], [], "points", id="no points"),
        pytest.param(["points", 1, "concurrency"], 2, "occurs twice", id="one concurrency twice"),
        pytest.param(["points", 0, "concurrency"], 0.5, "points[0].concurrency", id="a fractional concurrency"),
        pytest.param(["points", 2, "totalTokensPerSecond"], -1, "points[2].totalTokensPerSecond", id="negative rate"),
        pytest.param(["points", 3, "itl", "p50"], None, "points[3].itl.p50", id="no inter-token latency"),
        pytest.param(["points", 3, "ttft"], ..., "points[3].ttft", id="no time to first token"),
        pytest.param(["points", 4, "outputTokensPerSecond"], 20000, "below the total", id="more output than total"),
        pytest.param(["workload"], ..., "workload", id="no workload"),
        pytest.param(["workload", "outputTokens"], "many", "workload.outputTokens", id="a word for a number"),
    ],
)
def test_a_wrong_sweep_is_refused_with_the_field_that_is_wrong(path: list[str | int], value: object, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_sweep(changed(path, value))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "cannot read", id="a file that is missing"),
        pytest.param(b"{", "not JSON", id="a file that is not JSON"),
        pytest.param(b"[]", "document", id="a JSON list"),
    ],
)
def test_an_unusable_file_is_a_usage_error_with_its_name(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "sweep.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_sweep(path)
    assert str(path) in str(refused.value)
    assert said in str(refused.value)


def test_the_curve_goes_through_the_points_and_queues_beyond_the_last() -> None:
    sweep = read_sweep(DEFAULT_SWEEP)
    curve = SweepCurve(sweep, slowdown=2.0)
    for point in sweep.points:
        assert curve.total_tokens_per_second(point.concurrency) == pytest.approx(point.total_tokens_per_second / 2)
        assert curve.ttft_seconds(point.concurrency) == pytest.approx(point.ttft_seconds * 2)
        assert curve.itl_seconds(point.concurrency) == pytest.approx(point.itl_seconds * 2)
    assert curve.total_tokens_per_second(0) == 0
    assert curve.total_tokens_per_second(64) == curve.total_tokens_per_second(32)
    # 32 requests too many wait for one turn of the 32 that run.
    length = sweep.input_tokens + sweep.output_tokens
    assert curve.ttft_seconds(64) - curve.ttft_seconds(32) == pytest.approx(32 * length / (17135.159 / 2))
