"""What the forecast of `Predictive` is worth: on traffic traces against plain means, and on ramps.

`python -m hack.bench.forecast --traces DIR [--output json]`

For each trace of at most ten seconds' resolution (raw request files are binned to ten seconds), for prompt and output
tokens each scaled to a mean of five replicas, and at horizons of 30, 180 and 300 s: the mean absolute error of ours,
of the last bin, of the 60 s and the 180 s mean, of Holt's method and of two bare Kalman trends, as shares of the
trace's mean. The target is the mean of the last 60 s of the horizon (30 s at a horizon of 30 s). Both signals are
pooled in a row, and the last row of a trace pools its horizons. Files of a coarser resolution and waves made for show
are marked as reported only.

Then the ramps whose need is known (`hack.bench.ramp`): the largest raw ÷ needed of each algorithm, and on ramps of at
least four horizons the error of our forecast beside both means.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.scaling import kalman
from controller.scaling.forecast import Forecaster, Horizon, expected, observed
from controller.scaling.kalman import Noise
from controller.scaling.types import Predictive
from controller.scaling.windows import Flow, remember
from hack.bench.ramp import ALGORITHMS, PEAKS, RAMP_SECONDS, STARTUP_SECONDS, ramp, run

BIN_SECONDS = 10.0
HORIZONS_SECONDS = (30, 180, 300)
MEAN_REPLICAS = 5.0
FEWEST_FORECASTS = 30
RETENTION_SECONDS = 300.0
# Nobody is asked to forecast before the longer of the two means is full.
WARM_UP_BINS = 18

# A wave made for a demonstration has one crest; there is nothing to learn from its past.
SHOWN_ONLY = ("aibrix",)

Forecasts = dict[str, list[float]]


@dataclass
class Errors:
    """Summed absolute errors by forecaster."""

    sums: dict[str, float] = field(default_factory=dict)
    count: int = 0

    def add(self, errors: dict[str, float]) -> None:
        """One scored forecast."""
        self.count += 1
        for name, error in errors.items():
            self.sums[name] = self.sums.get(name, 0.0) + error

    def merge(self, other: Errors) -> None:
        """All of another's."""
        self.count += other.count
        for name, error in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + error

    def mean(self, name: str) -> float:
        """Mean absolute error as a share of the mean load."""
        return self.sums[name] / self.count / MEAN_REPLICAS

    @property
    def ratio_to_best_mean(self) -> float:
        """Our error ÷ that of the better of the two means."""
        best = min(self.sums["mean60"], self.sums["mean180"])
        return self.sums["ours"] / best if best else 1.0


