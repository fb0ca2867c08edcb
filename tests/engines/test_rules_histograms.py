"""How buckets of several ranks and versions become one histogram."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.engines import (
    Histogram,
    MissingReason,
    Quality,
)
from tests.engines.reading import read, why

# ---------------------------------------------------------------- histograms


def ttft(*lines: str) -> str:
    return "".join(f"vllm:time_to_first_token_seconds{line}\n" for line in lines)


def test_a_histogram_is_read_in_the_order_of_its_bounds() -> None:
    text = ttft('_bucket{le="+Inf"} 5', '_bucket{le="1e1"} 4', '_bucket{le="0.5"} 2', "_sum 9.5", "_count 5")
    assert read(text).ttft == Histogram(((0.5, 2.0), (10.0, 4.0), (math.inf, 5.0)), 9.5, 5.0)


def test_bounds_are_compared_as_numbers() -> None:
    text = ttft(
        '_bucket{engine="0",le="0.00015000000000000001"} 1',
        '_bucket{engine="0",le="+Inf"} 1',
        '_bucket{engine="1",le="0.00015"} 2',
        '_bucket{engine="1",le="inf"} 3',
    )
    reading = read(text)
    assert reading.ttft == Histogram(((0.00015, 3.0), (math.inf, 4.0)), None, 4.0)
    assert reading.quality == frozenset()


def test_ranks_with_different_bounds_keep_the_common_ones() -> None:
    text = ttft(
        '_bucket{engine="0",le="1"} 1',
        '_bucket{engine="0",le="2"} 2',
        '_bucket{engine="0",le="+Inf"} 3',
        '_bucket{engine="1",le="2"} 4',
        '_bucket{engine="1",le="3"} 5',
        '_bucket{engine="1",le="+Inf"} 6',
        '_sum{engine="0"} 4',
        '_sum{engine="1"} 8',
    )
    reading = read(text)
    assert reading.ttft == Histogram(((2.0, 6.0), (math.inf, 9.0)), 12.0, 9.0)
    assert reading.quality == {Quality.BUCKETS_INTERSECTED}


def test_tensor_ranks_repeat_a_histogram() -> None:
    text = "".join(
        f'sglang:inter_token_latency_seconds_bucket{{tp_rank="{rank}",le="{le}"}} {count}\n'
        for rank in (0, 1)
        for le, count in (("0.01", 4), ("+Inf", 5))
    )
    assert read(text).itl == Histogram(((0.01, 4.0), (math.inf, 5.0)), None, 5.0)


def test_the_newer_latency_wins_and_the_older_one_stands_in() -> None:
    old = 'vllm:time_per_output_token_seconds_bucket{le="+Inf"} 1\n'
    new = 'vllm:inter_token_latency_seconds_bucket{le="+Inf"} 2\n'
    assert read(old).itl == Histogram(((math.inf, 1.0),), None, 1.0)
    assert read(old + new).itl == Histogram(((math.inf, 2.0),), None, 2.0)


def test_a_histogram_without_its_last_bucket_ends_with_its_count() -> None:
    assert read(ttft('_bucket{le="1"} 1', "_count 4")).ttft == Histogram(((1.0, 1.0), (math.inf, 4.0)), None, 4.0)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param(['_bucket{le="1"} 1'], MissingReason.INCOMPLETE, id="neither last bucket nor count"),
        pytest.param(["_count 4", "_sum 3"], MissingReason.INCOMPLETE, id="no buckets"),
        pytest.param(['_bucket{le="1"} 5', '_bucket{le="+Inf"} 4'], MissingReason.INCONSISTENT, id="counts that fall"),
        pytest.param(['_bucket{le="1"} -1', '_bucket{le="+Inf"} 4'], MissingReason.NEGATIVE, id="a negative count"),
        pytest.param(
            ['_bucket{le="1"} NaN', '_bucket{le="+Inf"} 4'], MissingReason.NOT_FINITE, id="a count that is NaN"
        ),
        pytest.param(['_bucket{le="+Inf"} 4', '_bucket{le="+Inf"} 5'], MissingReason.AMBIGUOUS, id="a bucket twice"),
        pytest.param(['_bucket{le="soon"} 4'], MissingReason.MALFORMED, id="a bound that is a word"),
        pytest.param(['_bucket{le="NaN"} 4'], MissingReason.MALFORMED, id="a bound that is NaN"),
        pytest.param(["_bucket 4"], MissingReason.MALFORMED, id="a bucket without a bound"),
        pytest.param(['_bucket{le="+Inf"} 4', "_sum x"], MissingReason.MALFORMED, id="a sum that cannot be read"),
        pytest.param(
            ['_bucket{le="0.001"} 1000', '_bucket{le="+Inf"} 1000', "_sum 900"],
            MissingReason.INCONSISTENT,
            id="minutes in the sum and everything in the first bucket",
        ),
        pytest.param(
            ['_bucket{le="10"} 0', '_bucket{le="+Inf"} 1000', "_sum 0"],
            MissingReason.INCONSISTENT,
            id="slow observations that sum to nothing",
        ),
    ],
)
def test_a_histogram_that_is_not_observed(lines: list[str], reason: MissingReason) -> None:
    assert why(ttft(*lines), "ttft") is reason


def test_a_histogram_survives_a_sum_that_is_nan() -> None:
    assert read(ttft('_bucket{le="+Inf"} 4', "_sum NaN")).ttft == Histogram(((math.inf, 4.0),), None, 4.0)


VLLM_TTFT = Histogram(tuple((bound, 0.0) for bound in (0.25, 0.5, 0.75, 1.0, 2.5, math.inf)), 0.0, 0.0)


@pytest.mark.parametrize(
    ("seconds", "bounds"),
    [
        pytest.param(0.5, (0.25, 0.5), id="a target on a bound is the upper end of its bucket"),
        pytest.param(2.0, (1.0, 2.5), id="a target between bounds cannot be told from either"),
        pytest.param(0.01, (0.0, 0.25), id="the first bucket starts at zero"),
        pytest.param(99.0, (2.5, math.inf), id="beyond the last bound there is no end"),
    ],
)
def test_the_bucket_around_a_target(seconds: float, bounds: tuple[float, float]) -> None:
    assert VLLM_TTFT.bucket_of(seconds) == bounds


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from([0.1, 0.2, 0.5, 1.0]), st.integers(0, 50)), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_summing_ranks_conserves_observations(ranks: list[dict[float, int]], random: Any) -> None:
    """Whatever the bounds and the order of lines: counts never fall, and the total is the sum of the ranks' totals."""
    lines = []
    for rank, buckets in enumerate(ranks):
        below = 0
        for upper, inside in sorted(buckets.items()):
            below += inside
            lines.append(f'_bucket{{engine="{rank}",le="{upper}"}} {below}')
        lines.append(f'_bucket{{engine="{rank}",le="+Inf"}} {below + rank}')
    random.shuffle(lines)
    histogram = read(ttft(*lines)).ttft
    assert histogram is not None
    assert histogram.count == sum(sum(buckets.values()) + rank for rank, buckets in enumerate(ranks))
    counts = [count for _, count in histogram.buckets]
    assert counts == sorted(counts)
    assert {bound for bound, _ in histogram.buckets} == set.intersection(*(set(buckets) for buckets in ranks)) | {
        math.inf
    }


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=5), st.integers(1, 4), st.randoms(use_true_random=False))
def test_gauges_are_summed_over_data_ranks_and_not_over_tensor_ranks(loads: list[int], width: int, random: Any) -> None:
    lines = [
        f'sglang:num_running_reqs{{tp_rank="{rank * width + shard}",dp_rank="{rank}"}} {load}\n'
        for rank, load in enumerate(loads)
        for shard in range(width)
    ]
    random.shuffle(lines)
    assert read("".join(lines)).running_requests == sum(loads)
