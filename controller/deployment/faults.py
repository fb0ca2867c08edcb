"""What single calls of a pass came to: one that the API server does not take keeps nothing else from its work.

A policy that refuses one Pod, an admission webhook that is down, a kind that may not be read: each is about one object,
and the rest of the deployment goes on; above all the retirement, whose budgets run. Such a failure is a sentence for
people, and the call is made again by a later pass. What is about all objects (nobody answers, the
credentials are not accepted) ends the pass, and so does whatever asks for a new look (Conflict, NotFound).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, TypeVar

from controller.deployment.memory import DeploymentMemory
from controller.deployment.writes import Refused
from controller.kube import ApiError, Conflict, NotFound, Throttled, Transient, Unauthorized

_T = TypeVar("_T")

# Wall time until what may pass is tried again: no webhook is back sooner, and its time-out is paid by each try.
_RETRY_SECONDS: Final = 5.0
# Likewise for what a person has to put right.
_REFUSED_SECONDS: Final = 30.0


class Faults:
    """The calls of one pass that failed, each by itself."""

    def __init__(self, memory: DeploymentMemory) -> None:
        self._memory = memory
        self.problems: list[str] = []
        self.retry_seconds: float | None = None

    async def attempt(self, what: str, call: Awaitable[_T]) -> _T | None:
        """Make a call; None where the API server refused it. `what`: the call, in words that stay the same.
        Raises Refused, and ApiError for a failure that is not about this object."""
        try:
            made = await call
        except (Conflict, NotFound, Unauthorized):
            raise
        except ApiError as failure:
            if not failure.status:  # nobody answered
                raise
            self._failed(what, failure)
            return None
        except Refused:
            self._memory.failed.pop(what, None)
            raise
        self._memory.failed.pop(what, None)
        return made

    def _failed(self, what: str, failure: ApiError) -> None:
        kind = f"{failure.status} {failure.reason}"
        before = self._memory.failed.get(what)
        # Some messages differ from try to try (a time, a request's number); repeated in the status, each would wake us.
        if before is None or before[0] != kind:
            before = self._memory.failed[what] = (kind, f"{what} failed: {failure}")
        self.problems.append(before[1])
        passing = isinstance(failure, Throttled | Transient)
        seconds = max(_RETRY_SECONDS, failure.retry_after_seconds or 0.0) if passing else _REFUSED_SECONDS
        self.retry_seconds = seconds if self.retry_seconds is None else min(self.retry_seconds, seconds)
