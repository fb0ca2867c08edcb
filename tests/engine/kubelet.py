"""A kubelet without containers: for every Pod that it finds it runs the container's own command line as a process.

What a Pod says is carried out as it stands: command, arguments, environment, probes, the hook at the end of its life,
the grace, restarts. A real container differs in three places, which are played here:

* the Pod's address is one of 127.0.0.0/8, in the same network as all others. The engine would listen on all of them, so
  `--host <address>` is added, and what the hook asks at 127.0.0.1 is asked there;
* a volume is a folder, and its mount path is replaced by that in the arguments;
* the image is the engine's virtual environment: its programs come first in PATH.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from controller.api import PODS
from controller.embedded.apiserver import ApiServer
from controller.foundation import Clock, format_time
from tests.engine.processes import ContainerProcess

Object = dict[str, Any]

_VARIABLE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
# Restarts after the first wait, as a kubelet's do.
_BACKOFF_SECONDS = (0.0, 10.0, 20.0, 40.0)
_LEAST_GRACE_SECONDS = 2.0
_LOOK_SECONDS = 0.2


@dataclass
class Ending:
    """How a Pod's life ended. Times on the kubelet's clock."""

    pod: str
    address: str
    asked_at: float  # the deletion was seen
    hook_status: int | None = None  # None: cut off, or there was none
    hook_ended_at: float = 0.0
    exit_status: int = 0
    ended_at: float = 0.0
    killed: bool = False  # it outlived its grace


@dataclass
class Container:
    """A Pod's container through all its restarts."""

    pod: str
    address: str
    log: Path
    process: ContainerProcess | None = None
    restarts: int = 0
    started_at: list[float] = field(default_factory=list)
    ready_at: list[float] = field(default_factory=list)
    died_at: list[float] = field(default_factory=list)


