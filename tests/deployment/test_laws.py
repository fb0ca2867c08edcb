"""Laws of retirement, over any interleaving of what people, networks, engines and crashes do.

* No Pod is deleted while it holds a request, while one is on its way to it, or while somebody would still send it one.
* No Pod is deleted but one that a written-down operation is about, by its own UID; no operation ends before that Pod
  has.
* Once everything is well again, everything declared serves, and a lower count is reached.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.api import ELIGIBLE_LABEL, PODS, Pod
from controller.kube import Conflict, Transient
from tests.deployment.direct import Moment
from tests.deployment.world import Crash, World

MOST = 3
# How long a request that a router has handed over takes to show in the engine's gauges.
TRANSIT_SECONDS = 1.5


@dataclass
class Trial:
    """One world, and what is asserted about every deletion in it."""

    world: World = field(default_factory=World)
    faults: list[str] = field(default_factory=list)  # what happens at the next writes
    transit: list[tuple[float, str]] = field(default_factory=list)  # (arrives at, UID)
    due: float = 0.0  # when the controller wants to look again
    seen: int = -1  # the version of the API server's store that the last pass saw

    # ---- the laws ----------------------------------------------------------------------------------------------------

    def guard(self, moment: Moment, verb: str, plural: str, name: str) -> None:
        """Asked at every write of the controller; breaks some of them."""
        if moment is Moment.BEFORE and (verb, plural) == ("delete", "pods"):
            self.may_delete(name)
        fault = self.faults[0] if self.faults else ""
        if fault and fault.endswith(moment.value):
            self.faults.pop(0)
            raise {"crash": Crash(), "conflict": Conflict("somebody was faster"), "lost": Transient("no answer")}[
                fault.split()[0]
            ]

    def may_delete(self, name: str) -> None:
        """The conditions under which the controller may delete the Pod that it takes to be behind this name."""
        world = self.world
        operation = world.retirement
        assert operation is not None, f"{name} is deleted without an operation"
        assert operation.state == "Deleting", f"{name} is deleted in {operation.state}"
        body = world.server.get(PODS, name, "team")
        if body is None or body["metadata"]["uid"] not in (operation.target_member_uids or ()):
            return  # the deletion carries the operation's UID, and the API server will refuse it
        uid = body["metadata"]["uid"]
        assert not world.engines.holds.get(uid), f"{name} is deleted with requests in flight"
        assert uid not in world.routes.answers, f"{name} is deleted with answers under way"
        assert uid not in {each for _, each in self.transit}, f"{name} is deleted with a request on its way to it"
        assert ELIGIBLE_LABEL not in body["metadata"]["labels"], f"{name} is deleted while it is eligible"

    async def turn(self) -> None:
        """One pass; a process that died is followed by another one."""
        world = self.world
        self._arrive()
        before, crashes = world.retirement, world.crashes
        again: float | None = 0.0  # after a failure, the queue tries again
        try:
            again = await world.turn()
        except Transient:
            world.kubelet()
        self.due = float("inf") if again is None else world.clock.now() + again
        if world.crashes != crashes:
            world.start(self.guard)
        if before is not None and before.state == "Draining" and world.state == "Deleting":
            assert not world.routes.stuck, "it is past the point of no return while somebody still sends it requests"
        if before is not None and before.state in ("Deleting", "Settling") and world.retirement is None:
            left = {pod.metadata.uid for pod in world.pods()}
            assert not left.intersection(before.target_member_uids or ()), "it ended before its Pods did"

    # ---- what happens ------------------------------------------------------------------------------------------------

    async def turns(self, seconds: int) -> None:
        """So many seconds, with a pass after every change and whenever one is due."""
        for _ in range(2 * seconds):
            while self.world.server.store.resource_version != self.seen or self.world.clock.now() >= self.due:
                self.seen = self.world.server.store.resource_version
                await self.turn()
                if self.due <= self.world.clock.now() and self.world.server.store.resource_version == self.seen:
                    break
            self._arrive()
            self.world.clock.advance(0.5)

    def request(self, index: int) -> None:
        """A request is sent to an eligible Pod, or, by a router that is stuck, to any that is Ready."""
        named = self.world.names() if self.world.routes.stuck else self.world.eligible()
        pods = [pod for pod in self._pods() if pod.metadata.name in named and pod.ready]
        if pods:
            self.transit.append((self.world.clock.now() + TRANSIT_SECONDS, pods[index % len(pods)].metadata.uid))

    def finish(self, index: int) -> None:
        """A replica answers everything that it holds."""
        busy = sorted(uid for uid, held in self.world.engines.holds.items() if held)
        if busy:
            self.world.engines.holds[busy[index % len(busy)]] = 0

    def answer(self, index: int) -> None:
        """A router passes an answer on that the engine has finished with; 0: all have ended."""
        names = self.world.eligible()
        self.world.routes.answers.clear()
        if index and names:
            self.world.routes.answers.add(self.world.uid(names[index % len(names)]))

    def kill(self, index: int) -> None:
        """Somebody deletes a Pod by force; one of the same name and another UID may follow."""
        pods = self._pods()
        if pods:
            victim = pods[index % len(pods)].metadata
            self._lose(victim.uid)
            self.world.server.delete(PODS, victim.name, "team", grace_seconds=0)

    def restart(self, index: int) -> None:
        """A container dies with what it holds and is started again."""
        pods = [pod for pod in self._pods() if pod.status.container_statuses]
        if pods:
            self._lose(pods[index % len(pods)].metadata.uid)
            self.world.restart_container(pods[index % len(pods)].metadata.name)

    def deafen(self, index: int) -> None:
        """The gauges of a Pod do not answer; 0: all do."""
        pods = self._pods()
        self.world.engines.deaf = {pods[index % len(pods)].metadata.uid} if index and pods else set()

    def heal(self) -> None:
        """Everything is well again."""
        world = self.world
        self.faults.clear()
        self.transit.clear()
        world.engines.holds.clear()
        world.engines.deaf.clear()
        world.routes.stuck = world.routes.mute = world.lingering = False
        world.routes.answers.clear()
        world.slow = set()

    def _pods(self) -> list[Pod]:
        return [pod for pod in self.world.pods() if not pod.deleting]

    def _arrive(self) -> None:
        now = self.world.clock.now()
        for _, uid in [each for each in self.transit if each[0] <= now]:
            self.world.engines.holds[uid] = self.world.engines.holds.get(uid, 0) + 1
        self.transit = [each for each in self.transit if each[0] > now]

    def _lose(self, uid: str) -> None:
        self.world.engines.holds.pop(uid, None)
        self.transit = [each for each in self.transit if each[1] != uid]


FAULTS = ("crash before", "crash after", "conflict before", "lost after")
few = st.integers(0, 3)
events = st.one_of(
    st.tuples(st.just("scale"), st.integers(1, MOST)),
    st.tuples(st.just("time"), st.integers(1, 8)),
    st.tuples(st.just("stall"), st.sampled_from([20, 70, 250])),
    st.tuples(st.just("request"), few),
    st.tuples(st.just("finish"), few),
    st.tuples(st.just("answer"), few),
    st.tuples(st.just("kill"), few),
    st.tuples(st.just("restart"), few),
    st.tuples(st.just("deafen"), few),
    st.tuples(st.sampled_from(["stuck", "mute", "lingering"]), st.integers(0, 1)),
    st.tuples(st.just("slow"), few),
    st.tuples(st.sampled_from([*FAULTS, "new leader"]), st.just(0)),
)
# Where a script begins: most of what matters happens while a replica drains.
BEGINNINGS: tuple[tuple[tuple[str, int], ...], ...] = (
    (),
    (("request", 1), ("scale", 1), ("time", 2)),
    (("scale", 1),),
    (("stuck", 1), ("scale", 1), ("time", 3)),
    (("request", 1), ("time", 2), ("scale", 1), ("stall", 250), ("time", 1)),
    (("request", 1), ("time", 2), ("deafen", 1), ("scale", 1), ("time", 4)),
    (("request", 1), ("time", 2), ("slow", 1), ("scale", 1), ("time", 2)),
    (("request", 1), ("scale", 1), ("time", 2), ("stuck", 1), ("finish", 0), ("time", 3)),
    (("answer", 1), ("scale", 1), ("time", 2)),
    (("lingering", 1), ("scale", 1), ("time", 5)),
)


async def _do(trial: Trial, kind: str, number: int) -> None:
    world = trial.world
    match kind:
        case "scale":
            world.scale(number)
            await trial.turn()
        case "time":
            await trial.turns(number)
        case "stall":
            world.clock.advance(number)  # the process does not run for so long
            await trial.turn()
        case "stuck" | "mute":
            setattr(world.routes, kind, bool(number))
        case "lingering":
            world.lingering = bool(number)
        case "slow":
            world.slow = {f"chat-server-{number}"} if number else set()
        case "new leader":
            world.start(trial.guard)
        case "request" | "finish" | "answer" | "kill" | "restart" | "deafen":
            getattr(trial, kind)(number)
        case _:
            trial.faults.append(kind)


async def _trial(script: list[tuple[str, int]]) -> None:
    trial = Trial()
    world = trial.world
    world.declare([{"name": "server", "replicas": 2}])
    await world.rest()
    world.start(trial.guard)
    for kind, number in script:
        await _do(trial, kind, number)
    trial.heal()
    world.scale(MOST)
    await world.run(60)
    assert (world.state, len(world.names()), len(world.eligible())) == ("", MOST, MOST)
    assert world.deployment.status.phase == "Ready"
    world.scale(1)
    await world.run(60)
    assert (world.state, world.names(), world.eligible()) == ("", ["chat-server-0"], ["chat-server-0"])


scripts = st.builds(lambda first, rest: [*first, *rest], st.sampled_from(BEGINNINGS), st.lists(events, max_size=10))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(scripts)
def test_no_interleaving_costs_a_request_or_the_wrong_pod(script: list[tuple[str, int]]):
    asyncio.run(_trial(script))
