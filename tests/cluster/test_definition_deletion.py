"""How a CustomResourceDefinition goes: with its objects, after the last of them, and taking nothing new meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from controller.foundation import Resource
from tests.cluster.api import APPLY_PATCH, MERGE_PATCH, Answer, Api, Stream
from tests.cluster.definitions import fresh_crd, install
from tests.cluster.objects import CRDS, gadget

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
# The real server looks for remaining objects every five seconds, and ends watches a second after the definition; the
# rest is for slow machines.
SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Defined:
    """One definition and its type."""

    api: Api
    resource: Resource
    name: str

    def gadget(self, name: str, *, finalizers: list[str] | None = None, **spec: Any) -> dict[str, Any]:
        made = gadget(name, api_version=self.resource.api_version, **spec)
        if finalizers:
            made["metadata"]["finalizers"] = finalizers
        return made

    async def read(self) -> Answer:
        return await self.api("GET", CRDS.path(None, self.name))

    async def delete(self, options: Any = None, **query: Any) -> Answer:
        return await self.api("DELETE", CRDS.path(None, self.name), options, **query)

    async def patch(self, body: Any) -> Answer:
        return await self.api("PATCH", CRDS.path(None, self.name), body, content_type=MERGE_PATCH)

    async def release(self, name: str = "held") -> None:
        (await self.api.patch(self.resource, name, {"metadata": {"finalizers": None}})).ok()

    async def is_gone(self) -> bool:
        return (await self.read()).status == 404

    async def is_unserved(self) -> bool:
        return (await self.api.list(self.resource)).status == 404

    async def has_asked(self) -> bool:
        """Whether the object that is held knows that it is to go; the real server stops creates a little earlier."""
        return "deletionTimestamp" in (await self.api.read(self.resource, "held")).ok()["metadata"]

    async def refuses(self) -> bool:
        return (await self.api.create(self.resource, self.gadget("probe"), dryRun="All")).status == 403


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await condition():
            await asyncio.sleep(0.05)


async def events_to_the_end(stream: Stream) -> list[tuple[str, str]]:
    """(type, name) of what still comes until the server ends the stream."""
    found = []
    async with asyncio.timeout(SECONDS):
        while line := await stream.response.content.readline():
            found.append(line)
    return [(event["type"], event["object"]["metadata"]["name"]) for event in map(orjson.loads, found)]


def termination(crd: dict[str, Any]) -> tuple[str, str] | None:
    """Status and reason of the condition."""
    found = [each for each in crd["status"]["conditions"] if each["type"] == "Terminating"]
    return (found[0]["status"], found[0]["reason"]) if found else None


@pytest.fixture
async def defined(api: Api) -> Defined:
    crd = fresh_crd()
    return Defined(api, await install(api, crd), crd["metadata"]["name"])


@pytest.fixture
async def going(defined: Defined) -> AsyncIterator[Defined]:
    """A definition that is being deleted and waits for the object `held`."""
    (await defined.api.create(defined.resource, defined.gadget("held", finalizers=["example.com/hold"]))).ok()
    (await defined.delete()).ok()
    await until(defined.refuses)
    await until(defined.has_asked)
    yield defined
    await defined.api.patch(defined.resource, "held", {"metadata": {"finalizers": None}})


async def test_a_deletion_answers_the_definition_with_a_finalizer_of_the_server(defined: Defined):
    before = (await defined.read()).ok()
    preview = (await defined.delete(dryRun="All")).ok()
    assert (preview["metadata"]["finalizers"], termination(preview)) == ([CLEANUP], ("True", "InstanceDeletionPending"))
    assert (await defined.read()).ok() == before
    found = (await defined.delete({"preconditions": {"uid": before["metadata"]["uid"]}})).ok()
    assert found["kind"] == "CustomResourceDefinition"
    assert found["metadata"]["finalizers"] == [CLEANUP]
    assert found["metadata"]["deletionTimestamp"]
    assert "deletionGracePeriodSeconds" not in found["metadata"]
    assert found["metadata"]["generation"] == before["metadata"]["generation"]
    assert termination(found) == ("True", "InstanceDeletionPending")
    await until(defined.is_gone)


@pytest.mark.parametrize(
    ("precondition", "text"),
    [
        ({"uid": "other"}, "Precondition failed: UID in precondition: other, UID in object meta: "),
        (
            {"resourceVersion": "1"},
            "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object",
        ),
    ],
    ids=["on the uid", "on the version"],
)
async def test_a_failed_precondition_names_the_plural(defined: Defined, precondition: dict[str, str], text: str):
    answer = await defined.delete({"preconditions": precondition})
    assert answer.failure == (409, "Conflict")
    assert answer.details["kind"] == "customresourcedefinitions"
    assert text in answer.message
    assert "deletionTimestamp" not in (await defined.read()).ok()["metadata"]


async def test_objects_go_first_then_the_definition_then_the_watches(defined: Defined):
    for name, finalizers in (("free", None), ("held", ["example.com/hold"])):
        (await defined.api.create(defined.resource, defined.gadget(name, finalizers=finalizers))).ok()
    watch = await defined.api.watch(defined.resource)
    assert await watch.take(2) == [("ADDED", "free"), ("ADDED", "held")]
    (await defined.delete()).ok()
    assert await watch.take(2) == [("DELETED", "free"), ("MODIFIED", "held")]
    held = (await defined.api.read(defined.resource, "held")).ok()
    assert held["metadata"]["deletionTimestamp"]
    assert termination((await defined.read()).ok()) == ("True", "InstanceDeletionInProgress")
    await defined.release()
    await until(defined.is_gone)
    await until(defined.is_unserved)
    assert await events_to_the_end(watch) == [("DELETED", "held")]


async def test_nothing_new_is_taken_while_it_goes(going: Defined):
    api, resource = going.api, going.resource
    new = going.gadget("new")
    for answer in (
        await api.create(resource, new),
        await api.create(Resource(resource.group, "v1", "gadgets", "Gadget"), {**new, "apiVersion": f"{resource.group}/v1"}),
        await api.create(resource, going.gadget("new", interval=1)),
        await api("POST", resource.path("nowhere"), new),
        await api.patch(resource, "new", new, APPLY_PATCH, fieldManager="x"),
    ):  # fmt: skip
        assert answer.failure == (403, "Forbidden")
        assert answer.message == (
            f'gadgets.{resource.group} "new" is forbidden: create not allowed while custom resource definition is '
            "terminating"
        )
    assert (await api.create(resource, {**new, "apiVersion": "x/v1"})).failure == (400, "BadRequest")
    assert (await api.read(resource, "new")).failure == (404, "NotFound")


async def test_what_is_there_is_still_read_and_changed(going: Defined):
    api, resource = going.api, going.resource
    assert (await api.list(resource)).names == ["held"]
    assert (await api.patch(resource, "held", {"spec": {"interval": 20}})).ok()["spec"]["interval"] == 20
    seen = (await api.read(resource, "held")).ok()
    seen["spec"]["interval"] = 30
    assert (await api("PUT", api.path(resource, "held"), seen)).ok()["spec"]["interval"] == 30
    assert (await api.patch(resource, "held", {"status": {"phase": "x"}}, subresource="status")).status == 200
    watch = await api.watch(resource)
    assert await watch.take(1) == [("ADDED", "held")]
    assert (await api.delete(resource, "held")).ok()["kind"] == "Gadget"


async def test_the_definition_itself_takes_changes_but_no_second_one_of_its_name(going: Defined):
    assert (await going.patch({"metadata": {"labels": {"a": "b"}}})).ok()["metadata"]["labels"] == {"a": "b"}
    more = {"metadata": {"finalizers": [CLEANUP, "example.com/new"]}}
    assert (await going.patch(more)).failure == (422, "Invalid")
    crd = (await going.read()).ok()
    again = {"metadata": {"name": going.name}, "spec": crd["spec"]}
    answer = await going.api("POST", CRDS.path(), {**crd, **again})
    assert answer.failure == (409, "AlreadyExists")
    assert answer.message.startswith("object is being deleted: ")


async def test_a_second_deletion_only_adds_the_grace(going: Defined):
    first = (await going.read()).ok()
    second = (await going.delete()).ok()
    assert second["metadata"]["deletionGracePeriodSeconds"] == 0
    assert second["metadata"]["deletionTimestamp"] == first["metadata"]["deletionTimestamp"]
    assert second["metadata"]["generation"] == first["metadata"]["generation"]
    third = (await going.delete()).ok()
    assert third["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_discovery_no_longer_offers_to_write(going: Defined):
    async def offered() -> list[str]:
        listed = (await going.api("GET", f"/apis/{going.resource.group}/v1")).ok()["resources"]
        return next(sorted(each["verbs"]) for each in listed if each["name"] == "gadgets")

    async def reads_only() -> bool:
        return await offered() == ["delete", "deletecollection", "get", "list", "watch"]

    await until(reads_only)


async def test_a_definition_that_somebody_holds_takes_objects_again_and_leaves_them_behind(api: Api):
    crd = fresh_crd()
    crd["metadata"]["finalizers"] = ["example.com/hold"]
    defined = Defined(api, await install(api, crd), crd["metadata"]["name"])
    (await api.create(defined.resource, defined.gadget("early"))).ok()
    assert (await defined.delete()).ok()["metadata"]["finalizers"] == ["example.com/hold", CLEANUP]

    async def cleaned_up() -> bool:
        return termination((await defined.read()).ok()) == ("False", "InstanceDeletionCompleted")

    await until(cleaned_up)
    assert (await defined.read()).ok()["metadata"]["finalizers"] == ["example.com/hold"]
    assert (await api.list(defined.resource)).names == []

    async def taken() -> bool:
        return (await api.create(defined.resource, defined.gadget("late"))).status == 201

    await until(taken)
    released = (await defined.patch({"metadata": {"finalizers": None}})).ok()
    assert "finalizers" not in released["metadata"]
    assert await defined.is_gone()
    await until(defined.is_unserved)
    del crd["metadata"]["finalizers"]
    await install(api, crd)
    assert (await api.list(defined.resource)).names == ["late"], "nobody had deleted it"


async def test_a_new_spec_ends_the_watches_and_a_label_does_not(defined: Defined):
    kept = await defined.api.watch(defined.resource)
    (await defined.patch({"metadata": {"labels": {"a": "b"}}})).ok()
    (await defined.api.create(defined.resource, defined.gadget("a"))).ok()
    assert await kept.take(1) == [("ADDED", "a")]
    (await defined.patch({"spec": {"names": {"shortNames": ["gx"]}}})).ok()
    assert await events_to_the_end(kept) == []


async def test_a_namespaced_kind_has_no_writes_across_namespaces(defined: Defined):
    path = f"/apis/{defined.resource.group}/v1alpha1/gadgets"
    for method, body in (("POST", defined.gadget("a")), ("DELETE", None)):
        answer = await defined.api(method, path, body)
        assert (answer.status, answer.raw) == (404, b"404 page not found\n")
    assert (await defined.api("GET", path)).status == 200
