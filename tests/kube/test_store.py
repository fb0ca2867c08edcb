"""Objects and their indices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.foundation import ObjectMeta
from controller.kube import Store
from tests.kube.scripted_client import Thing


def make(name: str, *, version: int = 1, namespace: str = "ns", **labels: str) -> Thing:
    meta = ObjectMeta(
        name=name, namespace=namespace, uid=f"uid-{name}", resource_version=str(version), labels=labels or None
    )
    return Thing(meta)


def by_node(obj: Thing) -> Iterable[str] | None:
    node = obj.metadata.label("node")
    return [node] if node else None


def by_words(obj: Thing) -> Iterable[str]:
    return (obj.metadata.label("words") or "").split(",")


def put(store: Store[Thing], obj: Thing) -> None:
    store.put(obj.metadata.key, store.get(obj.metadata.key), obj)


def names(objects: Iterable[Thing]) -> list[str]:
    return [obj.metadata.name for obj in objects]


def test_an_object_is_found_by_its_key_and_in_its_namespace() -> None:
    store: Store[Thing] = Store()
    put(store, make("a"))
    put(store, make("b", namespace="other"))
    assert names([obj for obj in [store.get("ns/a")] if obj]) == ["a"]
    assert store.get("ns/b") is None
    assert names(store.list()) == ["a", "b"]
    assert names(store.list("other")) == ["b"]
    assert len(store) == 2
    assert "ns/a" in store


def test_the_lists_belong_to_the_reader() -> None:
    """S7: neither a list nor an object can be used to change the store."""
    store = Store({"node": by_node})
    put(store, make("a", node="n1"))
    store.list().clear()
    store.by_index("node", "n1").clear()
    assert len(store) == 1
    assert names(store.by_index("node", "n1")) == ["a"]
    with pytest.raises((AttributeError, dataclasses.FrozenInstanceError)):
        store.list()[0].metadata = ObjectMeta()  # type: ignore[misc]


def test_an_index_entry_goes_with_its_last_object() -> None:
    """S1, S2: k8s#84959 leaked one entry for each owner that ever lived."""
    store = Store({"node": by_node})
    put(store, make("a", node="n1"))
    put(store, make("b", node="n1"))
    store.pop("ns/a")
    assert store.index_values("node") == ["n1"]
    store.pop("ns/b")
    assert store.index_values("node") == []
    assert store.by_index("node", "n1") == []


def test_an_object_under_several_values_moves_with_all_of_them() -> None:
    """S3."""
    store = Store({"words": by_words})
    put(store, make("a", words="x,y,y"))
    put(store, make("a", words="y,z", version=2))
    assert store.by_index("words", "x") == []
    assert names(store.by_index("words", "y")) == names(store.by_index("words", "z")) == ["a"]
    store.pop("ns/a")
    assert store.index_values("words") == []


def test_none_and_empty_are_no_values() -> None:
    """S4."""
    store = Store({"node": by_node, "words": by_words})
    put(store, make("a"))
    assert store.index_values("node") == store.index_values("words") == []


def test_an_index_function_that_fails_hides_the_object_from_that_index_only() -> None:
    """S4: an odd object must not stop the cache."""

    def fails(obj: Thing) -> list[str]:
        return [str(obj.metadata.labels["node"])]  # type: ignore[index]

    store = Store({"fails": fails, "node": by_node})
    put(store, make("a"))
    put(store, make("b", node="n1"))
    assert len(store) == 2
    assert names(store.by_index("fails", "n1")) == ["b"]
    store.pop("ns/a")
    store.pop("ns/b")
    assert store.index_values("fails") == []


def test_an_index_can_be_added_to_a_filled_store_once() -> None:
    """S5."""
    store: Store[Thing] = Store()
    put(store, make("a", node="n1"))
    store.add_index("node", by_node)
    assert names(store.by_index("node", "n1")) == ["a"]
    with pytest.raises(ValueError, match="exists already"):
        store.add_index("node", by_node)
    with pytest.raises(KeyError):
        store.by_index("unknown", "x")


operation = st.tuples(
    st.sampled_from(["put", "pop"]), st.sampled_from("abcd"), st.sampled_from(["", "x", "y", "x,y", "z,x"])
)


@given(st.lists(operation, max_size=40))
def test_an_index_always_equals_what_a_scan_would_find(operations: list[tuple[str, str, str]]) -> None:
    store = Store({"words": by_words})
    for verb, name, words in operations:
        if verb == "put":
            put(store, make(name, words=words))
        else:
            store.pop(f"ns/{name}")
    for word in "xyz":
        scanned = {obj.metadata.name for obj in store.list() if word in by_words(obj)}
        assert {obj.metadata.name for obj in store.by_index("words", word)} == scanned
    assert set(store.index_values("words")) == {word for obj in store.list() for word in by_words(obj) if word}


def test_projections_are_frozen() -> None:
    assert msgspec.structs.asdict(make("a"))["spec"] is None
    with pytest.raises(AttributeError):
        make("a").metadata.name = "b"  # type: ignore[misc]
