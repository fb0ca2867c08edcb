"""Runs a demo: the embedded world in this process, the controller in one of its own, a view on both."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from controller.api import render_crds
from controller.cli.demo_controller import ControllerProcess
from controller.cli.demo_folder import KUBECONFIG, LOG, RECORDS, demo_folder
from controller.cli.demo_plan import DEPLOYMENT, INTERVAL_SECONDS, NAMESPACE, STARTUP_SECONDS, DemoPlan
from controller.cli.demo_view import live_view
from controller.cli.options import counted
from controller.embedded.apiclient import ApiClient
from controller.embedded.cycling import Cycles, cycle_counts, sampled_traffic
from controller.embedded.results import WorldResults
from controller.embedded.world import World
from controller.embedded.world_config import WorldConfig, WorldRole
from controller.foundation import OperationFailed, ScaledClock, monotonic, wall_now
from controller.planning import Continuity, Record, compare_with_unbroken, read_records

# The Lease where the controller is killed, in wall seconds: it is succeeded after three. Without, the defaults of the
# controller bear a machine that is busy with something else for seconds.
_SHORT_LEASE = ("--lease-duration", "3", "--renew-deadline", "2", "--retry-period", "0.5")
_SHORTEST_LIFE_SECONDS = 5.0  # of wall time: what ends sooner cannot start
_LOST = "leadership lost"  # the last that a controller without its Lease logs
# The controller's first decision, and its first Pods beyond their start-up, in wall seconds: on an idle machine it
# takes two, on one at load 14 more than twenty.
_FIRST_DECISION_SECONDS = 90.0
_FIRST_REPLICAS_SECONDS = 180.0
_LOOK_SECONDS = 0.1
# What makes a result mean nothing. A stall of a second delays some tens of requests of thousands, and changes no
# decision; a controller that is killed now and then leaves out some rounds.
_LATE_SHARE = 0.02
_LEAST_LATE = 5
_LEAST_ROUNDS = 0.5


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How a demo is run."""

    speed: float
    kill_every_seconds: float | None
    serve: bool
    directory: Path
    live: bool
    give_up_when_late: bool = False  # raise FellBehind instead of replaying a trace that is none any more


class FellBehind(OperationFailed):
    """The clients could not keep the speed, so the load was not the trace's."""


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """What came of it."""

    results: WorldResults
    records: tuple[Record, ...]
    continuity: Continuity
    restarts: tuple[float, ...]  # trace time
    began: float  # model time at which the traffic began
    cycles: int | None
    wall_seconds: float
    speed: float

    @property
    def failures(self) -> list[str]:
        """What the demo promises and this run did not keep; empty for a good run."""
        failures = []
        results = self.results
        if results.lost:
            told = "; ".join(
                f"{text} ({times} times)" if times > 1 else text for text, times in results.loss_reasons.items()
            )
            failures.append(f"{counted(results.lost, 'request was', 'requests were')} lost: {told}")
        if not self.records:
            failures.append("the controller made no decision")
        if results.writers is not None and results.writers.problems:
            failures.append(f"the fence did not hold: {'; '.join(map(str, results.writers.problems))}")
        if self.continuity.early:
            came = counted(len(self.continuity.early), "shrink came", "shrinks came")
            failures.append(f"{came} earlier than without a restart")
        return failures

    @property
    def doubt(self) -> str:
        """Why the result means nothing, for this machine was too slow for the speed; empty where it does."""
        results = self.results
        due = results.duration_seconds / INTERVAL_SECONDS
        why = []
        if is_late(results.late_requests, results.requests):
            late = f"{results.late_requests:,} of {results.requests:,} requests were sent late"
            why.append(f"{late}, by up to {results.latest_send_seconds:.0f} s")
        if self.records and len(self.records) < _LEAST_ROUNDS * due:
            rounds = counted(len(self.records), "time", "times")
            why.append(f"the controller decided {rounds} instead of {due:.0f}")
        if not why:
            return ""
        return (
            f"this machine was too slow for --speed {self.speed:.0f}, so the result is not meaningful: "
            f"{' and '.join(why)}"
        )

    def as_json(self) -> dict[str, Any]:
        """The figures for machines."""
        results = self.results
        ended = results.retirements
        return {
            "requests": results.requests,
            "completed": results.completed,
            "lost": results.lost,
            "rejected": results.rejected,
            "tokens": results.tokens,
            "decisions": len(self.records),
            "rescales": results.replica_changes,
            "effectiveWriters": None if results.writers is None else results.writers.effective_writers,
            "retirements": None if ended is None else asdict(ended),
            "cutRequests": results.cut_requests,
            "maxReadyReplicas": max(results.series.ready_replicas, default=0),
            "maxDesiredReplicas": max(results.series.desired_replicas, default=0),
            "readyReplicaSeconds": round(results.ready_replica_seconds, 1),
            "desiredReplicaSeconds": round(results.desired_replica_seconds, 1),
            "ttftMilliseconds": _quantiles(results.ttft_milliseconds),
            "itlMilliseconds": _quantiles(results.itl_milliseconds),
            "latestSendSeconds": round(results.latest_send_seconds, 1),
            "lateRequests": results.late_requests,
            "abandoned": results.abandoned,
            "speed": round(self.speed, 1),
            "meaningful": not self.doubt,
            "cycles": self.cycles,
            "controllerRestarts": len(self.restarts),
            "shrinks": self.continuity.shrinks,
            "earlyShrinks": len(self.continuity.early),
            "traceSeconds": round(results.duration_seconds, 1),
            "wallSeconds": round(self.wall_seconds, 1),
            "lossReasons": dict(results.loss_reasons),
            "roles": {
                name: {
                    "rescales": role.replica_changes,
                    "maxReadyReplicas": role.max_ready_replicas,
                    "maxDesiredReplicas": role.max_desired_replicas,
                    "readyReplicaSeconds": round(role.ready_replica_seconds, 1),
                    "desiredReplicaSeconds": round(role.desired_replica_seconds, 1),
                }
                for name, role in results.roles.items()
            },
        }


