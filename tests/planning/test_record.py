"""A record replays to its decision; a file of them is read strictly, and forgives only an unfinished last line."""

import io

import msgspec
import pytest

from controller import scaling
from controller.foundation import UsageError
from controller.planning import Record, compare_with_unbroken, decode_record, encode_record, read_records, replay

SPEC = scaling.DecisionSpec(
    roles=(scaling.RoleSpec(name="server", kind=scaling.RoleKind.SERVER, min_replicas=1, max_replicas=8),),
    algorithm=scaling.TokenThroughput(stable_window_seconds=30, panic_window_seconds=20),
    behavior=scaling.Behavior(scale_down=scaling.DirectionBehavior(stabilization_window_seconds=60)),
    sampling_interval_seconds=10,
)
CAPACITY = {"server": scaling.RoleCapacity(effective_tokens_per_second=100.0, fingerprint="f")}
START = 1_000_000.0


class Run:
    """Decides tick by tick like the controller, and keeps the records."""

    def __init__(self) -> None:
        self.state = scaling.initial_state()
        self.now = START
        self.current = 1
        self.tokens = 0.0
        self.records: list[Record] = []
        self.process = "first"

    def tick(self, tokens_per_second: float, count: int = 1) -> None:
        for _ in range(count):
            self.now += 10
            self.tokens += 10 * tokens_per_second
            reading = scaling.MemberReading(
                running_requests=1, waiting_requests=0, computed_prompt_tokens=self.tokens, generation_tokens=0.0
            )
            member = scaling.Member(
                key="a",
                incarnation="1",
                replica="0",
                ready=True,
                serving=True,
                ready_since=START,
                sampled_at=self.now,
                reading=reading,
            )
            role = scaling.RoleObservation(
                name="server", current_replicas=self.current, ready_replicas=self.current, members=(member,)
            )
            observation = scaling.Observation(now=self.now, roles=(role,))
            before = self.state
            self.state, decision = scaling.decide(SPEC, CAPACITY, before, observation, self.now)
            self.records.append(
                Record(
                    scaler="ns/chat",
                    process=self.process,
                    spec=SPEC,
                    capacity=CAPACITY,
                    state=before,
                    observation=observation,
                    now=self.now,
                    decision=decision,
                )
            )
            self.current = decision.role("server").desired

    def restart(self, *, forgetful: bool = False) -> None:
        kept = {} if forgetful else {"server": scaling.persist(self.state, "server")}
        self.state = scaling.restore(kept, self.now)
        self.process += "'"


def test_a_record_survives_its_line_and_replays_to_its_decision():
    run = Run()
    run.tick(50, 3)
    run.tick(450, 6)
    run.tick(10, 30)
    assert {record.decided.role("server").desired for record in run.records} > {1}
    for record in run.records:
        back = decode_record(encode_record(record))
        assert back == record
        assert replay(back) == record.decision


def test_a_file_is_read_line_by_line_and_an_unfinished_last_line_is_left_out():
    run = Run()
    run.tick(50, 2)
    lines = b"".join(encode_record(record) + b"\n" for record in run.records)
    assert list(read_records(io.BytesIO(lines + b'{"format": "mdsc'), "f")) == run.records


BAD = [
    ("no JSON", b"nonsense\n", "f: not a decision record"),
    ("another format", b'{"format":"other/v9"}\n', "f:1:"),
    ("an empty object lacks everything", b"{}\n", "missing required field"),
]


@pytest.mark.parametrize(("line", "message"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_a_bad_line_is_named(line, message):
    with pytest.raises(UsageError, match=message):
        list(read_records(io.BytesIO(line), "f"))


def test_a_newer_format_is_refused_by_its_name():
    run = Run()
    run.tick(50)
    newer = msgspec.structs.replace(run.records[0], format="mdscaler.decision/v2")
    with pytest.raises(UsageError, match=r"mdscaler\.decision/v2"):
        decode_record(encode_record(newer))


def test_a_restart_with_its_memory_shrinks_nothing_early():
    run = Run()
    run.tick(450, 12)
    run.restart()
    run.tick(10, 30)
    comparison = compare_with_unbroken(run.records)
    assert (comparison.processes, comparison.early) == (2, ())
    assert comparison.shrinks > 0


def test_the_comparison_finds_a_shrink_that_came_early():
    run = Run()
    run.tick(450, 12)
    run.tick(10, 30)
    cheated = []
    for record in run.records:
        role = record.decided.role("server")
        if role.desired == role.current == 5 and record.now > START + 110:
            early = msgspec.structs.replace(role, desired=1)
            record = msgspec.structs.replace(record, decision=scaling.Decision(now=record.now, roles=(early,)))
        cheated.append(record)
    found = compare_with_unbroken(cheated).early
    assert found
    assert (found[0].current, found[0].desired) == (5, 1)
