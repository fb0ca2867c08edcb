"""The virtual-time loop: jumps, order, sockets, executor, stalls, deadlocks."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from controller.testing import Deadlock, LoopClock, VirtualTimeLoop, run_virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def test_an_hour_of_sleep_takes_no_real_time() -> None:
    async def scenario() -> float:
        await asyncio.sleep(3600)
        return now()

    started = time.perf_counter()
    assert run_virtual(scenario()) == 3600
    assert time.perf_counter() - started < 600  # however busy the machine


def test_timers_fire_in_the_order_of_their_deadlines_at_exactly_their_times() -> None:
    async def scenario() -> list[tuple[str, float]]:
        woken: list[tuple[str, float]] = []

        async def sleeper(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            woken.append((name, now()))

        await asyncio.gather(sleeper("late", 30), sleeper("early", 0.25), sleeper("middle", 7))
        return woken

    assert run_virtual(scenario()) == [("early", 0.25), ("middle", 7.0), ("late", 30.0)]


def test_a_timeout_of_asyncio_strikes_on_virtual_time() -> None:
    async def scenario() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(90):
                await asyncio.Event().wait()
        return now()

    assert run_virtual(scenario()) == 90


def test_bytes_on_loopback_arrive_before_the_clock_jumps() -> None:
    async def scenario() -> tuple[bytes, float]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received = await reader.readline()
            await asyncio.sleep(5)
            writer.write(received.upper())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            answer = await asyncio.wait_for(reader.read(), timeout=6)
            writer.close()
        return answer, now()

    # Patient, because a busy machine may take a while to carry bytes.
    assert run_virtual(scenario(), grace_seconds=0.1) == (b"HELLO\n", 5.0)


def test_a_clock_on_the_loop_tells_its_time() -> None:
    async def scenario() -> tuple[float, float]:
        clock = LoopClock(100.0)
        before = clock.now()
        await clock.sleep(7.5)
        await clock.sleep(-1.0)
        await asyncio.sleep(clock.wall_seconds(2.0))
        return before, clock.now()

    assert run_virtual(scenario()) == (100.0, 109.5)


def test_no_time_passes_while_the_executor_works() -> None:
    async def scenario() -> float:
        async with asyncio.timeout(1):
            await asyncio.to_thread(time.sleep, 0.02)
        return now()

    assert run_virtual(scenario()) == 0


def test_no_time_passes_while_a_child_process_runs() -> None:
    async def scenario() -> tuple[bytes, float]:
        program = "import time; time.sleep(0.05); print('done')"
        async with asyncio.timeout(1):
            child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
            out, _ = await child.communicate()
        return out, now()

    assert run_virtual(scenario()) == (b"done\n", 0.0)


def test_a_stall_moves_the_clock_past_timers_which_then_run_late() -> None:
    async def scenario() -> tuple[float, float]:
        sleeper = asyncio.ensure_future(asyncio.sleep(1))
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.stall(20)
        before = now()
        await sleeper
        return before, now()

    assert run_virtual(scenario()) == (20.0, 20.0)


def test_a_wait_that_nothing_can_end_is_an_error() -> None:
    async def scenario() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run_virtual(scenario())


def test_time_cannot_be_turned_back() -> None:
    loop = VirtualTimeLoop()
    with pytest.raises(ValueError, match="backwards"):
        loop.stall(-1)
    loop.close()


@pytest.mark.parametrize("run", range(3))
def test_the_same_scenario_takes_the_same_course_every_time(run: int) -> None:
    async def scenario() -> list[float]:
        moments = []
        queue: asyncio.Queue[int] = asyncio.Queue()

        async def produce() -> None:
            for number in range(5):
                await asyncio.sleep(0.1 * number)
                queue.put_nowait(number)

        producer = asyncio.ensure_future(produce())
        for _ in range(5):
            await queue.get()
            moments.append(round(now(), 6))
        await producer
        return moments

    assert run_virtual(scenario()) == [0.0, 0.1, 0.3, 0.6, 1.0]
