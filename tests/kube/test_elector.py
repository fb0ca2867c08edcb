"""The elector's shell: acquiring, renewing, losing, releasing."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from controller.foundation import UsageError
from controller.kube import (
    ApiError,
    ConnectionLost,
    Elector,
    Forbidden,
    KubeClient,
    LeadershipLost,
    LeaseLock,
    LeaseSpec,
    LeaseTimes,
    NotLeader,
    ServerFailed,
    Throttled,
    new_identity,
)
from controller.testing import VirtualTimeLoop
from tests.kube.lease_record import Record, RecordLock
from tests.kube.scripted_server import ScriptedServer, answer, status
from tests.kube.support import running


def now() -> float:
    return asyncio.get_running_loop().time()


class Candidate:
    """An elector, its network, and what its leader function did."""

    def __init__(self, record: Record, name: str = "me", times: LeaseTimes | None = None) -> None:
        self.record = record
        self.lock = RecordLock(record, name)
        self.leaders: list[str] = []
        self.log: list[tuple[str, float]] = []
        self.elector = Elector(
            self.lock,
            identity=name,
            times=times,
            now=now,
            rng=random.Random(name),
            on_new_leader=self.leaders.append,
        )
        self.until: float | None = None
        self.cleanup: Callable[[], Awaitable[None]] | None = None

    async def lead(self) -> None:
        self.log.append(("lead", now()))
        try:
            await (asyncio.Event().wait() if self.until is None else asyncio.sleep(self.until))
        finally:
            if self.cleanup is not None:
                await self.cleanup()
            self.log.append(("stopped", now()))

    def run(self) -> Awaitable[None]:
        return self.elector.run(self.lead)

    def operations(self) -> list[str]:
        return [verb for who, verb in self.record.operations if who == self.lock._who]

    def may_write(self) -> bool:
        try:
            self.elector.check_write()
        except NotLeader:
            return False
        return True

    def fail_with(self, failure: ApiError) -> None:
        async def fail() -> None:
            raise failure

        self.lock.there = fail

    def hang(self) -> None:
        async def hang() -> None:
            await asyncio.Event().wait()

        self.lock.there = hang


def held_by(name: str, **spec: object) -> Record:
    record = Record()
    changes = {"holder_identity": name, "lease_duration_seconds": 15, "lease_transitions": 3} | spec
    record.write(name, "create", LeaseSpec(**changes), None)  # type: ignore[arg-type]
    record.operations.clear()
    return record


# ---- acquiring -------------------------------------------------------------------------------------------------------


async def test_a_missing_lease_is_created_and_then_renewed_blindly() -> None:
    """A1, A17: get, create, update, update …"""
    me = Candidate(Record())
    assert not me.may_write()
    async with running(me.run()):
        await asyncio.sleep(4.5)
        assert me.may_write()
        assert me.elector.is_leader
    assert me.operations()[:4] == ["get", "create", "update", "update"]
    assert me.log[0] == ("lead", 0.0)
    assert me.leaders == ["me"]


async def test_whoever_waits_says_once_for_whom() -> None:
    record = held_by("first")
    me = Candidate(record)
    with capture_logs() as lines:
        async with running(me.run()):
            await asyncio.sleep(10)
            record.touch(holder_identity="second")
            await asyncio.sleep(20)
    assert me.log, "in the end it leads"
    waited = [line for line in lines if line["event"] == "waiting for the lease"]
    assert [line["held_by"] for line in waited] == ["first", "second"]
    assert waited[0]["lease"] == me.lock.name


async def test_a_held_lease_is_taken_when_its_holder_has_been_silent_for_its_duration() -> None:
    """A3, A4, A22: counted from our own first sight of it; a new leader is told once."""
    record = held_by("dead", renew_time="2001-01-01T00:00:00.000000Z")
    me = Candidate(record)
    async with running(me.run()):
        await asyncio.sleep(14.9)
        assert not me.may_write()
        await asyncio.sleep(0.3)
        assert me.may_write()
    assert me.elector.transitions == 4
    assert me.leaders == ["dead", "me"]


async def test_a_holder_that_renews_keeps_its_lease() -> None:
    record = Record()
    leader, follower = Candidate(record, "leader"), Candidate(record, "follower")
    async with running(leader.run(), follower.run()):
        await asyncio.sleep(300)
        assert leader.may_write()
        assert not follower.may_write()
        assert follower.elector.leader == "leader"
    assert "update" not in follower.operations()


async def test_a_released_lease_is_taken_at_the_next_look() -> None:
    """A6."""
    me = Candidate(held_by(""))
    async with running(me.run()):
        await asyncio.sleep(0.1)
        assert me.may_write()


@pytest.mark.parametrize("seed", range(5))
async def test_of_two_who_start_at_once_one_leads(seed: int) -> None:
    """A8, A9: the other one's create or update is refused, and it waits."""
    record = Record() if seed % 2 else held_by("")
    candidates = [Candidate(record, f"c{number}-{seed}") for number in range(2)]

    async def slow() -> None:
        await asyncio.sleep(0.1)

    for candidate in candidates:
        candidate.lock.there = slow
    async with running(*(candidate.run() for candidate in candidates)):
        await asyncio.sleep(60)
        assert sum(candidate.may_write() for candidate in candidates) == 1


