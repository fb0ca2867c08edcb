"""The demo's result for people: a table for the terminal and a self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from controller.cli.demo_plan import DemoPlan
from controller.cli.demo_roles import HEADROOM
from controller.cli.demo_run import DemoOptions, DemoOutcome
from controller.cli.options import package_version
from controller.planning import committed_changes
from controller.reports import (
    Column,
    DecisionEntry,
    Fact,
    Mark,
    Note,
    Panel,
    Report,
    Series,
    SeriesKind,
    Style,
    Table,
    TargetLine,
    Tile,
    Tone,
    decision_log,
    format_duration,
    format_number,
    gap_bands,
    render_html,
    render_text,
)

_NEED_WINDOW_SECONDS = 60.0


def summary_table(plan: DemoPlan, outcome: DemoOutcome) -> str:
    """The figures, for the terminal."""
    results = outcome.results
    rows: list[tuple[str, str]] = [
        ("requests", f"{results.requests:,}, {results.completed:,} complete, {results.lost} lost"),
        ("decisions", f"{len(outcome.records)}, {results.replica_changes} changes of the count"),
        ("replicas", f"{_ready(outcome)} ready; the peak needed {plan.fit.need_replicas_peak:.1f}"),
        ("ready replica time", format_duration(results.ready_replica_seconds)),
        ("TTFT p50 / p99", f"{_ms(results.ttft_milliseconds.p50)} / {_ms(results.ttft_milliseconds.p99)} (model time)"),
        ("ITL p50 / p99", f"{_ms(results.itl_milliseconds.p50)} / {_ms(results.itl_milliseconds.p99)} (model time)"),
        ("controller restarts", _restarts(outcome)),
        ("took", f"{outcome.wall_seconds:.0f} s for {results.duration_seconds / 60:.0f} minutes of traffic"),
    ]
    table = Table(f"{plan.algorithm} on {plan.trace_name}", (Column("what"), Column("value")), rows)
    return render_text(table)


def render_results(plan: DemoPlan, options: DemoOptions, outcome: DemoOutcome) -> str:
    """The HTML page."""
    results, fit = outcome.results, plan.fit
    series = results.series
    times = list(series.t_seconds)
    restarts = [Mark(time, "controller killed", tone=Tone.ALERT) for time in outcome.restarts]
    capacity = fit.effective_tokens_per_second
    needed = Series(
        "needed",
        "replicas",
        times,
        _needed(series.demand_tokens_per_second, series.interval_seconds, capacity),
        SeriesKind.STEP,
    )
    ready = Series("ready", "replicas", times, list(series.ready_replicas), SeriesKind.STEP)
    wanted = Series("wanted", "replicas", times, list(series.desired_replicas), SeriesKind.STEP)
    ready_capacity = [capacity * count for count in series.ready_replicas]
    panels = [
        Panel(
            "Demand and capacity",
            "tokens/s",
            [
                Series("arriving", "tokens/s", times, list(series.demand_tokens_per_second), SeriesKind.AREA),
                Series("served", "tokens/s", times, list(series.served_tokens_per_second)),
                Series("capacity, ready", "tokens/s", times, ready_capacity, SeriesKind.STEP),
            ],
            marks=restarts,
        ),
        Panel("Replicas", "replicas", [needed, ready, wanted], marks=restarts, bands=gap_bands(needed, ready)),
        Panel(
            "Time to first token, in model time",
            "s",
            [
                Series("p50", "s", times, list(series.ttft_p50_seconds)),
                Series("p95", "s", times, list(series.ttft_p95_seconds)),
            ],
            marks=restarts,
            target_lines=[TargetLine(fit.ttft_target_seconds, "target, p95")],
        ),
    ]
    report = Report(
        title="One hour of traffic, scaled" if results.duration_seconds > 3000 else "Traffic, scaled",
        subtitle=f"{plan.algorithm} on {plan.trace_name}, engines timed by a sweep measured on an H200",
        tiles=[
            Tile("Lost requests", str(results.lost), f"of {results.requests:,}"),
            Tile("Ready replicas", _ready(outcome), f"the peak needed {fit.need_replicas_peak:.1f}"),
            Tile("Ready replica time", format_duration(results.ready_replica_seconds)),
            Tile("TTFT p50", _ms(results.ttft_milliseconds.p50), "model time"),
            Tile("TTFT p99", _ms(results.ttft_milliseconds.p99), "model time"),
            Tile("Controller restarts", str(len(outcome.restarts)), _restart_note(outcome)),
        ],
        panels=panels,
        tables=[decision_log(_entries(outcome), note="Every change of the declared count."), _totals(plan, outcome)],
        notes=_notes(plan, options, outcome),
        facts=[
            Fact("Version", package_version()),
            Fact("Seed", str(plan.seed)),
            Fact("Speed", f"{options.speed:.1f} × real time"),
            Fact("Wall time", f"{outcome.wall_seconds:.0f} s"),
        ],
    )
    return render_html(report)


def _needed(demand: Sequence[float], interval_seconds: float, capacity: float) -> list[float | None]:
    width = max(1, round(_NEED_WINDOW_SECONDS / interval_seconds))
    needed: list[float | None] = []
    for index in range(len(demand)):
        recent = demand[max(0, index - width + 1) : index + 1]
        needed.append(float(max(1, math.ceil(sum(recent) / len(recent) / capacity))))
    return needed


def _entries(outcome: DemoOutcome) -> list[DecisionEntry]:
    return [
        DecisionEntry(
            time_seconds=max(0.0, change.record.now - outcome.began),
            role=change.role,
            from_replicas=change.before,
            to_replicas=change.after,
            limited_by=str(change.record.decided.role(change.role).limited_by or ""),
            reason=change.record.decided.role(change.role).algorithm_reason,
        )
        for change in committed_changes(outcome.records)
    ]


def _ready(outcome: DemoOutcome) -> str:
    counts = outcome.results.series.ready_replicas
    return f"{min(counts)} to {max(counts)}" if counts else "–"


def _totals(plan: DemoPlan, outcome: DemoOutcome) -> Table:
    results = outcome.results
    return Table(
        "Totals",
        (Column("Figure"), Column("Value", Style.NUMBER, digits=6)),
        [
            ("requests", results.requests),
            ("tokens, prompt and output", results.tokens),
            ("output tokens", results.output_tokens),
            ("ready replica-seconds", results.ready_replica_seconds),
            ("declared replica-seconds", results.desired_replica_seconds),
            ("replica-seconds needed (tokens ÷ capacity)", results.tokens / plan.fit.effective_tokens_per_second),
            ("decisions", len(outcome.records)),
            ("shrinks", outcome.continuity.shrinks),
            ("shrinks that an unbroken run would not have made by then", len(outcome.continuity.early)),
        ],
    )


def _notes(plan: DemoPlan, options: DemoOptions, outcome: DemoOutcome) -> list[Note]:
    fit = plan.fit
    return [
        Note(
            "What is real",
            "The traffic's arrival times and lengths, HTTP between all parts, the watch streams, the Prometheus text, "
            "and the controller, which is the one that runs on a cluster, in a process of its own.",
        ),
        Note(
            "What is scaled",
            f"The trace has {plan.original_requests:,} requests; one in {fit.thinning:.2f} is replayed. The engines "
            f"follow a sweep of Qwen3-8B on an H200 and are slowed by {fit.slowdown:.1f}, so that the load needs "
            f"{fit.need_replicas_low:.1f} to {fit.need_replicas_peak:.1f} replicas. Capacity and latency targets of "
            f"the scaler are scaled with them: {format_number(fit.effective_tokens_per_second)} tokens/s per replica "
            f"(headroom {HEADROOM}), TTFT {fit.ttft_target_seconds:.1f} s, ITL {1000 * fit.itl_target_seconds:.0f} ms.",
        ),
        Note(
            "Clocks",
            f"Model time runs {options.speed:.1f} times as fast as the wall clock; every latency and window here is "
            "model time. A streamed frame may carry several tokens. Leases, HTTP and watches run on the wall clock. "
            f"The latest request was sent {outcome.results.latest_send_seconds:.1f} s after its time in the trace. "
            f"“Needed” is the mean load of the last {_NEED_WINDOW_SECONDS:.0f} s over the capacity of one replica.",
        ),
        Note(
            "What it does not show",
            "One role, one engine model without prefix cache, no network, no GPUs, and a start-up of 76 s throughout.",
        ),
    ]


def _restarts(outcome: DemoOutcome) -> str:
    return f"{len(outcome.restarts)}{', ' + _restart_note(outcome) if outcome.restarts else ''}"


def _restart_note(outcome: DemoOutcome) -> str:
    if not outcome.restarts:
        return ""
    return f"{len(outcome.continuity.early)} of {outcome.continuity.shrinks} shrinks earlier than without"


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f} ms"
