"""Events for people, written as events.k8s.io/v1 in the background.

    recorder = EventRecorder(client, controller="model-deployment-scaler", instance=identity)
    recorder.event(regarding, EventType.NORMAL, "ScaledUp", "Scale", "decode 2 → 3: token demand 18k/s")
    await recorder.run()          # in a task of its own

Promised: `event` returns at once and never raises; nothing waits for the API server. Repetitions become a series
(`event_series`). An event that cannot be delivered is dropped and counted: overflow, spam, refused, failed,
terminating.

Not promised: delivery. Events are a courtesy; state belongs into conditions.
Cancellation: `run` first tries for a moment to deliver what is queued.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from typing import Any, NoReturn

import structlog

from controller.foundation import Resource, format_micro_time, wall_now
from controller.kube.client import KubeClient
from controller.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound, Throttled, Transient
from controller.kube.event_series import Correlator, EventKey, ObjectRef, Series
from controller.kube.observers import SILENT, EventObserver
from controller.kube.patches import merge_patch

EVENT = Resource("events.k8s.io", "v1", "events", "Event")

# client-go's queue. A full queue means that the server does not take them; older events tell how it began.
MAX_QUEUED = 1000
MAX_ATTEMPTS = 5
RETRY_SECONDS = 2.0
FLUSH_SECONDS = 2.0
SWEEP_SECONDS = 60.0

# Limits of the API's validation.
MAX_NOTE_BYTES = 1024
MAX_WORD_CHARACTERS = 128
MAX_NAME_CHARACTERS = 253

_log = structlog.get_logger(__name__)


class EventType(enum.StrEnum):
    """The only two types there are."""

    NORMAL = "Normal"
    WARNING = "Warning"


class EventRecorder:
    """Records events of one controller process."""

    def __init__(self, client: KubeClient, *, controller: str, instance: str, observer: EventObserver = SILENT) -> None:
        self._client = client
        self._controller = controller
        self._instance = instance[:MAX_WORD_CHARACTERS]
        self._observer = observer
        self._correlator = Correlator()
        self._queue: deque[Series] = deque()
        self._queued: set[str] = set()  # names of events in the queue: a series is queued once
        self._changed = asyncio.Event()
        self._last_stamp = 0

    def event(self, regarding: ObjectRef, type_: EventType, reason: str, action: str, note: str) -> None:
        """Record that something happened to an object.

        reason: CamelCase, why; action: CamelCase, what was done or failed. Overlong texts are cut to the API's limits.
        """
        now = asyncio.get_running_loop().time()
        key = EventKey(
            regarding, str(type_), reason[:MAX_WORD_CHARACTERS], action[:MAX_WORD_CHARACTERS], cut_note(note)
        )
        series = self._correlator.repeated(key, now)
        if series is None:
            series = self._correlator.begin(key, regarding.namespace or "default", self._new_name(regarding), now)
            if series is None:
                self._observer.event_dropped("spam")
                return
        elif series.count > 2:
            return  # counted; written by the sweep
        self._enqueue(series)

    async def run(self) -> NoReturn:
        """Deliver until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._sweep(), name="event series")
                while True:
                    await self._changed.wait()
                    self._changed.clear()
                    await self._deliver_all()
        finally:
            await self._flush()

    def _new_name(self, regarding: ObjectRef) -> str:
        stamp = max(int(wall_now() * 1e9), self._last_stamp + 1)
        self._last_stamp = stamp
        suffix = f".{stamp:x}"
        return regarding.name[: MAX_NAME_CHARACTERS - len(suffix)] + suffix

    def _enqueue(self, series: Series) -> None:
        if series.name in self._queued:
            return
        if len(self._queue) >= MAX_QUEUED:
            self._drop(series, "overflow")
            return
        self._queue.append(series)
        self._queued.add(series.name)
        self._changed.set()

    async def _sweep(self) -> NoReturn:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for series in self._correlator.due(asyncio.get_running_loop().time()):
                self._enqueue(series)

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._deliver_all()
        except TimeoutError:
            for series in self._queue:
                self._observer.event_dropped("failed")
                self._correlator.forget(series)
            self._queue.clear()

    async def _deliver_all(self) -> None:
        while self._queue:
            series = self._queue[0]
            await self._deliver(series)
            if self._queue and self._queue[0] is series:
                self._queue.popleft()
            self._queued.discard(series.name)

    async def _deliver(self, series: Series) -> None:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                await self._write(series)
            except AlreadyExists:
                series.on_server = True  # our own first attempt, whose answer was lost
            except (Transient, Throttled) as failure:
                if attempt == MAX_ATTEMPTS:
                    self._drop(series, "failed", failure)
                    return
                await asyncio.sleep(max(RETRY_SECONDS * attempt, failure.retry_after_seconds or 0.0))
                continue
            except ApiError as failure:
                terminating = isinstance(failure, Forbidden) and failure.has_cause("NamespaceTerminating")
                self._drop(series, "terminating" if terminating else "refused", failure)
                return
            series.written_at = asyncio.get_running_loop().time()
            self._observer.event_written()
            return

    async def _write(self, series: Series) -> None:
        count = series.count
        if series.on_server:
            try:
                patch = merge_patch({"series": self._series_of(series, count)})
                await self._client.patch(EVENT, series.name, patch, series.namespace, gated=False)
                series.written_count = count
                return
            except NotFound:
                series.on_server = False  # expired on the server; say it again
        await self._client.create(EVENT, self._body(series, count), series.namespace, gated=False)
        series.on_server = True
        series.written_count = count

    def _body(self, series: Series, count: int) -> dict[str, Any]:
        key = series.key
        regarding = {
            "apiVersion": key.regarding.api_version,
            "kind": key.regarding.kind,
            "name": key.regarding.name,
            "namespace": key.regarding.namespace,
            "uid": key.regarding.uid,
            "resourceVersion": key.regarding.resource_version,
        }
        body: dict[str, Any] = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": series.name, "namespace": series.namespace},
            "eventTime": format_micro_time(self._wall_of(series.first_at)),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "regarding": {name: value for name, value in regarding.items() if value},
            "type": key.type,
            "reason": key.reason,
            "action": key.action,
            "note": key.note,
        }
        if count > 1:
            body["series"] = self._series_of(series, count)
        return body

    def _series_of(self, series: Series, count: int) -> dict[str, Any]:
        return {"count": count, "lastObservedTime": format_micro_time(self._wall_of(series.last_at))}

    def _wall_of(self, moment: float) -> float:
        return wall_now() - (asyncio.get_running_loop().time() - moment)

    def _drop(self, series: Series, reason: str, failure: ApiError | None = None) -> None:
        self._correlator.forget(series)
        self._observer.event_dropped(reason)
        if failure is not None and reason != "terminating":
            _log.warning("event dropped", reason=series.key.reason, why=reason, error=str(failure))


def cut_note(note: str) -> str:
    """At most 1024 bytes of UTF-8, cut between characters, with an ellipsis when cut."""
    encoded = note.encode()
    if len(encoded) <= MAX_NOTE_BYTES:
        return note
    return encoded[: MAX_NOTE_BYTES - 3].decode("utf-8", "ignore") + "…"