async def test_candidates_do_not_come_in_step() -> None:
    record = held_by("leader", lease_duration_seconds=1000)
    candidates = [Candidate(record, f"c{number}") for number in range(3)]
    async with running(*(candidate.run() for candidate in candidates)):
        await asyncio.sleep(100)
    counts = [len(candidate.operations()) for candidate in candidates]
    assert all(100 / 2.8 <= count <= 51 for count in counts)
    assert len(set(counts)) > 1


# ---- losing ----------------------------------------------------------------------------------------------------------


async def lost(candidate: Candidate, task: asyncio.Task[None]) -> float:
    """Wait for the loss; returns when it was."""
    with pytest.raises(LeadershipLost):
        await task
    assert not candidate.may_write()
    assert candidate.log[-1][0] == "stopped"
    return now()


FAULTS: list[tuple[str, Callable[[Candidate], None]]] = [
    ("A24: the server swallows every request", lambda candidate: candidate.hang()),
    ("connections break", lambda candidate: candidate.fail_with(ConnectionLost("reset"))),
    ("A33: the permission is taken away", lambda candidate: candidate.fail_with(Forbidden("no", status=403))),
    (
        "A34: we are throttled beyond the deadline",
        lambda c: c.fail_with(Throttled("b", status=429, retry_after_seconds=30)),
    ),
    ("the server fails", lambda candidate: candidate.fail_with(ServerFailed("etcd", status=500))),
]


@pytest.mark.parametrize("fault", [row[1] for row in FAULTS], ids=[row[0] for row in FAULTS])
async def test_a_leader_that_cannot_renew_steps_down_within_its_deadline(fault: Callable[[Candidate], None]) -> None:
    record = Record()
    me, other = Candidate(record), Candidate(record, "other")
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(2.5)  # renewed at 2.0
    fault(me)
    async with running(other.run()):
        assert await lost(me, task) == pytest.approx(12.0, abs=0.01)
        assert me.log == [("lead", 0.0), ("stopped", pytest.approx(12.0, abs=0.01))]
        await asyncio.sleep(10)
        assert other.may_write()
    assert "update" not in me.operations()[me.operations().index("update") + 1 :]  # it did not release either


async def test_a_loss_is_final() -> None:
    me = Candidate(Record())
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(1)
    me.hang()
    await lost(me, task)
    with pytest.raises(RuntimeError, match="runs once"):
        await me.run()


async def test_somebody_else_in_the_record_is_a_loss_at_once() -> None:
    me = Candidate(Record())
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(3)
    me.record.touch(holder_identity="usurper", renew_time="x")
    assert await lost(me, task) == pytest.approx(4.0)
    assert me.record.lease is not None
    assert me.record.lease.holder == "usurper"


async def test_a_leader_function_that_does_not_stop_is_not_waited_for_beyond_the_lease() -> None:
    """A32, cilium#42920: the caller ends the process by force then."""
    me = Candidate(Record())

    async def stubborn() -> None:
        await asyncio.sleep(1000)

    me.cleanup = stubborn
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(1)
    me.hang()
    with pytest.raises(LeadershipLost):
        await task
    assert 12.9 <= now() < 15


