"""Who wrote a count, told from the stored states of an object alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controller.embedded.audit import audit, effective_writers

P = "scaling.worker.gpustack.ai/"
US = "model-deployment-scaler"
OURS = {"bound-by": "a/uid-a", "term": "1"}


class Story:
    """States of one object; each call is one write."""

    def __init__(self, **roles: int) -> None:
        self.states: list[dict[str, Any]] = []
        self.now: dict[str, Any] = {
            "metadata": {"uid": "u", "annotations": {}, "managedFields": []},
            "spec": {"roles": [{"name": name, "replicas": count} for name, count in roles.items()]},
        }
        self._keep()

    def write(self, manager: str, annotations: dict[str, str | None] | None = None, **counts: int) -> Story:
        for key, value in (annotations or {}).items():
            if value is None:
                self.now["metadata"]["annotations"].pop(P + key, None)
            else:
                self.now["metadata"]["annotations"][P + key] = value
        for role in self.now["spec"]["roles"]:
            role["replicas"] = counts.get(role["name"], role["replicas"])
        owned = {f'k:{{"name":"{name}"}}': {"f:replicas": {}} for name in counts}
        entry = {"manager": manager, "fieldsV1": {"f:spec": {"f:roles": owned}} if owned else {}}
        if annotations:
            entry["fieldsV1"]["f:metadata"] = {"f:annotations": {f"f:{P}{key}": {} for key in annotations}}
        self.now["metadata"]["managedFields"] = [entry]
        self._keep()
        return self

    def _keep(self) -> None:
        self.now["metadata"]["resourceVersion"] = str(len(self.states) + 1)
        self.states.append(copy.deepcopy(self.now))


def _bound() -> Story:
    return Story(server=1).write(US, OURS)


CASES = [
    ("a history without writes has no writer", _bound(), 0, 0),
    ("a fenced write has one", _bound().write(US, {"written": "server=3"}, server=3), 1, 0),
    (
        "so have two leaders, each under its own term",
        _bound().write(US, {"written": "server=3"}, server=3).write(US, {"term": "2"}).write(US, {"written": "server=1"}, server=1),
        1,
        0,
    ),
    (
        "and two scalers, one after the other",
        _bound().write(US, {"written": "server=3"}, server=3).write(US, {"bound-by": None}).write(US, {"bound-by": "b/uid-b", "term": "2"}).write(US, {"written": "server=1"}, server=1),
        1,
        0,
    ),
    ("a person is no scaler", _bound().write("kubectl", server=5), 0, 0),
    ("a person who sets the counts of the note neither", _bound().write(US, {"written": "server=3"}, server=3).write("argocd", server=5).write("argocd", server=3), 1, 0),
    ("our count without a binding is a second writer", Story(server=1).write(US, {"written": "server=3"}, server=3), 2, 1),
    ("our count without a note too", _bound().write(US, server=3), 2, 1),
    ("our count with another's note too", _bound().write(US, {"written": "other=3"}, server=3), 2, 1),
    ("our count beside a fenced one is a second writer", _bound().write(US, {"written": "server=3"}, server=3).write(US, server=4), 2, 1),
    ("our count together with a new term too", _bound().write(US, {"written": "server=3", "term": "2"}, server=3), 2, 1),
    ("after a release nobody may write", _bound().write(US, {"bound-by": None}).write(US, {"written": "server=3"}, server=3), 2, 1),
    ("a term that fell", _bound().write(US, {"term": "4"}).write(US, {"term": "3"}), 0, 1),
    ("a claim under the old term", _bound().write(US, {"bound-by": None}).write(US, {"bound-by": "b/uid-b"}), 0, 1),
    ("a term that a person edited is that person's", _bound().write(US, {"term": "4"}).write("kubectl", {"term": "0"}), 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("story", "writers", "problems"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_history_tells_its_writers(story: Story, writers: int, problems: int):
    found = audit(story.states)
    assert effective_writers(story.states) == found.effective_writers == writers
    assert len(found.problems) == problems, found.problems


def test_foreign_writes_are_told_with_their_manager():
    found = audit(_bound().write("argocd", server=5).write(US, {"written": "server=2"}, server=2).states)
    assert [(write.manager, dict(write.after)) for write in found.foreign] == [("argocd", {"server": 5})]


def test_another_object_of_the_same_name_begins_anew():
    story = _bound().write(US, {"written": "server=3"}, server=3)
    story.now["metadata"] = {"uid": "another", "annotations": {}, "managedFields": []}
    story.now["spec"]["roles"][0]["replicas"] = 7
    story._keep()
    found = audit(story.states)
    assert not found.problems
    assert len(found.writes) == 1


def test_claims_are_told_in_order():
    found = audit(
        _bound().write(US, {"term": "2"}).write(US, {"bound-by": None}).write(US, {**OURS, "term": "3"}).states
    )
    assert [(version, holding.term) for version, holding in found.claims] == [("2", "1"), ("3", "2"), ("5", "3")]


def test_a_list_that_is_owned_as_a_whole_has_its_owner():
    story = _bound()
    story.write("operator", server=4)
    story.states[-1]["metadata"]["managedFields"] = [{"manager": "operator", "fieldsV1": {"f:spec": {"f:roles": {}}}}]
    assert [write.manager for write in audit(story.states).writes] == ["operator"]
