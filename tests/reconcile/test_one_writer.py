"""Several processes of the controller without any election among them, in every order that hypothesis can think of.

Each process has a cache of its own that shows the past until it is told of the present, and any count write may be held
up on its way for as long as it likes while its sender hears nothing. Meanwhile scalers are suspended, resumed, deleted
and made again, a second one claims the same target, the target is recreated or restored from a backup, and people set
counts. Whatever happens: at most one scaler at a time wrote, no
count was written under a term by another process than the one that took that term, and nobody took our own writes for
somebody else's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import orjson
import pytest
import structlog
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS, MdsView, ModelDeployment, decode_view
from controller.embedded.audit import Holding
from controller.kube import ApiError, ConnectionLost, Outcome
from controller.reconcile import Caches
from tests.reconcile.direct import INTERVAL, KEY, FencingClient, Pair, reconciler_of

ROLE = {"name": "server", "replicas": 1}


class Wire(FencingClient):
    """The connection of one process; a count write may get stuck on it."""

    def __init__(self, world: Rivals) -> None:
        super().__init__(world.server)
        self._world = world
        self.stuck = False

    async def _write(self, verb: str, resource: Any, name: str, do: Callable[[], Any]) -> Any:
        if self.stuck and verb.startswith("fence"):
            self.stuck = False
            self._world.held.append((self, lambda: super(Wire, self)._write(verb, resource, name, do)))
            raise ConnectionLost("no answer", outcome=Outcome.UNKNOWN)
        answer = await super()._write(verb, resource, name, do)
        self.note(answer)
        return answer

    def note(self, answer: Any) -> None:
        """Remember who made this version."""
        self._world.authors[answer["metadata"]["resourceVersion"]] = self


class Process:
    """A controller: a wire, a cache that shows the past, a reconciler."""

    def __init__(self, world: Rivals) -> None:
        self.wire = Wire(world)
        self._world = world
        self._scalers: dict[str, Any] = {}
        self._cached_target: Any = None
        caches = Caches(self._scaler, self._target, world.priors, lambda *_: (), self._held)
        self.reconciler = reconciler_of(world, self.wire, caches, process="")

    def sync(self) -> None:
        """The cache shows the present."""
        server = self._world.server
        scalers = server.list(MODEL_DEPLOYMENT_SCALERS, "team")
        self._scalers = {f"team/{body['metadata']['name']}": body for body in scalers}
        self._cached_target = server.get(MODEL_DEPLOYMENTS, "chat", "team")

    async def turn(self) -> None:
        """One pass over every scaler that this process knows, or knew."""
        for key in sorted({*self._scalers, *self.reconciler._memories._by_key}):
            with contextlib.suppress(ApiError):
                await self.reconciler.reconcile(key)

    def _scaler(self, key: str) -> MdsView | None:
        body = self._scalers.get(key)
        return None if body is None else decode_view(MdsView, orjson.dumps(body))

    def _target(self, _: str) -> ModelDeployment | None:
        body = self._cached_target
        return None if body is None else decode_view(ModelDeployment, orjson.dumps(body))

    def _held(self, uid: str) -> list[ModelDeployment]:
        target = self._target(KEY)
        return (
            [] if target is None or not (target.metadata.annotation(BOUND_BY) or "").endswith(f"/{uid}") else [target]
        )


BOUND_BY = "scaling.worker.gpustack.ai/bound-by"


class Rivals(Pair):
    """One target, two scalers of it at times, two processes."""

    def __init__(self) -> None:
        super().__init__()
        self.authors: dict[str, Wire] = {}
        self.held: list[tuple[Wire, Callable[[], Any]]] = []
        self.people = 0
        self.backup: dict[str, Any] | None = None
        self.declare([ROLE])
        self.pod()
        self.load(2400)
        self.patient_scaler()
        self.processes = [Process(self), Process(self)]
        for process in self.processes:
            process.sync()

    def patient_scaler(self, name: str = "chat") -> None:
        """One that waits for replicas for longer than any story lasts."""
        self.scaler(name, sampling={"intervalSeconds": INTERVAL, "pendingTimeoutSeconds": 1200})

    async def do(self, step: tuple[Any, ...]) -> None:
        """Carry one step out; one that makes no sense now does nothing."""
        scaler = self.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
        match step:
            case ("tick", number):
                self.clock.advance(INTERVAL)
                self.processes[number].sync()
                await self.processes[number].turn()
            case ("late tick", number):
                self.clock.advance(INTERVAL)
                await self.processes[number].turn()
            case ("sync", number):
                self.processes[number].sync()
            case ("stick", number):
                self.processes[number].wire.stuck = True
            case ("deliver",) if self.held:
                wire, write = self.held.pop(0)
                with contextlib.suppress(ApiError):
                    wire.note(await write())
            case ("restart", number):
                self.processes[number] = Process(self)
                self.processes[number].sync()
            case ("suspend", value) if scaler is not None and not scaler["metadata"].get("deletionTimestamp"):
                self.edit_scaler(lambda obj: obj["spec"].update(suspend=value))
            case ("delete",) if scaler is not None:
                self.server.delete(MODEL_DEPLOYMENT_SCALERS, "chat", "team")
            case ("create", name) if self.server.get(MODEL_DEPLOYMENT_SCALERS, name, "team") is None:
                self.patient_scaler(name)
            case ("recreate",):
                self.server.delete(MODEL_DEPLOYMENTS, "chat", "team")
                self.declare([ROLE])
                self.pod()
            case ("person", count):
                self.people += 1
                self.scale(count)
            case ("backup",):
                self.backup = self.server.get(MODEL_DEPLOYMENTS, "chat", "team")
            case ("restore",) if self.backup is not None:
                self.people += 1
                kept = {key: value for key, value in self.backup["metadata"].items() if key != "uid"}
                self.server.put({**self.backup, "metadata": kept}, manager="kubectl")
                self.pod()
            case ("load", rate):
                self.load(rate)

    def prove(self) -> None:
        """What must hold."""
        found = self.history()
        # What people do to the annotations is theirs.
        assert not [problem for problem in found.problems if problem.resource_version in self.authors]
        assert found.effective_writers <= 1
        claimed: dict[Holding, set[Wire]] = {}
        for version, holding in found.claims:
            if version in self.authors:  # and not restored from a backup
                claimed.setdefault(holding, set()).add(self.authors[version])
        for write in found.writes:
            if write.ours:
                author = self.authors[write.resource_version]
                assert claimed[write.holding] == {author}, f"{write} was made by another process than its term"
        if not self.people:
            assert not found.foreign
            assert not self.status.foreign_reversals, "an own write was taken for a foreign one"
            assert self.reason("ReplicasConflict") != "ForeignWriter", "and told as such"


TWO = st.sampled_from([0, 1])
STEPS = st.one_of(
    st.tuples(st.just("tick"), TWO),
    st.tuples(st.just("tick"), TWO),
    st.tuples(st.just("late tick"), TWO),
    st.tuples(st.just("sync"), TWO),
    st.tuples(st.just("stick"), TWO),
    st.tuples(st.just("deliver")),
    st.tuples(st.just("deliver")),
    st.tuples(st.just("restart"), TWO),
    st.tuples(st.just("suspend"), st.booleans()),
    st.tuples(st.just("delete")),
    st.tuples(st.just("create"), st.sampled_from(["chat", "rival"])),
    st.tuples(st.just("backup")),
    st.tuples(st.just("restore")),
    st.tuples(st.just("recreate")),
    st.tuples(st.just("person"), st.integers(1, 5)),
    st.tuples(st.just("load"), st.sampled_from([400, 2400, 4800])),
)
# A write of the first process is held up; the second takes over, releases, takes again, and brings the counts back to
# where they were: then the write arrives.
ACROSS_A_RELEASE: list[tuple[Any, ...]] = [
    ("tick", 0), ("stick", 0), ("tick", 0), ("tick", 1), ("tick", 1), ("suspend", True), ("tick", 1), ("suspend", False),
    ("person", 1), ("stick", 1), ("tick", 1), ("deliver",),
]  # fmt: skip
# The same across another scaler of the same name, and another target.
ACROSS_A_SCALER: list[tuple[Any, ...]] = [
    ("tick", 0), ("stick", 0), ("tick", 0), ("delete",), ("tick", 1), ("create", "chat"), ("tick", 1), ("deliver",),
]  # fmt: skip
ACROSS_A_TARGET: list[tuple[Any, ...]] = [
    ("tick", 0), ("stick", 0), ("tick", 0), ("recreate",), ("tick", 1), ("deliver",),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _no_logs(caplog: pytest.LogCaptureFixture) -> None:
    structlog.configure(processors=[_swallow])


def _swallow(*_: object) -> Any:
    raise structlog.DropEvent


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],
)
@example(ACROSS_A_RELEASE)
@example(ACROSS_A_SCALER)
@example(ACROSS_A_TARGET)
@given(st.lists(STEPS, min_size=8, max_size=50))
async def test_at_most_one_writes(steps: list[tuple[Any, ...]]):
    world = Rivals()
    for step in steps:
        await world.do(step)
    world.prove()


@pytest.mark.parametrize(
    "steps", [ACROSS_A_RELEASE, ACROSS_A_SCALER, ACROSS_A_TARGET], ids=["release", "scaler", "target"]
)
async def test_a_write_that_was_held_up_is_refused_when_it_arrives_after_another(steps: list[tuple[Any, ...]]):
    world = Rivals()
    for step in steps[:-1]:
        await world.do(step)
    assert world.held, "the story holds a write up"
    assert world.count() == 1, "the counts are those that it was made for"
    before = world.server.store.resource_version
    await world.do(steps[-1])
    assert world.server.store.resource_version == before, "it changed something"
    world.prove()


async def test_a_write_that_is_late_while_nobody_took_over_is_still_the_holders():
    world = Rivals()
    for step in (("tick", 0), ("stick", 0), ("tick", 0), ("deliver",)):
        await world.do(step)
    assert world.count() == 3
    world.prove()
    for _ in range(3):
        await world.do(("tick", 0))
    assert world.reason("ReplicasConflict") == "Resolved", "and known for an own one"


async def test_after_any_storm_one_process_alone_follows_the_load_again():
    world = Rivals()
    for step in (*ACROSS_A_RELEASE, *ACROSS_A_SCALER, *ACROSS_A_TARGET):
        await world.do(step)
    world.load(4800)
    await world.do(("restart", 0))
    for _ in range(8):
        await world.do(("tick", 0))
    assert world.count() == 5
    world.prove()
