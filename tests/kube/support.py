"""Small helpers shared by the tests of this room."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any

from controller.kube import RestartReason, SilentObserver, Tombstone
from tests.kube.scripted_client import Thing


@contextlib.asynccontextmanager
async def running(*coroutines: Coroutine[Any, Any, Any]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Tasks beside the body of the test; a failure of one of them fails the test, the end of the body cancels them."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        yield tasks
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Recorder:
    """A handler that writes down what it is told."""

    told: list[tuple[Any, ...]] = field(default_factory=list)

    def on_add(self, obj: Thing, initial: bool) -> None:
        self.told.append(("add", obj.metadata.key, obj.metadata.resource_version, "initial" if initial else "live"))

    def on_update(self, old: Thing, new: Thing) -> None:
        self.told.append(("update", new.metadata.key, old.metadata.resource_version, new.metadata.resource_version))

    def on_delete(self, tombstone: Tombstone[Thing]) -> None:
        how = "seen" if tombstone.final else "inferred"
        self.told.append(("delete", tombstone.key, tombstone.last_known.metadata.resource_version, how))

    def take(self) -> list[tuple[Any, ...]]:
        told, self.told = self.told, []
        return told


@dataclass
class ReflectorLog(SilentObserver):
    """A reflector observer that keeps what it hears."""

    ended: list[tuple[RestartReason, int]] = field(default_factory=list)
    relists: list[RestartReason] = field(default_factory=list)
    failures: list[tuple[str, int]] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)
    watches: int = 0
    skips: int = 0
    handler_failures: int = 0

    def listed(self, resource: str, seconds: float, items: int) -> None:
        self.lists.append(items)

    def relist_needed(self, resource: str, reason: RestartReason) -> None:
        self.relists.append(reason)

    def watch_started(self, resource: str) -> None:
        self.watches += 1

    def watch_ended(self, resource: str, reason: RestartReason, seconds: float, events: int) -> None:
        self.ended.append((reason, events))

    def failed(self, resource: str, reason: str, failures: int) -> None:
        self.failures.append((reason, failures))

    def skipped(self, resource: str) -> None:
        self.skips += 1

    def handler_failed(self, resource: str) -> None:
        self.handler_failures += 1
