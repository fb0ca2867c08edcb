"""Trace files as people have them: other column orders, line ends, compression; and every way to be wrong."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from controller.foundation import UsageError
from controller.plant import DEFAULT_TRACE, BinnedTrace, RequestTrace, TraceError, read_trace

DATA = Path(__file__).parents[1] / "data" / "traces"


def written(tmp_path: Path, content: str | bytes, name: str = "trace.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_the_default_trace_is_the_azure_conversation_hour() -> None:
    trace = read_trace(DEFAULT_TRACE)
    assert isinstance(trace, RequestTrace)
    assert len(trace) == 19366
    assert trace.prompt_tokens.mean() == pytest.approx(1155, abs=1)
    assert trace.output_tokens.max() == 1000
    assert 3400 < trace.duration_seconds < 3600


def test_a_binned_trace_agrees_with_the_raw_one_of_the_same_hour() -> None:
    binned, raw = read_trace(DATA / "azure23-conv-1h-10s.csv.gz"), read_trace(DEFAULT_TRACE)
    assert isinstance(binned, BinnedTrace)
    assert isinstance(raw, RequestTrace)
    assert binned.bin_seconds == 10
    assert binned.requests.sum() == len(raw)
    assert binned.prompt_tokens.sum() == raw.prompt_tokens.sum()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("t_s,prompt_tokens,output_tokens\n5,10,1\n7.5,20,2\n", id="as documented"),
        pytest.param("output_tokens,t_s,prompt_tokens\n1,5,10\n2,7.5,20\n", id="columns in another order"),
        pytest.param("t_s,prompt_tokens,output_tokens\r\n5,10,1\r\n7.5,20,2", id="CRLF and no last line end"),
        pytest.param("\ufefft_s,prompt_tokens,output_tokens\n5,10,1\n7.5,20,2\n", id="a byte order mark"),
        pytest.param("T_S , Prompt_Tokens,output_tokens\n5, 10 ,1\n7.5,20,2\n", id="capitals and spaces"),
        pytest.param('user,t_s,prompt_tokens,output_tokens,hash\na,5,10,1,"1,2"\nb,7.5,20,2,"3"\n', id="other columns"),
        pytest.param("t_s,prompt_tokens,output_tokens\n7.5,20,2\n\n5,10.0,1\n", id="rows out of order, an empty line"),
        pytest.param("t_s,prompt_tokens,output_tokens\n1.7e9,10,1\n1700000002.5,20,2\n", id="seconds since the epoch"),
    ],
)
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_a_raw_trace_is_read_however_it_was_written(tmp_path: Path, content: str, compressed: bool) -> None:
    data = content.encode()
    trace = read_trace(written(tmp_path, gzip.compress(data) if compressed else data))
    assert isinstance(trace, RequestTrace)
    assert trace.t_seconds.tolist() == [0, 2.5]
    assert trace.prompt_tokens.tolist() == [10, 20]
    assert trace.output_tokens.tolist() == [1, 2]


def test_a_binned_trace_may_have_gaps_and_expected_values(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, BINNED + "60,0.5,10,1\n70,2,20,2\n100,0,0,0\n"))
    assert isinstance(trace, BinnedTrace)
    assert trace.t_seconds.tolist() == [0, 10, 40]
    assert trace.bin_seconds == 10
    assert trace.duration_seconds == 50
    assert np.array_equal(trace.requests, [0.5, 2, 0])


HEADER = "t_s,prompt_tokens,output_tokens\n"
BINNED = "t_s,requests,prompt_tokens,output_tokens\n"


@pytest.mark.parametrize(
    ("content", "line", "column", "said"),
    [
        pytest.param(b"", None, None, "is empty", id="an empty file"),
        pytest.param(HEADER, None, None, "no requests", id="only a header"),
        pytest.param("time,prompt_tokens,output_tokens\n1,2,3\n", 1, None, "lacks t_s", id="a column is missing"),
        pytest.param("t_s,t_s,prompt_tokens,output_tokens\n1,2,3,4\n", 1, None, "more than once", id="a column twice"),
        pytest.param(HEADER + "1,2,3\n2,x,3\n", 3, "prompt_tokens", "'x'", id="a word for a number"),
        pytest.param(HEADER + "1,2,3\n2,,3\n", 3, "prompt_tokens", "number", id="an empty field"),
        pytest.param(HEADER + "1,2\n", 2, "output_tokens", "2 fields", id="a short row"),
        pytest.param(HEADER + "1,2,-3\n", 2, "output_tokens", "whole number", id="negative tokens"),
        pytest.param(HEADER + "1,2.5,3\n", 2, "prompt_tokens", "whole number", id="half a token"),
        pytest.param(HEADER + "1,1e30,3\n", 2, "prompt_tokens", "whole number", id="more tokens than exist"),
        pytest.param(HEADER + "nan,2,3\n", 2, "t_s", "number", id="a time that is no number"),
        pytest.param(HEADER + "1,inf,3\n", 2, "prompt_tokens", "number", id="infinite tokens"),
        pytest.param(HEADER + '1,2,3\n"2,2,3\n', 3, None, "not CSV", id="an open quote"),
        pytest.param(BINNED + "0,1,2,3\n0,1,2,3\n", 3, "t_s", "ascend", id="a bin twice"),
        pytest.param(BINNED + "0,1,2,3\n", None, None, "two bins", id="a single bin"),
        pytest.param(BINNED + "0,1,2,3\n10,-1,2,3\n", 3, "requests", "negative", id="a negative count"),
        pytest.param(BINNED + "0,0,2,3\n10,0,2,3\n", None, "requests", "no requests", id="bins without requests"),
        pytest.param(b"\xff\xfe\x00\x01", None, None, "UTF-8", id="a binary file"),
        pytest.param(
            gzip.compress((HEADER + "1,2,3\n" * 900).encode())[:-9], None, None, "gzip", id="a gzip file cut short"
        ),
        pytest.param(
            b"\x1f\x8b garbage that is long enough", None, None, "cannot be read", id="a gzip file that is none"
        ),
    ],
)
def test_a_bad_trace_is_refused_with_file_line_and_column(
    tmp_path: Path, content: str | bytes, line: int | None, column: str | None, said: str
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(TraceError) as refused:
        read_trace(path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)
    assert (refused.value.line, refused.value.column) == (line, column)
    assert isinstance(refused.value, UsageError)


def test_a_trace_that_is_not_there_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere\.csv: cannot be read"):
        read_trace(tmp_path / "nowhere.csv")
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path)


def test_a_row_with_the_hashes_of_a_very_long_prompt_is_read_and_the_csv_limit_restored(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    hashes = " ".join(str(number) for number in range(60_000))
    path = written(tmp_path, f'{HEADER[:-1]},hash_ids_512\n0,3000000,2,"{hashes}"\n')
    assert len(read_trace(path)) == 1
    assert csv.field_size_limit() == before
