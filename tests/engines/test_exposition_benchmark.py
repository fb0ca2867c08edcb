"""The benchmark of the scanner: that it compares what it says, and survives whatever files it is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.engines import Scan, Scanner
from hack.bench import exposition
from tests.engines import dumps

SMALL = [path for path in dumps.FILES if path.name.startswith(("vllm-12", "sglang-05", "nim-01"))]


def run(capsys: pytest.CaptureFixture[str], *files: Path) -> tuple[int, dict[str, Any]]:
    status = exposition.main([*map(str, files), "--rounds", "1", "--output", "json"])
    return status, json.loads(capsys.readouterr().out)


def test_it_reports_a_ratio_and_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    status, report = run(capsys, *SMALL)
    assert status == 0
    assert report["mismatches"] == 0
    assert report["ratio"] == min(report["ratioCold"], report["ratioWarm"])
    assert report["samples"] == sum(entry["samples"] for entry in report["files"]) == 60 + 15 + 102
    assert report["wantedSamples"] == 42 + 8 + 1


def test_any_difference_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    honest = Scanner.scan

    def wrong(self: Scanner, body: bytes, *, openmetrics: bool = False) -> Scan:
        scan = honest(self, body, openmetrics=openmetrics)
        first = msgspec.structs.replace(scan.samples[0], value=scan.samples[0].value + 1)
        return Scan((first, *scan.samples[1:]), scan.damaged)

    monkeypatch.setattr(Scanner, "scan", wrong)
    status, report = run(capsys, SMALL[0])
    assert status == 1
    assert report["mismatches"] == 2, "one sample too many and one too few"
    assert report["files"][0]["firstMismatch"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"# A README\n\nWith text, and `vllm:num_requests_running` in it.\n", id="a README"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xfe\x00binary\x00", id="binary"),
        pytest.param(b"vllm:num_requests_running 81", id="a body that was cut"),
        pytest.param(b"vllm:num_requests_running 1_0\n", id="a number that is none"),
        pytest.param(b"vllm:num_requests_running gauge\n", id="a list of families"),
        pytest.param(b'{"text": 5}\nnot json\n[]\n', id="other JSON lines"),
    ],
)
@pytest.mark.parametrize("name", ["file.txt", "file.jsonl", "file.txt.gz", "file.jsonl.gz"])
def test_files_that_are_no_expositions_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    status, report = run(capsys, path)
    assert status == 0
    assert report["mismatches"] == 0
    assert exposition.main([str(path), "--rounds", "1"]) == 0


def test_wrong_usage_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["/nowhere.txt"], [str(SMALL[0]), "--rounds", "0"]):
        with pytest.raises(SystemExit) as ended:
            exposition.main(arguments)
        assert ended.value.code == 2
