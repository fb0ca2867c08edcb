"""A cache of one resource that follows the server, and tells handlers what changes.

    informer = Informer(client, POD, PodView, label_selector="app=x", indexers={"node": by_node})
    registration = informer.add_handler(handler)
    async with asyncio.TaskGroup() as group:
        group.create_task(informer.run())
        await registration.wait_synced()
        informer.store.by_index("node", "n1")

Promised

1. The store follows the server by the reflector's contract; several namespaces are several reflectors that feed one
   store.
2. A list is compared with the store: what is missing is deleted first (tombstones), what changed is updated, what is
   the same (uid and resourceVersion) costs nothing and is told to nobody.
3. An object that was deleted and made again under the same name is a delete and an add, also when only the new one was
   seen.
4. Events are applied in the task that reads them: there is no queue in between that could grow.
5. Large lists are applied in slices of a few milliseconds; other tasks run in between and may see the store half
   changed.
6. A handler that comes late is told everything that is there, in the background, without losing or doubling an event.

Not promised: a resync. Nothing is repeated to handlers without a change; a reconcile that wants to look again asks its
queue for it.

`run` ends by cancellation only, or with the exception of a bug. Cancellation: safe; the store stays readable.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from controller.foundation import KubeObject, Resource
from controller.kube.cache import Cache
from controller.kube.handlers import Handler, Registration
from controller.kube.observers import SILENT, ReflectorObserver
from controller.kube.pacing import TimeBudget
from controller.kube.reflector import ListWatchClient, Reflector, Target
from controller.kube.scopes import Scope
from controller.kube.store import IndexFunction, Store
from controller.kube.streaming import StreamingSupport
from controller.kube.versions import parse_version

T = TypeVar("T", bound=KubeObject)


class Phase(enum.Enum):
    """The life of an informer; there is no way back."""

    NEW = "new"
    RUNNING = "running"
    STOPPED = "stopped"


class Informer(Generic[T]):
    """See the module's contract.

    namespace: None for all, a name, or several names.
    transform: applied to every object before it is stored; must be idempotent. For dropping what is not needed.
    """

    def __init__(
        self,
        client: ListWatchClient,
        resource: Resource,
        type_: type[T],
        *,
        namespace: str | Sequence[str] | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        indexers: Mapping[str, IndexFunction[T]] | None = None,
        transform: Callable[[T], T] | None = None,
        streaming: StreamingSupport | None = None,
        observer: ReflectorObserver = SILENT,
        rng: random.Random | None = None,
    ) -> None:
        self.resource = resource
        self._cache = Cache(indexers, transform)
        self._observer = observer
        self._phase = Phase.NEW
        self._synced = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        pairs = (("labelSelector", label_selector), ("fieldSelector", field_selector))
        selectors = tuple((name, value) for name, value in pairs if value)
        namespaces = [namespace] if namespace is None or isinstance(namespace, str) else list(dict.fromkeys(namespace))
        if not namespaces:
            raise ValueError("an informer needs at least one namespace, or None for all")
        self._scopes = [Scope(self._cache, name, self._scope_synced) for name in namespaces]
        self._reflectors = [
            Reflector(
                client,
                Target(resource, resource.path(scope.namespace), selectors),
                type_,
                scope,
                streaming=streaming or client.streaming,
                observer=observer,
                rng=rng,
            )
            for scope in self._scopes
        ]
        self._label = Target(resource, "").label

    @property
    def store(self) -> Store[T]:
        """The cached objects; read only."""
        return self._cache.store

    # ---- life ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the server until cancelled. Raises RuntimeError when called twice."""
        if self._phase is not Phase.NEW:
            raise RuntimeError(f"the informer of {self._label} is {self._phase.value}; it runs once")
        self._phase = Phase.RUNNING
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for reflector in self._reflectors:
                    group.create_task(reflector.run(), name=f"reflector {self._label}")
        finally:
            self._phase = Phase.STOPPED
            self._group = None

    @property
    def has_synced(self) -> bool:
        """Whether the initial list is in the store; handlers may still be catching up (`Registration.has_synced`)."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return once `has_synced`. Cancel-safe."""
        await self._synced.wait()

    def resource_version(self, namespace: str | None = None) -> str:
        """The version that the store has reached: of the reflector that covers `namespace`, or of the slowest one.
        Empty before the first list, and for a namespace that is not followed."""
        versions = [scope.version for scope in self._scopes if scope.covers(namespace)]
        if not versions:
            return ""
        return min(versions, key=lambda version: -1 if (number := parse_version(version)) is None else number)

    def silent_seconds(self) -> float:
        """Seconds since the server was last heard, of the reflector that has waited longest; infinite before the first
        answer. Bookmarks count: on a healthy connection this stays below a minute or so."""
        now = asyncio.get_running_loop().time()
        return max(now - scope.heard_at for scope in self._scopes)

    # ---- handlers --------------------------------------------------------------------------------------------------

    def add_handler(self, handler: Handler[T]) -> Registration[T]:
        """Listen from now on; what is in the store already is told as initial. The same handler may be added twice.

        Raises RuntimeError on a stopped informer, TypeError for a handler with coroutine methods.
        """
        if self._phase is Phase.STOPPED:
            raise RuntimeError(f"the informer of {self._label} has stopped; a handler would never be called")
        registration = Registration(handler, self._label, self._observer)
        backlog = {key: obj for key in self.store if (obj := self.store.get(key)) is not None}
        registration.begin(backlog, store_complete=self.has_synced)
        self._cache.registrations = (*self._cache.registrations, registration)
        if backlog and self._group is not None:
            self._group.create_task(_tell_backlog(registration), name=f"initial objects of {self._label}")
        return registration

    def remove_handler(self, registration: Registration[T]) -> None:
        """Stop listening: no call begins after this returns. Removing twice, or a foreign registration, does
        nothing."""
        if registration in self._cache.registrations:
            registration.stop()
            self._cache.registrations = tuple(other for other in self._cache.registrations if other is not registration)

    def _scope_synced(self) -> None:
        if all(scope.synced for scope in self._scopes):
            self._synced.set()
            for registration in self._cache.registrations:
                registration.store_completed()


async def _tell_backlog(registration: Registration[T]) -> None:
    budget = TimeBudget()
    while registration.deliver_one():
        if budget.spent():
            await asyncio.sleep(0)
