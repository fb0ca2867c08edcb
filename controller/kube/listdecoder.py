"""List bodies: the items of one page as projections, and a reason for each that could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from controller.foundation import KubeObject, Resource
from controller.kube.classify import classify_status, read_status
from controller.kube.envelopes import MetadataOnly, Skipped
from controller.kube.errors import BadAnswer
from controller.kube.pages import ListMeta, ListPage

T = TypeVar("T", bound=KubeObject)

_METADATA = msgspec.json.Decoder(MetadataOnly)


@dataclass(frozen=True, slots=True)
class DecodedPage(Generic[T]):
    """One page: list metadata, readable objects, and the unreadable ones."""

    meta: ListMeta
    objects: list[T]
    skipped: list[Skipped]


class ListDecoder(Generic[T]):
    """Decodes pages of one resource into one projection: all at once, item by item only when one does not fit."""

    def __init__(self, resource: Resource, type_: type[T]) -> None:
        self._kind = f"{resource.kind}List"
        self._item = msgspec.json.Decoder(type_)
        self._page: msgspec.json.Decoder[Any] = msgspec.json.Decoder(ListPage[type_])  # type: ignore[valid-type]
        self._raw_page = msgspec.json.Decoder(ListPage[msgspec.Raw])

    def decode(self, body: bytes) -> DecodedPage[T]:
        """The page. Raises BadAnswer when the body is not a list of this resource, the ApiError of a Status in it."""
        try:
            page = self._page.decode(body)
        except msgspec.DecodeError:
            return self._decode_each(body)
        self._check(page.kind, body)
        return _named(page.metadata, page.items or [], [])

    def _decode_each(self, body: bytes) -> DecodedPage[T]:
        try:
            page = self._raw_page.decode(body)
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
                skipped.append(Skipped(f"the object does not fit its projection: {failure}", _key_of(raw)))
        return _named(page.metadata, objects, skipped)

    def _check(self, kind: str, body: bytes) -> None:
        if kind == self._kind:
            return
        if (status := read_status(body)) is not None:
            raise classify_status(status, http_status=200)
        raise BadAnswer(f"a {self._kind} was asked for, the server sent {kind[:40] or 'no kind'}", reason="NotAList")


def _named(meta: ListMeta, objects: list[T], skipped: list[Skipped]) -> DecodedPage[T]:
    """An object without a name cannot be stored."""
    if all(obj.metadata.name for obj in objects):
        return DecodedPage(meta, objects, skipped)
    named = [obj for obj in objects if obj.metadata.name]
    unnamed = [Skipped("the object has no metadata.name")] * (len(objects) - len(named))
    return DecodedPage(meta, named, skipped + unnamed)


def _key_of(raw: msgspec.Raw) -> str:
    try:
        return _METADATA.decode(raw).metadata.key
    except msgspec.DecodeError:
        return ""
