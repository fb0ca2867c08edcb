"""Fault scripts: what a network and an overloaded server do to a client, on command.

A `FaultPlan` holds rules; each names the requests that it is about (verb, resource, namespace, name, subresource, user
agent), the first matching request that it hits (`nth`, counted from the rule's own start) and how many from there on
(`times`). Actions before the verb: `Delay`, `Drop`, `Reset`, `Stall`, `Respond`. After it: `LoseResponse` (the write
happened, the client never learns). On a running watch: `CutStream`, `StreamError`, `RepeatLines`. Delays run on the
event loop's clock, so they cost nothing on a virtual-time loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import orjson

from controller.embedded.apiserver.errors import ApiError, expired, gone, throttled, too_old
from controller.embedded.apiserver.requests import RequestInfo


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait before the request is looked at."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection without an answer; the request is not carried out."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Reset the connection (RST) without an answer; the request is not carried out."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Never answer, and keep the connection open."""


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer this instead of carrying the request out."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LoseResponse:
    """Carry the request out, then close the connection without an answer."""


class Cut(Enum):
    """How a stream ends."""

    END = "end"  # as after its time-out
    DROP = "drop"  # the connection closes in mid-stream
    RESET = "reset"
    STALL = "stall"  # nothing more comes, and the connection stays open
    HALF_LINE = "half line"  # half of the next line, then the connection closes


@dataclass(frozen=True, slots=True)
class CutStream:
    """End a watch after so many lines."""

    how: Cut
    after_lines: int = 0


@dataclass(frozen=True, slots=True)
class StreamError:
    """Send an ERROR event after so many lines and end the watch."""

    error: ApiError
    after_lines: int = 0


@dataclass(frozen=True, slots=True)
class RepeatLines:
    """Send every line twice."""


Action = Delay | Drop | Reset | Stall | Respond | LoseResponse | CutStream | StreamError | RepeatLines


def failure(error: ApiError) -> Respond:
    """The answer that carries `error` as its HTTP status."""
    return Respond(error.code, orjson.dumps(error.status()), headers=tuple(error.headers.items()))


def too_many_requests(retry_after_seconds: int = 1) -> Respond:
    """429 with Retry-After in header and Status."""
    return failure(throttled(retry_after_seconds))


def plain_too_many_requests(retry_after_seconds: int = 1) -> Respond:
    """429 whose body is plain text: only the header tells when to come back."""
    headers = (("Retry-After", str(retry_after_seconds)),)
    return Respond(429, b"Too many requests, please try again later.\n", "text/plain", headers)


def bad_gateway() -> Respond:
    """The HTML page of a proxy in front of the server."""
    page = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
    return Respond(502, page, "text/html")


# The shapes in which "that history is gone" arrives (kubernetes-client.md §0.3).
def expired_response(wanted: int = 1, oldest: int = 2) -> Respond:
    """410 Expired as HTTP status, on a list or at the start of a watch."""
    return failure(too_old(wanted, oldest))


def gone_response() -> Respond:
    """410 with the older reason Gone as HTTP status."""
    return failure(gone())


def expired_event(after_lines: int = 0) -> StreamError:
    """410 Expired as an ERROR event in a stream with status 200."""
    return StreamError(expired("too old resource version: 1 (2)"), after_lines)


def gone_event(after_lines: int = 0) -> StreamError:
    """410 Gone as an ERROR event in a stream with status 200."""
    return StreamError(gone(), after_lines)


@dataclass(slots=True)
class Rule:
    """One entry of a plan. `matched` counts the requests that it is about, `fired` those that it hit."""

    action: Action
    verb: str | None = None
    resource: str | None = None
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    user_agent: str | None = None  # the beginning of it
    path: str | None = None  # the beginning of it
    nth: int = 1
    times: int | None = 1  # None: for ever
    matched: int = 0
    fired: int = 0

    def hits(self, info: RequestInfo) -> bool:
        """Whether this request is one to hit; counts it."""
        for wanted, found in (
            (self.verb, info.verb),
            (self.resource, info.resource),
            (self.namespace, info.namespace),
            (self.name, info.name),
            (self.subresource, info.subresource),
        ):
            if wanted is not None and wanted != found:
                return False
        if self.user_agent is not None and not info.user_agent.startswith(self.user_agent):
            return False
        if self.path is not None and not info.path.startswith(self.path):
            return False
        self.matched += 1
        if self.matched < self.nth or (self.times is not None and self.matched >= self.nth + self.times):
            return False
        self.fired += 1
        return True


@dataclass(slots=True)
class FaultPlan:
    """An ordered list of rules; every rule that hits contributes its action, in order."""

    rules: list[Rule] = field(default_factory=list)

    def add(
        self,
        action: Action,
        *,
        verb: str | None = None,
        resource: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
        user_agent: str | None = None,
        path: str | None = None,
        nth: int = 1,
        times: int | None = 1,
    ) -> Rule:
        """Script one fault. `nth` counts from 1. Returns the rule, whose `fired` tells what happened."""
        if nth < 1 or (times is not None and times < 1):
            raise ValueError(f"nth and times count from 1, got nth={nth}, times={times}")
        rule = Rule(action, verb, resource, namespace, name, subresource, user_agent, path, nth, times)
        self.rules.append(rule)
        return rule

    def clear(self) -> None:
        """Forget every rule: the network heals."""
        self.rules.clear()

    def consult(self, info: RequestInfo) -> list[Action]:
        """The actions for one request."""
        return [rule.action for rule in self.rules if rule.hits(info)] if self.rules else []
