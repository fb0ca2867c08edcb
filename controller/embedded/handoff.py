"""How a router carries a request through the members that share it: encode → prefill → decode.

vLLM (NixlConnector): the prefill member is asked for one token with `do_remote_decode`; what it answers goes to the
decode member with the request, whose stream is the client's. SGLang: both get the request at the same time, with the
room where they meet. Media go to encode members first, one request an item; text skips them.

What may be repeated: until the first token of the decode member, nothing has reached the client, so a request whose
prefill member broke off, or whose blocks could not be fetched (the prefill member ended too early), is given up there
and begun anew. That is what vllm-router and SGLang's gateway do with answers of status 5xx. Neither looks into a
stream; this one looks at its first frame, because there vLLM tells of blocks that did not come. A member that refuses
(503, or no connection) has not accepted; blocks that are held already go to another decode member. After the first
token, a break cuts the client's stream.

A prefill member counts as in use until the decode member shows its first token: until then its blocks are needed. The
real routers stop counting when the prefill member has answered, and a retirement that trusts them needs a grace.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from controller.embedded.engine import EngineDialect, EngineKind
from controller.embedded.relay import Broken, Refused, Rejected, Relay
from controller.embedded.roster import Roster, Worker
from controller.foundation import Clock

_COMPLETIONS = "/v1/completions"


class Handoff:
    """The hand-over of requests between members of one roster."""

    def __init__(self, roster: Roster, relay: Relay, clock: Clock) -> None:
        self._roster = roster
        self._relay = relay
        # Rooms of an earlier router may still be open at a prefill member.
        self._rooms = itertools.count(int(clock.now()) << 20)

    async def carry(
        self, request: web.BaseRequest, message: dict[str, Any], refused: Collection[str]
    ) -> web.StreamResponse:
        """Serve one request. Raises Refused or Broken while it may be begun anew, Rejected where a member calls it
        wrong. Nothing is computed while a kind that is needed has no member to ask."""
        media = message.get("mm_items")
        encodes = isinstance(media, list) and bool(media) and self._roster.has(EngineKind.ENCODE)
        for kind in (EngineKind.ENCODE, EngineKind.PREFILL, EngineKind.DECODE):
            if encodes or kind is not EngineKind.ENCODE:
                self._chosen(kind, refused)
        if encodes:
            await self._encode(message, refused)
        prefill = self._chosen(EngineKind.PREFILL, refused)
        if prefill.member.dialect is EngineDialect.SGLANG:
            return await self._meet(request, message, prefill, self._chosen(EngineKind.DECODE, refused))
        return await self._one_after_the_other(request, message, prefill, refused)

    async def _encode(self, message: dict[str, Any], refused: Collection[str]) -> None:
        async def one(item: object) -> None:
            worker = self._chosen(EngineKind.ENCODE, refused)
            sglang = worker.member.dialect is EngineDialect.SGLANG
            body = {"prompt_tokens": 1, "mm_items": [item], "max_tokens": 1}
            if "model" in message:
                body["model"] = message["model"]
            with self._roster.using(worker):
                await self._relay.ask(worker.member, "/encode" if sglang else _COMPLETIONS, body)

        try:
            async with asyncio.TaskGroup() as group:
                for item in message["mm_items"]:
                    group.create_task(one(item))
        except* (Refused, Broken, Rejected) as failures:
            failure = failures.exceptions[0]
        else:
            return
        raise failure

    async def _one_after_the_other(
        self, request: web.BaseRequest, message: dict[str, Any], prefill: Worker, refused: Collection[str]
    ) -> web.StreamResponse:
        with ExitStack() as held:
            held.enter_context(self._roster.using(prefill))
            asked = message | {
                "max_tokens": 1,
                "stream": False,
                "kv_transfer_params": {"do_remote_decode": True, "do_remote_prefill": False},
            }
            asked.pop("stream_options", None)
            answer = await self._relay.ask(prefill.member, request.path, asked)
            body = orjson.dumps(message | {"kv_transfer_params": answer.get("kv_transfer_params")})
            unwilling = set(refused)
            decode = self._chosen(EngineKind.DECODE, unwilling)
            while True:
                try:
                    with self._roster.using(decode):
                        return await self._relay.first_token(request, decode.member, body, held.close)
                except Broken as broken:
                    raise Broken(str(broken), prefill.member.uid) from None
                except Refused as refusal:
                    unwilling.add(refusal.uid)
                    other = self._roster.choose(EngineKind.DECODE, unwilling)
                    if other is None:
                        raise
                    decode = other

    async def _meet(
        self, request: web.BaseRequest, message: dict[str, Any], prefill: Worker, decode: Worker
    ) -> web.StreamResponse:
        address = urlsplit(prefill.member.url)
        meeting = {
            "bootstrap_host": address.hostname,
            "bootstrap_port": address.port,
            "bootstrap_room": next(self._rooms),
        }
        message = message | meeting

        held = ExitStack()
        held.enter_context(self._roster.using(prefill))

        async def compute() -> None:
            with held:
                await self._relay.ask(prefill.member, request.path, message)

        computing = asyncio.create_task(compute(), name=f"prefill at {prefill.member.name}")
        begun = asyncio.Event()
        answering = asyncio.create_task(
            self._relay.first_token(request, decode.member, orjson.dumps(message), begun.set),
            name=f"decode at {decode.member.name}",
        )
        try:
            with self._roster.using(decode):
                await asyncio.wait((computing, answering), return_when=asyncio.FIRST_COMPLETED)
                if not answering.done() and not begun.is_set() and computing.exception() is not None:
                    await computing  # raises: the decode member would wait in vain
                response = await answering
            if response.status == 200:
                with suppress(Refused, Broken, Rejected):
                    await computing
            return response
        except Broken as broken:
            raise Broken(str(broken), prefill.member.uid) from None
        finally:
            for task in (computing, answering):
                task.cancel()
            await asyncio.gather(computing, answering, return_exceptions=True)
            held.close()  # the task may have been cancelled before its first step

    def _chosen(self, kind: EngineKind, refused: Collection[str]) -> Worker:
        worker = self._roster.choose(kind, refused)
        if worker is None:
            raise Refused(f"no {kind.value} worker takes requests")
        return worker
