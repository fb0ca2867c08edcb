"""What a reflector does next: the rules of list+watch as a pure state machine. No clock, no I/O, no randomness.

    machine.next_step()                    -> Listing | Streaming | Watching
    machine.listed(…) / streamed(…)        a complete list is in the store
    machine.observed(version)              an event or a bookmark was applied
    machine.ended(…) / failed(…)           the request is over -> Verdict: how long to wait, and why

Which version a list asks for (`Floor`): the first "0" (whatever the server has cached), later the last one seen, so
that a lagging server cannot take us back in time, and "" (the newest, from etcd) after the server called our version
expired or too large. An expired *watch* does not go to "": a list at the last version already means "at least as
new".

Paging: with "0" and "" we ask for pages of 500; at a version the server's watch cache answers with everything anyway,
and a limit would ask etcd for exactly that version. If the answer to "0" came in pages, there is no watch cache, and
pages stay on.

Streaming lists (`sendInitialEvents`) are tried first. A server that refuses them (400, 405, 422 …), or ignores them and
sends no mark, is remembered in `StreamingSupport`, which all reflectors of a client share. Watches that end at once
without an event, or streams without their mark, five in a row, are followed by one ordinary list.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from controller.kube.errors import (
    NO_MARK_REASON,
    SILENT_REASON,
    ApiError,
    ConnectFailed,
    Expired,
    Invalid,
    ResourceVersionTooLarge,
    Throttled,
    Transient,
    Unsupported,
)
from controller.kube.observers import RestartReason
from controller.kube.pages import PAGE_SIZE, PageRequest
from controller.kube.streaming import StreamingSupport

# A watch that ends within a second and brought nothing is a failure; one that brought something is only held back until
# a second has passed since its start. kubernetes_asyncio made 1,821 requests in 2 s here.
SHORT_WATCH_SECONDS = 1.0
# A watch that keeps failing at one version may be failing because of it (a server answers 500 to a version that it does
# not understand), or at any: after this many attempts without an event a list is due.
MAX_FAILED_WATCHES = 5


class Floor(enum.Enum):
    """What the next list must not be older than."""

    ANYTHING = "anything"
    LAST_SEEN = "last seen"
    NEWEST = "newest"


class Paging(enum.Enum):
    """When lists are asked for in pages."""

    WITHOUT_VERSION = "without version"
    ALWAYS = "always"


class Delay(enum.Enum):
    """How the wait before the next request is found."""

    NONE = "none"
    PACE = "pace"  # not before a second has passed since the last start
    BACKOFF = "backoff"


@dataclass(frozen=True, slots=True)
class Listing:
    """A list in pages, beginning with this request."""

    request: PageRequest


@dataclass(frozen=True, slots=True)
class Streaming:
    """A watch that begins with the whole list, at least as new as the version."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Watching:
    """A watch of everything after the version."""

    resource_version: str


