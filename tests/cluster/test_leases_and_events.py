"""Leases and Events: the two kinds that this project writes in a meaning of their own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.api import Api
from tests.cluster.objects import CORE_EVENTS, EVENTS, LEASES, lease

MICRO = "2026-01-02T03:04:05.600000Z"


# ---- Leases ----------------------------------------------------------------------------------------------------------


async def test_a_micro_time_has_six_digits(api: Api):
    stored = (await api.create(LEASES, lease("a", renewTime=MICRO, holderIdentity="x", leaseDurationSeconds=15))).ok()
    assert stored["spec"]["renewTime"] == MICRO


@pytest.mark.parametrize(
    "time", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.6Z", "2026-01-02 03:04:05.600000Z", "now"]
)
async def test_any_other_form_is_a_bad_request(api: Api, time: str):
    assert (await api.create(LEASES, lease("a", renewTime=time))).failure == (400, "BadRequest")


async def test_an_offset_comes_back_as_utc(api: Api):
    stored = (await api.create(LEASES, lease("a", renewTime="2026-01-02T05:04:05.600000+02:00"))).ok()
    assert stored["spec"]["renewTime"] == MICRO


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"leaseDurationSeconds": 0}, "spec.leaseDurationSeconds", id="a duration of zero"),
        pytest.param({"leaseTransitions": -1}, "spec.leaseTransitions", id="negative transitions"),
    ],
)
async def test_what_a_lease_must_not_say(api: Api, spec: dict[str, Any], field: str):
    answer = await api.create(LEASES, lease("a", **spec))
    assert answer.failure == (422, "Invalid")
    assert list(answer.causes) == [field]


async def test_an_empty_holder_is_a_lease_that_was_given_back(api: Api):
    stored = (await api.create(LEASES, lease("a", holderIdentity="x", leaseDurationSeconds=15))).ok()
    stored["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
    assert (await api.update(LEASES, stored)).ok()["spec"].get("holderIdentity", "") == ""


async def test_two_candidates_that_take_a_lease_at_once_get_one_lease(api: Api):
    stored = (await api.create(LEASES, lease("a", holderIdentity="x"))).ok()
    taken = {**stored, "spec": {"holderIdentity": "y"}}
    (await api.update(LEASES, taken)).ok()
    assert (await api.update(LEASES, {**stored, "spec": {"holderIdentity": "z"}})).failure == (409, "Conflict")


# ---- Events ----------------------------------------------------------------------------------------------------------


def new_event(name: str = "a.1", **change: Any) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": MICRO,
        "reportingController": "example.com/c",
        "reportingInstance": "c-1",
        "action": "Scale",
        "reason": "Rescaled",
        "type": "Normal",
        "note": "from 1 to 2",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"},
        **change,
    }


async def test_an_event_of_the_new_group_is_seen_in_the_old_one(api: Api):
    event = new_event()
    event["regarding"]["namespace"] = api.namespace
    (await api.create(EVENTS, event)).ok()
    seen = (await api.read(CORE_EVENTS, "a.1")).ok()
    assert (seen["apiVersion"], seen["message"], seen["reason"]) == ("v1", "from 1 to 2", "Rescaled")
    assert seen["involvedObject"] == event["regarding"]
    assert (seen["reportingComponent"], seen["reportingInstance"]) == ("example.com/c", "c-1")
    assert (seen["eventTime"], seen["firstTimestamp"], seen["lastTimestamp"]) == (MICRO, None, None)
    assert seen["source"] == {}


async def test_an_event_of_the_old_group_is_seen_in_the_new_one(api: Api):
    event = {
        "metadata": {"name": "a.2"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": api.namespace},
        "message": "m",
        "reason": "R",
        "type": "Warning",
        "count": 3,
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:05:05Z",
        "source": {"component": "c", "host": "h"},
    }
    (await api.create(CORE_EVENTS, event)).ok()
    seen = (await api.read(EVENTS, "a.2")).ok()
    assert (seen["note"], seen["deprecatedCount"]) == ("m", 3)
    assert (seen["deprecatedFirstTimestamp"], seen["deprecatedLastTimestamp"]) == (
        event["firstTimestamp"],
        event["lastTimestamp"],
    )
    assert seen["deprecatedSource"] == event["source"]
    assert seen["regarding"]["name"] == "p"
    assert seen["eventTime"] is None


async def test_a_series_is_a_patch_of_the_event(api: Api):
    event = new_event()
    event["regarding"]["namespace"] = api.namespace
    (await api.create(EVENTS, event)).ok()
    series = {"series": {"count": 2, "lastObservedTime": MICRO}}
    assert (await api.patch(EVENTS, "a.1", series)).ok()["series"] == series["series"]
    assert (await api.read(CORE_EVENTS, "a.1")).ok()["series"]["count"] == 2


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"eventTime": None}, "eventTime", id="no time"),
        pytest.param({"reportingController": ""}, "reportingController", id="no controller"),
        pytest.param(
            {"reportingController": "x y"}, "reportingController", id="a controller that is no qualified name"
        ),
        pytest.param({"reportingInstance": ""}, "reportingInstance", id="no instance"),
        pytest.param({"reportingInstance": "x" * 129}, "reportingInstance", id="too long an instance"),
        pytest.param({"action": ""}, "action", id="no action"),
        pytest.param({"action": "x" * 129}, "action", id="too long an action"),
        pytest.param({"reason": ""}, "reason", id="no reason"),
        pytest.param({"type": "Strange"}, "type", id="a type that is neither Normal nor Warning"),
        pytest.param({"note": "x" * 1025}, "message", id="too long a note, which goes by its old name"),
        pytest.param({"series": {"count": 1, "lastObservedTime": MICRO}}, "series.count", id="a series of one"),
    ],
)
async def test_what_an_event_must_have(api: Api, change: dict[str, Any], field: str):
    event = new_event(**change)
    event["regarding"]["namespace"] = api.namespace
    answer = await api.create(EVENTS, event)
    assert answer.failure == (422, "Invalid")
    assert any(field in name for name in answer.causes), answer.causes


async def test_an_event_about_a_cluster_scoped_object_is_in_the_default_namespace(api: Api):
    event = new_event()
    assert "namespace" not in event["regarding"]
    answer = await api.create(EVENTS, event)
    assert answer.failure == (422, "Invalid")
    assert list(answer.causes) == ["involvedObject.namespace"]
    event["metadata"]["name"] = f"{api.namespace}.1"
    assert (await api("POST", EVENTS.path("default"), event)).status == 201


async def test_what_an_event_says_cannot_be_changed(api: Api):
    event = new_event()
    event["regarding"]["namespace"] = api.namespace
    (await api.create(EVENTS, event)).ok()
    for change in ({"reason": "Other"}, {"note": "other"}, {"action": "Other"}):
        answer = await api.patch(EVENTS, "a.1", change)
        assert answer.failure == (422, "Invalid")
        assert "field is immutable" in answer.message


async def test_events_are_selected_by_what_they_are_about(api: Api):
    for number, reason in ((1, "One"), (2, "Two")):
        event = new_event(f"a.{number}", reason=reason)
        event["regarding"] |= {"namespace": api.namespace, "name": f"p{number}"}
        (await api.create(EVENTS, event)).ok()
    assert (await api.list(CORE_EVENTS, fieldSelector="involvedObject.name=p1")).names == ["a.1"]
    assert (await api.list(EVENTS, fieldSelector="regarding.name=p2")).names == ["a.2"]
    assert (await api.list(EVENTS, fieldSelector="reason=Two,type=Normal")).names == ["a.2"]
