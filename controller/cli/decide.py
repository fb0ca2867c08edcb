"""`mdscaler decide FILE`: what this version decides from recorded arguments, and whether it is what was decided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import orjson
import typer

from controller.cli.options import Output, OutputOption
from controller.foundation import UsageError, format_time
from controller.planning import Record, decision_json, read_records, replay
from controller.scaling import Decision

# The record of a thousand replicas with all their histograms takes a few MiB.
_LONGEST_LINE_BYTES: Final = 64 * 1024 * 1024


def decide_file(
    file: Annotated[
        Path,
        typer.Argument(
            help="Decision records: one JSON object a line (controller --record), or one document with one."
        ),
    ],
    last: Annotated[int, typer.Option(min=1, help="Only the last N records.")] = 1,
    output: OutputOption = Output.TEXT,
) -> int:
    """Decide again from recorded arguments. Exit status 1 when a decision differs from the recorded one."""
    try:
        with file.open("rb") as lines:
            records = list(read_records(_bounded(lines, file), str(file)))[-last:]
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    if not records:
        raise UsageError(f"{file}: holds no decision record; write some with mdscaler controller --record DIR")
    differing = 0
    for record in records:
        decision = replay(record)
        same = None if record.decision is None else decision == record.decision
        differing += same is False
        if output is Output.JSON:
            head = {"scaler": record.scaler, "asRecorded": same}
            typer.echo(orjson.dumps(head | decision_json(decision)).decode())
        else:
            typer.echo(_describe(record, decision, same))
    return 1 if differing else 0


def _bounded(lines: BinaryIO, file: Path) -> Iterator[bytes]:
    """The lines of a file; raises UsageError where one has no end (a device, a disk image)."""
    while line := lines.readline(_LONGEST_LINE_BYTES + 1):
        if len(line) > _LONGEST_LINE_BYTES:
            raise UsageError(
                f"{file}: a line holds more than {_LONGEST_LINE_BYTES:,} bytes; is this a decision record?"
            )
        yield line


def _describe(record: Record, decision: Decision, same: bool | None) -> str:
    verdict = {True: "as recorded", False: "DIFFERS from the record", None: "no decision was recorded"}[same]
    lines = [f"{record.scaler or 'record'} at {format_time(record.now)}: {verdict}"]
    for role in decision.roles:
        raw = "unknown" if role.raw is None else role.raw
        limit = f", limited by {role.limited_by}" if role.limited_by else ""
        lines.append(f"  {role.name}: {role.current} → {role.desired} (raw {raw}{limit}) {role.algorithm_reason}")
        lines.extend(
            f"    {stage.stage}: {stage.before} → {stage.after}, {stage.reason}"
            for stage in role.stages
            if stage.reason
        )
    return "\n".join(lines)
