"""Decision records on disk, at the limits of names and disks."""

from __future__ import annotations

import msgspec
import pytest
from structlog.testing import capture_logs

from controller.planning import read_records
from controller.reconcile import RecordDirectory
from tests.planning.test_record import Run


@pytest.fixture
def record():
    run = Run()
    run.tick(450, 1)
    return run.records[0]


def test_the_longest_names_get_files_of_their_own(tmp_path, record):
    sink = RecordDirectory(tmp_path)
    scalers = [f"{'n' * 63}/{'s' * 252}{last}" for last in "ab"]
    for scaler in scalers:
        sink.write(msgspec.structs.replace(record, scaler=scaler))
    found = []
    for file in sorted(tmp_path.iterdir()):
        with file.open("rb") as lines:
            found += [read.scaler for read in read_records(lines, str(file))]
    assert sorted(found) == scalers


def test_a_file_that_cannot_be_written_is_told_once_however_many_others_can(tmp_path, record):
    sink = RecordDirectory(tmp_path)
    sink.path_of("team/bad").mkdir()
    with capture_logs() as logs:
        for _ in range(3):
            for scaler in ("team/bad", "team/good"):
                sink.write(msgspec.structs.replace(record, scaler=scaler))
    assert [line["event"] for line in logs] == ["cannot write decision records"]
