"""`manifests/` on both servers: they install, and the controller lives under its own ServiceAccount.

Beside an operator and without one, every request that it makes is allowed, and every permission that it has is used: proven from the audit log of the real
API server, and from the request log of the embedded one. The servers are made to refuse streamed lists, as those before
1.32 did, so that the permission to list is needed, too; the one to watch is needed in any case.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import yaml

from controller.api import ENDPOINT_SLICES, GROUP, MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, SERVICES
from controller.embedded.apiserver import faults
from controller.embedded.apiserver.errors import ApiError
from hack.controlplane import Binaries, ControlPlane
from hack.generate_manifests import NAME, NAMESPACE, STANDALONE
from tests.cluster.api import Api, Body
from tests.cluster.conftest import make_namespace
from tests.cluster.kubectl import SECONDS, WAIT, Kubectl, find_kubectl
from tests.cluster.managed import PROCESS_FACTOR, Standalone, standalone
from tests.cluster.objects import EVENTS, LEASES, PODS
from tests.cluster.servers import EmbeddedServer, RealServer, Server
from tests.cluster.test_access import token_of
from tests.cluster.test_manifests import MANIFESTS, external, with_component
from tests.cluster.world import FACTOR, FLOOD, World, world

USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the controller, and how it was answered."""

    verb: str
    group: str
    resource: str  # with its subresource
    name: str
    namespace: str
    status: int


@dataclass(slots=True)
class Installation:
    """A server of its own, and what is known about the requests to it."""

    server: Server
    log: Callable[[], list[Request]]


def _embedded_log(server: EmbeddedServer) -> list[Request]:
    requests = []
    for record in server.api.requests:
        info = record.info
        if record.user == USER and info.is_resource:
            resource = "/".join(filter(None, (info.resource, info.subresource)))
            requests.append(Request(info.verb, info.group, resource, info.name, info.namespace, record.status))
    return requests


def _audit_log(cluster: ControlPlane) -> list[Request]:
    requests = []
    for event in cluster.audit_log(USER):
        target = event.get("objectRef")
        if target:
            resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
            where = (target.get("name", ""), target.get("namespace", ""))
            status = event["responseStatus"]["code"]
            requests.append(Request(event["verb"], target.get("apiGroup", ""), resource, *where, status))
    return requests


@pytest.fixture(scope="module")
def bare_cluster(request: pytest.FixtureRequest, programs: Binaries) -> Iterator[ControlPlane]:
    """A control plane that nobody has used yet and that cannot stream lists."""
    managed = programs.controller_manager is not None
    cluster = ControlPlane(programs, controller_manager=managed, feature_gates={"WatchList": False})
    cluster.start()
    yield cluster
    cluster.stop(keep=request.session.testsfailed > 0)


@pytest.fixture(params=["embedded", "real"])
async def installation(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Installation]:
    if request.param == "real":
        cluster = request.getfixturevalue("bare_cluster")
        yield Installation(RealServer(cluster), lambda: _audit_log(cluster))
        return
    embedded = EmbeddedServer(request.getfixturevalue("certificates"), tmp_path)
    refused = faults.failure(ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch"))
    # As many as the controller has caches: which of them ask before the first refusal is heard is a matter of luck.
    embedded.api.faults.add(refused, verb="watch", user_agent=NAME, times=6)
    await embedded.start()
    yield Installation(embedded, lambda: _embedded_log(embedded))
    await embedded.stop()


@pytest.fixture
async def kubectl(installation: Installation, tmp_path: Path) -> AsyncIterator[Kubectl]:
    program = find_kubectl()
    if program is None:
        pytest.skip("there is no kubectl")
    made = Kubectl(program, installation.server.kubeconfig(NAMESPACE), tmp_path)
    yield made
    await made.stop()


def _free_address() -> str:
    """Of a host that is this process's alone, so that nobody takes the port before the controller has it."""
    number = os.getpid() % 65_536
    with socket.create_server((f"127.79.{number // 256}.{number % 256}", 0)) as listener:
        host, port = listener.getsockname()
        return f"{host}:{port}"


class Process:
    """The controller as the Deployment starts it: its arguments, its environment, its probes; other ports."""

    def __init__(self, objects: list[Body], kubeconfig: Path, team: World, log: Path) -> None:
        (deployment,) = (each for each in objects if each["kind"] == "Deployment")
        (self._container,) = deployment["spec"]["template"]["spec"]["containers"]
        self._health = _free_address()
        self._log = log
        self._arguments = [
            *self._container["args"],
            f"--kubeconfig={kubeconfig}",
            "--metrics-bind-address=0",
            f"--health-bind-address={self._health}",
            f"--clock-epoch={team.epoch}",
            f"--clock-factor={team.factor}",
        ]
        downward = {"metadata.name": "pod-1", "metadata.namespace": NAMESPACE}
        self._environment = {
            **os.environ,
            **{each["name"]: downward[each["valueFrom"]["fieldRef"]["fieldPath"]] for each in self._container["env"]},
        }
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "controller.cli", *self._arguments, env=self._environment, stdout=log, stderr=log
            )
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            await self._wait_for(self._container[probe]["httpGet"]["path"])

    async def stop(self) -> int:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self._process.wait(), SECONDS)

    async def _wait_for(self, path: str) -> None:
        async with asyncio.timeout(SECONDS), aiohttp.ClientSession() as session:
            while True:
                assert self._process is not None
                assert self._process.returncode is None, self._log.read_text(encoding="utf-8")
                try:
                    async with session.get(f"http://{self._health}{path}") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.1)


