"""A small world for single passes: the embedded API server without sockets, a kubelet, engines that hold what the test
says, somebody who routes. Time stands still until the test moves it, and a pass is made when the test asks for one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, cast

import orjson

from controller.api import (
    ENDPOINT_SLICES,
    MODEL_DEPLOYMENTS,
    PODS,
    SERVICES,
    ModelDeployment,
    Pod,
    Retirement,
    decode_view,
    model_deployment_crd,
)
from controller.deployment.burial import Burial
from controller.deployment.creating import Creating
from controller.deployment.drain import DrainReader, MemberLoad
from controller.deployment.evidence import EvidenceCollector
from controller.deployment.kinds import EndpointSlice, Service
from controller.deployment.lookups import Lookups
from controller.deployment.observers import DeploymentMetrics, NoMetrics
from controller.deployment.reconciler import Caches, DeploymentReconciler
from controller.deployment.reporter import Reporter
from controller.deployment.retirement import Listing, Load
from controller.deployment.retiring import Retiring
from controller.deployment.withdrawal import RouterViews, Sighting, Withdrawal
from controller.deployment.writes import Writes
from controller.embedded.apiserver import ApiServer
from controller.foundation import ManualClock, Resource, format_time
from controller.kube import ConsistencyStore, EventType, KubeClient, ObjectRef, ReconcileOutcome, RequeueAfter
from tests.deployment.builders import deployment_body
from tests.deployment.direct import DirectClient, Fail, Moment
from tests.deployment.patience import PATIENCE_SECONDS

KEY = "team/chat"
TWO: list[dict[str, Any]] = [{"name": "server", "replicas": 2}]
_CRD = model_deployment_crd()


class Crash(BaseException):
    """The process dies here."""


class Engines:
    """What each Pod holds, by UID, and whose gauges do not answer."""

    def __init__(self) -> None:
        self.holds: dict[str, float] = {}
        self.deaf: set[str] = set()
        self.reads = 0

    async def read(self, deployment: ModelDeployment, pods: Sequence[Pod]) -> list[MemberLoad]:
        del deployment
        self.reads += 1
        return [self._load(pod) for pod in pods]

    def _load(self, pod: Pod) -> MemberLoad:
        held = self.holds.get(pod.metadata.uid, 0.0)
        name = pod.metadata.name
        if pod.metadata.uid in self.deaf:
            return MemberLoad(Load.UNKNOWN, f"{name} cannot be read: no answer within 5 s")
        if held:
            return MemberLoad(Load.BUSY, f"requests are in flight at {name}", held)
        return MemberLoad(Load.IDLE, f"{name} is idle", 0.0)


class Routes:
    """Somebody who sends requests: follows the label, unless the test holds him back."""

    def __init__(self) -> None:
        self.stuck = False  # keeps whom it has
        self.mute = False
        self.answers: set[str] = set()  # UIDs of Pods whose answers are under way

    async def look(self, deployment: ModelDeployment, members: Sequence[Pod]) -> Sighting:
        del deployment
        in_flight = len(self.answers.intersection(pod.metadata.uid for pod in members))
        if self.mute:
            return Sighting(Listing.UNKNOWN, "the router does not say what it holds")
        if self.stuck and members:
            return Sighting(Listing.LISTED, f"the router still holds {members[0].metadata.name}", in_flight)
        return Sighting(Listing.GONE, "", in_flight)


class World:
    """The API server, what lives in it, and one controller process at a time."""

    def __init__(self, *, withdrawal: Withdrawal | None = None, metrics: DeploymentMetrics | None = None) -> None:
        self.clock = ManualClock(1_800_000_000.0)
        self.server = ApiServer(clock=self.clock, create_namespaces=True, seed=1)
        self.server.install_crd(copy.deepcopy(_CRD))
        self.engines = Engines()
        self.routes = Routes()
        self.withdrawal = withdrawal
        self.metrics: DeploymentMetrics = metrics or NoMetrics()
        self.events: list[tuple[str, str, str]] = []  # type, reason, note
        self.routers: list[str] = []  # addresses of routers
        self.views = RouterViews(lambda _: self.routers, timeout_seconds=PATIENCE_SECONDS)
        self.slow: set[str] = set()  # names of Pods that do not become Ready
        self.homeless: set[str] = set()  # names of Pods that no node has a place for
        self.crashes = 0
        self.seen: list[Pod] | None = None  # what the cache has of Pods when it is behind
        self.lingering = False  # Pods that are being deleted take their time
        self.client = DirectClient(self.server)
        self.start()

    # ---- processes ---------------------------------------------------------------------------------------------------

    def connect(self, fail: Fail | None) -> DirectClient:
        """The client of a new process."""
        return DirectClient(self.server, fail)

    def start(self, fail: Fail | None = None) -> None:
        """A new controller process in the place of the old one; `fail` may break its writes."""
        self.client = self.connect(fail)
        client = cast("KubeClient", self.client)
        consistency = self.consistency = ConsistencyStore()
        writes = Writes(client, consistency, self.clock)
        reporter = Reporter(self, self.metrics)
        lookups = Lookups(client, now=lambda: float("inf"))
        drain = DrainReader(client, self.engines)
        collector = EvidenceCollector(client, self.withdrawal or self.routes, drain, self.metrics, self.clock)
        self.reconciler = DeploymentReconciler(
            caches=Caches(self._deployment, self._cached_pods, self._services, self._slices),
            routers=self.views,
            lookups=lookups,
            retiring=Retiring(collector, writes, reporter, self.clock),
            creating=Creating(lookups, writes, reporter),
            burial=Burial(client, writes),
            writes=writes,
            reporter=reporter,
            consistency=consistency,
            clock=self.clock,
        )

    def event(self, regarding: ObjectRef, type_: EventType, reason: str, action: str, note: str) -> None:
        del regarding, action
        self.events.append((str(type_), reason, note))

    def crash_at_write(self, number: int, moment: Moment) -> None:
        """A new process that dies at its `number`th write (from 0), before or after the API server has made it."""
        left = number + 1

        def fail(now: Moment, verb: str, plural: str, name: str) -> None:
            nonlocal left
            left -= now is Moment.BEFORE
            if left == 0 and now is moment:
                raise Crash(f"{moment.value} {verb} {plural} {name}")

        self.start(fail)

    async def turn(self, key: str = KEY) -> float | None:
        """One pass, and what the kubelet does about it; in how many seconds to look again. A process that dies is
        followed by another one."""
        outcome: ReconcileOutcome
        try:
            outcome = await self.reconciler.reconcile(key)
        except Crash:
            self.crashes += 1
            self.start()
            outcome = RequeueAfter(0.0)  # the new process looks at everything
        self.kubelet()
        return outcome.seconds if isinstance(outcome, RequeueAfter) else None

    async def run(self, seconds: float, key: str = KEY) -> None:
        """Let so much time pass, with passes whenever one is due and after every change."""
        end = self.clock.now() + seconds
        while True:
            version = self.server.store.resource_version
            again = await self.turn(key)
            if self.server.store.resource_version != version or again == 0.0:
                continue  # a watch event, or something to do at once
            rest = end - self.clock.now()
            if rest <= 0:
                return
            self.clock.advance(rest if again is None else min(rest, max(again, 0.001)))

    async def rest(self, key: str = KEY) -> None:
        """Passes until nothing changes any more, without time passing."""
        for _ in range(60):
            version = self.server.store.resource_version
            again = await self.turn(key)
            if self.server.store.resource_version == version and again != 0.0:
                return
        raise AssertionError("it never came to rest")

    # ---- the kubelet -------------------------------------------------------------------------------------------------

    def kubelet(self) -> None:
        """Starts Pods, makes them Ready unless they are slow, and ends those that are being deleted."""
        now = format_time(self.clock.now())
        for number, pod in enumerate(self.server.list(PODS, "team")):
            meta = pod["metadata"]
            if meta.get("deletionTimestamp"):
                if not self.lingering:
                    self.server.delete(PODS, meta["name"], "team", grace_seconds=0)
                continue
            if meta["name"] in self.homeless:
                continue
            ready = meta["name"] not in self.slow
            conditions = pod["status"].get("conditions") or []
            state = next((each["status"] for each in conditions if each["type"] == "Ready"), "")
            if pod["status"]["phase"] in ("Failed", "Succeeded") or state == ("True" if ready else "False"):
                continue
            pod["spec"]["nodeName"] = "node"
            restarts = (pod["status"].get("containerStatuses") or [{"restartCount": 0}])[0]["restartCount"]
            pod["status"] |= {
                "phase": "Running",
                "podIP": pod["status"].get("podIP") or f"198.18.0.{number + 1}",
                "conditions": [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": now}],
                "containerStatuses": [
                    {"name": "main", "containerID": f"c-{meta['uid']}-{restarts}", "restartCount": restarts}
                ],
            }
            self.server.put(pod, manager="kubelet")

    def restart_container(self, name: str) -> None:
        """The kubelet restarts the container of a Pod."""

        def restarted(pod: dict[str, Any]) -> None:
            (status,) = pod["status"]["containerStatuses"]
            status["restartCount"] += 1
            status["containerID"] = f"c-{pod['metadata']['uid']}-{status['restartCount']}"

        self.edit(PODS, name, restarted, manager="kubelet")

    # ---- objects -----------------------------------------------------------------------------------------------------

    def declare(self, roles: list[dict[str, Any]] | None = None, **spec: Any) -> None:
        """Create or change the ModelDeployment as a person does."""
        body = deployment_body(roles, **spec)
        old = self.server.get(MODEL_DEPLOYMENTS, "chat", "team")
        if old is not None:
            body = {**old, "spec": body["spec"]}
        self.server.put(body, manager="kubectl")

    def scale(self, *counts: int) -> None:
        """Set the counts of the roles, in order."""

        def change(body: dict[str, Any]) -> None:
            for role, count in zip(body["spec"]["roles"], counts, strict=True):
                role["replicas"] = count

        self.edit(MODEL_DEPLOYMENTS, "chat", change)

    def edit(
        self, resource: Resource, name: str, change: Callable[[dict[str, Any]], None], manager: str = "kubectl"
    ) -> None:
        """Change an object as another client would."""
        body = self.server.get(resource, name, "team")
        assert body is not None
        change(body)
        self.server.put(body, manager=manager)

    def annotate(self, key: str, value: str) -> None:
        """Set an annotation of the ModelDeployment."""
        self.edit(
            MODEL_DEPLOYMENTS, "chat", lambda body: body["metadata"].setdefault("annotations", {}).update({key: value})
        )

    # ---- what there is -----------------------------------------------------------------------------------------------

    def _deployment(self, key: str) -> ModelDeployment | None:
        namespace, _, name = key.partition("/")
        body = self.server.get(MODEL_DEPLOYMENTS, name, namespace)
        return None if body is None else decode_view(ModelDeployment, orjson.dumps(body))

    def _cached_pods(self, key: str) -> list[Pod]:
        return self.pods(key) if self.seen is None else self.seen

    def pods(self, key: str = KEY) -> list[Pod]:
        """The Pods whose labels name the deployment."""
        namespace, _, name = key.partition("/")
        views = [decode_view(Pod, orjson.dumps(body)) for body in self.server.list(PODS, namespace)]
        return [pod for pod in views if pod.deployment == name]

    def _services(self, key: str) -> list[Service]:
        namespace, _, name = key.partition("/")
        return [
            decode_view(Service, orjson.dumps(body))
            for body in self.server.list(SERVICES, namespace)
            if (body["metadata"].get("labels") or {}).get("app.kubernetes.io/instance") == name
        ]

    def _slices(self, key: str) -> list[EndpointSlice]:
        namespace, _, name = key.partition("/")
        return [
            decode_view(EndpointSlice, orjson.dumps(body))
            for body in self.server.list(ENDPOINT_SLICES, namespace)
            if (body["metadata"].get("labels") or {}).get("app.kubernetes.io/instance") == name
        ]

    @property
    def deployment(self) -> ModelDeployment:
        """The ModelDeployment."""
        found = self._deployment(KEY)
        assert found is not None
        return found

    @property
    def retirement(self) -> Retirement | None:
        """The stored operation."""
        return self.deployment.status.retirement

    @property
    def state(self) -> str:
        """Its state, empty without one."""
        return "" if self.retirement is None else self.retirement.state

    def names(self) -> list[str]:
        """The names of the Pods that stay."""
        return sorted(pod.metadata.name for pod in self.pods() if not pod.deleting)

    def eligible(self) -> list[str]:
        """The names of the Pods that carry the label."""
        return sorted(pod.metadata.name for pod in self.pods() if pod.eligible)

    def uid(self, name: str) -> str:
        """The UID of a Pod."""
        body = self.server.get(PODS, name, "team")
        assert body is not None
        uid: str = body["metadata"]["uid"]
        return uid

    def reasons(self) -> list[str]:
        """Reasons of all events so far."""
        return [reason for _, reason, _ in self.events]

    def states(self) -> list[str]:
        """Every state that the retirement ever had, without repetitions; a cleared one is `-`."""
        seen: list[str] = []
        for version in self.server.history(MODEL_DEPLOYMENTS, "chat", "team"):
            operation = (version.object.get("status") or {}).get("retirement")
            state = operation["state"] if operation else "-"
            if not seen or seen[-1] != state:
                seen.append(state)
        return seen
