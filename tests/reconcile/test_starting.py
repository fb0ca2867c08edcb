"""The order of a start: nothing is decided on a world that is only half known."""

from __future__ import annotations

import aiohttp
import pytest

from controller.api import CUSTOM_RESOURCE_DEFINITIONS
from controller.embedded.apiserver.faults import bad_gateway
from controller.foundation import OperationFailed
from controller.foundation.settings import ControllerSettings
from controller.kube import load_connection
from controller.wiring import Controller
from tests.reconcile.harness import World


async def test_nothing_is_reconciled_before_every_cache_has_its_initial_objects(team: World):
    """T5: a scaler whose Pods are not read yet looks like one without Pods."""
    await team.loaded()
    rules = [team.faults.add(bad_gateway(), verb=verb, resource="pods", times=None) for verb in ("list", "watch")]
    await team.controller()
    await team.until(lambda: sum(rule.fired for rule in rules) >= 3, "the Pods cannot be read")
    assert team.annotations() == {}
    assert team.status().conditions == ()
    team.faults.clear()
    await team.until(lambda: team.count() == 3, "grown")
    assert team.counts() == [1, 3]


async def test_probes_answer_before_the_caches_are_filled(team: World):
    """O3: a start that takes long must not look like a process that hangs."""
    await team.loaded()
    rules = [team.faults.add(bad_gateway(), verb=verb, resource="pods", times=None) for verb in ("list", "watch")]
    controller = await team.controller(health_address=("127.0.0.1", 0))
    await team.until(lambda: sum(rule.fired for rule in rules) >= 1, "the Pods cannot be read")
    assert [await probe(controller, path) for path in ("healthz", "readyz")] == [200, 503]
    team.faults.clear()
    await team.until(lambda: team.count() == 3, "grown")
    assert [await probe(controller, path) for path in ("healthz", "readyz")] == [200, 200]


DEFINITIONS = [
    pytest.param("modeldeploymentscalers", ["mdscaler crd |"], id="of scalers"),
    pytest.param("modeldeployments", ["an operator", "mdscaler crd --kind all |", "manifests/crds"], id="of targets"),
]


@pytest.mark.parametrize(("plural", "ways"), DEFINITIONS)
async def test_a_missing_definition_ends_the_start_with_every_way_to_get_it(team: World, plural: str, ways: list[str]):
    team.server.delete(CUSTOM_RESOURCE_DEFINITIONS, f"{plural}.worker.gpustack.ai")
    settings = ControllerSettings(identity="x", metrics_address=None, health_address=None, leader_election=None)
    connection = await load_connection(str(team.directory / "kubeconfig"))
    with pytest.raises(OperationFailed, match=f"{plural}.worker.gpustack.ai is not installed") as refused:
        await Controller(settings, connection, None, "test").run(handle_signals=False)
    assert [way for way in ways if way not in str(refused.value)] == []


async def probe(controller: Controller, path: str) -> int:
    host, port = controller._endpoints.bound["health"]
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/{path}") as response:
        return response.status
