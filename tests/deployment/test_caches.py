"""Which change wakes which deployment, and whose informers are run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.api import MODEL_DEPLOYMENTS, PODS, ModelDeployment, Pod
from controller.deployment.caches import DeploymentCaches
from controller.kube import Informer, KubeClient, StreamingSupport, WorkQueue
from tests.deployment.builders import deployment, pod

NOBODY = cast("KubeClient", SimpleNamespace(streaming=StreamingSupport()))


def _woken(queue: WorkQueue) -> bool:
    return len(queue) > 0


def test_informers_of_somebody_else_are_listened_to_and_not_run():
    shared: tuple[Informer[ModelDeployment], Informer[Pod]] = (
        Informer(NOBODY, MODEL_DEPLOYMENTS, ModelDeployment),
        Informer(NOBODY, PODS, Pod),
    )
    caches = DeploymentCaches(NOBODY, (), WorkQueue(), deployments=shared[0], pods=shared[1])
    assert caches.informers == (caches.services, caches.slices)
    assert (caches.deployments, caches.pods) == shared
    assert len(caches.registrations) == 4
    shared[1].store.put("team/chat-server-0", None, pod())
    assert [found.metadata.name for found in caches.pods_of("team/chat")] == ["chat-server-0"]


@pytest.mark.parametrize(
    ("change", "wakes"),
    [
        pytest.param({}, False, id="a new resourceVersion alone"),
        pytest.param({"ready": False}, True, id="readiness"),
        pytest.param({"eligible": False}, True, id="a label"),
        pytest.param({"restarts": 1}, True, id="a container that was restarted"),
        pytest.param({"deleting": True}, True, id="a deletion"),
        pytest.param({"phase": "Failed"}, True, id="an end"),
        pytest.param({"address": "10.9.9.9"}, True, id="an address"),
    ],
)
async def test_what_of_a_pod_wakes_its_deployment(change: dict[str, Any], wakes: bool):
    queue = WorkQueue()
    caches = DeploymentCaches(NOBODY, (), queue)
    for registration in caches.registrations[1:2]:
        registration.update(pod(), pod(**change))  # type: ignore[arg-type]
    assert _woken(queue) is wakes


@pytest.mark.parametrize(
    ("change", "wakes"),
    [
        pytest.param({}, False, id="a new resourceVersion alone"),
        pytest.param({"roles": [{"name": "server", "replicas": 2}]}, True, id="a count"),
        pytest.param({"status": {"phase": "Ready"}}, True, id="a status"),
        pytest.param({"metadata": {"annotations": {"a": "b"}}}, True, id="an annotation"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-11-29T15:49:15Z"}}, True, id="a deletion"),
    ],
)
async def test_what_of_a_deployment_wakes_it(change: dict[str, Any], wakes: bool):
    queue = WorkQueue()
    caches = DeploymentCaches(NOBODY, (), queue)
    caches.registrations[0].update(deployment(), deployment(**change))  # type: ignore[arg-type]
    assert _woken(queue) is wakes
