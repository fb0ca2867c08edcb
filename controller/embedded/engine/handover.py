"""What a prefill process holds for decode processes: computed prompts, until they are fetched.

    POST /kv/fetch {"id": …}       answered when keys and values have been moved; then they are let go. 404: not here
    POST /kv/renew {"ids": [...]}  they are still wanted (vLLM: the heartbeat of the decode process)

This stands for the side channel of vLLM's NixlConnector and for SGLang's bootstrap server, with their order of things:

* vLLM computes first and then holds, under a lease that heartbeats renew. Whatever nobody fetches is let go when the
  lease ends, and a fetch after that finds nothing.
* SGLang computes only after the decode process has asked (it has a place in its cache then), and answers the router
  when the transfer is done.

`close` ends all of it, as the end of the process does. Nobody is told: sockets break.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from controller.embedded.engine.config import EngineConfig
from controller.embedded.engine.streams import HandoverFailed
from controller.foundation import Clock

# A heartbeat adds two thirds of the first lease (NixlConnector 0.32).
_RENEWAL_SHARE = 2 / 3

# A timer of the event loop comes up to a millisecond late, which on a fast clock is longer than most transfers.
_SHORTEST_WALL_SECONDS = 0.001

_T = TypeVar("_T")


class Handover:
    """One prompt. `asked`: a decode process wants it. `moved`: it has it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.moved = asyncio.Event()
        self._computed = asyncio.Event()
        self._tokens = 0
        self._let_go: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0  # of the loop's clock

    def computed(self, tokens: int, let_go: Callable[[], None]) -> None:
        """The prompt is in the cache; `let_go` frees it."""
        self._tokens, self._let_go = tokens, let_go
        self._computed.set()

    async def tokens(self) -> int:
        """Wait until it is computed: how many tokens there are to move."""
        await self._computed.wait()
        return self._tokens

    def expire_after(self, wall_seconds: float, expired: Callable[[], None]) -> None:
        """Call `expired` then, unless that is called again with a later time or `keep` first."""
        loop = asyncio.get_running_loop()
        self._deadline = max(self._deadline, loop.time() + wall_seconds)
        if self._timer is None:
            self._timer = loop.call_at(self._deadline, self._due, expired)

    def keep(self) -> None:
        """It does not expire any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release(self) -> None:
        """Free the cache, and wait for nothing more. Idempotent."""
        self.keep()
        self._computed.set()
        let_go, self._let_go = self._let_go, None
        if let_go is not None:
            let_go()

    def _due(self, expired: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._deadline:
            self._timer = loop.call_at(self._deadline, self._due, expired)
        else:
            self._timer = None
            expired()


class Handovers:
    """The prompts of one prefill process, by the id that both sides know."""

    def __init__(self, config: EngineConfig, clock: Clock, expired: Callable[[], None]) -> None:
        self._config = config
        self._clock = clock
        self._expired = expired
        self._open: dict[str, Handover] = {}

    def hold(self, key: str, tokens: int, let_go: Callable[[], None]) -> None:
        """A computed prompt, under a lease."""
        handover = self._open[key] = Handover()
        handover.computed(tokens, let_go)
        handover.expire_after(self._wall(1.0), functools.partial(self._expire, key))

    def renew(self, keys: Iterable[str]) -> None:
        """Prolong leases; what is not here any more is left out."""
        for key in keys:
            handover = self._open.get(key)
            if handover is not None and not handover.asked.is_set():
                handover.expire_after(self._wall(_RENEWAL_SHARE), functools.partial(self._expire, key))

    def expect(self, key: str) -> Handover:
        """The prompt of that id, which the one side or the other announces first."""
        return self._open.setdefault(key, Handover())

    async def bootstrap(self, key: str) -> Handover:
        """Wait until a decode process has asked. Raises HandoverFailed."""
        handover = self.expect(key)
        await self._within(handover.asked.wait(), "no decode process asked for it")
        return handover

    async def taken(self, handover: Handover) -> None:
        """Wait until the decode process has it. Raises HandoverFailed."""
        await self._within(handover.moved.wait(), "the decode process did not take it")

    async def fetch(self, key: str, *, wait: bool) -> int | None:
        """Serve a decode process: the tokens that were moved. With `wait` the prompt may still come; without, and when
        it does not come in time, None."""
        handover = self.expect(key) if wait else self._open.get(key)
        if handover is None or handover.asked.is_set():
            return None
        handover.asked.set()
        handover.keep()
        try:
            tokens = await self._within(handover.tokens(), "it was never computed")
            seconds = tokens / self._config.kv_transfer_tokens_per_second
            if self._clock.wall_seconds(seconds) >= _SHORTEST_WALL_SECONDS:
                await self._clock.sleep(seconds)
        except HandoverFailed:
            return None
        else:
            return tokens if self._open.get(key) is handover else None
        finally:
            self.forget(key)
            handover.moved.set()

    def forget(self, key: str) -> None:
        """It is not wanted any more; whatever it holds is let go."""
        handover = self._open.pop(key, None)
        if handover is not None:
            handover.release()

    def close(self) -> None:
        """The process ends."""
        for handover in self._open.values():
            handover.keep()
        self._open.clear()

    def _expire(self, key: str) -> None:
        self._expired()
        self.forget(key)

    async def _within(self, awaited: Awaitable[_T], otherwise: str) -> _T:
        try:
            async with asyncio.timeout(self._wall(1.0)):
                return await awaited
        except TimeoutError:
            raise HandoverFailed(otherwise) from None

    def _wall(self, share: float) -> float:
        """A share of the hold, in wall time."""
        seconds = self._clock.wall_seconds(self._config.held_seconds * share)
        return max(seconds, self._config.hold_wall_seconds * share)
