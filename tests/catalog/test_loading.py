"""Texts, ConfigMaps and the cache."""

from __future__ import annotations

import json

import pytest

from catalog.loading import CatalogCache, CatalogFailure, CatalogProblem, LoadedCatalog, load_text
from tests.catalog.builders import catalog_document, point_document, profile_document
from tests.work import counted

TEXT = json.dumps(catalog_document(profile_document()))


def test_a_missing_config_map_says_how_to_get_one() -> None:
    result = CatalogCache().config_map("team-a/priors", None)
    assert isinstance(result, CatalogFailure)
    assert result.problem is CatalogProblem.CONFIG_MAP_NOT_FOUND
    assert "ConfigMap team-a/priors does not exist" in result.message
    assert "catalog.yaml" in result.message


def test_a_config_map_without_the_key_is_invalid_and_lists_its_keys() -> None:
    result = CatalogCache().config_map("team-a/priors", {"priors.yaml": TEXT})
    assert isinstance(result, CatalogFailure)
    assert result.problem is CatalogProblem.CATALOG_INVALID
    assert "has no key catalog.yaml (keys: priors.yaml)" in result.message


def test_an_invalid_catalog_counts_its_errors_and_shows_the_first() -> None:
    document = catalog_document(
        *[profile_document(role="X", workload={"inputTokens": i, "outputTokens": 1}) for i in range(1, 6)]
    )
    result = CatalogCache().config_map("team-a/priors", {"catalog.yaml": json.dumps(document)})
    assert isinstance(result, CatalogFailure)
    assert result.message.startswith("ConfigMap team-a/priors has 5 errors: profiles[0].role: ")
    assert result.message.endswith("; and 2 more")
    assert len(result.findings) == 5


def test_the_same_content_is_parsed_once() -> None:
    cache = CatalogCache()
    first = cache.config_map("team-a/priors", {"catalog.yaml": TEXT})
    assert isinstance(first, LoadedCatalog)
    assert cache.config_map("team-a/priors", {"catalog.yaml": TEXT, "other": "x"}) is first


def test_a_refused_content_is_remembered_too() -> None:
    cache = CatalogCache()
    first = cache.config_map("team-a/priors", {"catalog.yaml": "["})
    assert cache.config_map("team-a/priors", {"catalog.yaml": "["}) is first


def test_one_entry_is_evicted_at_a_time_the_least_recently_used() -> None:
    cache = CatalogCache(capacity=2)
    one = cache.config_map("n/one", {"catalog.yaml": TEXT})
    two = cache.config_map("n/two", {"catalog.yaml": TEXT})
    assert cache.config_map("n/one", {"catalog.yaml": TEXT}) is one
    cache.config_map("n/three", {"catalog.yaml": TEXT})
    assert len(cache) == 2
    assert cache.config_map("n/one", {"catalog.yaml": TEXT}) is one
    assert cache.config_map("n/two", {"catalog.yaml": TEXT}) is not two


def test_the_default_capacity_holds_thirty_two_catalogs() -> None:
    cache = CatalogCache()
    for number in range(40):
        cache.config_map(f"n/{number}", {"catalog.yaml": TEXT})
    assert len(cache) == 32


def test_the_work_of_loading_the_largest_honest_catalog_is_in_proportion_to_it() -> None:
    profiles = [
        profile_document(
            workload={"inputTokens": n + 1, "outputTokens": 256},
            points=[point_document(c, 300.0 * c, 60.0 * c) for c in (1, 2, 4, 8, 16)],
        )
        for n in range(1000)
    ]
    text = json.dumps(catalog_document(*profiles), separators=(",", ":"))
    assert 0.8 * 2**20 < len(text) <= 2**20
    result, calls = counted(lambda: load_text(text, "text"))
    assert isinstance(result, LoadedCatalog)
    assert calls < 1000 * 2_200, "twice what was counted for a profile of five points: a fifth of a second in all"


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "profiles: 3", "a: &a b"])
def test_any_wrong_text_becomes_a_failure_with_a_message(text: str) -> None:
    result = load_text(text, "the file")
    assert isinstance(result, CatalogFailure)
    assert result.message.startswith("the file ")
    assert result.findings
