"""Reading a wanted quantile out of the measured ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.quantiles import Reading, parse_quantile_key, quantile_key, read_quantile

FROM_50_99 = ((50.0, 343.0), (99.0, 2409.0))
WITH_90 = ((50.0, 336.0), (90.0, 1109.0), (99.0, 15083.0))

READINGS = {
    "a measured quantile is taken as it is": (WITH_90, 90, Reading(1109.0, "p90")),
    "p95 between p50 and p99 by their straight line": (
        FROM_50_99,
        95,
        Reading(343 + (2409 - 343) * 45 / 49, "p50..p99"),
    ),
    "p95 uses the two nearest when p90 is there too": (WITH_90, 95, Reading(1109 + (15083 - 1109) * 5 / 9, "p90..p99")),
    "nothing above the largest": (FROM_50_99, 99.9, None),
    "nothing below the smallest": (FROM_50_99, 25, None),
    "nothing from nothing": ((), 95, None),
    "the only measured quantile serves itself": (((95.0, 7.0),), 95, Reading(7.0, "p95")),
}


@pytest.mark.parametrize(("measured", "wanted", "reading"), READINGS.values(), ids=READINGS.keys())
def test_reading_of_a_quantile(
    measured: tuple[tuple[float, float], ...], wanted: float, reading: Reading | None
) -> None:
    found = read_quantile(measured, wanted)
    if reading is None:
        assert found is None
    else:
        assert found is not None
        assert found.basis == reading.basis
        assert found.milliseconds == pytest.approx(reading.milliseconds, rel=1e-12)


def test_the_published_bracket_gives_the_published_number() -> None:
    reading = read_quantile(FROM_50_99, 95)
    assert reading is not None
    assert round(reading.milliseconds) == 2240


@pytest.mark.parametrize("key", ["median", "p0", "p101", "p999", "P25", "p99p9", "p-1", "p1e2", "50", "p", "p50 "])
def test_spellings_of_tools_are_no_quantiles_of_a_catalog(key: str) -> None:
    with pytest.raises(ValueError, match="is not a quantile"):
        parse_quantile_key(key)


@given(st.decimals(min_value="0.001", max_value=100, places=3))
def test_keys_survive_printing_and_parsing(quantile: object) -> None:
    value = float(str(quantile))
    assert parse_quantile_key(quantile_key(value)) == value


@given(
    st.lists(st.tuples(st.floats(1, 99), st.floats(0.1, 1e5)), min_size=2, max_size=6, unique_by=lambda pair: pair[0]),
    st.floats(0.5, 100),
)
def test_a_reading_lies_between_its_neighbours(pairs: list[tuple[float, float]], wanted: float) -> None:
    quantiles = sorted(q for q, _ in pairs)
    values = sorted(v for _, v in pairs)
    measured = tuple(zip(quantiles, values, strict=True))
    reading = read_quantile(measured, wanted)
    inside = quantiles[0] <= wanted <= quantiles[-1]
    assert (reading is not None) is inside
    if reading is not None:
        below = max((v for q, v in measured if q <= wanted), default=values[0])
        above = min((v for q, v in measured if q >= wanted), default=values[-1])
        assert below * (1 - 1e-9) <= reading.milliseconds <= above * (1 + 1e-9)