async def run_demo(plan: DemoPlan, options: DemoOptions, report: Callable[[DemoOutcome], None]) -> DemoOutcome:
    """Start everything, replay the traffic, report, stop everything. Raises OperationFailed with one clear line.

    With `serve` the report comes when the traffic is over, and everything stays up until the demo is interrupted.
    """
    started = monotonic()
    directory = options.directory
    records = directory / RECORDS
    epoch = wall_now()
    clock = ScaledClock(epoch, options.speed)
    world = World(world_config(plan), clock)
    controller = ControllerProcess(
        kubeconfig=directory / KUBECONFIG,
        log=directory / LOG,
        records=records,
        epoch=epoch,
        factor=options.speed,
        lease=() if options.kill_every_seconds is None else _SHORT_LEASE,
    )
    with demo_folder(directory), _interruptible():
        try:
            await start_demo(world, controller, plan, options)
            await _first_decision(records, controller)
            began = clock.now()
            async with live_view(world, records, plan, enabled=options.live):
                results = await replay(world, controller, clock, plan, options)
            if not options.serve:
                await controller.stop()  # its last record is written
            kept = _read_records(records)
            outcome = DemoOutcome(
                results=results,
                records=kept,
                continuity=compare_with_unbroken(kept),
                restarts=tuple(time - began for time in controller.restarts),
                began=began,
                cycles=plan.cycles,
                wall_seconds=monotonic() - started,
                speed=options.speed,
            )
            report(outcome)
            if options.serve:
                _tell(f"The traffic is over; serving until Ctrl-C. KUBECONFIG={controller.kubeconfig.resolve()}")
                raise await controller.died()
        finally:
            await controller.stop()
            await world.stop()
    return outcome


def world_config(plan: DemoPlan) -> WorldConfig:
    """The world of a plan. All kinds are defined in it, so that what the pages give to apply can be applied here."""
    return WorldConfig(
        trace=plan.fit.trace,
        roles=[role.world_role if plan.cycles is None else _single(role.world_role) for role in plan.roles],
        media_tokens=plan.media_tokens,
        crds=render_crds(),
        objects=[plan.scaler],
        namespace=NAMESPACE,
        deployment=DEPLOYMENT,
        startup_seconds=STARTUP_SECONDS,
        patience_wall_seconds=_FIRST_REPLICAS_SECONDS,
    )


async def start_demo(world: World, controller: ControllerProcess, plan: DemoPlan, options: DemoOptions) -> None:
    """The world, then the controller, which makes the Pods, then the first replicas."""
    await world.start()
    try:
        world.write_kubeconfig(controller.kubeconfig)
    except OSError as error:
        raise OperationFailed(f"{controller.kubeconfig}: {error.strerror}") from None
    if options.serve:
        _tell(f"export KUBECONFIG={controller.kubeconfig.resolve()}")
        _tell("kubectl get mds -w      # in another terminal; Ctrl-C here ends the demo")
        _tell(f"The controller serves namespace {NAMESPACE} only: what you make in another one, nobody looks at.")
    if options.live:
        replicas = (
            sum(role.world_role.initial_replicas for role in plan.roles) if plan.cycles is None else len(plan.roles)
        )
        load = f"{STARTUP_SECONDS:.0f} s, here {STARTUP_SECONDS / options.speed:.0f} s"
        _tell(f"starting {counted(replicas, 'engine', 'engines')}; loading takes {load}")
    await controller.start()
    await controller.watched(world.wait_ready())


