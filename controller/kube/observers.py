"""What the room reports about itself, as protocols that a metrics registry implements; the default does nothing.

Names and meanings follow client-go, so that stock dashboards work: `rest_client_*` for requests, `workqueue_*` for
queues, `leader_election_*` for the elector, and an informer set of our own. Every method is synchronous, must be quick,
and must not raise.
"""

from __future__ import annotations

import enum
from typing import Protocol


class RestartReason(enum.StrEnum):
    """Why a watch had to be started again: a bounded set, fit for a label."""

    ENDED = "ended"  # the server closed it in good order
    SHORT = "short"  # it ended within a second and brought nothing
    EXPIRED = "expired"
    THROTTLED = "throttled"
    SILENT = "silent"  # nothing, not even a bookmark, for too long
    REFUSED = "refused"  # no connection
    UNSUPPORTED = "unsupported"  # the server cannot stream lists; an ordinary one follows
    SERVER = "server"  # an internal error of the server
    OTHER = "other"


class RequestObserver(Protocol):
    """rest_client_requests_total{code,method,host}, rest_client_request_duration_seconds{verb,host},
    …_retries_total."""

    def request_finished(self, verb: str, host: str, code: str, seconds: float) -> None:
        """One attempt ended. `code` is the HTTP status, or `<error>` when no answer came; watches count when
        answered.
        """

    def request_retried(self, verb: str, host: str, code: str) -> None:
        """The same request is going to be sent again."""


class QueueObserver(Protocol):
    """The workqueue_* set of one named queue, with client-go's meanings."""

    def added(self, depth: int) -> None:
        """An item became ready (workqueue_adds_total +1); `depth` is the number of ready items now."""

    def started(self, depth: int, waited_seconds: float) -> None:
        """A worker took an item that had been ready for `waited_seconds` (workqueue_queue_duration_seconds)."""

    def finished(self, worked_seconds: float) -> None:
        """A worker is done with an item (workqueue_work_duration_seconds)."""

    def retried(self) -> None:
        """An item was added with back-off (workqueue_retries_total)."""


class ReflectorObserver(Protocol):
    """What one list+watch loop does; `resource` is plural.group (`pods`, `leases.coordination.k8s.io`)."""

    def listed(self, resource: str, seconds: float, items: int) -> None:
        """A complete list, paged or streamed, is in the store."""

    def relist_needed(self, resource: str, reason: RestartReason) -> None:
        """A list has to be made again."""

    def watch_started(self, resource: str) -> None:
        """The server accepted a watch."""

    def watch_ended(self, resource: str, reason: RestartReason, seconds: float, events: int) -> None:
        """A watch is over; the next one follows."""

    def failed(self, resource: str, reason: str, failures: int) -> None:
        """A list or watch failed for the `failures`th time in a row."""

    def skipped(self, resource: str) -> None:
        """An object or event could not be used; the log says why."""

    def handler_failed(self, resource: str) -> None:
        """An event handler raised; the exception is in the log."""


class ElectorObserver(Protocol):
    """leader_election_master_status{name}, leader_election_slowpath_total{name}, and the duration of renewals."""

    def leading(self, name: str, value: bool) -> None:
        """Whether this process holds the lease."""

    def slow_path(self, name: str) -> None:
        """A renewal needed to read the lease first."""

    def renewed(self, name: str, seconds: float) -> None:
        """A successful renewal took this long, retries included."""


class EventObserver(Protocol):
    """What becomes of recorded events."""

    def event_written(self) -> None:
        """The API server has it."""

    def event_dropped(self, reason: str) -> None:
        """It is lost: `overflow`, `refused`, `failed` or `terminating`."""


class SilentObserver:
    """Implements every protocol above by doing nothing."""

    def request_finished(self, verb: str, host: str, code: str, seconds: float) -> None: ...
    def request_retried(self, verb: str, host: str, code: str) -> None: ...
    def added(self, depth: int) -> None: ...
    def started(self, depth: int, waited_seconds: float) -> None: ...
    def finished(self, worked_seconds: float) -> None: ...
    def retried(self) -> None: ...
    def listed(self, resource: str, seconds: float, items: int) -> None: ...
    def relist_needed(self, resource: str, reason: RestartReason) -> None: ...
    def watch_started(self, resource: str) -> None: ...
    def watch_ended(self, resource: str, reason: RestartReason, seconds: float, events: int) -> None: ...
    def failed(self, resource: str, reason: str, failures: int) -> None: ...
    def skipped(self, resource: str) -> None: ...
    def handler_failed(self, resource: str) -> None: ...
    def leading(self, name: str, value: bool) -> None: ...
    def slow_path(self, name: str) -> None: ...
    def renewed(self, name: str, seconds: float) -> None: ...
    def event_written(self) -> None: ...
    def event_dropped(self, reason: str) -> None: ...


SILENT = SilentObserver()
