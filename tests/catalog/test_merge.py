"""Which measurement serves, and what keeps a retired one out."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.canonical import catalog_yaml, profile_digest
from catalog.merge import merge_catalogs
from catalog.retire import retire
from catalog.schema import Catalog, Profile
from tests.catalog.builders import catalog, point_document, profile_document


def _measured(run: str, points: dict[int, float], *, cold: tuple[int, ...] = (), **source: Any) -> Catalog:
    documents = [
        point_document(c, total, total / 5, **({"flags": ["ColdTail"]} if c in cold else {}))
        for c, total in points.items()
    ]
    return catalog(profile_document(points=documents, source={"tool": "t", "image": "i:1", "run": run, **source}))


def _only(result: Catalog) -> Profile:
    (profile,) = result.profiles
    return profile


def _curve(result: Catalog) -> dict[int, float]:
    return {point.concurrency: point.total_tokens_per_second for point in _only(result).points}


def test_the_newest_run_of_an_image_serves_and_keeps_the_points_that_it_lacks() -> None:
    merged = merge_catalogs([_measured("10", {4: 400, 8: 800, 16: 1600}), _measured("11", {8: 810})])
    assert _curve(merged.catalog) == {4: 400, 8: 810, 16: 1600}
    profile = _only(merged.catalog)
    assert profile.source.run == "11"
    assert [point.run for point in profile.points] == ["10", None, "10"]


def test_an_older_clean_point_serves_where_the_newest_is_cold() -> None:
    merged = merge_catalogs([_measured("10", {8: 800}), _measured("11", {8: 810, 16: 1600}, cold=(8,))])
    assert _curve(merged.catalog) == {8: 800, 16: 1600}


def test_images_are_never_mixed_in_one_curve() -> None:
    merged = merge_catalogs([_measured("10", {4: 400, 8: 800}), _measured("11", {8: 900}, image="i:2")])
    assert _curve(merged.catalog) == {8: 900}
    assert merged.superseded == 1


def test_a_newer_family_that_is_cold_gives_way_to_a_clean_one() -> None:
    merged = merge_catalogs([_measured("10", {8: 800}), _measured("11", {8: 900}, cold=(8,), image="i:2")])
    assert _curve(merged.catalog) == {8: 800}


def test_an_estimate_never_displaces_a_measurement() -> None:
    merged = merge_catalogs([_measured("10", {8: 800}), _measured("99", {8: 9000}, basis="Estimated")])
    assert _curve(merged.catalog) == {8: 800}


def test_dates_decide_before_run_numbers() -> None:
    merged = merge_catalogs([_measured("12", {8: 800}, date="2026-01-01"), _measured("7", {8: 810}, date="2026-02-01")])
    assert _curve(merged.catalog) == {8: 810}


def test_digests_of_all_single_runs_stay() -> None:
    parts = [_measured("10", {8: 800}), _measured("11", {8: 810}), _measured("12", {8: 820}, image="i:0")]
    digests = tuple(sorted(profile_digest(_only(part)) for part in parts))
    merged = merge_catalogs(parts).catalog
    assert _only(merged).source.digests == digests


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_order_of_the_inputs_does_not_matter(order: tuple[int, ...]) -> None:
    parts = [
        _measured("10", {4: 400, 8: 800}),
        _measured("11", {8: 810}, cold=(8,)),
        _measured("9", {8: 790, 16: 1600}),
    ]
    expected = catalog_yaml(merge_catalogs(parts).catalog)
    assert catalog_yaml(merge_catalogs([parts[i] for i in order], "local").catalog) == expected


_parts = st.lists(
    st.tuples(
        st.integers(1, 9),
        st.dictionaries(st.sampled_from((2, 4, 8, 16)), st.integers(0, 50), min_size=1),
        st.sampled_from(("i:1", "i:2")),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@given(_parts, st.randoms(use_true_random=False))
def test_merging_is_idempotent_and_independent_of_order(parts: Any, random: Any) -> None:
    catalogs = [
        _measured(
            str(run), {c: 100.0 * c + n for c, n in points.items()}, cold=tuple(points) if cold else (), image=image
        )
        for run, points, image, cold in parts
    ]
    merged = merge_catalogs(catalogs, "m").catalog
    assert merge_catalogs([merged, *catalogs], "m").catalog == merged
    random.shuffle(catalogs)
    assert merge_catalogs(catalogs, "m").catalog == merged


@given(_parts, st.randoms(use_true_random=False))
def test_merging_a_result_again_with_any_of_its_parts_changes_nothing(parts: Any, random: Any) -> None:
    catalogs = [
        _measured(
            str(run), {c: 100.0 * c + n for c, n in points.items()}, cold=tuple(points) if cold else (), image=image
        )
        for run, points, image, cold in parts
    ]
    merged = merge_catalogs(catalogs, "m").catalog
    again = [merged, *random.choices([merged, *catalogs], k=random.randrange(4))]
    random.shuffle(again)
    assert merge_catalogs(again, "m").catalog == merged


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_newest_run_that_gave_every_point_keeps_the_digest_of_the_older_one(order: tuple[int, ...]) -> None:
    old, new = _measured("10", {8: 800}), _measured("11", {4: 410, 8: 810})
    merged = merge_catalogs([old, new], "m").catalog
    digests = tuple(sorted((profile_digest(_only(old)), profile_digest(_only(new)))))
    assert profile_digest(_only(merged)) == profile_digest(_only(new))
    parts = [merged, old, new]
    again = merge_catalogs([parts[i] for i in order], "m").catalog
    assert _only(again).source.digests == digests
    assert _curve(again) == {4: 410, 8: 810}


def test_profiles_that_each_name_the_other_as_their_origin_are_compared_as_any() -> None:
    old, new = _measured("10", {8: 800}), _measured("11", {8: 810})
    a = _measured("10", {8: 800}, digests=[profile_digest(_only(new))])
    b = _measured("11", {8: 810}, digests=[profile_digest(_only(old))])
    assert _curve(merge_catalogs([a, b], "m").catalog) == {8: 810}
    assert merge_catalogs([a, b], "m").catalog == merge_catalogs([b, a], "m").catalog


def test_retired_profile_does_not_come_back_through_any_of_its_sources() -> None:
    parts = [_measured("10", {8: 800}), _measured("11", {8: 810})]
    merged = merge_catalogs(parts).catalog
    after = retire(merged, merged.profiles, date="2026-02-01", reason="broken run")
    assert after.profiles == ()
    for source in (*parts, merged):
        again = merge_catalogs([after, source])
        assert again.catalog.profiles == ()
        assert len(again.retired) == 1


def test_retirement_survives_rounding_differently_because_the_run_is_named() -> None:
    merged = _measured("10", {8: 800.001})
    after = retire(merged, merged.profiles, date="2026-02-01", reason="broken run")
    assert merge_catalogs([after, _measured("10", {8: 800.0})]).catalog.profiles == ()


def test_a_new_measurement_of_a_retired_identity_is_welcome() -> None:
    merged = _measured("10", {8: 800})
    after = retire(merged, merged.profiles, date="2026-02-01", reason="broken run")
    assert _curve(merge_catalogs([after, _measured("11", {8: 805})]).catalog) == {8: 805}


def test_other_profiles_stay_when_one_is_retired() -> None:
    both = catalog(profile_document(), profile_document(hardware="nvidia-h100"))
    gone = next(profile for profile in both.profiles if profile.hardware == "nvidia-h100")
    after = retire(both, (gone,), date="2026-02-01", reason="wrong board")
    assert [profile.hardware for profile in after.profiles] == ["nvidia-h200"]