async def _first_decision(records: Path, controller: ControllerProcess) -> None:
    """Wait until the controller decides, so that the traffic does not begin without it."""
    watch = asyncio.create_task(controller.died(), name="watch the controller")
    path = _records_file(records)
    try:
        async with asyncio.timeout(_FIRST_DECISION_SECONDS):
            while not (path.exists() and path.stat().st_size):
                if (await asyncio.wait({watch}, timeout=_LOOK_SECONDS))[0]:
                    raise watch.result()
    except TimeoutError:
        limit = f"{_FIRST_DECISION_SECONDS:.0f} s"
        raise OperationFailed(f"the controller made no decision within {limit} (log: {controller.log})") from None
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def replay(
    world: World, controller: ControllerProcess, clock: ScaledClock, plan: DemoPlan, options: DemoOptions
) -> WorldResults:
    """The traffic, while the controller is watched and, where asked for, killed."""
    running = world.run() if plan.cycles is None else _cycle(world, clock, plan, Cycles(plan.cycles))
    traffic = asyncio.create_task(running, name="traffic")
    began = clock.now()
    kills = 0
    try:
        while True:
            watch = asyncio.create_task(controller.died(), name="watch the controller")
            waits = {traffic, watch}
            if options.kill_every_seconds is not None:
                due = began + (kills + 1) * options.kill_every_seconds - clock.now()
                waits.add(asyncio.create_task(clock.sleep(due), name="next kill"))
            if options.give_up_when_late:
                waits.add(asyncio.create_task(fallen_behind(world, plan), name="watch the pace"))
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            others = waits - {traffic} - done
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)  # a Ctrl-C that comes now is not one of theirs
            if traffic in done:
                return traffic.result()
            behind = next((task for task in done if task.get_name() == "watch the pace"), None)
            if behind is not None:
                behind.result()
            if watch in done:
                # With the short Lease a machine that stalls for two seconds ends it; a cluster starts it again. Whoever
                # lost the Lease had it, so it can start.
                ended = watch.result()
                cannot_start = controller.lived_seconds < _SHORTEST_LIFE_SECONDS and _LOST not in str(ended)
                if options.kill_every_seconds is None or cannot_start:
                    raise ended
                _tell(f"started again: {ended}")
            else:
                kills += 1
            await controller.kill_and_restart(clock.now())
    finally:
        traffic.cancel()
        await asyncio.gather(traffic, return_exceptions=True)


async def fallen_behind(world: World, plan: DemoPlan) -> None:
    """Look until the clients are so late that the rest would be in vain. Raises FellBehind."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        now = world.snapshot()
        if is_late(now.late_requests, len(plan.fit.trace)):
            clients = f"{now.late_requests:,} requests were sent late, the last by {now.lag_seconds:.0f} s"
            raise FellBehind(f"this machine is too slow for this speed: {clients}")


def is_late(late_requests: int, requests: int) -> bool:
    """Whether so many requests were late that the load was not the trace's."""
    return late_requests >= max(_LEAST_LATE, _LATE_SHARE * requests)


async def _cycle(world: World, clock: ScaledClock, plan: DemoPlan, cycles: Cycles) -> WorldResults:
    """Steady traffic, for as long as it takes the counts to go up and down."""
    done = False
    rate = plan.cycling_requests_per_second()
    arrivals = sampled_traffic(plan.fit.trace, requests_per_second=rate, seed=plan.seed, done=lambda: done)
    api = ApiClient(world.api.url)
    traffic = asyncio.create_task(world.run(arrivals), name="steady traffic")
    try:
        await cycle_counts(
            api,
            clock,
            world.census,
            namespace=NAMESPACE,
            deployment=DEPLOYMENT,
            roles=[role.name for role in plan.roles],
            cycles=cycles,
            routed=lambda: sum(member.eligible for member in world.router.members),
        )
        done = True
        return await traffic
    finally:
        traffic.cancel()
        await asyncio.gather(traffic, return_exceptions=True)
        await api.close()


def _single(role: WorldRole) -> WorldRole:
    return replace(role, initial_replicas=1)


@contextlib.contextmanager
def _interruptible() -> Any:
    """SIGTERM ends the demo as Ctrl-C does: everything that was started is stopped."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - called from a coroutine
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _read_records(directory: Path) -> tuple[Record, ...]:
    path = _records_file(directory)
    if not path.exists():
        return ()
    with path.open("rb") as lines:
        return tuple(read_records(lines, os.fspath(path)))


def _records_file(directory: Path) -> Path:
    return directory / f"{NAMESPACE}_{DEPLOYMENT}.jsonl"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _quantiles(quantiles: Any) -> dict[str, float | None]:
    values = {"p50": quantiles.p50, "p95": quantiles.p95, "p99": quantiles.p99}
    return {name: None if value is None else round(value, 1) for name, value in values.items()}