async def test_a_stalled_loop_refuses_its_first_write_and_steps_down() -> None:
    """A26: a garbage collection of 20 s. The gate looks at the clock; the renewal's first act is to look at it too."""
    me = Candidate(Record())
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(5)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    writes = len(me.operations())
    loop.stall(20)
    assert not me.may_write()
    await lost(me, task)
    assert now() == 25.0
    assert len(me.operations()) == writes


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the system does not tell how long it was suspended")
async def test_time_in_which_the_machine_was_suspended_counts_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock that an elector has where nobody gives it one: `time.monotonic` stands still meanwhile."""
    read, suspended = time.clock_gettime, 0.0
    monkeypatch.setattr(
        time, "clock_gettime", lambda clock: read(clock) + (suspended if clock == time.CLOCK_BOOTTIME else 0.0)
    )
    elector = Elector(RecordLock(Record(), "me"), identity="me")
    led = asyncio.Event()

    async def lead() -> None:
        led.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(elector.run(lead))
    await led.wait()
    elector.check_write()
    suspended = LeaseTimes().renew_deadline_seconds
    with pytest.raises(NotLeader):
        elector.check_write()
    with pytest.raises(LeadershipLost):
        await task


async def test_a_lease_that_ran_out_before_its_grant_was_read_is_not_led_with() -> None:
    me = Candidate(Record())
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    stalls = [0.0, 20.0]  # the read, then the claim: granted at once, and read when it is over

    async def stall() -> None:
        loop.stall(stalls.pop(0) if stalls else 0.0)

    me.lock.back = stall
    async with running(me.run()):
        await asyncio.sleep(25)
    assert me.log[0][1] > 20.0, "led under the next claim"


async def test_validity_begins_when_the_request_is_sent_not_when_it_is_answered() -> None:
    me = Candidate(Record())

    async def slow() -> None:
        await asyncio.sleep(4)

    me.lock.back = slow
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(8.1)  # get until 4, create sent at 4, answered at 8
    assert me.may_write()
    me.hang()
    await asyncio.sleep(5.8)
    assert me.may_write()
    await asyncio.sleep(0.2)
    assert not me.may_write()
    await lost(me, task)


async def test_the_wall_clock_plays_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A27."""
    moments = iter([0.0, 3600.0, -3600.0, 7200.0] * 100)
    monkeypatch.setattr("controller.kube.elector.wall_now", lambda: 1e9 + next(moments))
    record = Record()
    leader, follower = Candidate(record, "leader"), Candidate(record, "follower")
    async with running(leader.run(), follower.run()):
        await asyncio.sleep(120)
        assert leader.may_write()
        assert not follower.may_write()


# ---- surviving -------------------------------------------------------------------------------------------------------


async def test_a_lost_answer_to_an_applied_renewal_is_no_loss() -> None:
    """A25, A18: the blind update conflicts, a read finds our own record."""
    me = Candidate(Record())
    async with running(me.run()) as (task,):
        await asyncio.sleep(3)

        async def lose() -> None:
            raise ConnectionLost("reset")

        async def fine() -> None:
            pass

        me.lock.back = lose
        await asyncio.sleep(2)
        me.lock.back = fine
        await asyncio.sleep(60)
        assert me.may_write()
        assert not task.done()
    assert me.operations()[2:7] == ["update", "update", "update", "get", "update"]
    assert me.elector.transitions == 0


async def test_conflicts_with_a_third_writer_are_survived() -> None:
    """A29: somebody annotates the lease again and again."""
    me = Candidate(Record())
    async with running(me.run()) as (task,):
        for _ in range(60):
            await asyncio.sleep(0.7)
            if me.record.lease is not None:
                me.record.touch()
        assert me.may_write()
        assert not task.done()


async def test_a_deleted_lease_is_made_again_within_the_deadline() -> None:
    """A30."""
    me = Candidate(Record())
    async with running(me.run()):
        await asyncio.sleep(3)
        me.record.lease = None
        await asyncio.sleep(3)
        assert me.may_write()
        assert me.record.lease is not None
        assert me.record.lease.holder == "me"
    assert len([entry for entry in me.log if entry[0] == "lead"]) == 1


