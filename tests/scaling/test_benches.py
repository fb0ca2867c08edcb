"""The benches run and print what they promise; what they measure is judged where nothing else runs."""

from __future__ import annotations

import csv
import gzip
import json
import math
from pathlib import Path

import pytest

from hack.bench import decide as decide_bench
from hack.bench import forecast as forecast_bench


def test_the_decision_bench_prints_its_two_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(decide_bench, "measure_one", lambda: 812.34)
    monkeypatch.setattr(decide_bench, "measure_thousand", lambda: 0.23456)
    assert decide_bench.main(["--output", "json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures == {"microsecondsPerDecision": 812.3, "thousandScalersSeconds": 0.235}


def test_what_is_measured_is_a_decision_with_every_window_full() -> None:
    assert decide_bench.measure_one(batches=1, size=3) > 0.0
    assert decide_bench.measure_thousand(scalers=2, ticks=3) > 0.0


def write_trace(path: Path, header: list[str], rows: list[list[float]]) -> None:
    with gzip.open(path, "wt", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def test_the_forecast_bench_scores_every_trace_that_is_fine_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("PEAKS", (2,)), ("RAMP_SECONDS", (30, 600)), ("STARTUP_SECONDS", (76,))):
        monkeypatch.setattr(forecast_bench, name, value)
    wave = [100.0 + 50.0 * math.sin(index / 20.0) for index in range(120)]
    binned = ["t_s", "requests", "prompt_tokens", "output_tokens"]
    write_trace(tmp_path / "fine.csv.gz", binned, [[10 * index, 5, load * 10, load] for index, load in enumerate(wave)])
    write_trace(
        tmp_path / "coarse.csv.gz", binned, [[600 * index, 5, load * 10, load] for index, load in enumerate(wave)]
    )
    requests = [[second, 1000 + 10 * (second % 7), 100] for second in range(1300)]
    write_trace(tmp_path / "raw.csv.gz", ["t_s", "prompt_tokens", "output_tokens"], requests)
    assert forecast_bench.main(["--traces", str(tmp_path), "--output", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {(row["trace"], row["horizonSeconds"]) for row in result["rows"]} == {
        (trace, horizon) for trace in ("fine", "raw") for horizon in (30, 180, 300, None)
    }
    assert all(row["ratioToBestMean"] > 0.0 and row["forecasts"] >= 30 for row in result["rows"])
    assert {row["algorithm"] for row in result["ramps"]} == {
        "Proportional",
        "TokenThroughput",
        "Predictive",
        "Adaptive",
    }
    assert [row["rampSeconds"] for row in result["rampForecasts"]] == [600]


def test_a_folder_without_traces_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert forecast_bench.main(["--traces", str(tmp_path)]) == 2
    assert "holds no *.csv.gz trace" in capsys.readouterr().err
