"""Other projects' decision tables hold for our functions and for the rebuilt rivals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hack.conformance.__main__ import main
from hack.conformance.suites import SUITES, agrees

VECTORS = Path(__file__).parent.parent / "data" / "decision-vectors"


def vectors() -> list[object]:
    documents = [json.loads(path.read_text()) for path in sorted(VECTORS.glob("*.json"))]
    return [
        pytest.param(document["id"], vector, id=vector["id"])
        for document in documents
        for vector in document.get("vectors", ())
    ]


@pytest.mark.parametrize(("suite", "vector"), vectors())
def test_vector(suite: str, vector: dict[str, object]) -> None:
    actual = SUITES[suite](vector["in"])
    assert agrees(vector["expect"], actual), actual


# Told in words only, in the notes to those suites.
SPOKEN = [
    pytest.param(
        "hpa.resource",
        {
            "current": 4,
            "target_percent": 100,
            "pods": [{"state": "ready", "use": use, "req": 1000} for use in (400, 95)]
            + [{"state": "missing", "req": 1000}] * 2,
        },
        3,
        id="two of four pods report 40 % and 9.5 %: the silent two count as fully used",
    ),
    pytest.param(
        "hpa.resource",
        {
            "current": 4,
            "target_percent": 300,
            "pods": [
                {"state": "ready", "use": use, "req": 1000 * cores} for use, cores in ((200, 1), (100, 1), (100, 2))
            ]
            + [{"state": "missing", "req": 2000}],
        },
        2,
        id="above a target of 100 % a silent pod counts as exactly at target",
    ),
    pytest.param(
        "hpa.behavior-rate",
        {
            "current": 6,
            "desired": 24,
            "min": 1,
            "max": 1000,
            "events": [{"delta": 4, "age": 200}, {"delta": -2, "age": 100}],
            "rules": {"up": {"policies": [{"type": "Percent", "value": 300, "period": 300}], "select": "Max"}},
        },
        16,
        id="300 % in 300 s counts from the count before what was added and removed",
    ),
    pytest.param(
        "hpa.behavior-rate",
        {
            "current": 100,
            "desired": 0,
            "min": 0,
            "max": 1000,
            "events": [{"delta": -2, "age": 119}, {"delta": -4, "age": 79}, {"delta": -6, "age": 39}],
            "rules": {"down": {"policies": [{"type": "Percent", "value": 50, "period": 120}], "select": "Max"}},
        },
        56,
        id="half of what there was two minutes ago",
    ),
    pytest.param(
        "hpa.behavior-rate",
        {
            "current": 100,
            "desired": 0,
            "min": 0,
            "max": 1000,
            "events": [{"delta": -30, "age": 60}],
            "rules": {"down": {"policies": [{"type": "Percent", "value": 10, "period": 120}], "select": "Max"}},
        },
        100,
        id="a limit already exceeded blocks, and never moves against the direction",
    ),
    pytest.param(
        "hpa.behavior-rate",
        {
            "current": 10,
            "desired": 1,
            "min": 1,
            "max": 1000,
            "events": [],
            "rules": {"down": {"policies": [{"type": "Pods", "value": 5, "period": 60}], "select": "Disabled"}},
        },
        10,
        id="a disabled direction does not move",
    ),
    pytest.param(
        "kpa.window-average",
        {"records": [{"t": second, "v": second + 1} for second in range(5)], "read_at": 14},
        0.0,
        id="ten seconds later the window is empty",
    ),
    pytest.param(
        "dynamo.pair-fit",
        {"current": [24, 40], "proposed": [32, 48], "min_gpu": 64, "max_gpu": 64},
        [24, 40],
        id="two growing roles at the ceiling hold",
    ),
    pytest.param(
        "dynamo.throughput-pair",
        {
            "current": [1, 1],
            "raw": [None, None],
            "load_scaling": False,
            "cap": 8,
            "min_gpu": -1,
            "max_gpu": 64,
            "p_min": 1,
            "d_min": 3,
        },
        {"scale": [1, 3]},
        id="a model that is not ready does not keep endpoints missing",
    ),
    pytest.param(
        "dynamo.throughput-pair",
        {
            "current": [1, 3],
            "raw": [None, None],
            "load_scaling": False,
            "cap": 8,
            "min_gpu": -1,
            "max_gpu": 64,
            "p_min": 1,
            "d_min": 3,
        },
        {"hold": "model_not_ready"},
        id="a model that is not ready holds",
    ),
    pytest.param(
        "dynamo.throughput-pair",
        {
            "current": [27, 36],
            "raw": [8, 8],
            "load_scaling": True,
            "cap": 8,
            "min_gpu": 64,
            "max_gpu": 64,
            "p_min": 1,
            "d_min": 1,
        },
        {"floor": [19, 28]},
        id="a floor for the load path is not inflated by the band's own floor",
    ),
    pytest.param(
        "dynamo.clamp-pair",
        {"p": 1, "d": 1, "p_gpu": 2, "d_gpu": 2, "min_gpu": 5, "max_gpu": 5, "p_min": 1, "d_min": 1},
        {"total_gpus_between": [4, 5]},
        id="an odd band of even replicas is approached from below",
    ),
    pytest.param(
        "dynamo.pair-guard",
        {"current": [27, 37], "proposed": [28, 36], "min_gpu": 64, "max_gpu": 64},
        [28, 36, None],
        id="a funded swap passes the other way round too",
    ),
    pytest.param(
        "dynamo.consolidation",
        {"workers": 2, "kv_per_worker": 60000, "itl_sla_ms": 1000, "max_kv": 100000, "sensitivity": 0.8},
        2,
        id="a survivor's cache must hold both",
    ),
    pytest.param(
        "dynamo.predictor-contract",
        {"kind": "constant", "series": [0, 0]},
        {"forecast": 0, "buffered": 0},
        id="leading zeros are not remembered",
    ),
]


@pytest.mark.parametrize(("suite", "given", "expected"), SPOKEN)
def test_rule_told_in_words(suite: str, given: dict[str, object], expected: object) -> None:
    actual = SUITES[suite](given)
    assert agrees(expected, actual), actual


def test_the_harness_counts_what_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(VECTORS), "--suite", "hpa.pods-metric"]) == 0
    assert capsys.readouterr().out.splitlines() == ["hpa.pods-metric: 6/6", "6 passed, 0 failed"]


def test_the_harness_shows_what_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {
        "id": "keda.fallback",
        "vectors": [
            {"id": "off", "in": {"behavior": "static", "replicas": 2, "target": 3}, "expect": 7},
            {"id": "unreadable", "in": {}, "expect": 1},
        ],
    }
    (tmp_path / "keda.json").write_text(json.dumps(wrong))
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "keda.fallback: 0/2",
        "  off: expected 7, got 6",
        "  unreadable: KeyError: 'behavior'",
        "0 passed, 2 failed",
    ]


def test_a_folder_without_suites_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "holds no suite" in capsys.readouterr().err
    assert main([str(tmp_path / "missing")]) == 2
    (tmp_path / "new.json").write_text('{"id": "new.suite", "vectors": []}')
    assert main([str(tmp_path)]) == 2
    assert "no rule is known for suite 'new.suite'" in capsys.readouterr().err
