"""Start and stop: the order is data, a failure is never silent."""

import asyncio

import pytest

from controller.foundation import OperationFailed
from controller.operations import Component, Lifecycle

# What an orderly stop takes is a few turns of the loop: only one that hangs exceeds this.
GRACE_SECONDS = 60.0


class Trace(list[str]):
    def component(self, name: str, *, start_error: Exception | None = None, stop=None) -> Component:
        async def start() -> None:
            self.append(f"+{name}")
            if start_error is not None:
                raise start_error

        async def default_stop() -> None:
            self.append(f"-{name}")

        return Component(name, start, stop or default_stop)

    async def reaches(self, entry: str) -> None:
        """Let the other tasks run until `entry` has been traced."""
        for _ in range(100):
            if entry in self:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{entry} never came: {self}")


async def test_components_stop_in_the_reverse_order_of_their_start():
    """O1."""
    trace, life = Trace(), Lifecycle(grace_seconds=GRACE_SECONDS)
    run = asyncio.create_task(life.run([trace.component("a"), trace.component("b")], handle_signals=False))
    await trace.reaches("+b")
    life.request_stop()
    assert await run == 0
    assert trace == ["+a", "+b", "-b", "-a"]


async def test_a_component_that_cannot_start_stops_the_earlier_ones_and_is_reported():
    trace, life = Trace(), Lifecycle(grace_seconds=GRACE_SECONDS)
    broken = trace.component("b", start_error=OperationFailed("port 80 is in use"))
    with pytest.raises(OperationFailed, match="port 80"):
        await life.run([trace.component("a"), broken, trace.component("c")], handle_signals=False)
    assert trace == ["+a", "+b", "-b", "-a"]


async def test_a_background_task_that_ends_by_itself_ends_the_process_with_a_failure():
    """O4."""
    life = Lifecycle(grace_seconds=GRACE_SECONDS)

    async def dies() -> None:
        raise ConnectionError("gone")

    life.spawn("reflector", dies())
    assert await life.run([], handle_signals=False) == 1


async def test_a_background_task_is_cancelled_at_stop_and_that_is_no_failure():
    life = Lifecycle(grace_seconds=GRACE_SECONDS)
    forever = life.spawn("forever", asyncio.Event().wait())
    life.request_stop()
    assert await life.run([], handle_signals=False) == 0
    assert forever.cancelled()


async def test_a_component_that_hangs_at_stop_is_abandoned_when_the_grace_is_over_and_the_others_still_stop():
    trace, life = Trace(), Lifecycle(grace_seconds=0.01)
    hangs = trace.component("b", stop=asyncio.Event().wait)
    task = asyncio.create_task(life.run([trace.component("a"), hangs], handle_signals=False))
    await trace.reaches("+b")
    life.request_stop()
    assert await task == 1
    assert trace == ["+a", "+b", "-a"]


async def test_a_stop_during_a_slow_start_does_not_wait_for_it():
    trace, life = Trace(), Lifecycle(grace_seconds=GRACE_SECONDS)

    async def start_slowly() -> None:
        trace.append("+slow")
        await asyncio.Event().wait()

    slow = Component("slow", start_slowly, trace.component("slow").stop)
    task = asyncio.create_task(life.run([trace.component("a"), slow, trace.component("never")], handle_signals=False))
    await trace.reaches("+slow")
    life.request_stop()
    assert await task == 0
    assert trace == ["+a", "+slow", "-slow", "-a"]
