"""What a request has got so far, and whoever waits for more."""

from __future__ import annotations

import asyncio

from controller.plant import Progress


class HandoverFailed(Exception):
    """The keys and values of a request did not get from the prefill to the decode process. The text is for people."""


class Stream:
    """The tokens of one request. `streaming` is what its client asked for."""

    __slots__ = ("_failure", "_waiter", "finished", "streaming", "tokens")

    def __init__(self, streaming: bool) -> None:
        self.streaming = streaming
        self.tokens = 0
        self.finished = False
        self._failure: HandoverFailed | None = None
        self._waiter: asyncio.Future[None] | None = None

    def push(self, progress: Progress) -> None:
        """More tokens came."""
        self.tokens, self.finished = progress.tokens, progress.finished
        self._wake()

    def fail(self, failure: HandoverFailed) -> None:
        """None will come: raised from `beyond`."""
        self._failure = failure
        self._wake()

    async def beyond(self, tokens: int) -> None:
        """Wait until there are more than `tokens`. Raises HandoverFailed."""
        while self.tokens <= tokens:
            if self._failure is not None:
                raise self._failure
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
