"""Write docs/metrics.md from the metrics themselves: `python -m hack.generate_metrics_docs [--check]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from controller.operations import (
    KubeMetrics,
    LoopLag,
    ModelDeploymentMetrics,
    ScalerMetrics,
    WorkMetrics,
    register_build_info,
)

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
HEAD = """# Metrics

Generated from the code by `python -m hack.generate_metrics_docs`; do not edit.

Names and meanings of `workqueue_*`, `rest_client_*`, `leader_election_*` and `controller_runtime_*` are those of
client-go and controller-runtime, so their dashboards work. Ours start with `mdscaler_`. Times are wall-clock seconds.
A value that is not known has no series: unknown is not zero. The series of a deleted
scaler or deployment are removed. `mdscaler_deployment_*`, `mdscaler_retirement_*`, `mdscaler_drain_*` and
`mdscaler_pods_*` are those of standalone mode, see [retirement.md](retirement.md).

| metric | type | labels | meaning |
|---|---|---|---|
"""


def render() -> str:
    """The whole page."""
    registry = CollectorRegistry()
    KubeMetrics(registry)
    WorkMetrics(registry)
    ScalerMetrics(registry)
    ModelDeploymentMetrics(registry)
    LoopLag(registry)
    register_build_info(registry, "0")
    rows = {}
    for collector in list(registry._collector_to_names):
        assert isinstance(collector, MetricWrapperBase)
        family = next(iter(collector.describe()))
        name = f"{family.name}_total" if family.type == "counter" else family.name
        rows[name] = (
            f"| `{name}` | {family.type} | {', '.join(collector._labelnames) or '–'} | {family.documentation} |"
        )
    return HEAD + "\n".join(rows[name] for name in sorted(rows)) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write docs/metrics.md from the metrics of the controller.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 when the page is stale")
    if parser.parse_args().check:
        return int(PAGE.read_text() != render())
    PAGE.write_text(render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
