"""The demo's result for people: a table for the terminal and a self-contained HTML page."""

from __future__ import annotations

import math

from controller.cli.demo_plan import DemoPlan
from controller.cli.demo_roles import HEADROOM, MEDIA_TOKENS, RolePlan
from controller.cli.demo_run import DemoOptions, DemoOutcome
from controller.cli.options import counted, package_version
from controller.embedded.cycling import Cycles
from controller.embedded.engine import EngineKind
from controller.embedded.results import Quantiles
from controller.embedded.retirement_history import Retirements
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
_NEARLY_AN_HOUR_SECONDS = 3000.0
_CYCLES = Cycles()


def summary_table(plan: DemoPlan, outcome: DemoOutcome) -> str:
    """The figures, for the terminal."""
    results = outcome.results
    rows: list[tuple[str, str]] = [
        ("requests", f"{results.requests:,}, {results.completed:,} complete, {results.lost} lost"),
        ("decisions", f"{len(outcome.records)}, {counted(results.replica_changes, 'change', 'changes')} of the count"),
        *((f"{role.name} replicas", f"{_ready(role, outcome)} ready; {_peak(role, plan)}") for role in plan.roles),
        ("ready replica time", format_duration(results.ready_replica_seconds)),
        ("retirements", _retirements(outcome)),
        ("TTFT p50 / p95 / p99", _latencies(results.ttft_milliseconds, plan, plan.fit.ttft_target_seconds)),
        ("ITL p50 / p95 / p99", _latencies(results.itl_milliseconds, plan, plan.fit.itl_target_seconds)),
        ("controller restarts", _restarts(outcome)),
        ("took", f"{outcome.wall_seconds:.0f} s for {_minutes(results.duration_seconds)} of traffic"),
    ]
    table = Table(_what_ran(plan), (Column("what"), Column("value")), rows)
    return render_text(table)


def render_results(plan: DemoPlan, options: DemoOptions, outcome: DemoOutcome, doubt: str = "") -> str:
    """The HTML page. `doubt`: why the result means nothing; it comes before anything else."""
    results, fit = outcome.results, plan.fit
    series = results.series
    times = list(series.t_seconds)
    restarts = [Mark(time, "controller killed", tone=Tone.ALERT) for time in outcome.restarts]
    panels = [
        _demand_panel(plan, outcome, times, restarts),
        *(_replicas_panel(role, outcome, times, restarts) for role in plan.roles),
        Panel(
            "Time to first token, in model time",
            "s",
            [
                Series("p50", "s", times, list(series.ttft_p50_seconds)),
                Series("p95", "s", times, list(series.ttft_p95_seconds)),
            ],
            marks=restarts,
            target_lines=[TargetLine(fit.ttft_target_seconds, "target, p95")] if plan.keeps_latencies else [],
        ),
    ]
    report = Report(
        title=_title_of(plan, results.duration_seconds),
        subtitle=(f"{doubt[0].upper()}{doubt[1:]}. " if doubt else "")
        + f"{_what_ran(plan)}, engines timed by a sweep measured on an H200",
        tiles=[
            Tile("Lost requests", str(results.lost), f"of {results.requests:,}"),
            *(
                Tile(_title(role, plan, "ready replicas"), _ready(role, outcome), _peak(role, plan))
                for role in plan.roles
            ),
            Tile("Ready replica time", format_duration(results.ready_replica_seconds)),
            _retirements_tile(outcome),
            Tile("TTFT p50", _latency(results.ttft_milliseconds.p50), "model time"),
            Tile(
                "TTFT p95",
                _latency(results.ttft_milliseconds.p95),
                f"model time{_target(plan, fit.ttft_target_seconds, '')}",
            ),
            Tile("TTFT p99", _latency(results.ttft_milliseconds.p99), "model time"),
            Tile("Controller restarts", str(len(outcome.restarts)), _restart_note(outcome)),
        ],
        panels=panels,
        tables=[decision_log(_entries(outcome), note=_decided_note(plan)), _totals(plan, outcome)],
        notes=_notes(plan, options, outcome),
        facts=[
            Fact("Version", package_version()),
            Fact("Seed", str(plan.seed)),
            Fact("Speed", f"{options.speed:.1f} × real time"),
            Fact("Wall time", f"{outcome.wall_seconds:.0f} s"),
        ],
    )
    return render_html(report)


