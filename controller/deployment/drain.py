"""What the members of a replica have in flight: the idle reads of the drain.

One look reads every answering member once, over HTTP at the address in its annotations, and makes sure that it was that
container which answered: Pod UID, address, container id and restart count are read from the API server before and after
(never from a cache, which may be as old as the Pod). Idle is what the gauges say without a gap; a missing gauge, a
failed read, a container that changed meanwhile are Unknown, and a member without metrics is Unsupported.

How the gauges are got is behind `GaugeSource`: by HTTP, and where a Pod cannot be reached from here, inside its
container (`exec_gauges`).

Nothing here raises for a member; cancellation passes through. ApiError of the reads before and after becomes Unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from controller import engines
from controller.api import PODS, SCRAPE_ANNOTATION, MetricsEndpoint, ModelDeployment, Pod
from controller.deployment.replicas import Replica
from controller.deployment.retirement import Load, Look
from controller.engines import EngineReading, Scraper
from controller.kube import ApiError, KubeClient, NotFound

# The queues that an SGLang process of a disaggregated pair must print, by our names for them, or its sum is short.
_SGLANG_QUEUES: Final = {
    engines.Role.PREFILL: ("prefill_bootstrap", "prefill_inflight"),
    engines.Role.DECODE: ("decode_prealloc", "decode_transfer"),
}
# A network policy shows as one of the first two, a mesh that wants certificates as one of the others.
_UNREACHABLE: Final = frozenset(
    {engines.Reason.UNREACHABLE, engines.Reason.TIMEOUT, engines.Reason.RESET, engines.Reason.TLS}
)


@dataclass(frozen=True, slots=True)
class MemberLoad:
    """What one member said. `in_flight` is None unless `load` is Idle or Busy; `unreachable`: another way to it may
    lead there."""

    load: Load
    note: str
    in_flight: float | None = None
    unreachable: bool = False


class GaugeSource(Protocol):
    """A way to an engine's own gauges."""

    async def read(self, deployment: ModelDeployment, pods: Sequence[Pod]) -> list[MemberLoad]:
        """What each Pod has in flight, in their order. Raises nothing for a Pod."""
        ...


class HttpGauges:
    """By HTTP to the Pod."""

    def __init__(self, scraper: Scraper) -> None:
        self._scraper = scraper

    async def read(self, deployment: ModelDeployment, pods: Sequence[Pod]) -> list[MemberLoad]:
        engine = deployment.spec.engine.known
        loads: dict[str, MemberLoad] = {}
        targets: list[engines.Target] = []
        for pod in pods:
            endpoint = pod.metrics_endpoint()
            if not isinstance(endpoint, MetricsEndpoint):
                loads[pod.metadata.uid] = MemberLoad(
                    Load.UNKNOWN, f"{pod.metadata.name} has no metrics to read ({endpoint})"
                )
                continue
            # No model is named: whatever the process serves under whatever name is in flight.
            targets.append(
                engines.Target(
                    key=pod.metadata.uid,
                    host=endpoint.address,
                    port=endpoint.port,
                    path=endpoint.path,
                    scheme=endpoint.scheme,
                    engine=None if engine is None else engine.lower(),
                    role=kind_of(pod),
                )
            )
        names = {pod.metadata.uid: pod.metadata.name for pod in pods}
        for result in await self._scraper.scrape(targets):
            key = result.target.key
            if result.reading is None:
                why = "no reason" if result.failure is None else result.failure.message
                unreachable = result.failure is not None and result.failure.reason in _UNREACHABLE
                loads[key] = MemberLoad(Load.UNKNOWN, f"{names[key]} cannot be read: {why}", unreachable=unreachable)
            else:
                loads[key] = load_of(names[key], result.reading, result.target.role)
        return [loads[pod.metadata.uid] for pod in pods]


def load_of(name: str, reading: EngineReading, role: engines.Role | None) -> MemberLoad:
    """What a reading says about the requests that a process holds."""
    in_flight = reading.in_flight_requests
    if in_flight is None:
        return MemberLoad(Load.UNKNOWN, f"{name} does not print what it is running or what is waiting")
    queues = {queue for queue, _ in reading.queues}
    missing = [queue for queue in _required_queues(reading, role) if queue not in queues]
    if missing:
        return MemberLoad(Load.UNKNOWN, f"{name} does not print its queue {missing[0]}")
    if in_flight > 0:
        return MemberLoad(Load.BUSY, f"requests are in flight at {name}", in_flight)
    return MemberLoad(Load.IDLE, f"{name} is idle", in_flight)


class DrainReader:
    """Looks at the answering members of a replica."""

    def __init__(self, client: KubeClient, gauges: GaugeSource) -> None:
        self._client = client
        self._gauges = gauges

    async def look(self, deployment: ModelDeployment, replica: Replica) -> Look:
        """One read of every answering member."""
        if not replica.answering:
            why = (
                f"has lost its annotations, {SCRAPE_ANNOTATION} among them"
                if replica.stripped
                else "took over its command line"
            )
            note = (
                f"{replica.name} {why}, so nobody can tell what it has in flight: delete its Pods by hand to let it go"
            )
            return Look(Load.UNSUPPORTED, "", note)
        members = [pod for pod in replica.answering if not pod.finished]
        before = await self._live(members)
        if isinstance(before, Look):
            return before
        loads = await self._gauges.read(deployment, before)
        after = await self._live(members)
        if isinstance(after, Look):
            return after
        incarnation = _incarnation(before)
        if incarnation != _incarnation(after):
            return Look(Load.UNKNOWN, "", f"a container of {replica.name} was restarted while it was read")
        worst = next((load for load in loads if load.load is not Load.IDLE), MemberLoad(Load.IDLE, "it is idle"))
        if worst.load is not Load.BUSY:
            return Look(worst.load, incarnation, worst.note)
        total = sum(load.in_flight or 0.0 for load in loads)
        return Look(Load.BUSY, incarnation, worst.note, f"{total:g} in flight at {replica.name}")

    async def _live(self, pods: Sequence[Pod]) -> list[Pod] | Look:
        """The Pods as the API server has them, or why that is not known."""
        live: list[Pod] = []
        for pod in pods:
            meta = pod.metadata
            try:
                found = await self._client.get(PODS, meta.name, meta.namespace, type_=Pod)
            except NotFound:
                return Look(Load.UNKNOWN, "", f"Pod {meta.name} is gone")
            except ApiError as failure:
                return Look(Load.UNKNOWN, "", f"Pod {meta.name} cannot be read: {failure}")
            if found.metadata.uid != meta.uid:
                return Look(Load.UNKNOWN, "", f"Pod {meta.name} was made again")
            live.append(found)
        return live


def _incarnation(pods: Sequence[Pod]) -> str:
    return ";".join("/".join((*map(str, pod.incarnation), pod.status.pod_ip)) for pod in pods)


def kind_of(pod: Pod) -> engines.Role | None:
    """What the Pod's process does, as its label has it."""
    return next((role for role in engines.Role if role.lower() == pod.role_kind), None)


def _required_queues(reading: EngineReading, role: engines.Role | None) -> tuple[str, ...]:
    return _SGLANG_QUEUES.get(role, ()) if reading.engine == "sglang" and role is not None else ()
