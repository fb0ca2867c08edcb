"""docs/operations.md says how to take the controller away: its commands, run as they stand there, on both servers."""

from __future__ import annotations

import asyncio
import re
import shlex
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, model_deployment_crd
from controller.cli import run
from hack.controlplane import Binaries, ControlPlane
from hack.generate_manifests import NAME, NAMESPACE, STANDALONE
from tests.cluster.api import Api
from tests.cluster.conftest import make_namespace
from tests.cluster.kubectl import SECONDS, WAIT, Kubectl, find_kubectl
from tests.cluster.managed import PROCESS_FACTOR, standalone
from tests.cluster.objects import CRDS
from tests.cluster.servers import EmbeddedServer, RealServer, Server
from tests.cluster.test_manifests import MANIFESTS
from tests.cluster.world import World, annotations, world

ROOT = Path(__file__).resolve().parents[2]
SCALER_CRD = "modeldeploymentscalers.worker.gpustack.ai"
_NOT_LOOKED_AT = {"componentstatuses", "events", "events.events.k8s.io", "nodes"}


def _commands() -> list[list[str]]:
    """The commands of the section, in order."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    section = text.partition("## Taking it away\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^ {4,}((?:kubectl|mdscaler) .*)$", section, flags=re.MULTILINE)
    return [shlex.split(line.replace("manifests/", f"{MANIFESTS}/")) for line in lines]


def _installation() -> list[list[str]]:
    """README's commands that install standalone mode in the cluster."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^ {4}(kubectl apply .*? manifests/\S+)", text, flags=re.MULTILINE)
    return [shlex.split(line.replace("manifests/", f"{MANIFESTS}/")) for line in lines]


@pytest.fixture(scope="module")
def spare_cluster(request: pytest.FixtureRequest, programs: Binaries) -> Iterator[ControlPlane]:
    """A control plane from which definitions may be taken away."""
    cluster = ControlPlane(programs, controller_manager=programs.controller_manager is not None)
    cluster.start()
    yield cluster
    cluster.stop(keep=request.session.testsfailed > 0)


