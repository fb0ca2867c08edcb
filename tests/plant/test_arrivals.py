"""Cutting, thinning and spreading keep what they promise to keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.foundation import UsageError
from controller.plant import (
    DEFAULT_TRACE,
    BinnedTrace,
    RequestTrace,
    arrivals,
    read_trace,
    spread,
    thin,
    token_rate,
    window,
)

DATA = Path(__file__).parents[1] / "data" / "traces"


def requests(*rows: tuple[float, int, int], duration: float | None = None) -> RequestTrace:
    t, prompt, output = (np.array(column) for column in zip(*rows, strict=True))
    return RequestTrace(t.astype(np.float64), prompt, output, float(t[-1]) if duration is None else duration)


def bins(*rows: tuple[float, float, float], width: float = 10.0) -> BinnedTrace:
    counts, prompt, output = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    return BinnedTrace(np.arange(len(rows)) * width, counts, prompt, output, width)


BIN = st.tuples(
    st.integers(0, 40).map(float) | st.floats(0, 3), st.integers(0, 50_000).map(float), st.integers(0, 9_000).map(float)
)


ROWS = st.lists(BIN, min_size=2, max_size=30).filter(lambda rows: any(row[0] > 0 for row in rows))


def exact(count: float, prompt: float, output: float) -> bool:
    """Whether a bin can be conserved as it is: a whole count, and tokens for each request."""
    return count == int(count) and min(prompt, output) >= count and (count > 0 or prompt == output == 0)


@given(rows=ROWS, seed=st.integers(0, 99))
def test_spreading_conserves_counts_and_tokens_and_keeps_requests_inside_their_bins(
    rows: list[tuple[float, float, float]], seed: int
) -> None:
    trace = bins(*rows)
    out = spread(trace, seed)
    assert (np.diff(out.t_seconds) >= 0).all()
    assert out.prompt_tokens.min() >= 1
    assert out.output_tokens.min() >= 1
    assert out.duration_seconds == trace.duration_seconds
    counts = np.bincount((out.t_seconds // 10).astype(int), minlength=len(rows))
    for expected, count in zip(trace.requests, counts, strict=True):
        assert count in (np.floor(expected), np.ceil(expected)) or trace.requests.sum() < 1
    # One token a request at least, so a bin with more requests than tokens gives more than it had.
    assert out.prompt_tokens.sum() >= round(trace.prompt_tokens.sum()) - 1
    if all(exact(*row) for row in rows):
        bin_of = (out.t_seconds // 10).astype(int)
        assert np.array_equal(np.bincount(bin_of, out.prompt_tokens, len(rows)), trace.prompt_tokens)
        assert np.array_equal(np.bincount(bin_of, out.output_tokens, len(rows)), trace.output_tokens)


def test_spreading_a_real_binned_hour_conserves_every_bin() -> None:
    trace = read_trace(DATA / "azure23-conv-1h-10s.csv.gz")
    assert isinstance(trace, BinnedTrace)
    out = spread(trace, 3)
    bin_of = (out.t_seconds // 10).astype(int)
    assert np.array_equal(np.bincount(bin_of, minlength=len(trace)), trace.requests)
    assert np.array_equal(np.bincount(bin_of, out.prompt_tokens, len(trace)), trace.prompt_tokens)
    assert np.array_equal(np.bincount(bin_of, out.output_tokens, len(trace)), trace.output_tokens)


def test_tokens_of_a_bin_without_requests_go_to_the_next_or_back_to_the_last() -> None:
    out = spread(bins((1, 10, 5), (0, 100, 50), (1, 10, 5), (0, 7, 3)), 1)
    assert out.prompt_tokens.tolist() == [10, 117]
    assert out.output_tokens.tolist() == [5, 58]


def test_the_same_seed_gives_the_same_requests_and_another_seed_others() -> None:
    trace = bins((20, 2000, 300), (30, 4000, 900))
    assert np.array_equal(spread(trace, 5).t_seconds, spread(trace, 5).t_seconds)
    assert not np.array_equal(spread(trace, 5).t_seconds, spread(trace, 6).t_seconds)
    raw = read_trace(DATA / "aibrix-8min-updown-raw.csv.gz")
    assert isinstance(raw, RequestTrace)
    assert np.array_equal(thin(raw, 3, 5).t_seconds, thin(raw, 3, 5).t_seconds)
    assert not np.array_equal(thin(raw, 3, 5).t_seconds, thin(raw, 3, 6).t_seconds)


def test_a_trace_too_large_for_memory_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match="shorter window"):
        spread(bins((9e8, 1, 1), (1, 1, 1)), 1)


def test_thinning_keeps_one_request_in_m_and_the_profile_of_the_load() -> None:
    trace = read_trace(DEFAULT_TRACE)
    assert isinstance(trace, RequestTrace)
    thinned = thin(trace, 4, seed=2)
    assert len(thinned) == pytest.approx(len(trace) / 4, rel=0.05)
    assert thinned.duration_seconds == trace.duration_seconds
    assert thinned.prompt_tokens.mean() == pytest.approx(trace.prompt_tokens.mean(), rel=0.05)
    slow, fast = token_rate(thinned, 300), token_rate(trace, 300)
    assert float(np.corrcoef(slow, fast)[0, 1]) > 0.9


@pytest.mark.parametrize(
    ("factor", "kept"),
    [pytest.param(1.0, 3, id="a factor of one keeps all"), pytest.param(1e12, 1, id="a huge factor keeps one")],
)
def test_thinning_at_its_ends(factor: float, kept: int) -> None:
    assert len(thin(requests((0, 1, 1), (1, 1, 1), (2, 1, 1)), factor, 1)) == kept


def test_a_window_starts_time_anew_and_ends_where_it_should() -> None:
    trace = requests((0, 1, 1), (70, 2, 2), (100, 3, 3), (130, 4, 4), duration=600)
    cut = window(trace, 1, 1)
    assert cut.t_seconds.tolist() == [10, 40]
    assert cut.duration_seconds == 60
    binned = window(bins((1, 1, 1), (2, 2, 2), (3, 3, 3), width=60.0), 1, 9)
    assert binned.requests.tolist() == [2, 3]
    assert binned.t_seconds.tolist() == [0, 60]


@pytest.mark.parametrize(
    "trace", [requests((0, 1, 1)), bins((1, 1, 1), (0, 0, 0), width=1200.0)], ids=["raw", "binned"]
)
def test_a_window_without_requests_is_refused_with_the_length_of_the_trace(trace: RequestTrace | BinnedTrace) -> None:
    with pytest.raises(UsageError, match="no requests between minute 20 and minute 30"):
        window(trace, 20, 10)


def test_rows_without_prompt_or_output_are_not_sent() -> None:
    sent = list(arrivals(requests((0, 5, 0), (1, 0, 0), (2, 5, 7))))
    assert [(a.t_seconds, a.prompt_tokens, a.output_tokens) for a in sent] == [(2.0, 5, 7)]


def test_the_offered_rate_is_the_mean_over_the_window() -> None:
    trace = requests((0, 90, 10), (15, 200, 0), (30, 100, 200), duration=40)
    assert token_rate(trace, 10).tolist() == [10, 20, 0, 30]
    assert token_rate(trace, 20).tolist() == [15, 10, 15]
    assert token_rate(trace, 600).tolist() == [15]
