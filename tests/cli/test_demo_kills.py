"""A demo whose controller ends by itself: which end is one of the demo, and which only of that process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.cli.demo_controller import ControllerProcess
from controller.cli.demo_plan import plan_demo
from controller.cli.demo_run import DemoOptions, replay
from controller.foundation import ManualClock, OperationFailed

LOST = "leadership lost, ending the process at once"


class MortalController(ControllerProcess):
    """One that ends as soon as it is started, and lives for ever the second time."""

    def __init__(self, directory: Path, last_words: str) -> None:
        super().__init__(
            kubeconfig=directory / "kubeconfig", log=directory / "log", records=directory, epoch=0.0, factor=1.0
        )
        self.last_words = last_words
        self.again = asyncio.Event()
        self.replaying: asyncio.Future[object]

    @property
    def lived_seconds(self) -> float:
        return 0.0

    async def died(self) -> OperationFailed:
        if self.restarts:
            await asyncio.Event().wait()
        return OperationFailed(f"the controller ended with status 1: {self.last_words}")

    async def kill_and_restart(self, now: float) -> None:
        self.restarts.append(now)
        self.again.set()


class WorldUntilRestart:
    """Traffic that lasts until the controller has been started again."""

    def __init__(self, controller: MortalController) -> None:
        self._again = controller.again

    async def run(self) -> str:
        await self._again.wait()
        return "results"


class InterruptedAtAKill(MortalController):
    """One that lives, and whose demo is interrupted while it is about to be killed."""

    async def died(self) -> OperationFailed:
        try:
            return await asyncio.Event().wait()  # type: ignore[return-value]
        except asyncio.CancelledError:
            self.replaying.cancel()
            raise


async def test_an_interrupt_just_before_a_kill_is_not_lost(tmp_path: Path) -> None:
    controller = InterruptedAtAKill(tmp_path, "")
    plan = plan_demo(None, minutes=1, algorithm="TokenThroughput", seed=1)
    options = DemoOptions(1.0, 0.0, False, tmp_path, live=False)
    replaying = replay(WorldUntilRestart(controller), controller, ManualClock(), plan, options)  # type: ignore[arg-type]
    controller.replaying = asyncio.ensure_future(replaying)
    async with asyncio.timeout(120):
        with pytest.raises(asyncio.CancelledError):
            await controller.replaying
    assert not controller.restarts


@pytest.mark.parametrize(
    ("kill_every", "last_words", "goes_on"),
    [
        pytest.param(600.0, LOST, True, id="it lost a Lease that it had: a cluster would start it again"),
        pytest.param(600.0, "no such option", False, id="it cannot start"),
        pytest.param(None, LOST, False, id="nobody asked for controllers that end"),
    ],
)
async def test_a_controller_that_ends_at_once(
    kill_every: float | None, last_words: str, goes_on: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_demo(None, minutes=1, algorithm="TokenThroughput", seed=1)
    options = DemoOptions(1.0, kill_every, False, tmp_path, live=False)
    controller = MortalController(tmp_path, last_words)
    replaying = replay(WorldUntilRestart(controller), controller, ManualClock(), plan, options)  # type: ignore[arg-type]
    async with asyncio.timeout(120):
        if goes_on:
            assert await replaying == "results"
            assert "started again: the controller ended with status 1" in capsys.readouterr().err
        else:
            with pytest.raises(OperationFailed, match=last_words):
                await replaying
    assert len(controller.restarts) == goes_on
