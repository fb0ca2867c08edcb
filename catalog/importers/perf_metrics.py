"""What AIPerf and GenAI-Perf share: statistics by metric with a unit, as JSON or as a CSV of two tables.

The CSV has one table of statistics and one of scalars, each under its own header; columns vary in set and order and the
unit stands in the metric's label, so everything is found by name, without case.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from catalog.importers.fields import Record, number, show
from catalog.importers.rules import Refused, Rule
from catalog.quantiles import Quantiles, percent

_LABEL: Final = re.compile(r"(.*?)\s*(?:\(([^()]*)\))?\s*")
_PERCENTILE: Final = re.compile(r"p([0-9]{1,2}(?:\.[0-9]{1,20})?)")
_GROUPED: Final = re.compile(r"-?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")
_MILLISECONDS: Final = {"ms": 1.0, "s": 1000.0, "sec": 1000.0, "seconds": 1000.0, "us": 1e-3, "ns": 1e-6}


class Metric(NamedTuple):
    """Statistics of one metric: `avg`, `p50` … and its unit as it is written."""

    unit: str
    statistics: Mapping[str, Any]


Metrics = dict[str, Metric]


def metrics_of_json(document: Record) -> Metrics:
    """The metrics of a report: flat at the top level, or under `records` in early versions. Only these two places are
    read: `warmup_metrics` holds a second tree of the same names."""
    holder = document.get("records")
    metrics: Metrics = {}
    for name, value in (holder if isinstance(holder, dict) else document).items():
        if isinstance(value, dict) and "avg" in value:
            unit = value.get("unit")
            metrics[_name(str(name))] = Metric(unit if isinstance(unit, str) else "", value)
    return metrics


def metrics_of_csv(content: str) -> Metrics:
    """The metrics of both tables of a CSV. Raises Refused when it is no such CSV."""
    metrics: Metrics = {}
    header: list[str] = []
    try:
        rows = list(csv.reader(io.StringIO(content)))
    except csv.Error as error:
        raise Refused(Rule.UNREADABLE, f"is not CSV: {error}") from None
    for row in rows:
        cells = [cell.strip() for cell in row]
        if not any(cells):
            header = []
        elif cells[0].lower() == "metric":
            header = [cell.lower() for cell in cells]
        elif header:
            match = _LABEL.fullmatch(cells[0])
            label, unit = (match.group(1), match.group(2) or "") if match else (cells[0], "")
            statistics = {
                # GenAI-Perf groups the digits of a cell: "1,146.31".
                name: cell.replace(",", "") if _GROUPED.fullmatch(cell) else cell
                for name, cell in zip(header[1:], cells[1:], strict=False)
                if cell
            }
            if "value" in statistics:
                statistics["avg"] = statistics["value"]
            metrics[_name(label)] = Metric(unit, statistics)
    if not metrics:
        raise Refused(Rule.NOT_THIS_FORMAT, "no table under a header that starts with Metric")
    return metrics


def scalar(metrics: Metrics, *names: str) -> float | None:
    """The average (or value) of the first of `names` that is there."""
    for name in names:
        metric = metrics.get(name)
        if metric is not None:
            value = number(metric.statistics, "avg")
            if value is not None:
                return value
    return None


def latency(metrics: Metrics, *names: str) -> tuple[Quantiles, float | None]:
    """(quantiles, mean) in milliseconds of the first of `names` that is there."""
    for name in names:
        metric = metrics.get(name)
        if metric is None:
            continue
        scale = _MILLISECONDS.get(metric.unit.lower() or "ms")
        if scale is None:
            raise Refused(Rule.UNITS, f"{name} has the unit {show(metric.unit)}")
        measured = []
        for key in metric.statistics:
            match = _PERCENTILE.fullmatch(str(key).lower())
            quantile = percent(match.group(1)) if match else None
            value = None if quantile is None else number(metric.statistics, key)
            if quantile is not None and value is not None:
                measured.append((quantile, value * scale))
        mean = number(metric.statistics, "avg")
        return tuple(sorted(measured)), None if mean is None else mean * scale
    return (), None


def _name(label: str) -> str:
    """`Time To First Token` and `time_to_first_token` → one name."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")
