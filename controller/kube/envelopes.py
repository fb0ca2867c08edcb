"""Watch events: one JSON line decoded in one pass, straight into the projection of its object.

The five event types are a tagged union, so that msgspec picks the right struct while it parses: an ADDED decodes the
projection, a BOOKMARK only its metadata (on a real server its spec is full of nulls), and no line is read twice. What
the union does not accept is examined slowly: an ERROR, a bare Status, an unknown type, an object of another kind (a
Table when a proxy rewrites Accept, k8s#132926), an object that does not fit its projection.

A skipped event is never lost silently: it says why, for the log and a metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from controller.foundation import KubeObject, ObjectMeta, Resource
from controller.kube.classify import Status, classify_status, read_status
from controller.kube.errors import ApiError, BadAnswer
from controller.kube.managed_fields import past_managed_fields
from controller.kube.nesting import without_depths
from controller.kube.recovery import recovered

T = TypeVar("T", bound=KubeObject)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Added(msgspec.Struct, Generic[T], frozen=True, gc=False, tag_field="type", tag="ADDED"):
    """A new object, or an existing one at the start of a streamed list."""

    object: T


class Modified(msgspec.Struct, Generic[T], frozen=True, gc=False, tag_field="type", tag="MODIFIED"):
    """A new state."""

    object: T


class Deleted(msgspec.Struct, Generic[T], frozen=True, gc=False, tag_field="type", tag="DELETED"):
    """The last state, with the resourceVersion of the deletion; also when the object left the selector."""

    object: T


class MetadataOnly(msgspec.Struct, frozen=True):
    """Any object, reduced to what a bookmark has and what an error message needs."""

    metadata: ObjectMeta = ObjectMeta()
    kind: str = ""


class Bookmark(msgspec.Struct, frozen=True, tag_field="type", tag="BOOKMARK"):
    """No object: everything up to this resourceVersion has been sent."""

    object: MetadataOnly

    @property
    def ends_initial_events(self) -> bool:
        """Whether the streamed list is complete. Exactly "true" counts, as in the API's contract."""
        return self.object.metadata.annotation(INITIAL_EVENTS_END) == "true"


@dataclass(frozen=True, slots=True)
class Failed:
    """The stream carries a failure: an ERROR event, or a Status in place of one."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class Skipped:
    """An event that cannot be used. `key` is the object's, empty when even that is unreadable."""

    reason: str
    key: str = ""


class _Loose(msgspec.Struct):
    """Whatever a line holds."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


_LOOSE = msgspec.json.Decoder(_Loose)
_METADATA = msgspec.json.Decoder(MetadataOnly)
_STATUS = msgspec.json.Decoder(Status)
_OBJECT_TYPES = ("ADDED", "MODIFIED", "DELETED")

Change = Added[T] | Modified[T] | Deleted[T]
Event = Change[T] | Bookmark | Failed | Skipped


class EventDecoder(Generic[T]):
    """Decodes the lines of a watch on one resource into projections of one type. Not shared between loops."""

    def __init__(self, resource: Resource, type_: type[T]) -> None:
        union: Any = Added[type_] | Modified[type_] | Deleted[type_] | Bookmark  # type: ignore[valid-type]
        self._decode = past_managed_fields(msgspec.json.Decoder(union).decode, type_)
        self._type = type_
        self._resource = resource
        self._usual = _usual_beginnings(resource)

    def decode(self, line: bytes) -> Event[T]:
        """One event. Raises BadAnswer for a line that is not JSON: the stream is broken."""
        try:
            if not line.startswith(self._usual):
                return self._examine(line, "")
            try:
                event: Change[T] = self._decode(line)
            except msgspec.DecodeError as failure:
                return self._examine(line, str(failure))
        except RecursionError:
            return self._decode_deep(line)
        return event if event.object.metadata.name else Skipped("the object has no metadata.name")

    def _decode_deep(self, line: bytes) -> Event[T]:
        shallow = without_depths(line)
        if shallow is None:
            raise BadAnswer(f"a line of the watch is not an event: {line[:120]!r}", reason="BadLine")
        return self._examine(shallow, "")

    def _examine(self, line: bytes, failure: str) -> Event[T]:
        try:
            loose = _LOOSE.decode(line)
        except msgspec.DecodeError as error:
            excerpt = line[:120].decode("utf-8", "replace")
            raise BadAnswer(f"a line of the watch is not an event: {error}: {excerpt!r}", reason="BadLine") from error
        if not loose.type:
            status = read_status(line)
            return Failed(classify_status(status)) if status else Skipped("a line without an event type")
        if loose.type == "ERROR":
            return Failed(classify_status(_read_error(loose.object)))
        if loose.type == "BOOKMARK":
            return Bookmark(_read_metadata(loose.object))
        if loose.type not in _OBJECT_TYPES:
            return Skipped(f"unknown event type {loose.type[:40]!r}")
        found = _read_metadata(loose.object)
        if found.kind not in ("", self._resource.kind):
            return Skipped(f"a {self._resource.kind} was expected, found {found.kind[:40]}", found.metadata.key)
        if not found.metadata.name:
            return Skipped("the object has no metadata.name")
        if not failure:
            event: Change[T]
            try:
                event = self._decode(line)  # `kind` stands late or is missing, the object is fine
            except msgspec.DecodeError as error:
                failure = str(error)
            else:
                return event
        view = recovered(self._type, bytes(loose.object))
        if view is None or not view.metadata.name:
            return Skipped(f"the object does not fit its projection: {failure}", found.metadata.key)
        changes: dict[str, type[Change[T]]] = {"ADDED": Added, "MODIFIED": Modified, "DELETED": Deleted}
        return changes[loose.type](view)


def _usual_beginnings(resource: Resource) -> tuple[bytes, ...]:
    """How API servers begin the events of a resource: Go structs have `kind` first, custom resources `apiVersion`.

    A line that begins so is an object of the right kind, and is decoded without another look.
    """
    kind = f'"kind":"{resource.kind}"'
    version = f'"apiVersion":"{resource.api_version}"'
    orders = (f"{kind},{version}", f"{version},{kind}")
    return tuple(f'{{"type":"{type_}","object":{{{order},'.encode() for type_ in _OBJECT_TYPES for order in orders)


def _read_error(raw: msgspec.Raw) -> Status:
    try:
        return _STATUS.decode(raw)
    except msgspec.DecodeError:
        return Status(kind="Status", message="an ERROR event without a readable Status")


def _read_metadata(raw: msgspec.Raw) -> MetadataOnly:
    try:
        return _METADATA.decode(raw)
    except msgspec.DecodeError:
        return MetadataOnly()