def _demand_panel(plan: DemoPlan, outcome: DemoOutcome, times: list[float], marks: list[Mark]) -> Panel:
    series = outcome.results.series
    shown = [
        Series("arriving", "tokens/s", times, list(series.demand_tokens_per_second), SeriesKind.AREA),
        Series("served", "tokens/s", times, list(series.served_tokens_per_second)),
    ]
    if len(plan.roles) == 1:  # of several roles the capacities count different tokens
        (role,) = plan.roles
        capacity = [role.effective_tokens_per_second * counts.ready for counts in series.replicas[role.name]]
        shown.append(Series("capacity, ready", "tokens/s", times, capacity, SeriesKind.STEP))
    return Panel("Demand and capacity" if len(plan.roles) == 1 else "Demand", "tokens/s", shown, marks=marks)


def _replicas_panel(role: RolePlan, outcome: DemoOutcome, times: list[float], marks: list[Mark]) -> Panel:
    counts = outcome.results.series.replicas[role.name]
    ready = Series("ready", "replicas", times, [each.ready for each in counts], SeriesKind.STEP)
    wanted = Series("wanted", "replicas", times, [each.desired for each in counts], SeriesKind.STEP)
    if role.kind is EngineKind.ENCODE:
        return Panel("Replicas: encode, at a ratio to prefill", "replicas", [ready, wanted], marks=marks)
    needed = Series("needed", "replicas", times, _needed(role, outcome), SeriesKind.STEP)
    title = "Replicas" if role.kind is EngineKind.SERVER else f"Replicas: {role.name}"
    return Panel(title, "replicas", [needed, ready, wanted], marks=marks, bands=gap_bands(needed, ready))


def _needed(role: RolePlan, outcome: DemoOutcome) -> list[float | None]:
    series = outcome.results.series
    demand = [
        role.demand(prompt, every - prompt)
        for prompt, every in zip(series.prompt_tokens_per_second, series.demand_tokens_per_second, strict=True)
    ]
    width = max(1, round(_NEED_WINDOW_SECONDS / series.interval_seconds))
    needed: list[float | None] = []
    for index in range(len(demand)):
        recent = demand[max(0, index - width + 1) : index + 1]
        needed.append(float(max(1, math.ceil(sum(recent) / len(recent) / role.effective_tokens_per_second))))
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


def _ready(role: RolePlan, outcome: DemoOutcome) -> str:
    counts = [each.ready for each in outcome.results.series.replicas[role.name]]
    return f"{min(counts)} to {max(counts)}" if counts else "–"


def _peak(role: RolePlan, plan: DemoPlan) -> str:
    if plan.cycles is not None:
        return f"set to {_CYCLES.high} and to {_CYCLES.low} again"
    return "at a ratio to prefill" if role.kind is EngineKind.ENCODE else f"the peak needed {role.peak:.1f}"


def _what_ran(plan: DemoPlan) -> str:
    if plan.cycles is None:
        return f"{plan.algorithm} on {plan.trace_name}"
    cycles = counted(plan.cycles, "cycle", "cycles")
    return f"{cycles} of the counts under steady traffic ({plan.algorithm} only watched)"


def _title_of(plan: DemoPlan, seconds: float) -> str:
    if plan.cycles is not None:
        return "Counts that go up and down"
    return "One hour of traffic, scaled" if seconds > _NEARLY_AN_HOUR_SECONDS else "Traffic, scaled"


def _decided_note(plan: DemoPlan) -> str:
    if plan.decides:
        return "Every change of the declared count."
    return "The scaler changed no count: the demo set them, and the scaler only watched."


def _title(role: RolePlan, plan: DemoPlan, what: str) -> str:
    return what.capitalize() if len(plan.roles) == 1 else f"{role.name.capitalize()}, {what}"


def _retirements(outcome: DemoOutcome) -> str:
    ended = outcome.results.retirements
    return "–" if ended is None else ", ".join([f"{ended.completed} completed", *_not_completed(ended)])


