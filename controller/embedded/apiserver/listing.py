"""Lists: which snapshot a list request means, its pages, and where a watch begins.

Rules (kubernetes-client.md §1.1, control-plane.md §5):

* no resourceVersion: the newest state; `0`: any state, and `limit` is ignored; `N` with `limit`: exactly N (410 once
  compacted); `N` without: at least N; a future N is awaited for a while, then 504 Timeout;
* a continue token pins the resourceVersion of the first page; once that is compacted the answer is 410 with a new token
  that goes on inconsistently;
* `remainingItemCount` is given only without selectors.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import msgspec
import orjson

from controller.embedded.apiserver.errors import ApiError, bad_request, expired
from controller.embedded.apiserver.requests import ListOptions, parse_resource_version
from controller.embedded.apiserver.resources import ServedVersion
from controller.embedded.apiserver.selectors import Selector
from controller.embedded.apiserver.storage import Collection, Store, Stored, storage_key

_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_INCONSISTENT = -1  # resourceVersion of the token that a 410 carries: the rest of the list as it is by then


class _Token(msgspec.Struct, frozen=True):
    """What a continue token holds; the key after which the next page starts."""

    rv: int
    after: str
    v: str = "meta.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list."""

    items: list[Stored]
    resource_version: int
    continue_token: str = ""
    remaining: int | None = None


def required_resource_version(options: ListOptions) -> int:
    """The resourceVersion that the store has to have reached before the list can be answered."""
    return 0 if options.continue_token else parse_resource_version(options.resource_version, listing=True) or 0


def list_page(store: Store, served: ServedVersion, namespace: str, options: ListOptions, selector: Selector) -> Page:
    """The page that `options` ask for. Raises ApiError 400 or 410."""
    collection = store.of(served)
    wanted = parse_resource_version(options.resource_version, listing=True)
    limit = 0 if wanted == 0 and not options.continue_token else options.limit
    after = ""
    if options.continue_token:
        if wanted:
            raise bad_request("specifying resource version is not allowed when using continue")
        token = _read_token(options.continue_token)
        after = token.after
        items, version = _snapshot_for_token(store, collection, namespace, token)
    elif wanted and (options.match == "Exact" or (limit and not options.match)):
        items, version = collection.scan_at(wanted, namespace), wanted
    else:
        items, version = collection.scan(namespace), store.resource_version
    if after:
        items = [stored for stored in items if stored.key > after]
    if not selector.is_empty:
        items = _selected(items, served, namespace, selector)
    if not limit or len(items) <= limit:
        return Page(items, version)
    page = items[:limit]
    remaining = len(items) - limit if selector.is_empty else None
    return Page(page, version, _write_token(_Token(version, page[-1].key)), remaining)


def _selected(items: list[Stored], served: ServedVersion, namespace: str, selector: Selector) -> list[Stored]:
    if selector.name is not None and (namespace or not served.type.namespaced):
        key = storage_key(namespace, selector.name)
        items = [stored for stored in items if stored.key == key]
    convert = served.from_storage
    if convert is None:
        return [stored for stored in items if selector.matches(stored.object)]
    return [stored for stored in items if selector.matches(convert(stored.object))]


def _snapshot_for_token(
    store: Store, collection: Collection, namespace: str, token: _Token
) -> tuple[list[Stored], int]:
    if token.rv == _INCONSISTENT:
        return collection.scan(namespace), store.resource_version
    try:
        return collection.scan_at(token.rv, namespace), token.rv
    except ApiError:
        resume = _write_token(_Token(_INCONSISTENT, token.after))
        raise expired(_CONTINUE_EXPIRED, continue_token=resume) from None


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise bad_request("continue key is not valid: it is no token of this server") from None


def list_head(api_version: str, page: Page, list_kind: str, *, custom: bool = False) -> bytes:
    """The JSON of a list up to (and with) `"items":[`. Lists of custom resources always have a `continue`."""
    metadata: dict[str, object] = {"resourceVersion": str(page.resource_version)}
    if page.continue_token or custom:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    head = {"kind": list_kind, "apiVersion": api_version, "metadata": metadata}
    return orjson.dumps(head)[:-1] + b',"items":['


@dataclass(frozen=True, slots=True)
class WatchStart:
    """Where a watch begins: with the present objects, or after a resourceVersion."""

    initial: bool  # synthetic ADDED events for the objects that are there
    after: int | None  # replay the events after this number; None: from now on
    mark: bool  # a bookmark ends the initial events


def watch_start(options: ListOptions) -> WatchStart:
    """Raises ApiError 500 for a resourceVersion that is no number."""
    wanted = parse_resource_version(options.resource_version)
    if options.send_initial_events:
        return WatchStart(initial=True, after=None, mark=options.allow_bookmarks)
    if options.send_initial_events is None:
        return WatchStart(initial=True, after=None, mark=False) if not wanted else WatchStart(False, wanted, False)
    return WatchStart(initial=False, after=wanted or None, mark=False)
