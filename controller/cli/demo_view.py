"""What a person sees while the demo runs: the load, the latency, the replicas, and what limited the last decision."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from controller.cli.demo_plan import DEPLOYMENT, NAMESPACE, DemoPlan
from controller.cli.options import counted
from controller.embedded.clients import LATE_SECONDS
from controller.embedded.results import WorldSnapshot
from controller.embedded.world import World
from controller.planning import Record, decode_record

_REFRESH_SECONDS = 0.5
# Without a terminal: one line so often.
_LINE_SECONDS = 15.0
_SHOWN_DECISIONS = 6


@contextlib.asynccontextmanager
async def live_view(world: World, records: Path, plan: DemoPlan, *, enabled: bool) -> AsyncIterator[None]:
    """Show the world while the body runs."""
    if not enabled:
        yield
        return
    console = Console(stderr=True)
    show = _draw if console.is_terminal else _print_lines
    task = asyncio.create_task(show(console, world, _RecordTail(records), plan), name="live view")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _RecordTail:
    """The newest decisions, read from the controller's record file as it grows."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / f"{NAMESPACE}_{DEPLOYMENT}.jsonl"
        self._offset = 0
        self.last: Record | None = None
        self.changes: deque[Record] = deque(maxlen=_SHOWN_DECISIONS)

    def refresh(self) -> None:
        """Read what was appended. A line that is still being written is left for the next time."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                self.last = decode_record(line)
                if self.last.decided.changes:
                    self.changes.append(self.last)


async def _draw(console: Console, world: World, tail: _RecordTail, plan: DemoPlan) -> None:
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            tail.refresh()
            live.update(_picture(world.snapshot(), tail, plan), refresh=True)
            await asyncio.sleep(_REFRESH_SECONDS)


async def _print_lines(_console: Console, world: World, tail: _RecordTail, plan: DemoPlan) -> None:
    while True:
        tail.refresh()
        now = world.snapshot()
        # Whole lines, however narrow: a log is searched.
        print(
            f"{_progress(now, plan)}  load {now.demand_tokens_per_second:,.0f} tok/s  "
            f"ready {_replicas(now)}  TTFT p95 {_seconds(now.ttft_p95_seconds)}  "
            f"requests {now.requests:,}  lost {now.lost}{_lag(now)}",
            file=sys.stderr,
            flush=True,
        )
        await asyncio.sleep(_LINE_SECONDS)


def _picture(now: WorldSnapshot, tail: _RecordTail, plan: DemoPlan) -> Group:
    figures = Table.grid(padding=(0, 3))
    for _ in range(4):
        figures.add_column()
    decided = tail.last.decided.roles if tail.last is not None else ()
    raw = ", ".join("–" if role.raw is None else str(role.raw) for role in decided) or "–"
    limits = ", ".join(str(role.limited_by) for role in decided if role.limited_by is not None)
    figures.add_row("load", f"{now.demand_tokens_per_second:,.0f} tok/s", "TTFT p50 / p95", _latencies(now))
    figures.add_row("served", f"{now.served_tokens_per_second:,.0f} tok/s", "running / waiting", _queue(now))
    figures.add_row(
        "replicas",
        Text(f"{_replicas(now)} ready of wanted (algorithm: {raw})", style="bold"),
        "requests",
        f"{now.requests:,}, {now.completed:,} complete, {now.lost} lost{_lag(now)}",
    )
    figures.add_row("limited by", limits or "nothing", "", "")
    decisions = Table.grid(padding=(0, 2))
    for record in tail.changes:
        for name, (before, after) in record.decided.changes.items():
            changed = record.decided.role(name)
            role = f"{name} " if len(plan.roles) > 1 else ""
            decisions.add_row(f"{role}{before} → {after}", changed.algorithm_reason)
    done = max(0.0, min(now.t_seconds, plan.trace_seconds))
    return Group(
        Text(f"{plan.trace_name if plan.cycles is None else 'counts up and down'}: {_progress(now, plan)}"),
        ProgressBar(total=plan.trace_seconds, completed=done, width=60),
        figures,
        Text("decisions", style="dim"),
        decisions,
    )


def _lag(now: WorldSnapshot) -> str:
    """Said only where the load is not the trace's."""
    return f"  sent {now.lag_seconds:.0f} s late" if now.lag_seconds > LATE_SECONDS else ""


def _progress(now: WorldSnapshot, plan: DemoPlan) -> str:
    """How far the trace is; where there is none, how long it has taken."""
    elapsed = _clock(now.t_seconds)
    if plan.cycles is not None:
        return f"{elapsed}, {counted(plan.cycles, 'cycle', 'cycles')}"
    return f"{elapsed} of {_clock(plan.trace_seconds)}"


def _replicas(now: WorldSnapshot) -> str:
    """`2 of 3`; with several roles `prefill 2 of 3, decode 1 of 1`."""
    shown = [(name, f"{counts.ready} of {counts.desired}") for name, counts in now.replicas.items()]
    return shown[0][1] if len(shown) == 1 else ", ".join(f"{name} {text}" for name, text in shown)


def _latencies(now: WorldSnapshot) -> str:
    return f"{_seconds(now.ttft_p50_seconds)} / {_seconds(now.ttft_p95_seconds)}"


def _queue(now: WorldSnapshot) -> str:
    return f"{now.running_requests} / {now.waiting_requests + now.held_requests}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} s"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    return f"{minutes:02d}:{rest:02d}"
