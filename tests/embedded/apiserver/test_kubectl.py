"""The real kubectl against the server. Skipped, visibly, where there is none."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.embedded.apiserver import ApiServer
from controller.foundation import WallClock
from tests.embedded.apiserver.conftest import SECONDS, WIDGET_CRD, widget

KUBECTL = shutil.which(os.environ.get("KUBECTL", "kubectl"))
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl on this machine: its cases did not run")


class Kubectl:
    """Runs kubectl in the test's own loop."""

    def __init__(self, server: ApiServer, home: Path) -> None:
        self.server = server
        self.home = home
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "KUBECONFIG": str(server.write_kubeconfig(home / "kubeconfig")),
        }

    async def run(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        assert KUBECTL is not None
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            env=self.environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), SECONDS)
        return process.returncode or 0, out.decode(), err.decode()

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Standard output of a command that must succeed."""
        status, out, err = await self.run(*arguments, stdin=stdin)
        assert status == 0, f"kubectl {' '.join(arguments)}: {err}"
        return out

    async def refused(self, *arguments: str, stdin: str = "") -> str:
        """Standard error of a command that must fail."""
        status, _, err = await self.run(*arguments, stdin=stdin)
        assert status != 0
        return err


def manifest(**spec: Any) -> str:
    return yaml.safe_dump(widget(**spec))


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    server = ApiServer(clock=WallClock())
    server.install_crd(WIDGET_CRD)
    await server.start()
    yield Kubectl(server, tmp_path)
    await server.stop()


async def test_apply_get_patch_and_delete(kubectl: Kubectl) -> None:
    assert "created" in await kubectl("apply", "-f", "-", stdin=manifest())
    assert "unchanged" in await kubectl("apply", "-f", "-", stdin=manifest())
    assert "configured" in await kubectl("apply", "-f", "-", stdin=manifest(interval=20))
    assert (await kubectl("get", "wd", "--no-headers")).split()[:2] == ["one", "Shadow"]
    stored = yaml.safe_load(await kubectl("get", "wd", "one", "-o", "yaml"))
    assert stored["spec"]["interval"] == 20
    assert "managedFields" not in stored["metadata"]
    await kubectl("patch", "wd", "one", "--type=merge", "-p", '{"spec":{"mode":"Active"}}')
    await kubectl("patch", "wd", "one", "--type=json", "-p", '[{"op":"replace","path":"/spec/interval","value":30}]')
    assert await kubectl("get", "wd", "one", "-o", "jsonpath={.spec.mode} {.spec.interval}") == "Active 30"
    assert "deleted" in await kubectl("delete", "wd", "one")
    assert "not found" in await kubectl.refused("get", "wd", "one")


async def test_server_side_apply_reports_and_overrides_conflicts(kubectl: Kubectl) -> None:
    text = manifest(roles=[{"name": "d", "replicas": 1}])
    assert "serverside-applied" in await kubectl("apply", "--server-side", "-f", "-", stdin=text)
    other = text.replace("replicas: 1", "replicas: 2")
    flags = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    assert '.spec.roles[name="d"].replicas' in await kubectl.refused(*flags, stdin=other)
    await kubectl(*flags, "--force-conflicts", stdin=other)
    assert await kubectl("get", "wd", "one", "-o", "jsonpath={.spec.roles[0].replicas}") == "2"


async def test_create_replace_edit_label_and_annotate(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=manifest())
    assert "AlreadyExists" in await kubectl.refused("create", "-f", "-", stdin=manifest())
    await kubectl("replace", "-f", "-", stdin=manifest(interval=25))
    kubectl.environment["KUBE_EDITOR"] = "sed -i s/Shadow/Active/"
    assert "edited" in await kubectl("edit", "wd", "one")
    await kubectl("label", "wd", "one", "tier=web")
    await kubectl("annotate", "wd", "one", "note=yes")
    assert await kubectl("get", "wd", "-l", "tier=web", "-o", "jsonpath={.items[*].spec.mode}") == "Active"
    assert "No resources" in (await kubectl.run("get", "wd", "-l", "tier!=web"))[2]


async def test_invalid_objects_are_refused_with_their_fields(kubectl: Kubectl) -> None:
    wrong = await kubectl.refused("apply", "-f", "-", stdin=manifest(mode="Loud"))
    assert 'spec.mode: Unsupported value: "Loud"' in wrong
    unknown = await kubectl.refused("apply", "-f", "-", stdin=manifest(colour="red"))
    assert 'unknown field "spec.colour"' in unknown


async def test_get_watch_shows_changes(kubectl: Kubectl) -> None:
    kubectl.server.put(widget())
    assert KUBECTL is not None
    process = await asyncio.create_subprocess_exec(
        KUBECTL, "get", "wd", "-w", "--no-headers", env=kubectl.environment, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        first = await asyncio.wait_for(process.stdout.readline(), SECONDS)
        assert first.split()[:2] == [b"one", b"Shadow"]
        while not any(record.info.verb == "watch" for record in kubectl.server.requests):
            await asyncio.sleep(0.01)
        kubectl.server.put(widget(mode="Active"))
        second = await asyncio.wait_for(process.stdout.readline(), SECONDS)
        assert second.split()[:2] == [b"one", b"Active"]
    finally:
        process.kill()
        await process.wait()


async def test_wait_for_conditions_and_values(kubectl: Kubectl) -> None:
    kubectl.server.put(widget())
    waiting = asyncio.ensure_future(kubectl("wait", "--for=condition=Ready", "wd/one", "--timeout=60s"))
    while not any(record.info.verb == "watch" for record in kubectl.server.requests):
        await asyncio.sleep(0.01)
    await kubectl(
        "patch", "wd", "one", "--subresource=status", "--type=merge",
        "-p", '{"status":{"conditions":[{"type":"Ready","status":"True","reason":"AllGood"}]}}',
    )  # fmt: skip
    assert "condition met" in await waiting
    assert "condition met" in await kubectl("wait", "--for=jsonpath={.spec.mode}=Shadow", "wd/one", "--timeout=60s")
    assert "AllGood" in await kubectl("get", "wd", "one")


async def test_explain_and_discovery(kubectl: Kubectl) -> None:
    text = await kubectl("explain", "wd.spec")
    assert "What is wanted." in text
    assert "mode\t<string> -required-" in text
    assert "enum: Shadow, Active" in text
    assert "<[]Object>" in await kubectl("explain", "wd.spec.roles")
    assert "Widget" in await kubectl("api-resources", "--api-group=example.com")
    assert "example.com/v1alpha1" in await kubectl("api-versions")
    assert "Server Version" in await kubectl("version")
    assert "widget.example.com/one" not in await kubectl("get", "all")
    kubectl.server.put(widget())
    assert "widget.example.com/one" in await kubectl("get", "all")
    assert "Established" in await kubectl(
        "wait", "--for=condition=established", "crd/widgets.example.com", "-o", "yaml"
    )


async def test_events_and_describe(kubectl: Kubectl) -> None:
    uid = kubectl.server.put(widget())["metadata"]["uid"]
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-11-29T15:49:15.250000Z",
        "reportingController": "scaler",
        "reportingInstance": "scaler-1",
        "action": "Scale",
        "reason": "Scaled",
        "type": "Normal",
        "note": "raised decode to 3",
        "regarding": {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "name": "one",
            "namespace": "default",
            "uid": uid,
        },
    }
    await kubectl("create", "-f", "-", stdin=yaml.safe_dump(event))
    assert "raised decode to 3" in await kubectl("get", "events")
    assert "raised decode to 3" in await kubectl("events", "--for", "wd/one")
    text = await kubectl("describe", "wd", "one")
    assert "Shadow" in text
    assert "raised decode to 3" in text


async def test_typed_objects_that_kubectl_sends_as_protobuf(kubectl: Kubectl) -> None:
    await kubectl("create", "configmap", "c", "--from-literal=a=b")
    assert await kubectl("get", "cm", "c", "-o", "jsonpath={.data.a}") == "b"
    await kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    assert await kubectl("get", "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="
    await kubectl("create", "namespace", "n")
    await kubectl("-n", "n", "create", "serviceaccount", "a")
    await kubectl("create", "role", "r", "--verb=get,list", "--resource=pods")
    assert await kubectl("get", "role", "r", "-o", "jsonpath={.rules[0].verbs}") == '["get","list"]'
    await kubectl("create", "rolebinding", "b", "--role=r", "--serviceaccount=n:a")
    await kubectl("create", "deployment", "d", "--image=i", "--replicas=2")
    assert (await kubectl("get", "deploy", "d", "--no-headers")).split()[:2] == ["d", "0/2"]
    await kubectl("run", "p", "--image=i")
    assert (await kubectl("get", "pods", "--no-headers")).split()[:3] == ["p", "0/1", "Pending"]
    assert "yes" in await kubectl("auth", "can-i", "get", "pods")


async def test_a_diff_is_a_dry_run(kubectl: Kubectl) -> None:
    kubectl.server.put(widget())
    status, out, _ = await kubectl.run("diff", "-f", "-", stdin=manifest(mode="Active"))
    assert status == 1
    assert "+  mode: Active" in out
    assert len(kubectl.server.history(*_widgets("one"))) == 1


def _widgets(name: str) -> tuple[Any, str]:
    from tests.embedded.apiserver.conftest import WIDGETS  # noqa: PLC0415

    return WIDGETS, name
