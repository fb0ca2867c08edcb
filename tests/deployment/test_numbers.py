"""What Prometheus learns of a deployment's life."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from controller.api import MANAGED_BY_LABEL, MODEL_DEPLOYMENTS, PODS
from controller.operations import ModelDeploymentMetrics
from tests.deployment.world import TWO, World

OURS = {"namespace": "team", "deployment": "chat"}


class Numbers:
    """A world and its registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.world = World(metrics=ModelDeploymentMetrics(self.registry))

    def restart(self) -> None:
        """Another process, which has counted nothing yet."""
        self.registry = CollectorRegistry()
        self.world.metrics = ModelDeploymentMetrics(self.registry)
        self.world.start()

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"mdscaler_{name}", OURS | labels)

    def roles(self) -> dict[str, float | None]:
        names = ("desired_replicas", "ready_replicas", "eligible_endpoints", "outdated_replicas")
        return {name: self(f"deployment_{name}", role="server") for name in names}


async def test_a_retirement_is_followed_in_numbers():
    numbers = Numbers()
    world = numbers.world
    world.declare(TWO)
    await world.rest()
    assert list(numbers.roles().values()) == [2, 2, 2, 0]
    assert numbers("pods_created_total", role="server") == 2
    world.engines.holds[world.uid("chat-server-1")] = 1
    world.scale(1)
    await world.run(20)
    assert numbers("retirement_state", state="Draining") == 1
    assert list(numbers.roles().values()) == [1, 2, 1, 0]
    world.engines.holds.clear()
    await world.run(20)
    assert numbers("retirement_state", state="Draining") is None
    assert numbers("pods_deleted_total", role="server") == 1
    assert numbers("retirement_steps_total", role="server", state="Settling", outcome="Completed") == 1
    busy, idle = numbers("drain_looks_total", load="Busy"), numbers("drain_looks_total", load="Idle")
    assert busy is not None
    assert busy > 5
    assert idle == 2
    drained = {"state": "Draining", "outcome": "Moved"}
    assert numbers.registry.get_sample_value("mdscaler_retirement_phase_seconds_count", drained) == 1


async def test_an_aborted_retirement_stays_in_sight_also_of_the_next_process():
    numbers = Numbers()
    world = numbers.world
    world.declare(TWO)
    await world.rest()
    world.engines.deaf.add(world.uid("chat-server-1"))
    world.scale(1)
    await world.run(400)
    assert numbers("retirement_state", state="Aborted") == 1
    numbers.restart()
    await world.rest()
    assert numbers("retirement_state", state="Aborted") == 1
    world.scale(2)
    await world.rest()
    assert numbers("retirement_state", state="Aborted") is None


async def test_nothing_is_said_any_more_of_a_deployment_that_went_or_became_anothers():
    for gone in (True, False):
        numbers = Numbers()
        world = numbers.world
        world.declare(TWO)
        await world.rest()
        if gone:
            world.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
        else:
            world.edit(PODS, "chat-server-0", lambda body: body["metadata"]["labels"].pop(MANAGED_BY_LABEL))
        await world.rest()
        assert 'deployment="chat"' not in generate_latest(numbers.registry).decode()
