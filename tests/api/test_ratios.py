"""Bands that cannot hold are refused; bands that can are not."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.api import parse_spec
from controller.api.ratios import Band, contradiction, fits
from tests.api.samples import server_spec


def bands(*rows):
    return [
        Band(index, top, bottom, None if low is None else Fraction(low), None if high is None else Fraction(high))
        for index, (top, bottom, low, high) in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("rows", "bounds", "indices"),
    [
        pytest.param([("p", "d", 2, None), ("d", "p", 1, None)], {}, (0, 1), id="each wants to be the larger one"),
        pytest.param([("p", "d", 2, None), ("d", "p", "0.5", None)], {}, None, id="two ways to say one thing"),
        pytest.param(
            [("a", "b", 1, None), ("b", "c", 1, None), ("c", "a", "1.01", None)], {}, (0, 1, 2), id="a cycle of three"
        ),
        pytest.param(
            [("a", "b", 1, None), ("b", "c", 1, None), ("c", "a", 1, None)], {}, None, id="three equal counts"
        ),
        pytest.param(
            [("a", "b", 4, None), ("b", "c", 4, None)],
            {"a": range(1, 9), "c": range(1, 2)},
            (0, 1),
            id="the first is too small for the last, by way of the second",
        ),
        pytest.param(
            [("a", "b", 4, None), ("b", "c", 4, None)], {"a": range(1, 17), "c": range(1, 2)}, None, id="exactly enough"
        ),
        pytest.param(
            [("a", "b", None, "0.5"), ("c", "a", 9, None), ("c", "b", None, 2)], {}, None, id="a can be small"
        ),
        pytest.param([("a", "b", "0.5", None), ("c", "a", 9, None), ("c", "b", None, 2)], {}, (0, 1, 2), id="or not"),
        pytest.param([], {"a": range(1, 3)}, None, id="no bands"),
    ],
)
def test_bands_that_cannot_hold_together_are_found(rows, bounds, indices):
    found = contradiction(bands(*rows), bounds)
    assert (found.indices if found else None) == indices


def test_a_contradiction_is_told_in_words():
    found = contradiction(bands(("p", "d", 2, None), ("d", "p", 1, "1.5")), {})
    assert found.claims == ("d ≥ 1 × p", "p ≥ 2 × d")


def test_a_contradiction_is_a_finding_of_the_spec():
    roles = [{"name": name, "maxReplicas": 9} for name in ("a", "b", "c")]
    ratios = [
        {"numeratorRole": "a", "denominatorRole": "b", "min": 1},
        {"numeratorRole": "b", "denominatorRole": "c", "min": 1},
        {"numeratorRole": "c", "denominatorRole": "a", "min": "1.01"},
    ]
    _, findings = parse_spec(
        server_spec({"type": "Adaptive", "adaptive": {}}, roles=roles, ratios=ratios),
    )
    assert [str(finding) for finding in findings] == [
        "spec.ratios[2]: contradicts the rest: a ≥ 1 × b, b ≥ 1 × c, c ≥ 1.01 × a cannot hold together; "
        "change one of these bands"
    ]


NAMES = "abc"
FACTORS = st.sampled_from([Fraction(n, d) for n in range(1, 5) for d in range(1, 5)])
BAND_ROWS = st.lists(
    st.tuples(st.sampled_from(list(itertools.permutations(NAMES, 2))), st.none() | FACTORS, st.none() | FACTORS).filter(
        lambda row: (row[1] is not None or row[2] is not None) and (row[1] or 0) <= (row[2] or 99)
    ),
    max_size=4,
)
BOUNDS = st.fixed_dictionaries(
    {
        name: st.tuples(st.integers(1, 4), st.integers(0, 4)).map(lambda b: range(b[0], b[0] + b[1] + 1))
        for name in NAMES
    }
)


@settings(max_examples=80, deadline=None)
@given(BAND_ROWS, BOUNDS)
def test_a_contradiction_is_never_claimed_where_counts_exist(rows, bounds):
    made = bands(*((top, bottom, low, high) for (top, bottom), low, high in rows))
    possible = any(
        all(
            (band.minimum is None or counts[band.numerator] >= band.minimum * counts[band.denominator])
            and (band.maximum is None or counts[band.numerator] <= band.maximum * counts[band.denominator])
            for band in made
        )
        for counts in (
            dict(zip(NAMES, values, strict=True)) for values in itertools.product(*(bounds[name] for name in NAMES))
        )
    )
    found = contradiction(made, bounds)
    if possible:
        assert found is None
        assert all(fits(band, bounds[band.numerator], bounds[band.denominator]) for band in made)
    elif len(made) == 1:
        assert not fits(made[0], bounds[made[0].numerator], bounds[made[0].denominator])


@settings(max_examples=60, deadline=None)
@given(FACTORS, FACTORS, BOUNDS)
def test_one_band_fits_exactly_when_a_pair_of_counts_does(low, high, bounds):
    band = Band(0, "a", "b", min(low, high), max(low, high))
    exists = any(min(low, high) * b <= a <= max(low, high) * b for a in bounds["a"] for b in bounds["b"])
    assert fits(band, bounds["a"], bounds["b"]) is exists