def read_trace(path: Path) -> tuple[float, dict[str, list[float]]]:
    """(seconds of a bin, tokens per second by signal) of a trace file; raw request files are binned to ten seconds."""
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    if "requests" in rows[0]:
        seconds = float(rows[1]["t_s"]) - float(rows[0]["t_s"])
        return seconds, {
            signal: [float(row[f"{signal}_tokens"]) / seconds for row in rows] for signal in ("prompt", "output")
        }
    bins = int(float(rows[-1]["t_s"]) // BIN_SECONDS)
    signals = {signal: [0.0] * bins for signal in ("prompt", "output")}
    for row in rows:
        index = int(float(row["t_s"]) // BIN_SECONDS)
        if index < bins:  # the last bin is cut off somewhere
            for signal, values in signals.items():
                values[index] += float(row[f"{signal}_tokens"]) / BIN_SECONDS
    return BIN_SECONDS, signals


def our_forecasts(series: Sequence[float], seconds: float, horizon_seconds: float) -> list[float]:
    """What `Predictive` with its defaults expects after each bin."""
    settings = Predictive()
    noise = Noise(settings.q_level, settings.q_trend, settings.measurement_noise)
    horizon = Horizon(seconds=horizon_seconds, step_seconds=seconds)
    forecaster, flows, made = Forecaster(), (), []
    for index, value in enumerate(series):
        now = (index + 1) * seconds
        flows = remember(flows, Flow(now, seconds, value, value), RETENTION_SECONDS)
        forecaster = observed(forecaster, value, now, step_seconds=seconds, noise=noise, bare=False)
        forecaster, found = expected(forecaster, flows, now, horizon, per_replica=1.0, bare=False)
        made.append(found.value if found is not None else value)
    return made


def forecasts(series: Sequence[float], seconds: float, horizon_seconds: float) -> Forecasts:
    """All forecasters, after each bin."""
    steps = horizon_seconds / seconds
    return {
        "ours": our_forecasts(series, seconds, horizon_seconds),
        "last": list(series),
        "mean60": trailing(series, round(60 / seconds)),
        "mean180": trailing(series, round(180 / seconds)),
        "holt": holt(series, 0.1, 0.05, steps),
        "trendSmooth": trend(series, Noise(0.02, 0.0005, 1.0), steps),
        "trendSharp": trend(series, Noise(0.5, 0.3, 1.0), steps),
    }


def trailing(series: Sequence[float], bins: int) -> list[float]:
    """Means of the last bins."""
    means, running = [], 0.0
    for index, value in enumerate(series):
        running += value - (series[index - bins] if index >= bins else 0.0)
        means.append(running / min(bins, index + 1))
    return means


def holt(series: Sequence[float], alpha: float, beta: float, steps: float) -> list[float]:
    """Holt's linear method."""
    level, slope, made = series[0], 0.0, []
    for value in series:
        before = level
        level = alpha * value + (1 - alpha) * (level + slope)
        slope = beta * (level - before) + (1 - beta) * slope
        made.append(max(0.0, level + steps * slope))
    return made


def trend(series: Sequence[float], noise: Noise, steps: float) -> list[float]:
    """A bare local linear trend."""
    state, made = None, []
    for value in series:
        if state is None:
            state = kalman.started(value, noise.measurement, noise.measurement)
        else:
            state = kalman.updated(kalman.advanced(state, 1.0, noise), value, noise)
        made.append(kalman.extrapolated(state, steps))
    return made


def scored(series: Sequence[float], seconds: float, horizon_seconds: float) -> Errors:
    """Errors of all forecasters on one series at one horizon."""
    ahead = round(horizon_seconds / seconds)
    window = max(1, min(round(60 / seconds), ahead))
    errors, made = Errors(), forecasts(series, seconds, horizon_seconds)
    for index in range(WARM_UP_BINS, len(series) - ahead):
        target = series[index + ahead - window + 1 : index + ahead + 1]
        actual = sum(target) / len(target)
        errors.add({name: abs(values[index] - actual) for name, values in made.items()})
    return errors


def trace_rows(path: Path) -> Iterable[dict[str, Any]]:
    """The table's rows of one trace."""
    seconds, signals = read_trace(path)
    name = path.name.removesuffix(".csv.gz")
    counts = seconds <= BIN_SECONDS and not name.startswith(SHOWN_ONLY)
    if seconds > BIN_SECONDS:
        return
    pooled = Errors()
    for horizon in HORIZONS_SECONDS:
        errors = Errors()
        for series in signals.values():
            mean = sum(series) / len(series)
            if mean > 0.0:
                errors.merge(scored([MEAN_REPLICAS * value / mean for value in series], seconds, horizon))
        if errors.count < FEWEST_FORECASTS:
            continue
        pooled.merge(errors)
        yield _row(name, horizon, errors, counts=counts)
    if pooled.count:
        yield _row(name, None, pooled, counts=counts)


def _row(name: str, horizon: int | None, errors: Errors, *, counts: bool) -> dict[str, Any]:
    return {
        "trace": name,
        "horizonSeconds": horizon,
        "forecasts": errors.count,
        **{forecaster: round(errors.mean(forecaster), 4) for forecaster in errors.sums},
        "ratioToBestMean": round(errors.ratio_to_best_mean, 4),
        "reportedOnly": not counts,
    }


def ramp_rows() -> list[dict[str, Any]]:
    """The largest raw ÷ needed of each algorithm over the known-need set."""
    return [
        {
            "algorithm": name,
            "maxRawOverNeeded": round(
                max(
                    run(algorithm, peak, seconds, startup).over_ask
                    for peak in PEAKS
                    for seconds in RAMP_SECONDS
                    for startup in STARTUP_SECONDS
                ),
                3,
            ),
        }
        for name, algorithm in ALGORITHMS.items()
    ]


def ramp_forecasts() -> list[dict[str, Any]]:
    """Our forecast beside both means on the ramps that last at least four horizons."""
    rows = []
    for seconds in RAMP_SECONDS:
        for startup in STARTUP_SECONDS:
            horizon = startup + BIN_SECONDS
            if seconds < 4 * horizon:
                continue
            errors = Errors()
            for peak in PEAKS:
                demand = ramp(float(peak), float(seconds))
                length = int((1800 + 2 * seconds) / BIN_SECONDS)
                series = [demand(index * BIN_SECONDS) * MEAN_REPLICAS for index in range(length)]
                errors.merge(scored(series, BIN_SECONDS, horizon))
            rows.append(
                {
                    "rampSeconds": seconds,
                    "horizonSeconds": horizon,
                    **{name: round(errors.mean(name), 4) for name in ("ours", "mean60", "mean180")},
                    "ratioToBestMean": round(errors.ratio_to_best_mean, 4),
                }
            )
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench.forecast", description="Score the forecast.")
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR", help="folder of *.csv.gz traces")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    paths = sorted(options.traces.glob("*.csv.gz")) if options.traces.is_dir() else []
    if not paths:
        print(f"hack.bench.forecast: {options.traces} holds no *.csv.gz trace", file=sys.stderr)
        return 2
    rows = [row for path in paths for row in trace_rows(path)]
    result = {"rows": rows, "ramps": ramp_rows(), "rampForecasts": ramp_forecasts()}
    if options.output == "json":
        print(json.dumps(result))
        return 0
    for title, table in result.items():
        print(f"\n{title}")
        if table:
            names = list(table[0])
            print("  ".join(f"{name:>14}" for name in names))
            for row in table:
                print("  ".join(f"{row[name] if row[name] is not None else 'all':>14}" for name in names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
