"""A scheduler and a kubelet without containers: Pods become engine servers on loopback.

Follows the Pods of one namespace through the API alone, so any API server will do. A Pod without a node is bound to
this one, oldest first, up to `quota` Pods; the rest stay Pending as Unschedulable. Each Pod of this node has a worker
of its own: it starts the container (`containers`) at an address of its own, and writes the Pod's status whenever
something changes: readiness and restarts as the Pod's probes would find them, a new container id with every restart.

A Pod that is deleted ends as on a node: its preStop hook is carried out while the engine serves on (`pre_stop`), no
longer than the grace period as the API has it; then the engine stops and the object is deleted with grace 0. What is
in flight at that moment is cut and counted (`cut`). A Pod whose object is gone already has been killed: its engine
stops at once. Time is model time, counted from when a thing was first seen.

Promised: a failed API call is tried again; no Pod of another node is touched. `failure` resolves when a Pod cannot run
at all (no address for it, say). Not promised: survival of a restart, as the engines live in this process; init and
sidecar containers; restart policies. `stop` ends every container at once, without hooks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from controller.embedded import contract
from controller.embedded.apiclient import ApiClient, ApiFailure, ListWatch
from controller.embedded.containers import Container, Runtime
from controller.embedded.engine import EngineState
from controller.embedded.loopback import LoopbackAddresses
from controller.embedded.pods import AssignedPod, PodFacts, pod_status, read_pod, unschedulable_status
from controller.embedded.pre_stop import run_pre_stop
from controller.foundation import Clock

_LOG = logging.getLogger(__name__)

NODE_NAME = "embedded"
_RETRY_SECONDS = 0.2  # wall time after an API call that failed
# Model time between two looks at a container that hangs: probes count seconds, and nothing else tells of them.
_HUNG_SECONDS = 2.0
_GONE = (404, 409, 422)  # a Pod that is not there any more, or is another one of the same name
_API_ERRORS = (ApiFailure, aiohttp.ClientError, OSError, TimeoutError)


class Kubelet:
    """The node of one namespace. `start`, use, `stop`."""

    def __init__(
        self,
        api: ApiClient,
        clock: Clock,
        runtime: Runtime,
        *,
        namespace: str,
        node: str = NODE_NAME,
        quota: int | None = None,
        addresses: LoopbackAddresses | None = None,
    ) -> None:
        self.quota = quota
        self.cut = 0  # requests that were in flight at containers when they were ended
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._api = api
        self._clock = clock
        self._runtime = runtime
        self._namespace = namespace
        self._node = node
        self._addresses = addresses or LoopbackAddresses()
        self._changed = asyncio.Event()
        self._pods = ListWatch(api, contract.PODS, namespace, self._changed.set)
        self._workers: dict[str, _PodWorker] = {}
        self._refused: set[str] = set()  # UIDs of Pods that were told to be unschedulable
        self._assumed: set[str] = set()  # UIDs of Pods that were bound and have not been seen here yet
        self._tasks: list[asyncio.Task[None]] = []
        self._hooks: aiohttp.ClientSession | None = None

    @property
    def containers(self) -> Mapping[str, Container]:
        """The containers that run, by the name of their Pod, those of leaving Pods included."""
        return {worker.pod.name: worker.container for worker in self._workers.values()}

    async def start(self) -> None:
        """Begin to watch and act."""
        self._hooks = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        self._tasks = [
            asyncio.create_task(self._pods.run(), name="kubelet: watch pods"),
            asyncio.create_task(self._run(), name="kubelet"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Stop acting, then every container, whatever it holds. Idempotent."""
        workers = list(self._workers.values())
        tasks = [*self._tasks, *(worker.task for worker in workers if worker.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks = []
        await asyncio.gather(*(worker.container.stop() for worker in workers))
        if self._hooks is not None:
            await self._hooks.close()
            self._hooks = None
        if not self.failure.done():
            self.failure.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failure.done():
            self.failure.set_exception(error)

    async def _run(self) -> None:
        await self._pods.synced.wait()
        while True:
            self._changed.clear()
            self._hand_out()
            try:
                await self._schedule()
            except _API_ERRORS as error:
                _LOG.warning("embedded scheduler: %s; trying again", error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            await self._changed.wait()

    def _hand_out(self) -> None:
        """Tell every worker of its Pod, and start the workers of new ones."""
        present: set[str] = set()
        for pod in self._pods.objects.values():
            if (pod.get("spec") or {}).get("nodeName") != self._node:
                continue
            view = read_pod(pod)
            present.add(view.uid)
            worker = self._workers.get(view.uid)
            if worker is None:
                worker = self._workers[view.uid] = _PodWorker(view, self._runtime, self._clock)
                assert self._hooks is not None  # noqa: S101 - open while this runs
                running = worker.run(self._api, self._hooks, self._addresses)
                worker.task = asyncio.create_task(running, name=f"kubelet: {view.name}")
                worker.task.add_done_callback(self._worker_ended(view.uid))
            worker.tell(view)
        for uid, worker in self._workers.items():
            if uid not in present:
                worker.tell(None)
        self._assumed &= {pod["metadata"]["uid"] for pod in self._pods.objects.values()} - present

    def _worker_ended(self, uid: str) -> Callable[[asyncio.Task[None]], None]:
        def ended(task: asyncio.Task[None]) -> None:
            worker = self._workers.pop(uid)
            self.cut += worker.cut
            self._changed.set()  # its place is free
            self._ended(task)

        return ended

    async def _schedule(self) -> None:
        waiting = [
            pod
            for pod in self._pods.objects.values()
            if not (pod.get("spec") or {}).get("nodeName") and not pod["metadata"].get("deletionTimestamp")
        ]
        for pod in sorted(waiting, key=_age):
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            if uid in self._assumed:
                continue
            try:
                if self.quota is None or len(self._workers) + len(self._assumed) < self.quota:
                    await self._bind(name)
                    self._assumed.add(uid)
                elif uid not in self._refused:
                    await self._refuse(name)
                    self._refused.add(uid)
            except ApiFailure as failure:
                if failure.status not in _GONE:
                    raise

    async def _bind(self, name: str) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self._node},
        }
        await self._api.create(contract.PODS, self._namespace, binding, name=name, subresource="binding")

    async def _refuse(self, name: str) -> None:
        status = unschedulable_status(self._clock.now(), f"0/1 nodes are available: {self.quota} Pods are the quota.")
        await self._api.merge_patch(contract.PODS, self._namespace, name, {"status": status}, subresource="status")


class _PodWorker:
    """The life of one Pod on the node."""

    def __init__(self, pod: AssignedPod, runtime: Runtime, clock: Clock) -> None:
        self.pod = pod
        self.container = runtime(pod, self._container_changed)
        self.cut = 0
        self.task: asyncio.Task[None] | None = None
        self._clock = clock
        self._created = self._changed_at = self._ready_changed_at = clock.now()
        self._ready = False
        self._gone = False
        self._wake = asyncio.Event()
        self._written: dict[str, Any] = {}

    def tell(self, pod: AssignedPod | None) -> None:
        """The Pod as it is now; None: it is gone."""
        if pod is None:
            self._gone = True
        elif pod == self.pod:
            return
        else:
            self.pod = pod
        self._wake.set()

    async def run(self, api: ApiClient, hooks: aiohttp.ClientSession, addresses: LoopbackAddresses) -> None:
        """Until the Pod is gone. Raises OperationFailed when it cannot run."""
        try:
            await self.container.start(addresses, self.pod.port or contract.DEFAULT_SERVING_PORT)
            while not self._gone and not self.pod.deleting:
                self._wake.clear()
                await self._probe()
                if await self._tried(self._write_status(api)):
                    await self._sleep()
            await self._terminate(hooks)
            load = self.container.load()
            self.cut = load.running + load.waiting + load.held
        finally:
            await self.container.stop()
        while not self._gone and not await self._tried(
            api.delete(contract.PODS, self.pod.namespace, self.pod.name, uid=self.pod.uid)
        ):
            pass

    async def _probe(self) -> None:
        """Bring readiness up to date, and kill a container that has hung for too long."""
        now, pod, state = self._clock.now(), self.pod, self.container.state
        hung_for = now - self._changed_at if state is EngineState.HUNG else 0.0
        if pod.restart_after_seconds is not None and hung_for >= pod.restart_after_seconds:
            _LOG.info("embedded kubelet: %s hangs and is restarted", pod.name)
            await self.container.crash()
            state, hung_for = self.container.state, 0.0
        if pod.unready_after_seconds is None:
            ready = state not in (EngineState.STOPPED, EngineState.DOWN)
        else:
            ready = state is EngineState.SERVING or (
                state is EngineState.HUNG and self._ready and hung_for < pod.unready_after_seconds
            )
        if ready != self._ready:
            self._ready, self._ready_changed_at = ready, now

    async def _write_status(self, api: ApiClient) -> None:
        container, pod = self.container, self.pod
        facts = PodFacts(
            created_seconds=self._created,
            address=container.host,
            started_seconds=container.started_seconds if container.host else None,
            ready=self._ready,
            ready_changed_seconds=self._ready_changed_at,
            restart_count=container.restart_count,
            down=container.state is EngineState.DOWN,
        )
        status = pod_status(pod, facts)
        if status != self._written:
            # The uid makes the API server refuse it for another Pod of the same name.
            patch = {"metadata": {"uid": pod.uid}, "status": status}
            await api.merge_patch(contract.PODS, pod.namespace, pod.name, patch, subresource="status")
            self._written = status

    async def _terminate(self, hooks: aiohttp.ClientSession) -> None:
        """Carry out the hook, until it or the grace period has ended or the Pod is gone."""
        began, hook = self._clock.now(), self.pod.pre_stop
        if hook is None or self._gone:
            return
        running = asyncio.create_task(run_pre_stop(hook, self.container.host, hooks, self._clock))
        running.add_done_callback(lambda _: self._wake.set())
        try:
            while not self._gone and not running.done():
                remaining = began + self.pod.grace_seconds - self._clock.now()  # the grace may have been shortened
                if remaining <= 0:
                    return
                self._wake.clear()
                await self._sleep(remaining)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _sleep(self, seconds: float | None = None) -> None:
        """Until something changes, `seconds` have passed, or it is time to look at a container that hangs."""
        if seconds is None and self.container.state is EngineState.HUNG:
            seconds = _HUNG_SECONDS
        limit = None if seconds is None else self._clock.wall_seconds(seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._wake.wait()

    async def _tried(self, call: Any) -> bool:
        """Whether an API call succeeded; after one that did not, wait for a moment or a change."""
        try:
            await call
        except _API_ERRORS as error:
            if not (isinstance(error, ApiFailure) and error.status in _GONE):
                _LOG.warning("embedded kubelet: %s: %s; trying again", self.pod.name, error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            return False
        return True

    def _container_changed(self) -> None:
        self._changed_at = self._clock.now()
        self._wake.set()


def _age(pod: Mapping[str, Any]) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]
