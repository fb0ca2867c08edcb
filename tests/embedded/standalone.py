"""The controller of standalone mode in this process, to be killed and started again at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller.api import FIELD_MANAGER
from controller.deployment import DeploymentController
from controller.engines import Scraper
from controller.foundation import Clock
from controller.kube import EventRecorder, KubeClient, load_connection, run_workers


class Standalone:
    """One controller at a time, over the real client."""

    def __init__(self, kubeconfig: Path, clock: Clock, namespace: str, **options: Any) -> None:
        self._kubeconfig = kubeconfig
        self._clock = clock
        self._namespace = namespace
        self._options = options
        self._tasks: list[asyncio.Task[Any]] = []
        self._closing: list[Callable[[], Any]] = []

    async def start(self) -> None:
        """Start a controller process; its workers run when this returns."""
        client = KubeClient(
            await load_connection(str(self._kubeconfig)), user_agent="test", field_manager=FIELD_MANAGER
        )
        recorder = EventRecorder(client, controller=FIELD_MANAGER, instance="one")
        scraper = Scraper(clock=self._clock, timeout_seconds=2.0)
        made = DeploymentController(
            client,
            clock=self._clock,
            scraper=scraper,
            recorder=recorder,
            namespaces=(self._namespace,),
            **self._options,
        )
        self._tasks = [asyncio.create_task(informer.run()) for informer in made.informers]
        self._tasks.append(asyncio.create_task(recorder.run()))
        for registration in made.registrations:
            await registration.wait_synced()
        self._tasks.append(asyncio.create_task(run_workers(made.queue, made.reconcile, 2)))
        self._closing = [made.close, scraper.close, client.close]

    async def kill(self) -> None:
        """End it at once, wherever it is."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for close in self._closing:
            await close()
        self._closing = []
