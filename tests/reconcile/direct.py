"""Scaler and standalone mode in one process, without sockets: what `mdscaler controller` does, pass by pass.

Time stands still until a test moves it, a pass is made when one is due or something changed, and every write can be the
last one of its process. The engines report whatever load the test sets, spread over the replicas that serve.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec
import orjson
from prometheus_client import CollectorRegistry

from catalog import load_embedded
from controller.api import (
    MODEL_DEPLOYMENT_SCALERS,
    MODEL_DEPLOYMENTS,
    BoundBy,
    MdsView,
    ModelDeployment,
    ScalerStatus,
    decode_view,
    find_condition,
    read_bound_by,
    scaler_crd,
)
from controller.embedded.apiserver.patch_json import apply_json_patch
from controller.embedded.apiserver.patch_merge import apply_merge_patch
from controller.embedded.apiserver.storage import Change
from controller.embedded.audit import Audit, audit
from controller.engines import EngineReading, Scraper, ScrapeResult, Target
from controller.foundation import Resource
from controller.kube import (
    ApiError,
    ConnectionLost,
    ConsistencyStore,
    EventRecorder,
    KubeClient,
    Outcome,
    Patch,
    ReconcileOutcome,
    RequeueAfter,
)
from controller.kube.patches import JSON_PATCH
from controller.operations import ScalerMetrics
from controller.planning import PriorSources
from controller.reconcile import Binder, Caches, Committer, NoRecords, Reconciler, Reporter, Sampler, StatusWriter
from tests.deployment.direct import DirectClient, Fail, Moment
from tests.deployment.world import Crash, World

KEY = "team/chat"
INTERVAL = 15
WINDOW = 60
PREFIX = "scaling.worker.gpustack.ai/"
_SCALER_CRD = scaler_crd()


class FencingClient(DirectClient):
    """`DirectClient` with what the scaler uses beside."""

    def __init__(self, server: Any, fail: Fail | None = None) -> None:
        super().__init__(server, fail)
        self.deleted: list[str] = []  # UIDs

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        type_: Any = None,
        subresource: str | None = None,
        **_: Any,
    ) -> Any:
        change = orjson.loads(patch.body)
        target = self._target(resource, namespace, name, subresource or "")
        apply = apply_json_patch if patch.content_type == JSON_PATCH else apply_merge_patch

        async def do() -> Any:
            build = lambda current: apply(current, change)  # noqa: E731
            return (await self._server.operations.patch(target, build, self._options())).object

        verb = "fence" if apply is apply_json_patch else "patch"
        answer = await self._write(f"{verb} {resource.plural}/{subresource or ''}", resource, name, do)
        return answer if type_ is None else msgspec.json.decode(orjson.dumps(answer), type=type_)

    async def delete(self, resource: Resource, name: str, namespace: str | None = None, *, uid: str) -> Any:
        self.deleted.append(uid)
        return await super().delete(resource, name, namespace, uid=uid)

    async def _write(self, verb: str, resource: Resource, name: str, do: Callable[[], Any]) -> Any:
        return await super()._write(verb if " " in verb else f"{verb} {resource.plural}/", resource, name, do)

    @property
    def log(self) -> list[str]:
        """Every write that was made, by its verb and what it was made to."""
        return [verb for verb, _, _ in self.writes]


class _Engines:
    """A scraper of engines that share a load, as counters that integrate it over model time."""

    def __init__(self, world: Pair) -> None:
        self._world = world

    async def scrape(self, targets: Sequence[Target], **_: Any) -> list[ScrapeResult]:
        return [self._read(target) for target in targets]

    def _read(self, target: Target) -> ScrapeResult:
        world = self._world
        prompt, generation = world.served(target.key)
        running = 4.0 if world.rate else 0.0
        reading = EngineReading(
            engine="vllm",
            running_requests=running + world.engines.holds.get(target.key, 0.0),
            waiting_requests=0.0,
            computed_prompt_tokens=prompt,
            cached_prompt_tokens=0.0,
            generation_tokens=generation,
            finished_requests=generation / 100,
            counter_basis="test",
        )
        now = world.clock.now()
        return ScrapeResult(target, reading, None, now, now, 0.0)


def reconciler_of(world: Pair, client: DirectClient, caches: Caches, process: str) -> Reconciler:
    """The scalers' loop of one process, over its client and its caches; engines, Pods and events are the world's."""
    kube, consistency, metrics = cast("KubeClient", client), ConsistencyStore(), ScalerMetrics(CollectorRegistry())
    return Reconciler(
        caches=caches,
        sampler=Sampler(engines_of(world), world.pods_of, lambda _: None, metrics, world.clock),
        binder=Binder(kube, consistency, world.clock),
        committer=Committer(kube, consistency),
        reporter=Reporter(StatusWriter(kube, consistency), cast("EventRecorder", world), metrics, world.clock),
        metrics=metrics,
        records=NoRecords(),
        consistency=consistency,
        clock=world.clock,
        process=process,
    )


def engines_of(world: Pair) -> Scraper:
    """Who reads the engines of a world."""
    return cast("Scraper", _Engines(world))


class Pair(World):
    """The API server, what lives in it, and one process with both loops at a time."""

    def __init__(self) -> None:
        self.rate = 0.0  # tokens per second of the whole deployment
        self._tokens: dict[str, tuple[float, float]] = {}  # UID → served so far, up to when
        # Key → model time of its next pass (None: when something changes), and the version that its last one saw.
        self._due: dict[str, tuple[float | None, int]] = {}
        self.clients: list[FencingClient] = []  # one for each process, in order
        super().__init__()
        self.server.install_crd(msgspec.json.decode(orjson.dumps(_SCALER_CRD)))

    # ---- processes ---------------------------------------------------------------------------------------------------

    def connect(self, fail: Fail | None) -> DirectClient:
        made = FencingClient(self.server, fail)
        self.clients.append(made)
        return made

    def start(self, fail: Fail | None = None) -> None:
        super().start(fail)
        caches = Caches(self._scaler, self._deployment, self.priors, lambda *_: (), self._held)
        self.scalers = reconciler_of(self, self.client, caches, f"process-{len(self.clients)}")
        self._due = {}

    def dies_after(self, number: int) -> None:
        """A new process that dies with the answer to its `number`th write (from 0), or before the first one (-1)."""
        made = -1

        def fail(now: Moment, verb: str, plural: str, name: str) -> None:
            nonlocal made
            made += now is Moment.AFTER
            if made == number:
                raise Crash(f"{now.value} {verb} {name}")

        self.start(fail)

    def loses_answer_of(self, number: int) -> None:
        """A new process that never hears what became of its `number`th write."""
        made = -1

        def fail(now: Moment, verb: str, plural: str, name: str) -> None:
            nonlocal made
            made += now is Moment.AFTER
            if made == number and now is Moment.AFTER:
                raise ConnectionLost(f"{verb} {name}: no answer", outcome=Outcome.UNKNOWN)

        self.start(fail)

    async def turn(self, key: str = KEY) -> float | None:
        """One pass of each loop that is due or was woken, and what the kubelet does about it; in how many seconds to
        look again. A process that dies is followed by another one; one whose write failed backs off."""
        try:
            for name in self._scaler_keys():
                await self._pass(name, self.scalers.reconcile)
            await self._pass(f"{key} as a deployment", lambda _: self.reconciler.reconcile(key))
        except Crash:
            self.crashes += 1
            self.start()
            return 0.0
        self.kubelet()
        now = self.clock.now()
        due = [at - now for at, _ in self._due.values() if at is not None]
        return max(0.0, min(due)) if due else None

    async def _pass(self, key: str, reconcile: Callable[[str], Awaitable[ReconcileOutcome]]) -> None:
        version = self.server.store.resource_version
        at, seen = self._due.get(key, (0.0, -1))
        if seen == version and (at is None or at > self.clock.now()):
            return
        try:
            outcome = await reconcile(key)
        except ApiError:
            outcome = RequeueAfter(1.0)
        again = self.clock.now() + outcome.seconds if isinstance(outcome, RequeueAfter) else None
        self._due[key] = (again, version)  # its own writes wake it, too

    async def until(self, condition: Callable[[], object], what: str, seconds: float = 1800.0) -> None:
        """Let time pass until the condition holds."""
        end = self.clock.now() + seconds
        while not condition():
            assert self.clock.now() < end, f"never came true: {what}; {self.status}"
            await self.run(5.0)

    # ---- the load ----------------------------------------------------------------------------------------------------

    def load(self, tokens_per_second: float) -> None:
        """From now on this much is served."""
        for pod in self.pods():
            self.served(pod.metadata.uid)
        self.rate = tokens_per_second

    def served(self, uid: str) -> tuple[float, float]:
        """Prompt and generated tokens of one engine so far. Shares follow whoever serves at the moment of a look."""
        now = self.clock.now()
        tokens, since = self._tokens.get(uid, (0.0, now))
        serving = [pod.metadata.uid for pod in self.pods() if pod.ready and pod.eligible and not pod.deleting]
        if uid in serving:
            tokens += self.rate / len(serving) * (now - since)
        self._tokens[uid] = (tokens, now)
        return tokens * 0.75, tokens * 0.25

    # ---- objects -----------------------------------------------------------------------------------------------------

    def scaler(self, name: str = "chat", **spec: Any) -> str:
        """An Active TokenThroughput scaler of 1 to 5 replicas of 1,000 tokens/s, with short windows; its UID."""
        throughput = {"targetTokensPerSecond": "1000", "stableWindowSeconds": WINDOW, "panicWindowSeconds": 30}
        made = self.server.put(
            {
                "apiVersion": "worker.gpustack.ai/v1alpha1",
                "kind": "ModelDeploymentScaler",
                "metadata": {"name": name, "namespace": "team"},
                "spec": {
                    "targetRef": {"name": "chat"},
                    "mode": "Active",
                    "sampling": {"intervalSeconds": INTERVAL, "pendingTimeoutSeconds": 60},
                    "roles": [{"name": "server", "minReplicas": 1, "maxReplicas": 5}],
                    "algorithm": {"type": "TokenThroughput", "tokenThroughput": throughput},
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": WINDOW}},
                    **spec,
                },
            }
        )
        uid: str = made["metadata"]["uid"]
        return uid

    def pod(self) -> None:
        """The Pod of the first replica, as standalone mode would make it, Ready."""
        owner = self.deployment.metadata.uid
        labels = {
            "app.kubernetes.io/name": "model-deployment",
            "app.kubernetes.io/instance": "chat",
            "app.kubernetes.io/component": "server",
            "modeldeployment.gpustack.ai/pod-ordinal": "0",
            "modeldeployment.gpustack.ai/endpoint-eligible": "true",
        }
        annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"}
        reference = {"apiVersion": "worker.gpustack.ai/v1alpha1", "kind": "ModelDeployment", "name": "chat"}
        metadata = {
            "name": "chat-server-0",
            "namespace": "team",
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{**reference, "uid": owner, "controller": True}],
        }
        container = {"name": "main", "image": "i", "ports": [{"containerPort": 8000}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
        self.server.put({**body, "status": {"phase": "Pending"}})
        self.kubelet()

    def edit_scaler(self, change: Callable[[dict[str, Any]], None], name: str = "chat") -> None:
        """Change the scaler as a person does."""
        self.edit(MODEL_DEPLOYMENT_SCALERS, name, change)

    # ---- what there is -----------------------------------------------------------------------------------------------

    def count(self) -> int:
        return self.deployment.roles[0].replicas

    def note(self, key: str) -> str:
        """One of our annotations of the target; empty where it is absent."""
        return self.deployment.metadata.annotation(PREFIX + key) or ""

    @property
    def status(self) -> ScalerStatus:
        found = self._scaler(KEY)
        return ScalerStatus() if found is None else found.parse_status()[0]

    def reason(self, type_: str) -> str:
        found = find_condition(self.status.conditions, type_)
        return "" if found is None else found.reason

    def history(self) -> Audit:
        """Who wrote the counts."""
        versions = self.server.history(MODEL_DEPLOYMENTS, "chat", "team")
        return audit(version.object for version in versions if version.change is not Change.DELETED)

    def audit(self) -> Audit:
        """At most one writer at a time, and only under the fence."""
        found = self.history()
        assert not found.problems
        assert found.effective_writers <= 1
        return found

    def pods_made(self) -> list[str]:
        """The names of all Pods that were ever created, in order."""
        versions = [
            event.current.name
            for event in self.server.store.collection(("", "pods")).log()
            if event.change is Change.ADDED
        ]
        return sorted(versions)

    def _scaler_keys(self) -> list[str]:
        living = [f"team/{body['metadata']['name']}" for body in self.server.list(MODEL_DEPLOYMENT_SCALERS, "team")]
        return sorted(set(living) | set(self.scalers._memories._by_key))

    def _scaler(self, key: str) -> MdsView | None:
        namespace, _, name = key.partition("/")
        body = self.server.get(MODEL_DEPLOYMENT_SCALERS, name, namespace)
        return None if body is None else decode_view(MdsView, orjson.dumps(body))

    def _held(self, uid: str) -> list[ModelDeployment]:
        found = [
            decode_view(ModelDeployment, orjson.dumps(body)) for body in self.server.list(MODEL_DEPLOYMENTS, "team")
        ]
        bound = [(each, read_bound_by(each.metadata)) for each in found]
        return [each for each, by in bound if isinstance(by, BoundBy) and by.uid == uid]

    def pods_of(self, target: ModelDeployment) -> list[Any]:
        return self.pods(target.metadata.key)

    def priors(self, *_: object) -> PriorSources:
        return PriorSources(load_embedded())
