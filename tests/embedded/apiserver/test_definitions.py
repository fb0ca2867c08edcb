"""What stored definitions do to the server: types, watches, and the deletion of a definition with its objects."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from controller.embedded.apiserver import ApiServer
from controller.embedded.apiserver.crds import CLEANUP, Termination, begin_termination, is_terminating, set_termination
from controller.embedded.apiserver.storage import Change
from controller.foundation import ManualClock
from tests.embedded.apiserver.conftest import CRDS, MERGE_PATCH, WIDGET_CRD, WIDGETS, Client, Start, widget

NAME = "widgets.example.com"
DEFINITION = CRDS.path(None, NAME)
HELD = {"name": "held", "namespace": "default", "finalizers": ["example.com/hold"]}


def held() -> dict[str, Any]:
    return {**widget("held"), "metadata": dict(HELD)}


def course(server: ApiServer) -> list[tuple[Change, str | None]]:
    """Every version of the definition: what happened, and the reason of `Terminating`."""
    return [(version.change, reason(version.object)) for version in server.history(CRDS, NAME)]


def reason(crd: dict[str, Any]) -> str | None:
    return next((each["reason"] for each in crd["status"]["conditions"] if each["type"] == "Terminating"), None)


async def test_a_definition_without_objects_goes_through_every_stage_in_one_turn(api: Client) -> None:
    assert (await api("DELETE", DEFINITION)).status == 200
    assert (await api.get(DEFINITION)).status == 404
    assert course(api.server) == [
        (Change.ADDED, None),
        (Change.MODIFIED, "InstanceDeletionPending"),
        (Change.MODIFIED, "InstanceDeletionInProgress"),
        (Change.DELETED, "InstanceDeletionInProgress"),
    ]


async def test_the_last_object_takes_the_definition_with_it(api: Client) -> None:
    api.server.put(held())
    for number in range(50):
        api.server.put(widget(f"w{number}"))
    await api("DELETE", DEFINITION)
    (left,) = (await api.get(WIDGETS.path("default"))).json["items"]
    assert left["metadata"]["deletionTimestamp"]
    assert (await api.patch(WIDGETS, "held", {"metadata": {"finalizers": None}})).status == 200
    assert (await api.get(DEFINITION)).status == 404
    assert (await api.get(WIDGETS.path("default"))).status == 404
    assert len(course(api.server)) == 4, "however many objects there were"


async def test_the_watches_of_the_type_end_and_no_others(api: Client) -> None:
    api.server.put(widget("one"))
    ended, kept = await api.watch(WIDGETS.path("default")), await api.watch(CRDS.path())
    assert await ended.take(1) == [("ADDED", "one")]
    await api("DELETE", DEFINITION)
    assert await ended.take(1) == [("DELETED", "one")]
    assert await ended.rest() == b""
    assert await kept.take(4) == [("ADDED", NAME), *[("MODIFIED", NAME)] * 2, ("DELETED", NAME)]


async def test_a_watch_ends_with_the_spec_that_it_was_opened_on(api: Client) -> None:
    watch = await api.watch(WIDGETS.path("default"))
    api.server.install_crd(WIDGET_CRD)
    api.server.put(widget("one"))
    assert await watch.take(1) == [("ADDED", "one")], "the definition is the same as before"
    changed = copy.deepcopy(WIDGET_CRD)
    changed["spec"]["names"]["shortNames"] = ["wg"]
    api.server.install_crd(changed)
    assert await watch.rest() == b""


async def test_every_create_is_refused_before_its_namespace_or_its_schema_is_looked_at(api: Client) -> None:
    api.server.put(held())
    await api("DELETE", DEFINITION)
    for body in (widget("new"), widget("new", mode="Loud"), {**widget("new"), "metadata": {"generateName": "new-"}}):
        answer = await api("POST", WIDGETS.path("nowhere"), {**body, "metadata": {**body["metadata"], "namespace": ""}})
        assert (answer.status, answer.reason) == (403, "Forbidden")
        assert answer.json["message"].endswith("not allowed while custom resource definition is terminating")
    assert (await api("POST", WIDGETS.path("other"), widget("new"))).status == 400, "the body names another namespace"
    assert [item["metadata"]["name"] for item in api.server.list(WIDGETS)] == ["held"]


async def test_what_a_fixture_adds_to_a_type_in_deletion_goes_like_the_rest(api: Client) -> None:
    api.server.put(held())
    await api("DELETE", DEFINITION)
    api.server.put(widget("late"))
    assert [item["metadata"]["name"] for item in (await api.get(WIDGETS.path("default"))).json["items"]] == ["held"]


async def test_objects_are_deleted_although_no_version_of_theirs_is_served(api: Client) -> None:
    api.server.put(widget("one"))
    hidden = copy.deepcopy(WIDGET_CRD)
    for version in hidden["spec"]["versions"]:
        version["served"] = False
    api.server.install_crd(hidden)
    assert (await api.get(WIDGETS.path("default"))).status == 404
    await api("DELETE", DEFINITION)
    api.server.install_crd(WIDGET_CRD)
    assert api.server.list(WIDGETS) == []


async def test_objects_whose_definition_was_torn_away_come_back_with_it(api: Client) -> None:
    api.server.put(held())
    await api("DELETE", DEFINITION)
    torn = await api("PATCH", DEFINITION, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
    assert torn.status == 200
    assert (await api.get(WIDGETS.path("default"))).status == 404
    api.server.install_crd(WIDGET_CRD)
    (back,) = api.server.list(WIDGETS)
    assert back["metadata"]["deletionTimestamp"]
    assert (await api.create(WIDGETS, widget("new"))).status == 201


async def test_dependants_of_the_objects_go_with_them(start: Start) -> None:
    api = await start(garbage_collection=True)
    owner = api.server.put(widget("owner"))
    reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "ownerReferences": [reference]}}
    api.server.put(child)
    await api("DELETE", DEFINITION)
    assert (await api.get("/api/v1/namespaces/default/configmaps/child")).status == 404


def test_a_deletion_before_there_is_an_event_loop_is_done_at_the_start() -> None:
    server = ApiServer(clock=ManualClock())
    server.install_crd(WIDGET_CRD)
    server.put(widget("one"))
    server.delete(CRDS, NAME)
    assert server.get(CRDS, NAME) is not None

    async def start_and_stop() -> None:
        await server.start()
        await server.stop()

    asyncio.run(start_and_stop())
    assert server.get(CRDS, NAME) is None


STAGES = [
    ("a first stage has its own time", [], Termination.PENDING, True, "now"),
    ("a stage of the same status keeps the time", [Termination.PENDING], Termination.IN_PROGRESS, True, "then"),
    ("a stage of another status has its own", [Termination.IN_PROGRESS], Termination.COMPLETED, True, "now"),
    ("the same stage changes nothing", [Termination.IN_PROGRESS], Termination.IN_PROGRESS, False, "then"),
]


@pytest.mark.parametrize(("before", "stage", "changes", "since"), [r[1:] for r in STAGES], ids=[r[0] for r in STAGES])
def test_of_the_stages(before: list[Termination], stage: Termination, changes: bool, since: str) -> None:
    crd: dict[str, Any] = {"metadata": {}}
    for earlier in before:
        set_termination(crd, earlier, "then")
    assert set_termination(crd, stage, "now") is changes
    (condition,) = crd["status"]["conditions"]
    assert (condition["reason"], condition["lastTransitionTime"]) == (stage.value[1], since)
    assert is_terminating(crd) is (stage is not Termination.COMPLETED)


def test_the_finalizer_of_the_server_stands_once_behind_those_that_are_there() -> None:
    for given, expected in (
        (None, [CLEANUP]),
        (["example.com/a"], ["example.com/a", CLEANUP]),
        ([CLEANUP, "example.com/a"], [CLEANUP, "example.com/a"]),
    ):
        crd: dict[str, Any] = {"metadata": {"finalizers": list(given)} if given else {}}
        begin_termination(crd, "now")
        assert crd["metadata"]["finalizers"] == expected
