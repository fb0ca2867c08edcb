"""kubectl of the same build against both servers: what people type."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from controller.api import crds_as_yaml, scaler_crd
from tests.cluster.api import Api
from tests.cluster.kubectl import SECONDS, WAIT, Kubectl, find_kubectl
from tests.cluster.objects import CONFIG_MAPS, GADGETS, config_map, gadget
from tests.cluster.test_custom_resources import BENCHMARK, scaler


@pytest.fixture
async def kubectl(api: Api, tmp_path: Path) -> AsyncIterator[Kubectl]:
    program = find_kubectl()
    if program is None:
        pytest.skip("there is no kubectl")
    made = Kubectl(program, api.server.kubeconfig(api.namespace), tmp_path)
    yield made
    await made.stop()


def _table(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


# ---- our own kind ----------------------------------------------------------------------------------------------------


async def test_the_manifest_of_the_benchmark_is_applied_unchanged_and_again(kubectl: Kubectl):
    assert "created" in await kubectl("apply", "-f", "-", stdin=BENCHMARK)
    assert "unchanged" in await kubectl("apply", "-f", "-", stdin=BENCHMARK)
    changed = {**BENCHMARK, "spec": {**BENCHMARK["spec"], "mode": "Shadow"}}
    assert "configured" in await kubectl("apply", "-f", "-", stdin=changed)
    name = BENCHMARK["metadata"]["name"]
    stored = yaml.safe_load(await kubectl("get", "mds", name, "-o", "yaml"))
    assert (stored["spec"]["mode"], stored["spec"]["targetRef"]) == ("Shadow", BENCHMARK["spec"]["targetRef"])


async def test_a_scaler_is_found_by_every_name_it_has(kubectl: Kubectl):
    await kubectl("create", "-f", "-", stdin=scaler())
    names = (
        "mds",
        "modeldeploymentscaler",
        "modeldeploymentscalers",
        "modeldeploymentscalers.v1alpha1.worker.gpustack.ai",
        "modeldeploymentscalers.v1.worker.gpustack.ai",
        "gpustack",
    )
    for name in names:
        assert "chat" in await kubectl("get", name, "--no-headers"), name


async def test_get_shows_the_printer_columns(kubectl: Kubectl):
    await kubectl("create", "-f", "-", stdin=scaler())
    header, row = _table(await kubectl("get", "mds"))
    assert header == [
        "NAME", "TARGET", "MODE", "SUSPENDED", "ALGORITHM", "READY", "DESIRED", "LIMITED", "BY", "PRIOR", "AGE",
    ]  # fmt: skip
    assert row[:5] == ["chat", "chat", "Shadow", "false", "TokenThroughput"]


async def test_get_watches(kubectl: Kubectl, api: Api):
    await kubectl("create", "-f", "-", stdin=scaler())
    watch = await kubectl.start("get", "mds", "--watch", "--no-headers")
    assert watch.stdout is not None
    assert b"Shadow" in await asyncio.wait_for(watch.stdout.readline(), SECONDS)
    await kubectl("patch", "mds", "chat", "--type=merge", "-p", '{"spec": {"mode": "Active"}}')
    assert b"Active" in await asyncio.wait_for(watch.stdout.readline(), SECONDS)
    watch.terminate()
    await watch.communicate()


async def test_explain_knows_every_field(kubectl: Kubectl):
    out = await kubectl("explain", "mds.spec.algorithm.tokenThroughput")
    assert "GROUP:      worker.gpustack.ai" in out
    assert "stableWindowSeconds\t<integer>" in out
    assert "targetTokensPerSecond" in out


async def test_patches_of_both_kinds(kubectl: Kubectl):
    await kubectl("create", "-f", "-", stdin=scaler())
    await kubectl("patch", "mds", "chat", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    operation = '[{"op": "test", "path": "/spec/suspend", "value": true}, {"op": "replace", "path": "/spec/mode", "value": "Active"}]'
    await kubectl("patch", "mds", "chat", "--type=json", "-p", operation)
    assert await kubectl("get", "mds", "chat", "-o", "jsonpath={.spec.suspend} {.spec.mode}") == "true Active"
    refused, _, err = await kubectl.run("patch", "mds", "chat", "--type=json", "-p", operation.replace("true", "false"))
    assert refused == 1
    assert "The request is invalid" in err or "the server rejected our request" in err


async def test_an_invalid_scaler_is_refused_with_the_field(kubectl: Kubectl):
    status, _, err = await kubectl.run("apply", "-f", "-", stdin=scaler(mode="Eager"))
    assert status == 1
    assert "spec.mode" in err
    assert 'supported values: "Shadow", "Active"' in err


async def test_an_unknown_field_is_refused_by_strict_validation(kubectl: Kubectl):
    status, _, err = await kubectl.run("apply", "-f", "-", stdin=scaler(nonsense=1))
    assert status == 1
    assert 'unknown field "spec.nonsense"' in err
    await kubectl("apply", "--validate=false", "-f", "-", stdin=scaler(nonsense=1))


async def test_the_status_is_a_subresource(kubectl: Kubectl):
    await kubectl("create", "-f", "-", stdin=scaler())
    await kubectl(
        "patch",
        "mds",
        "chat",
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status": {"summary": {"ready": "server=1"}}}',
    )
    assert await kubectl("get", "mds", "chat", "-o", "jsonpath={.status.summary.ready}") == "server=1"


async def test_wait_for_a_condition_a_value_and_a_deletion(kubectl: Kubectl, api: Api):
    await kubectl("create", "-f", "-", stdin=scaler())
    waiting = [
        asyncio.create_task(kubectl("wait", "mds/chat", WAIT, what))
        for what in ("--for=condition=Bound", "--for=jsonpath={.status.summary.limitedBy}=step")
    ]
    condition = {
        "type": "Bound",
        "status": "True",
        "reason": "Acquired",
        "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"status": {"conditions": [condition], "summary": {"limitedBy": "step"}}}
    await kubectl("patch", "mds", "chat", "--subresource=status", "--type=merge", "-p", yaml.safe_dump(status))
    assert all("condition met" in out for out in await asyncio.gather(*waiting))
    gone = asyncio.create_task(kubectl("wait", "mds/chat", WAIT, "--for=delete"))
    await kubectl("delete", "mds", "chat")
    await gone


async def test_describe_shows_spec_and_events(kubectl: Kubectl):
    await kubectl("create", "-f", "-", stdin=scaler())
    out = await kubectl("describe", "mds", "chat")
    assert "Target Tokens Per Second:" in out.title()
    assert "Events:" in out


async def test_the_definition_can_be_applied_over_itself(kubectl: Kubectl):
    text = crds_as_yaml([scaler_crd()])
    out = await kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    assert "serverside-applied" in out
    await kubectl("wait", "--for=condition=Established", WAIT, f"crd/{scaler_crd()['metadata']['name']}")


# ---- any kind --------------------------------------------------------------------------------------------------------


async def test_server_side_apply_tells_conflicts(kubectl: Kubectl):
    await kubectl("apply", "--server-side", "-f", "-", stdin=gadget("a", interval=20))
    status, _, err = await kubectl.run(
        "apply", "--server-side", "--field-manager=other", "-f", "-", stdin=gadget("a", interval=30)
    )
    assert status == 1
    assert 'conflict with "kubectl"' in err
    await kubectl(
        "apply",
        "--server-side",
        "--field-manager=other",
        "--force-conflicts",
        "-f",
        "-",
        stdin=gadget("a", interval=30),
    )
    assert await kubectl("get", "gd", "a", "-o", "jsonpath={.spec.interval}") == "30"


async def test_diff_shows_what_apply_would_change(kubectl: Kubectl):
    await kubectl("apply", "-f", "-", stdin=gadget("a"))
    status, out, _ = await kubectl.run("diff", "-f", "-", stdin=gadget("a", interval=20))
    assert status == 1
    assert "+  interval: 20" in out


async def test_replace_label_annotate_and_edit_in_place(kubectl: Kubectl):
    await kubectl("create", "-f", "-", stdin=gadget("a"))
    await kubectl("label", "gd", "a", "x=1")
    await kubectl("annotate", "gd", "a", "example.com/y=2")
    stored = yaml.safe_load(await kubectl("get", "gd", "a", "-o", "yaml"))
    stored["spec"]["interval"] = 20
    await kubectl("replace", "-f", "-", stdin=stored)
    assert (await kubectl("get", "gd", "-l", "x=1", "-o", "name")).strip() == "gadget.conformance.example.com/a"
    await kubectl("label", "gd", "a", "x-")
    assert await kubectl("get", "gd", "-l", "x=1", "-o", "name") == ""


async def test_delete_by_name_by_selector_and_all(kubectl: Kubectl, api: Api):
    for name in ("a", "b", "c", "d"):
        (await api.create(GADGETS, gadget(name, labels={"pair": "yes" if name in "bc" else "no"}))).ok()
    assert "deleted" in await kubectl("delete", "gd", "a")
    assert (await kubectl("delete", "gd", "-l", "pair=yes")).count("deleted") == 2
    await kubectl("delete", "gd", "--all")
    assert (await api.list(GADGETS)).names == []
    status, _, err = await kubectl.run("delete", "gd", "none")
    assert (status, "NotFound" in err) == (1, True)


async def test_events_are_shown_for_an_object(kubectl: Kubectl, api: Api):
    stored = (await api.create(CONFIG_MAPS, config_map("a"))).ok()
    event = {
        "metadata": {"name": "a.1"},
        "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": api.namespace, "uid": stored["metadata"]["uid"]},
        "reason": "Strange",
        "message": "something is strange",
        "type": "Warning",
        "lastTimestamp": "2026-01-02T03:04:05Z",
    }  # fmt: skip
    (await api("POST", f"/api/v1/namespaces/{api.namespace}/events", event)).ok()
    assert "something is strange" in await kubectl("events", "--for", "configmap/a")
    assert "something is strange" in await kubectl("get", "events")


async def test_events_are_found_by_the_preferred_version_of_their_object(kubectl: Kubectl, api: Api):
    """Why our events name v1 although we ask at v1alpha1."""
    await kubectl("create", "-f", "-", stdin=scaler())
    for number, version in enumerate(("v1", "v1alpha1")):
        about = {"apiVersion": f"worker.gpustack.ai/{version}", "kind": "ModelDeploymentScaler", "name": "chat"}
        event = {
            "metadata": {"name": f"chat.{number}"},
            "involvedObject": {**about, "namespace": api.namespace},
            "reason": "Rescaled",
            "message": f"told as {version}",
            "type": "Normal",
        }
        (await api("POST", f"/api/v1/namespaces/{api.namespace}/events", event)).ok()
    out = await kubectl("events", "--for", "mds/chat")
    assert "told as v1\n" in out
    assert "told as v1alpha1" not in out


async def test_discovery_and_versions(kubectl: Kubectl):
    out = await kubectl("api-resources", "--api-group=worker.gpustack.ai", "--no-headers")
    assert ["modeldeploymentscalers", "mds", "worker.gpustack.ai/v1", "true", "ModelDeploymentScaler"] in _table(out)
    assert "worker.gpustack.ai/v1alpha1" in await kubectl("api-versions")
    assert "Server Version: v1." in await kubectl("version")


async def test_tokens_and_permissions(kubectl: Kubectl, api: Api):
    token = (await kubectl("create", "token", "default")).strip()
    status, out, _ = await kubectl.run(
        "auth", "can-i", "list", "gadgets", "--as", f"system:serviceaccount:{api.namespace}:default"
    )
    assert (status, out.strip()) == (1, "no")
    await kubectl("create", "role", "r", "--verb=list", "--resource=gadgets.conformance.example.com")
    await kubectl("create", "rolebinding", "r", "--role=r", f"--serviceaccount={api.namespace}:default")
    assert (
        await kubectl("auth", "can-i", "list", "gadgets", "--as", f"system:serviceaccount:{api.namespace}:default")
    ).strip() == "yes"
    async with Api(api.server, api.namespace, token) as account:
        assert (await account.list(GADGETS)).status == 200
        assert (await account.list(CONFIG_MAPS)).status == 403


async def test_large_lists_come_in_chunks(kubectl: Kubectl, api: Api):
    for number in range(7):
        (await api.create(GADGETS, gadget(f"g{number}"))).ok()
    assert len(_table(await kubectl("get", "gd", "--chunk-size=3", "--no-headers"))) == 7


async def test_raw_paths(kubectl: Kubectl, api: Api):
    assert '"gitVersion"' in await kubectl("get", "--raw", "/version")
    assert "ok" in await kubectl("get", "--raw", "/readyz")
