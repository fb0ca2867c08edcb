"""Runs the informers of a process: first those without which nothing can be decided, then those that priors rest on.

`start` returns once the former have read everything, or raises OperationFailed, with the kinds that are late. A kind
that priors rest on and that does not come, or is not installed, keeps nobody waiting for long. `stop` ends them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from controller.api import GROUP, VERSION
from controller.deployment import DeploymentController
from controller.foundation import OperationFailed
from controller.kube import ApiError, Informer, KubeClient, settle
from controller.operations import Lifecycle, get_logger
from controller.reconcile import ControllerCaches

# controller-runtime's CacheSyncTimeout: a controller that cannot read its objects for so long says so and is restarted.
CACHE_SYNC_SECONDS = 120.0
# No watch, not even a bookmark (one a minute), for so long: the process is blind.
SILENCE_SECONDS = 600.0
# What priors are resolved from is waited for this long, so that none is unresolved only because nothing was read yet. A
# kind that may not be read never comes, and the scalers without priors shall not wait for it.
PRIOR_SYNC_SECONDS = 10.0


class Following:
    """The informers of one process."""

    def __init__(self, client: KubeClient, life: Lifecycle, caches: ControllerCaches) -> None:
        self._client = client
        self._life = life
        self._caches = caches
        self._readers: list[ControllerCaches | DeploymentController] = [caches]
        # They end before the connection does, or their last requests would look like failures.
        self._tasks: list[asyncio.Task[None]] = []
        self._synced = False
        self._log = get_logger("controller")

    def add(self, reader: DeploymentController) -> None:
        """Run these informers, too; before the start."""
        self._readers.append(reader)

    @property
    def _informers_of_work(self) -> list[Informer[Any]]:
        """Those without which nothing can be decided: waited for at the start, and watched for silence."""
        return [informer for part in self._readers for informer in part.informers]

    async def start(self) -> None:
        """Run them and wait until they have read everything. Raises OperationFailed."""
        for informer in self._informers_of_work:
            self._tasks.append(self._life.spawn(f"informer {informer.resource.plural}", informer.run()))
        try:
            async with asyncio.timeout(CACHE_SYNC_SECONDS):
                for part in self._readers:
                    for registration in part.registrations:
                        await registration.wait_synced()
        except TimeoutError:
            late = [each.resource.plural for each in self._informers_of_work if not each.has_synced]
            raise OperationFailed(
                f"could not read {', '.join(late) or 'all objects'} within {CACHE_SYNC_SECONDS:g} s; the log says why"
            ) from None
        await self._start_prior_caches()
        settle()
        self._synced = True
        self._log.info("caches are synced", scalers=len(self._caches.scalers.store), pods=len(self._caches.pods.store))

    async def stop(self) -> None:
        """End them all."""
        await end_all(self._tasks)

    def check_synced(self) -> str | None:
        """Why the process is not ready, None where it is."""
        return None if self._synced else "the caches are not synced yet"

    def check_signs_of_life(self) -> str | None:
        """Which watches have been silent for too long, None where none has."""
        if not self._synced:
            return None  # the start has its own deadline
        silent = {each.resource.plural: each.silent_seconds() for each in self._informers_of_work}
        late = [f"{name} for {seconds:.0f} s" for name, seconds in silent.items() if seconds > SILENCE_SECONDS]
        return f"no sign of life from the watch of {', '.join(late)}" if late else None

    async def _start_prior_caches(self) -> None:
        """Follow what priors are resolved from, as far as this server has it."""
        try:
            answer = orjson.loads(await self._client.request_raw("GET", f"/apis/{GROUP}/{VERSION}"))
        except ApiError as failure:
            raise OperationFailed(f"cannot read the resources of {GROUP}/{VERSION}: {failure}") from None
        served = {resource.get("name") for resource in answer.get("resources") or ()}
        followed = []
        for informer in self._caches.prior_informers:
            resource = informer.resource
            if resource.group == GROUP and resource.plural not in served:
                self._log.info("not installed, so no prior can be inferred from it", kind=resource.kind)
                continue
            self._tasks.append(self._life.spawn(f"informer {resource.plural}", informer.run()))
            followed.append(informer)
        self._tasks.append(self._life.spawn("informer nodes", self._follow_nodes()))
        try:
            async with asyncio.timeout(PRIOR_SYNC_SECONDS):
                for informer in followed:
                    await informer.wait_synced()
        except TimeoutError:
            late = [informer.resource.plural for informer in followed if not informer.has_synced]
            self._log.warning("not read yet; priors that need it are unresolved until it is", kinds=late)

    async def _follow_nodes(self) -> None:
        """Only once a prior needs the labels of Nodes: most never do, and a large cluster has thousands of them."""
        await self._caches.priors.nodes_wanted.wait()
        self._log.info("following Nodes, because an InstanceType does not say what accelerators it has")
        await self._caches.priors.nodes.run()


async def end_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