Step = Listing | Streaming | Watching


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows the end of a request. `error` False is ordinary life, not worth a warning."""

    delay: Delay
    reason: RestartReason
    error: bool = True


class ListWatch:
    """The state of one list+watch loop. See the module's contract."""

    def __init__(self, streaming: StreamingSupport, page_size: int = 0) -> None:
        self._streaming = streaming
        self._page_size = page_size  # 0: by the rules; otherwise every list is paged at this size
        self._version = ""
        self._floor = Floor.ANYTHING
        self._paging = Paging.WITHOUT_VERSION
        self._watching = False  # the store is complete up to `_version`
        self._list_once = False  # the last watches failed in a way that an ordinary list may survive
        self._failed_watches = 0

    @property
    def last_version(self) -> str:
        """The resourceVersion that the store has reached."""
        return self._version

    def next_step(self) -> Step:
        """The next request to make."""
        if self._watching:
            return Watching(self._version)
        version = {Floor.ANYTHING: "0", Floor.LAST_SEEN: self._version or "0", Floor.NEWEST: ""}[self._floor]
        if not self._streaming.refused and not self._list_once:
            return Streaming("" if version == "0" else version)
        return Listing(self._list_request(version))

    def listed(self, version: str, requested: PageRequest, *, in_pages: bool) -> None:
        """The list that `requested` began is in the store, at `version`."""
        if requested.resource_version == "0" and in_pages:
            self._paging = Paging.ALWAYS
        self._synced(version)

    def streamed(self, version: str) -> None:
        """The end mark of a streamed list has come, with this version; the stream goes on as a watch."""
        self._synced(version)

    def observed(self, version: str) -> None:
        """Everything up to this version has been applied."""
        self._failed_watches = 0
        self._version = version

    def ended(self, seconds: float, events: int) -> Verdict:
        """The server closed a watch in good order after so long and so many events that could be used (bookmarks
        included)."""
        if not self._watching or (seconds < SHORT_WATCH_SECONDS and events == 0):
            self._ended_in_vain()
        if seconds < SHORT_WATCH_SECONDS:
            if events == 0:
                return Verdict(Delay.BACKOFF, RestartReason.SHORT)
            return Verdict(Delay.PACE, RestartReason.ENDED, error=False)
        if not self._watching:
            return Verdict(Delay.BACKOFF, RestartReason.ENDED)
        return Verdict(Delay.NONE, RestartReason.ENDED, error=False)

    def failed(self, step: Step, error: ApiError, seconds: float) -> Verdict:
        """The request of `step` failed after so long; for a streamed list, `step` stays Streaming after its mark."""
        if isinstance(step, Listing):
            return self._list_failed(error)
        if not self._watching:
            return self._stream_failed(error)
        return self._watch_failed(error, seconds)

    def _list_request(self, version: str) -> PageRequest:
        if self._page_size:
            return PageRequest(version, self._match(version), self._page_size)
        if version in ("", "0") or self._paging is Paging.ALWAYS:
            return PageRequest(version, self._match(version), PAGE_SIZE)
        return PageRequest(version)

    @staticmethod
    def _match(version: str) -> str:
        # A limit with a bare version would mean exactly this version, which etcd may have compacted.
        return "NotOlderThan" if version not in ("", "0") else ""

    def _synced(self, version: str) -> None:
        self._version = version
        self._floor = Floor.LAST_SEEN
        self._watching = True
        self._list_once = False
        self._failed_watches = 0

    def _ended_in_vain(self) -> None:
        """Something in between may close every watch, or answer it with something else: lists still come through, and
        a streamed one would not."""
        self._failed_watches += 1
        if self._failed_watches >= MAX_FAILED_WATCHES:
            self._watching = False
            self._list_once = True

    def _list_failed(self, error: ApiError) -> Verdict:
        if isinstance(error, Expired | ResourceVersionTooLarge):
            return self._version_refused(error)
        return Verdict(Delay.BACKOFF, reason_of(error))

    def _stream_failed(self, error: ApiError) -> Verdict:
        if isinstance(error, Expired | ResourceVersionTooLarge):
            return self._version_refused(error)
        if isinstance(error, Throttled | ConnectFailed):
            return Verdict(Delay.BACKOFF, reason_of(error))
        if isinstance(error, Invalid | Unsupported) or error.reason in (SILENT_REASON, NO_MARK_REASON):
            self._streaming.refuse()
            return Verdict(Delay.NONE, RestartReason.UNSUPPORTED, error=False)
        self._list_once = True
        return Verdict(Delay.NONE, reason_of(error))

    def _watch_failed(self, error: ApiError, seconds: float) -> Verdict:
        reason = reason_of(error)
        if reason is RestartReason.SILENT:
            return Verdict(Delay.NONE, reason)
        if isinstance(error, Throttled | Transient) and not isinstance(error, ResourceVersionTooLarge):
            self._failed_watches += 1
            if self._failed_watches < MAX_FAILED_WATCHES or isinstance(error, Throttled | ConnectFailed):
                lost_in_health = seconds >= SHORT_WATCH_SECONDS and reason is RestartReason.OTHER
                return Verdict(Delay.NONE if lost_in_health else Delay.BACKOFF, reason)
        self._watching = False
        if isinstance(error, ResourceVersionTooLarge):
            self._floor = Floor.NEWEST
        return Verdict(Delay.BACKOFF, reason)

    def _version_refused(self, error: ApiError) -> Verdict:
        """At once with the newest; a server that refuses even that gets a back-off."""
        first_time = self._floor is not Floor.NEWEST
        self._floor = Floor.NEWEST
        return Verdict(Delay.NONE if first_time else Delay.BACKOFF, reason_of(error))


def reason_of(error: ApiError) -> RestartReason:
    """The bounded reason of an error, for metrics."""
    if isinstance(error, Expired | ResourceVersionTooLarge):
        return RestartReason.EXPIRED
    if isinstance(error, Throttled):
        return RestartReason.THROTTLED
    if error.reason == SILENT_REASON:
        return RestartReason.SILENT
    if isinstance(error, ConnectFailed):
        return RestartReason.REFUSED
    if error.status >= 500:
        return RestartReason.SERVER
    return RestartReason.OTHER
