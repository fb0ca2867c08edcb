"""Structured logs: one JSON object a line on standard error (or a readable form for a terminal).

Levels: `info` on transitions only, `debug` per reconcile, `warning` where a person should look soon, `error` where the
process cannot do its work. Every line has `event`, `level`, `time`; lines about a scaler have `scaler`. Values of known
secrets (`hide`) never pass.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from enum import StrEnum
from typing import Any, TextIO

import orjson
import structlog

from controller.foundation import format_micro_time, redact, wall_now


class LogFormat(StrEnum):
    """How log lines look."""

    JSON = "json"
    CONSOLE = "console"


LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_secrets: set[str] = set()


def hide(secret: str) -> None:
    """Make sure that `secret` never appears in a log line of this process."""
    _secrets.add(secret)


def configure_logging(format_: LogFormat, level: str, stream: TextIO | None = None) -> None:
    """Set up logging for the process. `level` is one of LEVELS. Call once, before the first line."""
    out = sys.stderr if stream is None else stream
    render: Any = _render_json if format_ is LogFormat.JSON else structlog.dev.ConsoleRenderer(colors=out.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _add_time,
            structlog.processors.format_exc_info,
            _redact,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(out),
        # Not cached: a log line is rare here, and a cached logger would keep a stream that was replaced.
        cache_logger_on_first_use=False,
    )
    # Libraries speak through the standard module; their warnings join our stream.
    logging.basicConfig(stream=out, level=logging.WARNING, format="%(message)s", force=True)


def get_logger(component: str) -> structlog.typing.FilteringBoundLogger:
    """A logger whose lines carry `component`."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger().bind(component=component)
    return logger


def _add_time(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event["time"] = format_micro_time(wall_now())
    return event


def _redact(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if _secrets:
        for key, value in event.items():
            if isinstance(value, str):
                event[key] = redact(value, _secrets)
    return event


def _render_json(_: object, __: str, event: MutableMapping[str, Any]) -> str:
    first = {key: event.pop(key) for key in ("time", "level", "component", "event") if key in event}
    return orjson.dumps(first | dict(event), default=str, option=orjson.OPT_SERIALIZE_NUMPY).decode()
