"""How a decode process gets keys and values: it fetches them from the prefill process, over a socket.

A fetch that fails for any reason (the process is gone, was restarted, has let go of the blocks) raises HandoverFailed
with that reason. vLLM then ends the request with an error (`kv_load_failure_policy` is `fail` since vllm#34896), and so
does SGLang.

While a request waits for its place, the prefill process is told that its blocks are still wanted (vLLM only).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import aiohttp
import orjson

from controller.embedded.engine.streams import HandoverFailed
from controller.foundation import Clock

_CONNECT_SECONDS = 2.0  # wall time; on loopback a connection stands or falls at once
_RENEW_SECONDS = 5.0  # model time: NixlConnector 0.32 sends a heartbeat every sixth of its lease
_RENEW_WALL_SECONDS = 0.5  # not more often than this, however fast the clock


@dataclass(frozen=True, slots=True)
class KvSource:
    """Where the keys and values of a prompt are: the prefill process, and its name for them."""

    url: str
    key: str


class Receiver:
    """The fetching side of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._wanted: set[KvSource] = set()
        self._renewing: asyncio.Task[None] | None = None

    async def fetch(self, source: KvSource) -> int:
        """Wait until the keys and values are here: how many tokens. Raises HandoverFailed."""
        try:
            async with self._http().post(f"{source.url}/kv/fetch", json={"id": source.key}) as answer:
                if answer.status != 200:
                    raise HandoverFailed(f"{source.url} does not hold the blocks of {source.key} (any more)")
                return int(orjson.loads(await answer.read())["tokens"])
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise HandoverFailed(f"the blocks at {source.url} cannot be fetched: {type(error).__name__}") from None

    def want(self, source: KvSource) -> None:
        """Keep the blocks held until `has`."""
        self._wanted.add(source)
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew(), name="renew leases of KV blocks")

    def has(self, source: KvSource) -> None:
        """They are here, or not wanted any more."""
        self._wanted.discard(source)

    async def close(self) -> None:
        """The process ends: whatever is under way is cut."""
        self._wanted.clear()
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            renewing.cancel()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _renew(self) -> None:
        while self._wanted:
            await asyncio.sleep(max(self._clock.wall_seconds(_RENEW_SECONDS), _RENEW_WALL_SECONDS))
            keys: dict[str, list[str]] = {}
            for source in self._wanted:
                keys.setdefault(source.url, []).append(source.key)
            for url, ids in keys.items():
                try:
                    async with self._http().post(f"{url}/kv/renew", json={"ids": ids}):
                        pass
                except (aiohttp.ClientError, OSError, TimeoutError):
                    continue  # the fetch will tell

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session