@pytest.fixture(params=["embedded", "real"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    if request.param == "real":
        cluster = request.getfixturevalue("spare_cluster")
        if cluster.binaries.controller_manager is None:
            pytest.skip("without a kube-controller-manager no namespace goes away")
        yield RealServer(cluster)
        return
    embedded = EmbeddedServer(request.getfixturevalue("certificates"), tmp_path)
    await embedded.start()
    yield embedded
    await embedded.stop()


@pytest.fixture
async def kubectl(server: Server, tmp_path: Path) -> AsyncIterator[Kubectl]:
    program = find_kubectl()
    if program is None:
        pytest.skip("there is no kubectl")
    made = Kubectl(program, server.kubeconfig(NAMESPACE), tmp_path)
    yield made
    await made.stop()


@pytest.fixture(params=[True, False], ids=["a controller runs", "no controller runs"])
def attended(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


async def test_the_documented_way_leaves_counts_and_terms_and_nothing_that_waits(
    server: Server, kubectl: Kubectl, tmp_path: Path, attended: bool
):
    delete, release, permissions, lease, definition, annotate, *_ = _commands()
    assert (delete[:2], release[:2]) == (["kubectl", "delete"], ["mdscaler", "release"])
    await kubectl("apply", "--server-side", "-f", "-", stdin=model_deployment_crd())
    await kubectl("apply", "--server-side", "-f", str(MANIFESTS / "install.yaml"))
    await kubectl("wait", "--for=condition=Established", WAIT, "crd", "--all")
    namespace = f"team-{'attended' if attended else 'alone'}"
    async with Api(server, namespace) as api:
        await make_namespace(api, namespace)
        async with world(api, tmp_path) as team:
            await _live(team)
            if attended:
                await kubectl(*delete[1:])
            else:
                await team.stop_controller("first")
                waiting = await kubectl.start(*delete[1:])
                await team.until(lambda: _deleting(team), "it waits")
                kubeconfig = str(server.kubeconfig(NAMESPACE))
                assert await asyncio.to_thread(run, [*release[1:], "--kubeconfig", kubeconfig]) == 0
                assert await asyncio.wait_for(waiting.wait(), SECONDS) == 0
            await team.until(lambda: not team.objects(MODEL_DEPLOYMENT_SCALERS), "the scaler is gone")
            await team.until(lambda: "bound-by" not in team.annotations(), "its target is free")
            assert (team.count(), team.annotations()["term"]) == (3, "1")
        for command in (permissions, lease, definition, annotate):
            await kubectl(*command[1:])
        left = (await api.read(MODEL_DEPLOYMENTS, "chat")).ok()
        assert annotations(left) == {}
        assert left["spec"]["roles"][0]["replicas"] == 3
        assert (await api("GET", CRDS.path(None, SCALER_CRD))).status == 404
        assert "NotFound" in (await kubectl.run("get", "namespace", NAMESPACE))[2]


async def test_of_standalone_mode_nothing_is_left(server: Server, kubectl: Kubectl, tmp_path: Path):
    """README's two commands, a controller that runs outside under its default Lease, replicas, a scaler; then all of it
    taken away. Only what Kubernetes keeps a record of stays: events, for an hour."""
    delete, _, permissions, lease, definition, _, deployments, definitions = _commands()
    async with Api(server, "team-standalone") as api:
        await make_namespace(api, "team-standalone")
        before = await _everything_at_rest(kubectl)
        crds, install = _installation()
        for command in (crds, install):
            await kubectl(*command[1:])
        await kubectl("wait", "--for=condition=Established", WAIT, "crd", "--all")
        await kubectl("apply", "--server-side", "-f", "-", stdin=_pool_and_weights(api.namespace))
        async with standalone(api, tmp_path, process_factor=PROCESS_FACTOR) as team:
            await team.declare(1)
            process = await team.process(lease_namespace="default")
            await team.until(lambda: team.serves(1), "a replica serves")
            await team.scaler(roles=[{"name": "server", "minReplicas": 2, "maxReplicas": 5}])
            await team.until(lambda: team.serves(2), "the scaler has written")
            made = await _everything(kubectl) - before
            assert made >= {
                ("ClusterRoleBinding", "", STANDALONE),
                ("InstanceType", "", "h200"),
                ("Lease", "default", NAME),
                ("ModelArtifact", api.namespace, "qwen3-8b"),
                ("ModelDeployment", api.namespace, "chat"),
                ("ModelDeploymentScaler", api.namespace, "chat"),
                ("Namespace", "", NAMESPACE),
                ("Pod", api.namespace, "chat-server-1"),
                ("Service", api.namespace, "chat-server"),
            }
            await kubectl(*delete[1:])
            process.terminate()
            await process.wait()
            for command in (permissions, lease, definition, deployments, definitions):
                await kubectl(*command[1:])
            await team.until(lambda: not team.pods(), "its Pods are gone")
            # The router was never the controller's.
            await kubectl("delete", "pod", "chat-router", "--namespace", api.namespace, "--force", "--grace-period=0")
        await _until_nothing_is_left(kubectl, before)


async def test_a_definition_that_is_deleted_first_waits_for_its_scalers_until_they_are_released(
    server: Server, kubectl: Kubectl, tmp_path: Path
):
    """What the order is for, and the way out for who did not follow it."""
    await kubectl("apply", "--server-side", "-f", "-", stdin=model_deployment_crd())
    await kubectl("apply", "--server-side", "-f", str(MANIFESTS / "crds" / "modeldeploymentscalers.yaml"))
    await kubectl("wait", "--for=condition=Established", WAIT, "crd", "--all")
    async with Api(server, "team-hasty") as api:
        await make_namespace(api, "team-hasty")
        async with world(api, tmp_path) as team:
            await _live(team)
            await team.stop_controller("first")
            waiting = await kubectl.start("delete", "crd", SCALER_CRD)
            await team.until(lambda: _deleting(team), "the scalers are asked to go")
            assert yaml.safe_load(await kubectl("get", "crd", SCALER_CRD, "-o", "yaml"))["metadata"][
                "deletionTimestamp"
            ]
            kubeconfig = str(server.kubeconfig("team-hasty"))
            assert await asyncio.to_thread(run, ["release", "--all", "--kubeconfig", kubeconfig]) == 0
            assert await asyncio.wait_for(waiting.wait(), SECONDS) == 0
            assert "bound-by" not in annotations((await api.read(MODEL_DEPLOYMENTS, "chat")).ok())


async def _everything(kubectl: Kubectl) -> set[tuple[str, str, str]]:
    """(kind, namespace, name) of every object of the server, but for what the test or Kubernetes itself adds meanwhile."""
    kinds = set((await kubectl("api-resources", "--verbs=list", "-o", "name")).split()) - _NOT_LOOKED_AT
    row = '{.kind}{"|"}{.metadata.namespace}{"|"}{.metadata.name}{"\\n"}'
    listed = f"jsonpath={{range .items[*]}}{row}{{end}}"
    found = await kubectl("get", ",".join(sorted(kinds)), "--all-namespaces", "-o", listed)
    rows = {(kind, namespace, name) for kind, namespace, name in (line.split("|") for line in found.split())}
    return {each for each in rows if each[2] != "kube-root-ca.crt"}


async def _everything_at_rest(kubectl: Kubectl) -> set[tuple[str, str, str]]:
    """Once a control plane that has just started makes nothing new any more."""
    found = await _everything(kubectl)
    async with asyncio.timeout(SECONDS):
        while True:
            await asyncio.sleep(2.0)
            before, found = found, await _everything(kubectl)
            if found == before:
                return found


async def _until_nothing_is_left(kubectl: Kubectl, before: set[tuple[str, str, str]]) -> None:
    """Dependants go a while after their owners."""
    left = set[tuple[str, str, str]]()
    try:
        async with asyncio.timeout(SECONDS):
            while left := await _everything(kubectl) - before:
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise AssertionError(f"left: {sorted(left)}") from None


def _pool_and_weights(namespace: str) -> str:
    """The first two objects of the example in docs/retirement.md."""
    example = (
        (ROOT / "docs" / "retirement.md").read_text(encoding="utf-8").partition("## A ModelDeployment to begin")[2]
    )
    blocks = re.findall(r"(?:^ {4}.*\n)+", example, flags=re.MULTILINE)
    text = next(block for block in blocks if "kind: ModelArtifact" in block)
    (artifact, pool, _) = yaml.safe_load_all(textwrap.dedent(text))
    artifact["metadata"]["namespace"] = namespace
    return yaml.safe_dump_all([artifact, pool])


def _deleting(team: World) -> bool:
    scalers = team.objects(MODEL_DEPLOYMENT_SCALERS).values()
    return any(each["metadata"].get("deletionTimestamp") for each in scalers)


async def _live(team: World) -> None:
    """A target that its scaler has brought to three."""
    await team.target()
    team.load(1800, 600)
    await team.scaler()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
