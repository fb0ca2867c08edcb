"""List bodies decoded while they arrive, so that the memory of a list does not depend on its length.

A server's watch cache answers some lists with everything at once (a `limit` is ignored there): 150,000 Pods are 1.8
GB of JSON. `ListParser` gives the objects of the beginning while the rest is still under way. It looks for the place
where the next item starts, recognised by the bytes with which the current one starts (`{"metadata":{"`), and takes
what lies between only if it is one complete JSON object, which is then certain to be the item. An item that holds many
such places is measured by its brackets instead. What is left at the end (at least the last item), or everything when
the body looks different, is decoded as a whole: the result is the same, only later.

An item that does not fit its projection is recovered (`recovery`) or skipped with a reason; the others are not
affected.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from controller.foundation import KubeObject, Resource
from controller.kube.classify import classify_status, read_status
from controller.kube.envelopes import MetadataOnly, Skipped
from controller.kube.errors import BadAnswer
from controller.kube.managed_fields import past_managed_fields
from controller.kube.nesting import ValueEnd, without_depths
from controller.kube.pages import ListMeta, ListPage
from controller.kube.recovery import recovered

T = TypeVar("T", bound=KubeObject)

_ITEMS = re.compile(rb'"items"\s*:\s*\[\s*(?=\{)')
# Enough of an item's beginning to be rare elsewhere, and before anything that differs between items (a name).
_PREFIX_BYTES = 13
# A list's own metadata is a few hundred bytes, a continue token included.
_MAX_HEAD_BYTES = 64 * 1024
# Places inside one item that look like the start of the next (its owner references begin like a custom resource) are
# tried this often: each try reads the item from its start. Sixteen thousand of them took 14 s.
_MAX_TRIES = 8

_METADATA = msgspec.json.Decoder(MetadataOnly)
_RAW = msgspec.json.Decoder(msgspec.Raw)
_HEAD = msgspec.json.Decoder(ListPage[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Decoded(Generic[T]):
    """Objects, and the items that could not be read. `meta` is there when the list is complete."""

    objects: list[T]
    skipped: list[Skipped]
    meta: ListMeta | None = None


class ListDecoder(Generic[T]):
    """Decodes lists of one resource into one projection: all at once, item by item only when one does not fit."""

    def __init__(self, resource: Resource, type_: type[T]) -> None:
        self._kind = f"{resource.kind}List"
        self._type = type_
        self._item = msgspec.json.Decoder(type_)
        self._decode_arriving = past_managed_fields(self._item.decode, type_)
        self._page: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ListPage[type_])  # type: ignore[valid-type]

    def parser(self) -> ListParser[T]:
        """For one body that arrives in chunks."""
        return ListParser(self)

    def decode(self, body: bytes) -> Decoded[T]:
        """A whole body. Raises BadAnswer when it is not a list of this resource, the ApiError of a Status in it."""
        try:
            try:
                page = self._page.decode(body)
            except msgspec.DecodeError:
                return self._decode_each(body)
        except RecursionError:
            shallow = without_depths(body)
            if shallow is None:
                raise BadAnswer("the list cannot be read: its brackets do not match", reason="BadAnswer") from None
            return self._decode_each(shallow)
        self._check(page.kind, body)
        return _named(page.items or [], [], page.metadata)

    def decode_item(self, body: bytes | bytearray) -> T | Skipped | None:
        """One item; None when these bytes are not one complete JSON value."""
        try:
            return self._decode_arriving(body)
        except msgspec.ValidationError as failure:
            return self._recover(bytes(body), failure) if _is_complete(body) else None
        except msgspec.DecodeError:
            return None
        except RecursionError:
            shallow = without_depths(body)
            return None if shallow is None else self.decode_item(shallow)

    def _decode_each(self, body: bytes) -> Decoded[T]:
        try:
            page = _HEAD.decode(body)
        except msgspec.DecodeError as failure:
            if (status := read_status(body)) is not None:
                raise classify_status(status, http_status=200) from None
            raise BadAnswer(f"the list cannot be read: {failure}", reason="BadAnswer") from failure
        self._check(page.kind, body)
        objects: list[T] = []
        skipped: list[Skipped] = []
        for raw in page.items or []:
            try:
                objects.append(self._item.decode(raw))
            except msgspec.DecodeError as failure:
                found = self._recover(bytes(raw), failure)
                if isinstance(found, Skipped):
                    skipped.append(found)
                else:
                    objects.append(found)
        return _named(objects, skipped, page.metadata)

    def _recover(self, item: bytes, failure: msgspec.DecodeError) -> T | Skipped:
        view = recovered(self._type, item)
        return _skip(item, failure) if view is None else view

    def _check(self, kind: str, body: bytes) -> None:
        if kind == self._kind:
            return
        if (status := read_status(body)) is not None:
            raise classify_status(status, http_status=200)
        raise BadAnswer(f"a {self._kind} was asked for, the server sent {kind[:40] or 'no kind'}", reason="NotAList")


class _Mode(enum.Enum):
    SEARCHING = "for the first item"
    STREAMING = "items one by one"
    WHOLE = "everything at the end"


class ListParser(Generic[T]):
    """Feed the chunks of one body, then `finish`."""

    def __init__(self, decoder: ListDecoder[T]) -> None:
        self._decoder = decoder
        self._mode = _Mode.SEARCHING
        self._head = b""  # everything before the first item
        self._rest = bytearray()
        self._searched = 0  # no item ends before this position of the rest
        self._tries = 0  # places that looked like the end of the current item and were not
        self._value_end = ValueEnd()
        self._measure_from_bytes = 0

    def feed(self, chunk: bytes) -> Decoded[T]:
        """The items that are certainly complete now."""
        self._rest += chunk
        if self._mode is _Mode.SEARCHING:
            self._search_head()
        objects: list[T] = []
        skipped: list[Skipped] = []
        position = 0
        while self._mode is _Mode.STREAMING and (found := self._next_item(position)) is not None:
            item, position = found
            if isinstance(item, Skipped):
                skipped.append(item)
            else:
                objects.append(item)
        if position:
            del self._rest[:position]
            self._searched = max(0, self._searched - position)
        return _named(objects, skipped, None)

    def finish(self) -> Decoded[T]:
        """What is left, with the list's metadata. Raises as `ListDecoder.decode` does."""
        body = self._head + self._rest
        self._rest.clear()
        return self._decoder.decode(body)

    def _search_head(self) -> None:
        match = _ITEMS.search(self._rest)
        if match is None:
            if len(self._rest) > _MAX_HEAD_BYTES:
                self._mode = _Mode.WHOLE
            return
        head = bytes(self._rest[: match.end()])
        if _is_complete(head + b"]}"):
            self._head = head
            del self._rest[: len(head)]
            self._mode = _Mode.STREAMING
        else:
            self._mode = _Mode.WHOLE  # "items" of something else

    def _next_item(self, position: int) -> tuple[T | Skipped, int] | None:
        """The item that starts here and the position of the next one; None when its end is not in sight."""
        rest = self._rest
        if len(rest) < position + _PREFIX_BYTES:
            return None
        boundary = b"}," + rest[position : position + _PREFIX_BYTES]
        while self._tries < _MAX_TRIES:
            end = rest.find(boundary, max(position, self._searched))
            if end < 0:
                # A boundary may be cut by the end of the chunk; what lies before it needs no second look.
                self._searched = max(position, len(rest) - len(boundary) + 1)
                return None
            item = self._decoder.decode_item(rest[position : end + 1])
            self._searched = end + 1
            if item is not None:
                self._tries = 0
                return item, end + 2
            self._tries += 1
        return self._measure_item(position)

    def _measure_item(self, position: int) -> tuple[T | Skipped, int] | None:
        """The same for an item that too often looked as if it ended."""
        rest = self._rest
        available = len(rest) - position
        if available < self._measure_from_bytes:
            return None
        length = self._value_end.find(rest, position)
        if length is None or length == available:
            # A long string is looked at from its start again: not for every chunk.
            self._measure_from_bytes = available + available // 4 + 1
            return None
        end = position + length
        item = self._decoder.decode_item(rest[position:end]) if rest.startswith(b",", end) else None
        if item is None:
            self._mode = _Mode.WHOLE  # the last one, or nothing that can be read item by item
            return None
        self._tries = self._measure_from_bytes = 0
        self._value_end = ValueEnd()
        self._searched = end
        return item, end + 1


def _named(objects: list[T], skipped: list[Skipped], meta: ListMeta | None) -> Decoded[T]:
    """An object without a name cannot be stored."""
    if all(obj.metadata.name for obj in objects):
        return Decoded(objects, skipped, meta)
    named = [obj for obj in objects if obj.metadata.name]
    unnamed = [Skipped("the object has no metadata.name")] * (len(objects) - len(named))
    return Decoded(named, skipped + unnamed, meta)


def _skip(item: bytes | bytearray | msgspec.Raw, failure: msgspec.DecodeError) -> Skipped:
    try:
        key = _METADATA.decode(item).metadata.key
    except msgspec.DecodeError:
        key = ""
    return Skipped(f"the object does not fit its projection: {failure}", key)


def _is_complete(body: bytes | bytearray) -> bool:
    try:
        _RAW.decode(body)
    except msgspec.DecodeError:
        return False
    except RecursionError:
        return without_depths(body) is not None
    return True
