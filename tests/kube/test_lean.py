"""Small cached objects: what is dropped, what is shared, what stays as it was."""

from __future__ import annotations

import sys

from controller.foundation import ObjectMeta, OwnerReference
from controller.kube import lean
from tests.kube.scripted_client import Thing


def fresh(text: str) -> str:
    """An equal string that is another object, as a decoder makes them."""
    return text.encode().decode()


def make(name: str, *, owner: str = "o", annotations: dict[str, str] | None = None) -> Thing:
    return Thing(
        ObjectMeta(
            name=name,
            namespace=fresh("team"),
            labels={"app": fresh("engine")},
            annotations=annotations,
            owner_references=(OwnerReference("apps/v1", "ReplicaSet", "rs", owner, True),),
        )
    )


def test_only_annotations_with_a_wanted_prefix_stay() -> None:
    shrink = lean(annotations=("ours.example/", "x/"))
    kept = shrink(make("a", annotations={"ours.example/a": "1", "x/b": "2", "other/c": "3"})).metadata
    assert kept.annotations == {"ours.example/a": "1", "x/b": "2"}
    assert shrink(make("a", annotations={"other/c": "3"})).metadata.annotations is None
    assert lean()(make("a", annotations={"other/c": "3"})).metadata.annotations is None


def test_what_repeats_is_one_object_in_memory() -> None:
    shrink = lean()
    one, two, other = shrink(make("a")).metadata, shrink(make("b")).metadata, shrink(make("c", owner="p")).metadata
    assert one.namespace is two.namespace
    assert one.labels is not None
    assert two.labels is not None
    assert one.labels["app"] is two.labels["app"]
    assert one.owner_references is two.owner_references
    assert other.owner_references is not one.owner_references


def test_an_owner_that_changed_is_not_replaced_by_its_older_self() -> None:
    shrink = lean()
    shrink(make("a"))
    renamed = make("b")
    owners = (OwnerReference("apps/v1", "ReplicaSet", "renamed", "o", True),)
    found = shrink(Thing(ObjectMeta(name="b", owner_references=owners))).metadata.owner_references
    assert found == owners
    assert renamed.metadata.owner_references != owners


def test_values_are_the_same_as_before_and_twice_is_once() -> None:
    """I8."""
    shrink = lean(annotations=("x/",))
    once = shrink(make("a", annotations={"x/b": "2", "y": "3"}))
    assert once.metadata.labels == {"app": "engine"}
    assert once.metadata.namespace == "team"
    assert shrink(once) == once


def test_labels_that_every_object_has_for_itself_do_not_pile_up() -> None:
    """`statefulset.kubernetes.io/pod-name` is another one for each Pod: the pool forgets, and sharing begins anew."""
    shrink = lean()
    first = [fresh(f"pod-{number}") for number in range(30_000)]
    for name in first:
        labels = shrink(Thing(ObjectMeta(name=name, labels={"pod-name": name, "app": fresh("engine")}))).metadata.labels
        assert labels == {"pod-name": name, "app": "engine"}
    never_seen = [fresh("pod")]
    assert sys.getrefcount(first[0]) == sys.getrefcount(never_seen[0]), "nobody holds the early ones"
    one, two = shrink(make("a")).metadata.labels, shrink(make("b")).metadata.labels
    assert one is not None
    assert two is not None
    assert one["app"] is two["app"]
