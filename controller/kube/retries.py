"""Which failed request is sent again by the client itself, and when. Pure.

* 429 carries the promise that nothing was done: any verb is repeated after the server's hint, never sooner.
* 5xx with Retry-After: the server asks for it, but may have done the work: idempotent verbs only.
* a connection that broke or could not be made: reads only. The reset of an idle keep-alive connection is the usual
  case.
* 401: once, when the credentials changed meanwhile (decided in `wire`).

Everything else is the caller's: a reconcile has its own back-off, and a blind repeat here would hide the failure from
it.
"""

from __future__ import annotations

import random

from controller.kube.errors import ApiError, ConnectFailed, ConnectionLost, Throttled, Transient

# client-go's limit.
MAX_RETRIES = 10
# A read that lost its connection twice has met more than a stale connection.
MAX_READ_RETRIES = 2
_READ_RETRY_SECONDS = 0.1
# A server that throttles without a hint means its default: APF never sends less than a second.
_DEFAULT_HINT_SECONDS = 1.0

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
READS = frozenset({"GET", "HEAD", "OPTIONS"})


def retry_delay(
    method: str, failure: ApiError, retries: int, remaining_seconds: float, rng: random.Random
) -> float | None:
    """Seconds to wait before sending again; None to give up. `retries` were made before, `remaining_seconds` are left
    of the request's deadline: a wait that would outlast it is not begun."""
    delay: float | None = None
    if retries >= MAX_RETRIES:
        return None
    if isinstance(failure, Throttled):
        hint = failure.retry_after_seconds
        delay = _DEFAULT_HINT_SECONDS if hint is None else hint
    elif isinstance(failure, ConnectionLost | ConnectFailed):
        if method in READS and retries < MAX_READ_RETRIES:
            delay = _READ_RETRY_SECONDS * 2**retries
    elif isinstance(failure, Transient) and failure.retry_after_seconds is not None and method in IDEMPOTENT:
        delay = failure.retry_after_seconds
    if delay is None:
        return None
    # A tenth on top, so that all who were told the same second do not come back in the same millisecond.
    delay *= 1.0 + 0.1 * rng.random()
    return delay if delay < remaining_seconds else None