async def test_a_lease_that_somebody_deletes_is_not_taken_before_its_holder_has_noticed() -> None:
    """A30: the others saw it held; they wait as long as if it were there."""
    record = Record()
    leader, follower = Candidate(record, "leader"), Candidate(record, "follower")
    async with running(leader.run(), follower.run()):
        await asyncio.sleep(5)
        for _ in range(30):
            record.lease = None
            for _ in range(10):
                await asyncio.sleep(0.21)
                assert not (leader.may_write() and follower.may_write())
        assert leader.may_write()
    leader, follower = Candidate(record, "leader"), Candidate(record, "follower")
    record.lease = None
    task = asyncio.ensure_future(leader.run())
    async with running(follower.run()):
        await asyncio.sleep(5)
        leader.hang()
        record.lease = None
        last_renewal = 4.0
        started = now() - 5
        while not follower.may_write():
            await asyncio.sleep(0.05)
            assert not (leader.may_write() and follower.may_write())
        assert now() - started - last_renewal >= 10.0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# ---- the same identity twice -------------------------------------------------------------------------------------


async def test_two_processes_of_one_identity_do_not_lead_together() -> None:
    """A fixed identity in a manifest, and two replicas of it: the second waits like any other candidate."""
    record = Record()
    one, two = Candidate(record, "same"), Candidate(record, "same")
    async with running(one.run(), two.run()):
        for _ in range(600):
            await asyncio.sleep(0.1)
            assert one.may_write() + two.may_write() <= 1
        assert one.may_write()
        assert two.log == []


async def test_a_leader_that_finds_its_own_name_on_a_record_of_another_process_steps_down() -> None:
    me = Candidate(Record())
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(3)
    me.record.touch(renew_time="2026-01-01T00:00:00.000001Z")
    with pytest.raises(LeadershipLost, match="another process of the same identity"):
        await task
    assert now() == pytest.approx(4.0)
    assert me.record.lease is not None
    assert me.record.lease.holder == "me"  # it is the other one's; not released


async def test_a_restart_under_a_fixed_identity_waits_for_its_own_old_lease() -> None:
    record = held_by("me")
    me = Candidate(record)
    async with running(me.run()):
        await asyncio.sleep(14.9)
        assert not me.may_write()
        await asyncio.sleep(1)
        assert me.may_write()


async def test_an_edit_of_our_record_by_a_person_is_not_a_rival() -> None:
    me = Candidate(Record())
    async with running(me.run()) as (task,):
        await asyncio.sleep(3)
        me.record.touch(lease_duration_seconds=60, lease_transitions=9)
        await asyncio.sleep(10)
        assert me.may_write()
        assert not task.done()
    assert me.elector.transitions == 9


# ---- releasing -------------------------------------------------------------------------------------------------------


async def test_a_cancelled_leader_releases_after_its_work_has_stopped_and_a_successor_follows_soon() -> None:
    """A10, A14, A31."""
    record = Record()
    me, next_ = Candidate(record), Candidate(record, "next")

    async def clean_up() -> None:
        await asyncio.sleep(25)  # longer than a lease: it is renewed meanwhile
        assert me.may_write()
        assert record.lease is not None
        assert record.lease.holder == "me"

    me.cleanup = clean_up
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(5)
    async with running(next_.run()):
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert now() == pytest.approx(31.0)
        assert record.lease is not None
        assert record.lease.holder in ("", "next")
        await asyncio.sleep(3)
        assert next_.may_write()
        assert next_.elector.transitions == 1
    assert not me.may_write()


async def test_a_leader_function_that_returns_ends_the_election_with_a_release() -> None:
    me = Candidate(Record())
    me.until = 10
    await me.run()
    assert me.record.lease is not None
    assert me.record.lease.holder == ""
    assert me.record.lease.spec is not None
    assert me.record.lease.spec.lease_duration_seconds == 1


async def test_a_failure_of_the_leader_function_is_passed_on_after_a_release() -> None:
    me = Candidate(Record())

    async def explode() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await me.elector.run(explode)
    assert me.record.lease is not None
    assert me.record.lease.holder == ""


async def test_a_release_reads_first_and_leaves_somebody_elses_lease_alone() -> None:
    """A11, A12."""
    me = Candidate(Record())
    me.until = 1
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(0.5)
    me.record.touch(holder_identity="other")
    await task
    assert me.record.lease is not None
    assert me.record.lease.holder == "other"
    assert me.operations() == ["get", "create", "get"]


