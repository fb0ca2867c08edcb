"""Engine gauges read inside the engine's container, by `pods/exec`: for Pods whose port cannot be reached from here (a
network policy, a mesh that wants certificates).

It costs a process in the container and a stream through the API server and the kubelet, so it is the second way only:
`WithFallback` asks it for the members that the first way could not reach, and for no others. A read has 5 s and 4 MiB.

The command is the engine image's Python with `metrics_read` as its program; no shell. Nothing is raised for a Pod.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from controller.api import MAIN_CONTAINER, MetricsEndpoint, ModelDeployment, Pod
from controller.deployment.drain import GaugeSource, MemberLoad, kind_of, load_of
from controller.deployment.retirement import Load
from controller.engines import BodyReader, BodyRefused
from controller.kube import ApiError, ExecResult

READ_SECONDS: Final = 5.0
# One URL has so long; two of them and the start of Python fit into a read.
_URL_SECONDS: Final = 2.0
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
# Members that are read at the same time, over all deployments: each is a process beside an engine under load.
_AT_ONCE: Final = 8
_PROGRAM: Final = Path(__file__).with_name("metrics_read.py").read_text(encoding="utf-8")
_MAX_SAID: Final = 200


class Executor(Protocol):
    """Runs commands in containers: `kube.PodExec` is one."""

    async def run(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str,
        timeout_seconds: float,
        limit_bytes: int,
    ) -> ExecResult:
        """Run a command to its end. Raises ApiError."""
        ...


class ExecGauges:
    """By a process in the container."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._reader = BodyReader()
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def read(self, deployment: ModelDeployment, pods: Sequence[Pod]) -> list[MemberLoad]:
        return await asyncio.gather(*(self._read(deployment, pod) for pod in pods))

    async def _read(self, deployment: ModelDeployment, pod: Pod) -> MemberLoad:
        endpoint, name = pod.metrics_endpoint(), pod.metadata.name
        if not isinstance(endpoint, MetricsEndpoint):
            return MemberLoad(Load.UNKNOWN, f"{name} has no metrics to read ({endpoint})")
        try:
            async with self._turns:
                result = await self._executor.run(
                    pod.metadata.namespace,
                    name,
                    ["python3", "-c", _PROGRAM, str(_URL_SECONDS), str(MAX_BODY_BYTES), *_urls(endpoint)],
                    container=MAIN_CONTAINER,
                    timeout_seconds=READ_SECONDS,
                    limit_bytes=MAX_BODY_BYTES,
                )
        except ApiError as failure:
            return _unread(name, str(failure))
        if result.exit_code != 0:
            said = result.stderr.decode("utf-8", "replace").strip().splitlines()
            return _unread(name, said[-1] if said else result.message or f"exit status {result.exit_code}")
        engine, role = deployment.spec.engine.known, kind_of(pod)
        try:
            # No model is named: whatever the process serves under whatever name is in flight.
            reading = self._reader.read(result.stdout, engine=None if engine is None else engine.lower(), role=role)
        except BodyRefused as refusal:
            return _unread(name, refusal.message)
        return load_of(name, reading, role)


class WithFallback:
    """The first way, and the second one for members that the first could not reach."""

    def __init__(self, first: GaugeSource, second: GaugeSource) -> None:
        self._first = first
        self._second = second

    async def read(self, deployment: ModelDeployment, pods: Sequence[Pod]) -> list[MemberLoad]:
        loads = await self._first.read(deployment, pods)
        lost = [index for index, load in enumerate(loads) if load.unreachable]
        if not lost:
            return loads
        again = await self._second.read(deployment, [pods[index] for index in lost])
        for index, load in zip(lost, again, strict=True):
            known = load.load is not Load.UNKNOWN
            loads[index] = load if known else replace(load, note=f"{loads[index].note}; {load.note}")
        return loads


def _unread(name: str, why: str) -> MemberLoad:
    return MemberLoad(Load.UNKNOWN, f"{name} cannot be read inside its container either: {why[:_MAX_SAID]}")


def _urls(endpoint: MetricsEndpoint) -> list[str]:
    """Loopback first, which a policy cannot forbid; an engine that listens on the Pod's address alone has the other."""
    version = ipaddress.ip_address(endpoint.address).version
    return [replace(endpoint, address="127.0.0.1" if version == 4 else "::1").url, endpoint.url]
