"""Events: what is written, what is only counted, what is dropped."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from controller.kube import EventRecorder, EventType, KubeClient, ObjectRef
from controller.kube.event_series import BURST, MAX_BUDGETS, MAX_SERIES, REFILL_SECONDS, Correlator, EventKey
from controller.kube.events import MAX_ATTEMPTS, MAX_QUEUED, cut_note
from tests.kube.scripted_server import ScriptedServer, answer, hang, reset, status
from tests.kube.support import running

OBJECT = ObjectRef("example.org/v1", "Thing", "a", "team", "u-1", "7")


@dataclass
class EventLog:
    written: int = 0
    dropped: list[str] = field(default_factory=list)

    def event_written(self) -> None:
        self.written += 1

    def event_dropped(self, reason: str) -> None:
        self.dropped.append(reason)


class Bench:
    def __init__(self, client: KubeClient) -> None:
        self.log = EventLog()
        self.recorder = EventRecorder(client, controller="scaler", instance="pod-1_x", observer=self.log)

    def say(self, note: str = "decode 2 → 3", reason: str = "ScaledUp", ref: ObjectRef = OBJECT) -> None:
        self.recorder.event(ref, EventType.NORMAL, reason, "Scale", note)


@pytest.fixture
def bench(client: KubeClient) -> Bench:
    return Bench(client)


# ---- what is written -------------------------------------------------------------------------------------------------


async def test_an_event_has_all_that_the_api_requires(server: ScriptedServer, bench: Bench) -> None:
    server.script(answer({}, 201))
    async with running(bench.recorder.run()):
        bench.say()
        await asyncio.sleep(1)
    (seen,) = server.requests
    assert (seen.method, seen.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/team/events")
    body = seen.json()
    name = body["metadata"]["name"]
    assert name.startswith("a.")
    assert body["eventTime"].endswith("Z")
    assert len(body["eventTime"].partition(".")[2]) == 7  # six digits and the Z
    del body["eventTime"]
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "team"},
        "reportingController": "scaler",
        "reportingInstance": "pod-1_x",
        "regarding": {
            "apiVersion": "example.org/v1",
            "kind": "Thing",
            "name": "a",
            "namespace": "team",
            "uid": "u-1",
            "resourceVersion": "7",
        },
        "type": "Normal",
        "reason": "ScaledUp",
        "action": "Scale",
        "note": "decode 2 → 3",
    }
    assert bench.log.written == 1


async def test_events_of_cluster_scoped_objects_live_in_default(server: ScriptedServer, bench: Bench) -> None:
    server.script(answer({}, 201))
    async with running(bench.recorder.run()):
        bench.say(ref=ObjectRef("v1", "Node", "n1"))
        await asyncio.sleep(1)
    assert server.requests[0].path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert server.requests[0].json()["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


async def test_texts_are_cut_to_the_limits_of_the_api(server: ScriptedServer, bench: Bench) -> None:
    server.script(answer({}, 201))
    async with running(bench.recorder.run()):
        bench.recorder.event(
            ObjectRef("v1", "Pod", "x" * 253, "ns"), EventType.WARNING, "R" * 200, "A" * 200, "é" * 2000
        )
        await asyncio.sleep(1)
    body = server.requests[0].json()
    assert len(body["reason"]) == len(body["action"]) == 128
    assert len(body["note"].encode()) <= 1024
    assert body["note"].endswith("é…")
    assert len(body["metadata"]["name"]) <= 253


@pytest.mark.parametrize("size", [1022, 1023, 1024, 1025, 1026, 1027])
def test_a_note_is_cut_between_characters(size: int) -> None:
    for character in ("a", "é", "語", "😀"):
        note = "a" * (size % 5) + character * size
        cut = cut_note(note)
        assert len(cut.encode()) <= 1024
        assert cut == note or (cut.endswith("…") and note.startswith(cut[:-1]))


async def test_two_events_of_one_moment_have_two_names(server: ScriptedServer, bench: Bench) -> None:
    server.script(answer({}, 201), answer({}, 201))
    async with running(bench.recorder.run()):
        bench.say("one")
        bench.say("two")
        await asyncio.sleep(1)
    assert len({seen.json()["metadata"]["name"] for seen in server.requests}) == 2


# ---- series ----------------------------------------------------------------------------------------------------------


async def test_a_repetition_makes_a_series_and_further_ones_only_count(server: ScriptedServer, bench: Bench) -> None:
    """V1, V4."""
    server.script(answer({}, 201), answer({}), answer({}))
    async with running(bench.recorder.run()):
        bench.say()
        await asyncio.sleep(10)
        bench.say()
        await asyncio.sleep(1)
        assert server.verbs == ["POST", "PATCH"]
        patch = server.requests[1]
        assert patch.path.endswith(server.requests[0].json()["metadata"]["name"])
        assert patch.headers["Content-Type"] == "application/merge-patch+json"
        assert patch.json()["series"]["count"] == 2
        for _ in range(10):
            await asyncio.sleep(5)
            bench.say()
        assert server.verbs == ["POST", "PATCH"]
        await asyncio.sleep(500)  # six minutes after the last one the series ends
        assert server.verbs == ["POST", "PATCH", "PATCH"]
        assert server.requests[2].json()["series"]["count"] == 12


async def test_a_long_series_is_refreshed_every_half_hour(server: ScriptedServer, bench: Bench) -> None:
    server.script(answer({}, 201), *[answer({})] * 10)
    async with running(bench.recorder.run()):
        for _ in range(130):
            bench.say()
            await asyncio.sleep(60)
    assert [seen.method for seen in server.requests][:5] == ["POST", "PATCH", "PATCH", "PATCH", "PATCH"]
    assert 5 <= len(server.requests) <= 7
    counts = [seen.json()["series"]["count"] for seen in server.requests[1:]]
    assert counts == sorted(counts)


async def test_after_six_quiet_minutes_it_is_a_new_event(server: ScriptedServer, bench: Bench) -> None:
    """V5."""
    server.script(answer({}, 201), answer({}, 201))
    async with running(bench.recorder.run()):
        bench.say()
        await asyncio.sleep(361)
        bench.say()
        await asyncio.sleep(1)
    assert server.verbs == ["POST", "POST"]


async def test_another_note_is_another_event(server: ScriptedServer, bench: Bench) -> None:
    """A note cannot be changed later, and "2 → 3" is not "3 → 4"."""
    server.script(*[answer({}, 201)] * 2)
    async with running(bench.recorder.run()):
        bench.say("decode 2 → 3")
        bench.say("decode 3 → 4")
        await asyncio.sleep(1)
    assert server.verbs == ["POST", "POST"]


async def test_a_series_whose_event_has_expired_is_created_again(server: ScriptedServer, bench: Bench) -> None:
    """V6."""
    server.script(answer({}, 201), status(404, "NotFound"), answer({}, 201))
    async with running(bench.recorder.run()):
        bench.say()
        await asyncio.sleep(1)
        bench.say()
        await asyncio.sleep(1)
    assert server.verbs == ["POST", "PATCH", "POST"]
    assert server.requests[2].json()["series"]["count"] == 2


# ---- what is dropped -------------------------------------------------------------------------------------------------


async def test_recording_never_waits_and_a_full_queue_drops_and_counts(server: ScriptedServer, bench: Bench) -> None:
    """V7."""
    server.script(*[hang()] * 5)
    async with running(bench.recorder.run()):
        before = asyncio.get_running_loop().time()
        for number in range(MAX_QUEUED + 50):
            bench.say(ref=ObjectRef("v1", "Pod", f"p{number}", "ns"))
        assert asyncio.get_running_loop().time() == before
        assert bench.log.dropped == ["overflow"] * 50


async def test_an_object_that_says_one_thing_too_often_is_stopped(server: ScriptedServer, bench: Bench) -> None:
    """V3: 25 of a reason, and then one in five minutes."""
    server.script(*[answer({}, 201)] * 60)
    async with running(bench.recorder.run()):
        for number in range(40):
            bench.say(f"note {number}")
        await asyncio.sleep(1)
        assert len(server.requests) == BURST
        assert bench.log.dropped == ["spam"] * 15
        bench.say(ref=ObjectRef("v1", "Pod", "another", "ns"))
        await asyncio.sleep(REFILL_SECONDS)
        bench.say("note x")
        await asyncio.sleep(1)
    assert len(server.requests) == BURST + 2


STORY = ("Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling", "Completed")


async def test_a_busy_day_is_told_in_whole_stories_and_hides_no_warning(server: ScriptedServer, bench: Bench) -> None:
    """Forty replicas of one object go within ten minutes: the first 25 are told from beginning to end, the others are
    counted, and what goes wrong meanwhile is said."""
    server.script(*[answer({}, 201)] * 400)
    async with running(bench.recorder.run()):
        for number in range(40):
            for state in STORY:
                bench.say(f"replica {number}", f"Retirement{state}")
            await asyncio.sleep(15)
        bench.recorder.event(OBJECT, EventType.WARNING, "RetirementAborted", "Retire", "it was never idle")
        await asyncio.sleep(1)
    told = [(event["reason"], event["note"]) for event in (request.json() for request in server.requests)]
    assert told[-1] == ("RetirementAborted", "it was never idle")
    whole = {note for _, note in told[:-1]}
    assert len(whole) == BURST + 1  # one came back meanwhile
    assert all((f"Retirement{state}", note) in told for note in whole for state in STORY)
    assert set(bench.log.dropped) == {"spam"}


FINAL: list[tuple[str, Any, str]] = [
    (
        "V8: the namespace is going away",
        status(403, "Forbidden", causes=[{"reason": "NamespaceTerminating"}]),
        "terminating",
    ),
    ("no permission", status(403, "Forbidden"), "refused"),
    ("an invalid event", status(422, "Invalid"), "refused"),
    ("no such namespace", status(404, "NotFound"), "refused"),
]


@pytest.mark.parametrize(("fault", "reason"), [row[1:] for row in FINAL], ids=[row[0] for row in FINAL])
async def test_what_cannot_be_delivered_is_dropped_at_once(
    server: ScriptedServer, bench: Bench, fault: Any, reason: str
) -> None:
    server.script(fault, answer({}, 201))
    async with running(bench.recorder.run()):
        bench.say()
        bench.say(ref=ObjectRef("v1", "Pod", "next", "ns"))
        await asyncio.sleep(1)
    assert bench.log.dropped == [reason]
    assert bench.log.written == 1
    assert len(server.requests) == 2


async def test_a_server_in_trouble_is_asked_again(server: ScriptedServer, bench: Bench) -> None:
    server.script(status(500, "InternalError"), reset(), answer({}, 201))
    async with running(bench.recorder.run()):
        bench.say()
        await asyncio.sleep(20)
    assert bench.log.written == 1
    assert bench.log.dropped == []


async def test_but_not_for_ever(server: ScriptedServer, bench: Bench) -> None:
    server.script(*[status(500, "InternalError")] * 20)
    async with running(bench.recorder.run()):
        bench.say()
        await asyncio.sleep(300)
    assert len(server.requests) == MAX_ATTEMPTS
    assert bench.log.dropped == ["failed"]


async def test_a_lost_answer_does_not_write_an_event_twice(server: ScriptedServer, bench: Bench) -> None:
    server.script(reset(), status(409, "AlreadyExists"))
    async with running(bench.recorder.run()):
        bench.say()
        await asyncio.sleep(10)
    assert bench.log.written == 1


async def test_the_end_delivers_what_is_queued_but_does_not_wait_for_a_dead_server(
    server: ScriptedServer, bench: Bench
) -> None:
    server.script(answer({}, 201), answer({}, 201))
    async with running(bench.recorder.run()) as (task,):
        await asyncio.sleep(0)
        bench.say("one")
        bench.say("two")
        task.cancel()
        await asyncio.wait((task,))
    assert bench.log.written == 2
    other = Bench(bench.recorder._client)
    server.script(*[hang()] * 3)
    async with running(other.recorder.run()) as (task,):
        await asyncio.sleep(0)
        other.say("one")
        other.say("two")
        started = asyncio.get_running_loop().time()
        task.cancel()
        await asyncio.wait((task,))
    assert asyncio.get_running_loop().time() - started <= 2.1
    assert other.log.dropped == ["failed", "failed"]


async def test_events_are_not_gated(server: ScriptedServer, client: KubeClient, bench: Bench) -> None:
    """A leader that lost its lease must be able to say so."""

    def closed() -> None:
        raise AssertionError("the gate was asked")

    client.gate = closed
    server.script(answer({}, 201), answer({}))
    async with running(bench.recorder.run()):
        bench.say()
        await asyncio.sleep(1)
        bench.say()
        await asyncio.sleep(1)
    assert bench.log.written == 2


def test_the_memory_of_series_and_budgets_is_bounded() -> None:
    correlator = Correlator()
    for number in range(MAX_SERIES + 100):
        key = EventKey(ObjectRef("v1", "Pod", f"p{number}"), "Normal", "R", "A", "n")
        assert correlator.begin(key, "ns", "name", 0.0) is not None
    assert len(correlator) == MAX_SERIES
    for number in range(MAX_BUDGETS):
        correlator.begin(EventKey(ObjectRef("v1", "Pod", f"q{number}"), "Normal", "R", "A", "n"), "ns", "name", 0.0)
    assert len(correlator._budgets) == MAX_BUDGETS
