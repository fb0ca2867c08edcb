"""Log lines are JSON, complete, and never hold a secret."""

import io
import json

from controller.operations import LogFormat, configure_logging, get_logger, hide


def test_a_line_is_one_json_object_with_the_fields_people_filter_by():
    stream = io.StringIO()
    configure_logging(LogFormat.JSON, "info", stream)
    get_logger("reconcile").info("decision", scaler="ns/chat", to=3)
    get_logger("reconcile").debug("noise")
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert {
        "event": "decision",
        "level": "info",
        "component": "reconcile",
        "scaler": "ns/chat",
        "to": 3,
    }.items() <= entry.items()
    assert entry["time"].endswith("Z")


def test_a_hidden_value_never_passes_not_even_inside_an_exception():
    stream = io.StringIO()
    configure_logging(LogFormat.JSON, "info", stream)
    hide("s3cr3t-token")
    try:
        raise ValueError("401 for s3cr3t-token")
    except ValueError:
        get_logger("kube").exception("request failed", detail="Bearer s3cr3t-token")
    assert "s3cr3t" not in stream.getvalue()
    assert "[redacted]" in stream.getvalue()
