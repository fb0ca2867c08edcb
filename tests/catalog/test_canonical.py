"""One content, one text, one digest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.canonical import catalog_digest, catalog_json, catalog_yaml, profile_digest
from catalog.loading import LoadedCatalog, load_text
from catalog.schema import Catalog
from tests.catalog.builders import catalog, catalog_document, point_document, profile_document


def _read(text: str) -> Catalog:
    result = load_text(text, "text")
    assert isinstance(result, LoadedCatalog), result
    return result.catalog


def test_order_and_spelling_of_the_input_do_not_change_a_byte() -> None:
    one = profile_document(points=[point_document(4, 3600.0, 720.0), point_document(8)])
    other = profile_document(hardware="nvidia-h100")
    shuffled = profile_document(
        points=[
            point_document(8, totalTokensPerSecond=6400, outputTokensPerSecond="1.28k"),
            point_document(4, 3600.0, 720.0),
        ],
        engine={"name": "VLLM"},
        parallel={"tp": 1, "gpus": 1, "pp": 1},
    )
    assert catalog_yaml(catalog(one, other)) == catalog_yaml(catalog(other, shuffled))


@pytest.mark.parametrize("write", [catalog_yaml, catalog_json])
def test_canonical_text_reads_back_to_the_same_catalog(write: Any) -> None:
    rich = profile_document(
        model={"name": "Qwen/Qwen3-8B", "revision": "b968826d"},
        workload={"inputTokens": 8192, "outputTokens": 1024, "meanInputTokens": "7372.8"},
        points=[point_document(8, flags=["ColdTail"], tpotMilliseconds={"p50": "7"}, run="12", date="2026-01-21")],
        source={"tool": "yes", "image": 'a"b: c', "notes": "two\nlines, # and é", "digests": [f"sha256:{'0' * 64}"]},
    )
    tombstone = {"key": "k", "digest": f"sha256:{'1' * 64}", "date": "2026-02-01", "reason": "broken run"}
    before = catalog(rich, profile_document(), retired=[tombstone])
    assert _read(write(before)) == before


def test_digest_ignores_what_a_profile_was_merged_from() -> None:
    plain = catalog(profile_document(source={"tool": "vllm"})).profiles[0]
    merged = catalog(profile_document(source={"tool": "vllm", "digests": [f"sha256:{'2' * 64}"]})).profiles[0]
    assert profile_digest(plain) == profile_digest(merged)


def test_digest_changes_with_a_measured_number() -> None:
    one = catalog(profile_document())
    other = catalog(profile_document(points=[point_document(4, 3600.0, 720.0), point_document(8, 6400.001)]))
    assert profile_digest(one.profiles[0]) != profile_digest(other.profiles[0])
    assert catalog_digest(one) != catalog_digest(other)


_positive = st.decimals(min_value="0.001", max_value=100000, places=3)


@given(
    st.lists(st.tuples(st.integers(1, 4096), _positive), min_size=1, max_size=6, unique_by=lambda pair: pair[0]),
    st.text(max_size=30).filter(str.strip),
)
def test_writing_and_reading_is_a_fixed_point(points: list[tuple[int, Any]], note: str) -> None:
    profile = profile_document(
        points=[
            {
                "concurrency": c,
                "totalTokensPerSecond": str(t * 2),
                "outputTokensPerSecond": str(t),
                "ttftMilliseconds": {"p99": str(t)},
                "tpotMilliseconds": {"p99": str(t)},
            }
            for c, t in points
        ],
        source={"notes": note},
    )
    first = load_text(json.dumps(catalog_document(profile)), "text")
    assert isinstance(first, LoadedCatalog), first
    text = catalog_yaml(first.catalog)
    assert _read(text) == first.catalog
    assert catalog_yaml(_read(text)) == text
