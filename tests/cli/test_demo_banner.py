"""What a demo tells while nothing is to be seen yet, and what kubectl finds there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.api import KINDS
from controller.cli.demo_controller import ControllerProcess
from controller.cli.demo_plan import plan_demo
from controller.cli.demo_run import DemoOptions, start_demo, world_config


class QuietWorld:
    """A world that is ready at once."""

    async def start(self) -> None: ...

    def write_kubeconfig(self, path: Path) -> None: ...

    async def wait_ready(self) -> None: ...


class QuietController(ControllerProcess):
    """One that runs no process."""

    async def start(self) -> None: ...

    async def watched(self, work: Any) -> None:
        await work


@pytest.mark.parametrize(
    ("serve", "speed", "told"),
    [
        pytest.param(True, 1.0, "The controller serves namespace demo only", id="which namespace is served"),
        pytest.param(True, 1.0, "loading takes 76 s, here 76 s", id="how long nothing happens"),
        pytest.param(False, 20.0, "loading takes 76 s, here 4 s", id="and how long at a speed"),
    ],
)
async def test_what_is_told_at_the_start(
    serve: bool, speed: float, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_demo(None, minutes=1, algorithm="TokenThroughput", seed=1)
    controller = QuietController(
        kubeconfig=tmp_path / "kubeconfig", log=tmp_path / "log", records=tmp_path, epoch=0.0, factor=speed
    )
    await start_demo(QuietWorld(), controller, plan, DemoOptions(speed, None, serve, tmp_path, live=True))  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert told in said
    assert ("KUBECONFIG" in said) is serve


def test_every_kind_that_a_page_gives_an_example_of_is_defined() -> None:
    plan = plan_demo(None, minutes=1, algorithm="TokenThroughput", seed=1)
    defined = {crd["spec"]["names"]["kind"] for crd in world_config(plan).crds}
    assert defined == {kind.resource.kind for kind in KINDS}