def _retirements_tile(outcome: DemoOutcome) -> Tile:
    """The figure is what was completed, short enough for one line; the rest is a note on it."""
    ended = outcome.results.retirements
    if ended is None:
        return Tile("Retirements", "–")
    return Tile("Retirements completed", str(ended.completed), ", ".join(_not_completed(ended)))


def _not_completed(ended: Retirements) -> list[str]:
    parts = [(ended.adopted, "called back"), (ended.aborted, "aborted")]
    return [f"{count} {what}" for count, what in parts if count]


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
            *(
                (f"{role.name} replica-seconds, ready", results.roles[role.name].ready_replica_seconds)
                for role in plan.roles
            ),
            ("requests in flight at replicas that ended", results.cut_requests),
            ("scalers that wrote counts at one time", results.writers.effective_writers if results.writers else None),
            ("decisions", len(outcome.records)),
            ("shrinks", outcome.continuity.shrinks),
            ("shrinks that an unbroken run would not have made by then", len(outcome.continuity.early)),
        ],
    )


def _notes(plan: DemoPlan, options: DemoOptions, outcome: DemoOutcome) -> list[Note]:
    fit = plan.fit
    arrivals = "The traffic's arrival times and lengths" if plan.decides else "The lengths of the requests"
    return [
        Note(
            "What is real",
            f"{arrivals}, HTTP between all parts, the watch streams, the Prometheus text, and the controller, which is "
            "the one that runs on a cluster, in a process of its own.",
        ),
        Note(
            "What is scaled",
            f"{_load(plan)} The engines follow a sweep of Qwen3-8B on an H200 and are slowed, so that the trace needs "
            f"up to about five replicas of each role: {'; '.join(map(_scaled, plan.roles))} (headroom {HEADROOM}). "
            f"Latency targets at p95: TTFT {fit.ttft_target_seconds:.1f} s, ITL "
            f"{1000 * fit.itl_target_seconds:.0f} ms, those of the sweep slowed by {fit.slowdown:.1f}."
            + (f" Up to {MEDIA_TOKENS} tokens of every prompt stand for an image." if plan.media_tokens else ""),
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
            "Engines without prefix cache, no network, no GPUs, and a start-up of 76 s throughout.",
        ),
    ]


def _load(plan: DemoPlan) -> str:
    if plan.cycles is None:
        return f"The trace has {plan.original_requests:,} requests; one in {plan.fit.thinning:.2f} is replayed."
    return (
        f"No trace is replayed: requests with lengths from {plan.trace_name} arrive at a steady "
        f"{plan.cycling_requests_per_second():.2g} a second, half of what one replica of each role serves, while the "
        f"count of each role in its turn is set to {_CYCLES.high} and to {_CYCLES.low} again."
    )


def _scaled(role: RolePlan) -> str:
    return (
        f"{role.name} {role.service.slowdown:.1f} times, "
        f"{format_number(role.effective_tokens_per_second)} tokens/s per replica"
    )


def _minutes(seconds: float) -> str:
    return counted(round(seconds / 60), "minute", "minutes")


def _restarts(outcome: DemoOutcome) -> str:
    return f"{len(outcome.restarts)}{', ' + _restart_note(outcome) if outcome.restarts else ''}"


def _restart_note(outcome: DemoOutcome) -> str:
    if not outcome.restarts:
        return ""
    shrinks = counted(outcome.continuity.shrinks, "shrink", "shrinks")
    return f"{len(outcome.continuity.early)} of {shrinks} earlier than without"


def _latencies(quantiles: Quantiles, plan: DemoPlan, target_seconds: float) -> str:
    shown = " / ".join(map(_latency, (quantiles.p50, quantiles.p95, quantiles.p99)))
    return f"{shown} (model time{_target(plan, target_seconds, ' at p95')})"


def _target(plan: DemoPlan, seconds: float, at: str) -> str:
    """The target beside a latency that is judged by it: without it a slowed engine looks like a failure."""
    return f", target{at} {_latency(1000 * seconds)}" if plan.keeps_latencies else ""


def _latency(milliseconds: float | None) -> str:
    """Three digits, in the unit that a person would choose."""
    if milliseconds is None:
        return "–"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000.0
    return f"{seconds:.1f} s" if seconds < 99.95 else f"{seconds:,.0f} s"
