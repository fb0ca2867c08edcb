from __future__ import annotations

from typing import cast

from controller.deployment.lookups import REMEMBER_SECONDS, Lookups
from controller.embedded.apiserver import ApiServer
from controller.foundation import ManualClock
from controller.kube import KubeClient
from tests.deployment.builders import deployment
from tests.deployment.direct import DirectClient


class Counting(DirectClient):
    """Counts what is asked."""

    asked = 0

    async def request_raw(self, method: str, path: str) -> bytes:
        self.asked += 1
        return await super().request_raw(method, path)


def _made() -> tuple[Counting, Lookups, list[float]]:
    client = Counting(ApiServer(clock=ManualClock(), create_namespaces=True))
    now = [0.0]
    return client, Lookups(cast("KubeClient", client), now=lambda: now[0]), now


async def test_a_kind_that_the_cluster_does_not_serve_is_as_good_as_an_object_that_is_not_there():
    _, lookups, _ = _made()
    made = deployment(
        [{"name": "server", "acceleratorType": "h200"}], model={"name": "m", "artifactRef": {"name": "a"}}
    )
    assert await lookups.pool(made.roles[0]) is None
    assert await lookups.artifact(made) is None


async def test_what_was_looked_up_is_remembered_for_a_moment():
    client, lookups, now = _made()
    role = deployment().roles[0]
    await lookups.pool(role)
    now[0] = REMEMBER_SECONDS - 0.1
    await lookups.pool(role)
    assert client.asked == 1
    now[0] = REMEMBER_SECONDS
    await lookups.pool(role)
    assert client.asked == 2


async def test_a_name_that_no_object_can_have_is_not_asked_for():
    client, lookups, _ = _made()
    assert await lookups.pool(deployment([{"name": "server", "instanceType": "../nodes"}]).roles[0]) is None
    assert client.asked == 0


async def test_a_deployment_without_an_artifact_asks_for_none():
    client, lookups, _ = _made()
    assert await lookups.artifact(deployment()) is None
    assert client.asked == 0