def permissions(objects: list[Body], role: str = "") -> set[tuple[str, str, str, str]]:
    """(group, resource, verb, name) of everything that the ServiceAccount may do; no name stands for any. `role`: by
    this role alone."""
    bound = {
        (each["roleRef"]["kind"], each["roleRef"]["name"])
        for each in objects
        if each["kind"] in ("ClusterRoleBinding", "RoleBinding") and role in ("", each["roleRef"]["name"])
    }
    rules = [rule for each in objects if (each["kind"], each["metadata"]["name"]) in bound for rule in each["rules"]]
    return {
        (group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def _unused(objects: list[Body], log: list[Request], role: str = "") -> set[tuple[str, str, str, str]]:
    used = {(each.group, each.resource, each.verb, name) for each in log for name in (each.name, "")}
    return permissions(objects, role) - used


def _asked(log: list[Request], resource: str, *verbs: str) -> bool:
    return any(each.resource == resource and (not verbs or each.verb in verbs) for each in log)


async def _patiently(condition: Callable[[], object]) -> None:
    """Wait for what the log of the server tells, a moment after its answer; what is asserted then says what is missing."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            while not condition():
                await asyncio.sleep(0.1)


async def _live_through_everything(team: World) -> None:
    """A day in the life of a controller: growth, a rival, an invalid spec twice, a prior, deletion."""
    api = team.api
    await team.target()
    team.load(*FLOOD)
    await team.scaler(most=3)
    await team.until(lambda: team.count() == 3, "grown")
    await asyncio.sleep(1.1)  # creation times have whole seconds, and the younger of two waits
    await team.scaler("younger")
    await team.until(lambda: team.reason("Bound", "younger") == "HeldByAnotherScaler", "the younger waits")
    roles = team.objects(MODEL_DEPLOYMENT_SCALERS)["chat"]["spec"]["roles"]
    for _ in range(2):
        wrong = {"spec": {"roles": [{"name": "nosuch", "minReplicas": 1, "maxReplicas": 2}]}}
        (await api.patch(MODEL_DEPLOYMENT_SCALERS, "younger", wrong)).ok()
        await team.until(lambda: team.reason("ScalingActive", "younger") == "InvalidSpec", "refused")
        (await api.patch(MODEL_DEPLOYMENT_SCALERS, "younger", {"spec": {"roles": roles}})).ok()
        await team.until(lambda: team.reason("ScalingActive", "younger") != "InvalidSpec", "corrected")
    await team.until(
        lambda: any((event.get("series") or {}).get("count", 0) >= 2 for event in team.objects(EVENTS).values()),
        "what happened twice is a series",
    )
    prior = {"ttftTargetMilliseconds": "2000", "itlTargetMilliseconds": "33"}
    algorithm = {"type": "TokenThroughput", "tokenThroughput": prior, "capacityPrior": {}}
    await team.scaler("prior", mode="Shadow", algorithm=algorithm)
    await team.until(
        lambda: team.reason("CapacityPriorResolved", "prior") == "RoleIdentityUnresolved",
        "Nodes are asked, because the pool does not say what it has",
    )
    (await api.delete(MODEL_DEPLOYMENT_SCALERS, "prior")).ok()
    (await api.delete(MODEL_DEPLOYMENT_SCALERS, "chat")).ok()
    await team.until(lambda: team.annotations().get("bound-by", "").startswith("younger/"), "the younger takes over")
    await team.target("guessed")
    latency = {"ttftTargetMilliseconds": "2000", "itlTargetMilliseconds": "33"}
    prior = {"type": "TokenThroughput", "tokenThroughput": latency, "capacityPrior": {}}
    await team.scaler("guessed", target="guessed", mode="Shadow", algorithm=prior)
    await team.until(
        lambda: team.reason("CapacityPriorResolved", "guessed") == "RoleIdentityUnresolved",
        "no InstanceType and no Node says what hardware it is",
    )


async def test_beside_an_operator_the_controller_lives_under_its_own_permissions_and_needs_all_of_them(
    installation: Installation, kubectl: Kubectl, tmp_path: Path
):
    server = installation.server
    folder = external(tmp_path)
    objects = [each for each in yaml.safe_load_all(await kubectl("kustomize", str(folder))) if each]
    await kubectl("apply", "--server-side", "-k", str(MANIFESTS / "crds"))
    await kubectl("apply", "--server-side", "-k", str(folder))
    await kubectl("wait", "--for=condition=Established", WAIT, "crd", "--all")
    async with Api(server, "team") as api, Api(server, NAMESPACE) as home:
        await make_namespace(api, "team")
        kubeconfig = server.kubeconfig(NAMESPACE, await token_of(home, NAME))
        async with world(api, tmp_path, process_factor=FACTOR) as team:
            controller = Process(objects, kubeconfig, team, tmp_path / "controller.log")
            await controller.start()
            try:
                await _live_through_everything(team)
                await _patiently(lambda: _asked(installation.log(), "leases", "update"))
            finally:
                status = await controller.stop()
        lease = (await home.read(LEASES, NAME)).ok()
    assert status == 0, (tmp_path / "controller.log").read_text(encoding="utf-8")
    assert not lease["spec"].get("holderIdentity"), "released"
    await _patiently(lambda: not _unused(objects, installation.log()))
    log = installation.log()
    assert [each for each in log if each.status in (401, 403)] == []
    assert _unused(objects, log) == set()


# Asked for by the API server beside a request: OwnerReferencesPermissionEnforcement, and WebSockets from 1.35 on.
_ASKED_BY_ADMISSION = {(GROUP, "modeldeployments/finalizers", "update", ""), ("", "pods/exec", "create", "")}


async def _run_replicas(team: Standalone, log: Callable[[], list[Request]]) -> None:
    """A day without an operator: growth, a replica that cannot be read while it leaves, what people do to Services."""
    api = team.api
    await team.declare(2)
    await team.until(lambda: team.serves(2), "two replicas serve")
    # Somebody's own Service lists the replica that is to leave, and lets go of it later.
    address = {"addresses": ["198.18.0.9"], "targetRef": {"kind": "Pod", "name": "x", "uid": team.uid("chat-server-1")}}
    listed = {
        "metadata": {"name": "mine", "labels": {"kubernetes.io/service-name": "chat"}},
        "addressType": "IPv4",
        "endpoints": [address],
    }
    (await api.create(ENDPOINT_SLICES, listed)).ok()
    await team.scale(1)
    await team.until(lambda: _asked(log(), "services", "get"), "it is looked at")
    await team.kubelet.containers["chat-server-1"].stop()
    (await api.delete(ENDPOINT_SLICES, "mine")).ok()
    await team.until(lambda: _asked(log(), "pods/exec"), "read inside its container, in vain")
    (await api.delete(PODS, "chat-server-1", {"gracePeriodSeconds": 0})).ok()
    await team.until(lambda: team.serves(1), "released")
    await team.scale(2)
    await team.until(lambda: team.serves(2), "two again")
    await team.scale(1)
    await team.until(lambda: team.serves(1), "one was retired")
    selector = {"spec": {"selector": {"app": "mine"}}}
    (await api.patch(SERVICES, "chat", selector)).ok()
    await team.until(lambda: "app" not in team.objects(SERVICES)["chat"]["spec"]["selector"], "put right")
    server = {"name": "server", "kind": "Server", "replicas": 1, "acceleratorType": "h200"}
    two = [server, {**server, "name": "other"}]
    await team.target("cards", roles=two, engine={"name": "vLLM", "version": "0.32.0"})
    await team.until(lambda: "cards-other" in team.objects(SERVICES) and team.pods("cards"), "a Service for each role")
    (await api.patch(MODEL_DEPLOYMENTS, "cards", {"spec": {"roles": [server]}})).ok()
    await team.until(lambda: "cards-other" not in team.objects(SERVICES), "the dropped role's Service goes")
    await team.target("weights", model={"name": "m", "artifactRef": {"name": "none"}})
    await team.until(lambda: "WeightsNotReady" in team.event_reasons(), "no weights")


async def test_without_an_operator_the_controller_lives_under_its_own_permissions_and_needs_all_of_them(
    installation: Installation, kubectl: Kubectl, tmp_path: Path
):
    server = installation.server
    folder = with_component(tmp_path, "standalone")
    objects = [each for each in yaml.safe_load_all(await kubectl("kustomize", str(folder))) if each]
    before = len(installation.log())
    await kubectl("apply", "--server-side", "-k", str(folder))
    await kubectl("wait", "--for=condition=Established", WAIT, "crd", "--all")

    def log() -> list[Request]:
        return installation.log()[before:]

    async with Api(server, "replicas") as api, Api(server, NAMESPACE) as home:
        await make_namespace(api, "replicas")
        kubeconfig = server.kubeconfig(NAMESPACE, await token_of(home, NAME))
        async with standalone(api, tmp_path, process_factor=PROCESS_FACTOR) as team:
            controller = Process(objects, kubeconfig, team, tmp_path / "controller.log")
            await controller.start()
            try:
                await _run_replicas(team, log)
            finally:
                status = await controller.stop()
    assert status == 0, (tmp_path / "controller.log").read_text(encoding="utf-8")
    await _patiently(lambda: _unused(objects, log(), STANDALONE) <= _ASKED_BY_ADMISSION)
    assert [each for each in log() if each.status in (401, 403)] == []
    assert _unused(objects, log(), STANDALONE) == _ASKED_BY_ADMISSION


async def test_the_manifests_pass_strict_validation_and_apply_twice_without_a_change(
    installation: Installation, kubectl: Kubectl
):
    path = str(MANIFESTS / "install.yaml")
    await kubectl("apply", "--server-side", "-f", path)
    await kubectl("apply", "--server-side", "--validate=strict", "-f", path)
    before = yaml.safe_load(await kubectl("get", "deployment", NAME, "-o", "yaml"))["metadata"]
    await kubectl("apply", "--server-side", "-f", path)
    after = yaml.safe_load(await kubectl("get", "deployment", NAME, "-o", "yaml"))["metadata"]
    assert before["generation"] == after["generation"]


# ---- only where a controller manager works ---------------------------------------------------------------------------


@pytest.fixture
async def managed(bare_cluster: ControlPlane, tmp_path: Path) -> AsyncIterator[Kubectl]:
    """kubectl on the real control plane with its controllers, after an installation."""
    if bare_cluster.binaries.controller_manager is None:
        pytest.skip("there is no kube-controller-manager")
    made = Kubectl(str(bare_cluster.binaries.kubectl), bare_cluster.kubeconfig(namespace=NAMESPACE), tmp_path)
    await made("apply", "--server-side", "-f", str(MANIFESTS / "install.yaml"))
    yield made
    await made.stop()


async def test_people_who_may_edit_a_namespace_may_edit_its_scalers_and_only_the_controller_their_status(
    managed: Kubectl,
):
    await managed("create", "namespace", "people")
    for person, role in (("ann", "edit"), ("ben", "view")):
        await managed("create", "rolebinding", person, f"--clusterrole={role}", f"--user={person}", "-n", "people")

    async def may(person: str, verb: str, *more: str) -> bool:
        question = ["auth", "can-i", verb, MODEL_DEPLOYMENT_SCALERS.plural, "-n", "people", "--as", person, *more]
        return (await managed.run(*question))[1].strip() == "yes"

    async with asyncio.timeout(SECONDS):
        while not (await may("ben", "get") and await may("ann", "patch")):
            await asyncio.sleep(0.2)  # a controller adds our rules to the built-in roles
    assert await may("ann", "get")
    assert await may("ann", "delete")
    assert not await may("ben", "patch")
    assert not await may("ann", "patch", "--subresource=status")


async def test_the_pods_of_the_deployment_are_admitted_by_the_restricted_namespace(managed: Kubectl):
    async with asyncio.timeout(SECONDS):
        while (await managed("get", "pods", "-o", "name")).count("pod/") < 2:
            await asyncio.sleep(0.2)
    assert "FailedCreate" not in await managed("get", "events")