async def test_a_release_is_repeated_on_conflict() -> None:
    """A13."""
    me = Candidate(Record())
    me.until = 1

    async def meddle() -> None:
        if me.operations().count("get") in (2, 3):
            me.record.touch()

    me.lock.there = meddle
    await me.run()
    assert me.record.lease is not None
    assert me.record.lease.holder == ""


async def test_who_never_led_releases_nothing() -> None:
    """A21."""
    record = held_by("other", lease_duration_seconds=1000)
    me = Candidate(record)
    async with running(me.run()):
        await asyncio.sleep(30)
    assert set(me.operations()) == {"get"}
    assert me.log == []


async def test_a_release_that_cannot_be_made_does_not_hold_up_the_end() -> None:
    me = Candidate(Record())
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(1)
    me.hang()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert now() <= 6.1


async def test_a_lease_that_is_lost_while_the_work_cleans_up_is_lost() -> None:
    """A32 in a shutdown: a clean-up that hangs must not outlive the lease."""
    me = Candidate(Record())

    async def stubborn() -> None:
        await asyncio.sleep(1000)

    me.cleanup = stubborn
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(2.5)
    task.cancel()
    await asyncio.sleep(0)
    me.hang()
    with pytest.raises(LeadershipLost):
        await task
    assert not me.may_write()
    assert 14.9 <= now() < 17  # renewed at 2: lost at 12, and 3 s to stop


async def test_a_second_cancellation_gives_up_waiting_but_does_not_give_the_lease_away() -> None:
    """Whoever still works may still write: the lease must run out by itself."""
    me = Candidate(Record())

    async def stubborn() -> None:
        await asyncio.sleep(1000)

    me.cleanup = stubborn
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(1)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(1)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not me.may_write()
    assert me.record.lease is not None
    assert me.record.lease.holder == "me"


async def test_a_cancellation_during_the_release_is_not_swallowed() -> None:
    me = Candidate(Record())
    me.until = 1.0

    async def slow() -> None:
        await asyncio.sleep(1.5)

    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(0.5)
    me.lock.there = slow
    await asyncio.sleep(1.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert now() < 4.0


# ---- health and identity ---------------------------------------------------------------------------------------------


async def test_the_watchdog_bites_only_a_leader_that_should_be_gone() -> None:
    """A19."""
    me = Candidate(Record())
    me.elector.check_health()
    task = asyncio.ensure_future(me.run())
    await asyncio.sleep(1)
    me.elector.check_health()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.stall(34.0)  # deadline at 10, lease over at 15, tolerance until 35
    me.elector.check_health()
    loop.stall(0.1)
    with pytest.raises(LeadershipLost, match="without a renewed lease"):
        me.elector.check_health()
    await lost(me, task)
    me.elector.check_health()


async def test_an_identity_is_needed_and_unique_for_each_start() -> None:
    """A16."""
    with pytest.raises(UsageError, match="needs an identity"):
        Elector(RecordLock(Record(), "x"), identity="")
    assert new_identity("pod-1").startswith("pod-1_")
    assert new_identity("pod-1") != new_identity("pod-1")


# ---- over HTTP -------------------------------------------------------------------------------------------------------


async def test_the_lease_goes_over_the_wire_as_the_api_has_it(server: ScriptedServer, client: KubeClient) -> None:
    def closed() -> None:
        raise NotLeader("closed")

    client.gate = closed  # the lease itself is never gated
    stored = {
        "kind": "Lease",
        "metadata": {"name": "l", "namespace": "ns", "resourceVersion": "7", "labels": {"kept": "yes"}},
        "spec": {"holderIdentity": None, "leaseTransitions": None, "preferredHolder": "x"},
    }
    server.script(status(404, "NotFound"), answer(stored, 201), answer(stored), answer(stored))
    lock = LeaseLock(client, "ns", "l")
    assert await lock.read(5) is None
    spec = LeaseSpec("me", 15, "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.000000Z", 0)
    created = await lock.create(spec, 5)
    assert created.metadata.resource_version == "7"
    await lock.update(created, spec, 5)
    assert [(seen.method, seen.path) for seen in server.requests] == [
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"),
        ("POST", "/apis/coordination.k8s.io/v1/namespaces/ns/leases"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"),
    ]
    assert server.requests[2].json() == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l", "namespace": "ns", "resourceVersion": "7", "labels": {"kept": "yes"}},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        },
    }
