"""The catalog that ships: built from its extracts, and what it resolves to today."""

from __future__ import annotations

from catalog.canonical import catalog_yaml
from catalog.loading import load_embedded
from catalog.schema import PointFlag
from hack.priors.build import TARGET, build


def test_the_committed_catalog_is_what_its_extracts_give() -> None:
    catalog, refused = build()
    assert TARGET.read_text() == catalog_yaml(catalog)
    assert refused == {"ColdTail": 102}


def test_every_profile_carries_its_provenance_and_no_polluted_point() -> None:
    catalog = load_embedded().catalog
    assert len(catalog.profiles) == 80
    for profile in catalog.profiles:
        assert profile.source.tool
        assert profile.source.run or profile.source.notes
        assert all(PointFlag.COLD_TAIL not in point.flags for point in profile.points)


def test_it_is_parsed_once() -> None:
    assert load_embedded() is load_embedded()
