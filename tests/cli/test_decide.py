"""`mdscaler decide` on the document that the documentation shows, and on lines."""

import json
from pathlib import Path

from controller.cli import decide, run
from controller.planning import encode_record, read_records

EXAMPLE = Path(__file__).parents[1] / "data" / "decide" / "pd-predictive.json"


def test_one_document_is_decided_again_with_every_stage_in_order(capsys):
    assert run(["decide", str(EXAMPLE), "--output", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["asRecorded"] is True
    assert [role["name"] for role in answer["roles"]] == ["prefill", "decode"]
    stages = [stage["stage"] for stage in answer["roles"][0]["stages"]]
    assert stages == [
        "coverage",
        "ratio",
        "bounds",
        "stabilization",
        "step",
        "consolidation",
        "quota",
        "settling",
        "joint",
    ]
    assert {"raw", "desired", "limitedBy", "nextChangeTime"} <= set(answer["roles"][0])


def test_arguments_alone_are_decided_and_there_is_nothing_to_compare(tmp_path, capsys):
    document = json.loads(EXAMPLE.read_text())
    for member in ("decision", "state", "process"):
        del document[member]
    path = tmp_path / "arguments.json"
    path.write_text(json.dumps(document, indent=2))
    assert run(["decide", str(path), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["asRecorded"] is None


def test_a_decision_that_does_not_replay_is_exit_status_1(tmp_path, capsys):
    (record,) = read_records([EXAMPLE.read_bytes()], "example")
    line = encode_record(record).replace(b'"desired":2', b'"desired":6')
    path = tmp_path / "records.jsonl"
    path.write_bytes(line + b"\n")
    assert run(["decide", str(path)]) == 1
    assert "DIFFERS from the record" in capsys.readouterr().out


def test_arguments_that_contradict_each_other_are_named_as_such(tmp_path, capsys):
    document = json.loads(EXAMPLE.read_text())
    now = document["now"]
    latencies = [[now - age, [[0.5, 1.0], counts], None] for age, counts in ((20, [1, 2, 3]), (10, [1, 2]))]
    document["state"]["roles"]["prefill"]["latencies"] = latencies
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(document))
    assert run(["decide", str(path)]) == 2
    assert "cannot be decided again, was it edited? ValueError" in capsys.readouterr().err


def test_a_device_without_end_is_no_record(capsys, monkeypatch):
    monkeypatch.setattr(decide, "_LONGEST_LINE_BYTES", 1000)
    assert run(["decide", "/dev/zero"]) == 2
    assert "/dev/zero: a line holds more than 1,000 bytes" in capsys.readouterr().err