class Kubelet:
    """Runs the Pods of one namespace. `addresses` gives each a loopback address, `volumes` the folder of a claim."""

    def __init__(
        self,
        server: ApiServer,
        namespace: str,
        *,
        programs: Path,
        addresses: Iterator[str],
        volumes: Mapping[str, Path],
        folder: Path,
        clock: Clock,
    ) -> None:
        self._server = server
        self._namespace = namespace
        self._programs = programs
        self._addresses = addresses
        self._volumes = volumes
        self._folder = folder
        self._clock = clock
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._deleted: dict[str, asyncio.Event] = {}
        self.containers: dict[str, Container] = {}  # by Pod UID
        self.endings: list[Ending] = []

    async def run(self) -> None:
        """Until cancelled."""
        changed = asyncio.Event()
        self._server.store.collection(("", "pods")).listeners[self] = lambda _: changed.set()
        while True:
            changed.clear()
            for pod in self._server.list(PODS, self._namespace):
                self._notice(pod)
            for life in [life for life in self._lives.values() if life.done()]:
                life.result()  # a defect of the kubelet must not look like a slow engine
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await changed.wait()

    async def stop(self) -> None:
        """Kill everything."""
        for life in self._lives.values():
            life.cancel()
        await asyncio.gather(*self._lives.values(), return_exceptions=True)
        for container in self.containers.values():
            if container.process is not None:
                await container.process.kill()

    def container_of(self, pod_name: str) -> Container:
        """The newest container of a Pod of this name."""
        return [each for each in self.containers.values() if each.pod == pod_name][-1]

    def _notice(self, pod: Object) -> None:
        meta = pod["metadata"]
        if not pod["spec"]["containers"][0].get("command"):
            return  # not ours to run: the router's Pod
        uid = meta["uid"]
        if uid not in self._lives:
            self._deleted[uid] = asyncio.Event()
            self._lives[uid] = asyncio.create_task(_Life(self, pod, self._deleted[uid]).live())
        if meta.get("deletionTimestamp"):
            self._deleted[uid].set()

    # --- for a life ---

    def place(self, pod: Object) -> Container:
        """An address and a folder."""
        meta = pod["metadata"]
        folder = self._folder / f"{meta['name']}-{meta['uid'][:8]}"
        folder.mkdir(parents=True)
        container = Container(meta["name"], next(self._addresses), folder / "engine.log")
        self.containers[meta["uid"]] = container
        return container

    def environment(self, pod: Object, address: str) -> dict[str, str]:
        """What the image brings, and what the Pod adds."""
        container = pod["spec"]["containers"][0]
        path = f"{self._programs}{os.pathsep}/usr/local/bin{os.pathsep}/usr/bin{os.pathsep}/bin"
        made = {"PATH": path, "HOME": str(self._folder), "LANG": "C.UTF-8"}
        for variable in container.get("env") or ():
            source = ((variable.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
            value = address if source == "status.podIP" else variable.get("value", "")
            made[variable["name"]] = _expand(value, made)
        return made

    def command(self, pod: Object, address: str, environment: Mapping[str, str]) -> list[str]:
        """The command line, with what a container would have around it."""
        container = pod["spec"]["containers"][0]
        given = [_expand(word, environment) for word in [*container["command"], *(container.get("args") or ())]]
        return [*(self._unmounted(pod, word) for word in given), "--host", address]

    def _unmounted(self, pod: Object, word: str) -> str:
        claims = {
            volume["name"]: self._volumes[volume["persistentVolumeClaim"]["claimName"]]
            for volume in pod["spec"].get("volumes") or ()
            if "persistentVolumeClaim" in volume
        }
        for mount in pod["spec"]["containers"][0].get("volumeMounts") or ():
            path = mount["mountPath"]
            if mount["name"] in claims and (word == path or word.startswith(f"{path}/")):
                return str(claims[mount["name"]]) + word[len(path) :]
        return word

    def write(self, uid: str, name: str, change: Callable[[Object], None]) -> Object | None:
        """Change a Pod as it is now; None where it is gone or another one."""
        pod = self._server.get(PODS, name, self._namespace)
        if pod is None or pod["metadata"]["uid"] != uid:
            return None
        change(pod)
        return self._server.put(pod, manager="kubelet")

    def reported(self, uid: str, name: str) -> tuple[bool, bool, int] | None:
        """What the Pod's status says of its container: ready, running, restarts."""
        pod = self._server.get(PODS, name, self._namespace)
        if pod is None or pod["metadata"]["uid"] != uid:
            return None
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        return next(((each["ready"], each["started"], each["restartCount"]) for each in statuses), None)

    def finish(self, uid: str, name: str) -> None:
        """The last word: the object goes."""
        pod = self._server.get(PODS, name, self._namespace)
        if pod is not None and pod["metadata"]["uid"] == uid:
            self._server.delete(PODS, name, self._namespace, grace_seconds=0)

    @property
    def clock(self) -> Clock:
        return self._clock


class _Life:
    """One Pod, from its start to its end."""

    def __init__(self, kubelet: Kubelet, pod: Object, deleted: asyncio.Event) -> None:
        self._kubelet = kubelet
        self._pod = pod
        self._deleted = deleted
        self._name, self._uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self._spec = pod["spec"]["containers"][0]
        self._container = kubelet.place(pod)
        self._environment = kubelet.environment(pod, self._container.address)

    async def live(self) -> None:
        while True:
            process = await self._start()
            probing = asyncio.create_task(self._probe(process))
            asked = asyncio.create_task(self._deleted.wait())
            try:
                await asyncio.wait({process.ended, asked}, return_when=asyncio.FIRST_COMPLETED)
                if self._deleted.is_set():
                    await self._end(process)
                    return
            finally:
                for task in (probing, asked):
                    task.cancel()
                await asyncio.gather(probing, asked, return_exceptions=True)
            self._container.died_at.append(self._kubelet.clock.now())
            self._report(ready=False, running=False)
            pause = _BACKOFF_SECONDS[min(self._container.restarts, len(_BACKOFF_SECONDS) - 1)]
            self._container.restarts += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._deleted.wait()
            if self._deleted.is_set():
                self._kubelet.finish(self._uid, self._name)
                return

    async def _start(self) -> ContainerProcess:
        container = self._container
        command = self._kubelet.command(self._pod, container.address, self._environment)
        with container.log.open("a", encoding="utf-8") as log:
            log.write(f"# {' '.join(command)}\n")
        process = await ContainerProcess.start(command, self._environment, container.log.parent, container.log)
        container.process = process
        container.started_at.append(self._kubelet.clock.now())
        self._report(ready=False, running=True)
        return process

    async def _probe(self, process: ContainerProcess) -> None:
        """Startup until it succeeds, then readiness and liveness side by side."""
        async with aiohttp.ClientSession() as session:
            startup = self._spec.get("startupProbe")
            failures = 0
            while startup is not None and not await self._asks(session, startup):
                failures += 1
                if failures >= startup["failureThreshold"]:
                    await process.kill()
                    return
                await self._kubelet.clock.sleep(startup["periodSeconds"])
            await asyncio.gather(self._readiness(session), self._liveness(session, process))

    async def _readiness(self, session: aiohttp.ClientSession) -> None:
        probe = self._spec.get("readinessProbe")
        if probe is None:
            self._report(ready=True, running=True)
            return
        failures = 0
        ready = False
        while True:
            answered = await self._asks(session, probe)
            failures = 0 if answered else failures + 1
            if answered and not ready:
                self._container.ready_at.append(self._kubelet.clock.now())
            ready = answered or (ready and failures < probe["failureThreshold"])
            self._report(ready=ready, running=True)
            await self._kubelet.clock.sleep(probe["periodSeconds"])

    async def _liveness(self, session: aiohttp.ClientSession, process: ContainerProcess) -> None:
        probe = self._spec.get("livenessProbe")
        failures = 0
        while probe is not None and failures < probe["failureThreshold"]:
            await self._kubelet.clock.sleep(probe["periodSeconds"])
            failures = 0 if await self._asks(session, probe) else failures + 1
        if probe is not None:
            await process.kill()

    async def _asks(self, session: aiohttp.ClientSession, probe: Object) -> bool:
        what = probe["httpGet"]
        url = f"{what['scheme'].lower()}://{self._container.address}:{what['port']}{what['path']}"
        try:
            async with session.get(url, timeout=aiohttp.ClientTimeout(total=probe["timeoutSeconds"])) as answer:
                return 200 <= answer.status < 400
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def _end(self, process: ContainerProcess) -> None:
        """The hook, SIGTERM, and SIGKILL for what outlives its grace."""
        clock = self._kubelet.clock
        ending = Ending(self._name, self._container.address, clock.now())
        self._kubelet.endings.append(ending)
        grace = float(self._pod["spec"].get("terminationGracePeriodSeconds", 30))
        hook = ((self._spec.get("lifecycle") or {}).get("preStop") or {}).get("exec")
        if hook is not None and not process.ended.done():
            ending.hook_status = await self._hook(hook["command"], grace)
        ending.hook_ended_at = clock.now()
        process.signal(signal.SIGTERM)
        left = max(_LEAST_GRACE_SECONDS, grace - (clock.now() - ending.asked_at))
        await asyncio.wait({process.ended}, timeout=left)
        ending.killed = not process.ended.done()
        ending.exit_status = await process.kill()
        ending.ended_at = clock.now()
        self._kubelet.finish(self._uid, self._name)

    async def _hook(self, command: list[str], seconds: float) -> int | None:
        # In a container of its own network namespace this is the same process.
        words = [word.replace("//127.0.0.1:", f"//{self._container.address}:") for word in command]
        folder = self._container.log.parent
        process = await ContainerProcess.start(words, self._environment, folder, folder / "hook.log")
        await asyncio.wait({process.ended}, timeout=seconds)
        if process.ended.done():
            return process.ended.result()
        await process.kill()
        return None

    def _report(self, *, ready: bool, running: bool) -> None:
        """Write the status where it differs."""
        container, now = self._container, format_time(self._kubelet.clock.now())

        def change(pod: Object) -> None:
            before = {each["type"]: each for each in pod.get("status", {}).get("conditions") or ()}
            conditions = []
            for type_, holds in (
                ("PodScheduled", True),
                ("Initialized", True),
                ("ContainersReady", ready),
                ("Ready", ready),
            ):
                status = "True" if holds else "False"
                known = before.get(type_)
                since = known["lastTransitionTime"] if known is not None and known["status"] == status else now
                conditions.append({"type": type_, "status": status, "lastTransitionTime": since})
            state = {"running": {"startedAt": now}} if running else {"waiting": {"reason": "CrashLoopBackOff"}}
            pod["spec"]["nodeName"] = "node"
            pod["status"] = {
                "phase": "Running",
                "podIP": container.address,
                "podIPs": [{"ip": container.address}],
                "conditions": conditions,
                "containerStatuses": [
                    {
                        "name": self._spec["name"],
                        "image": self._spec["image"],
                        "imageID": "",
                        "containerID": f"process://{self._uid}-{container.restarts}",
                        "ready": ready,
                        "started": running,
                        "restartCount": container.restarts,
                        "state": state,
                    }
                ],
            }

        if self._kubelet.reported(self._uid, self._name) != (ready, running, container.restarts):
            self._kubelet.write(self._uid, self._name, change)


def _expand(text: str, environment: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes replaces it: what is not known stays."""
    return _VARIABLE.sub(lambda found: environment.get(found[1], found[0]), text)
