"""The laws of a continuous-batching engine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.plant import BatchLimits, BatchObserver, BatchRequest, ContinuousBatch, RequestState, ServiceTime

# 10 ms a decode step whatever the batch, 1 ms a prompt token: figures that can be added up by hand.
FLAT = ServiceTime(1000.0, (1, 64), (0.010, 0.010), 1.0)


class Ledger(BatchObserver):
    def __init__(self) -> None:
        self.decoded = 0
        self.prefilled = 0
        self.busy_seconds = 0.0
        self.first: list[tuple[object, float]] = []
        self.ended: list[tuple[object, float]] = []

    def steps(self, duration_seconds: float, count: int, decoding: int, prefill_tokens: int) -> None:
        self.decoded += count * decoding
        self.prefilled += count * prefill_tokens
        self.busy_seconds += count * duration_seconds

    def first_token(self, request: BatchRequest, at_seconds: float) -> None:
        self.first.append((request.key, at_seconds))

    def finished(self, request: BatchRequest, at_seconds: float) -> None:
        self.ended.append((request.key, at_seconds))


def engine(slots: int = 4, budget: int = 100, frame: int = 1000, kv: int = 1 << 40) -> tuple[ContinuousBatch, Ledger]:
    ledger = Ledger()
    return ContinuousBatch(FLAT, BatchLimits(slots, budget, kv, frame), ledger), ledger


def test_one_request_prefills_and_then_decodes_a_token_a_step() -> None:
    batch, ledger = engine()
    batch.submit("a", 50, 11, now=100.0)
    assert batch.next_event_seconds() == pytest.approx(100.050)
    (first,) = batch.advance(100.050)
    assert (first.tokens, first.finished) == (1, False)
    (last,) = batch.advance(200.0)
    assert (last.tokens, last.finished) == (11, True)
    assert last.at_seconds == pytest.approx(100.150)
    assert batch.next_event_seconds() is None
    assert (batch.running, batch.waiting, batch.kv_tokens) == (0, 0, 0)
    assert ledger.decoded == 10  # the first token comes with the prefill


def test_a_prompt_longer_than_the_budget_is_prefilled_in_chunks_beside_the_decoding() -> None:
    batch, ledger = engine(budget=100)
    batch.submit("short", 10, 100, now=0.0)
    batch.advance(0.010)
    batch.submit("long", 150, 2, now=0.010)
    # Two steps: 99 prompt tokens beside one decode (.109 s), then 51 (.061 s).
    progress = batch.advance(0.1801)
    assert [(p.request.key, p.tokens) for p in progress] == [("long", 1)]
    assert progress[0].at_seconds == pytest.approx(0.010 + 0.109 + 0.061)
    assert ledger.prefilled == 160


def test_requests_that_arrive_together_are_prefilled_together() -> None:
    batch, ledger = engine()
    for key in "abc":
        batch.submit(key, 20, 5, now=7.0)
    batch.advance(7.060)
    assert [at for _, at in ledger.first] == pytest.approx([7.06, 7.06, 7.06])


def test_a_request_beyond_the_slots_waits_until_one_is_free() -> None:
    batch, ledger = engine(slots=1)
    batch.submit("first", 10, 10, now=0.0)
    batch.submit("second", 10, 1, now=0.0)
    batch.advance(0.05)
    assert (batch.running, batch.waiting) == (1, 1)
    batch.advance(1.0)
    assert ledger.first[1] == ("second", pytest.approx(0.010 + 0.090 + 0.010))
    assert [key for key, _ in ledger.ended] == ["first", "second"]


def test_a_request_waits_while_the_cache_has_no_room_for_its_whole_length() -> None:
    batch, ledger = engine(kv=100)
    batch.submit("big", 50, 30, now=0.0)
    batch.submit("next", 20, 10, now=0.0)
    batch.advance(0.1)
    assert (batch.running, batch.waiting) == (1, 1)
    batch.advance(10.0)
    assert len(ledger.ended) == 2
    with pytest.raises(ValueError, match="does not fit"):
        batch.submit("never", 80, 30, now=10.0)


def test_progress_is_reported_at_the_first_token_every_frame_and_the_end() -> None:
    batch, _ = engine(frame=16)
    batch.submit("a", 1, 40, now=0.0)
    tokens = []
    while (upcoming := batch.next_event_seconds()) is not None:
        tokens += [progress.tokens for progress in batch.advance(upcoming)]
    assert tokens == [1, 17, 33, 40]


def test_an_arrival_during_a_long_run_of_decode_steps_starts_at_the_next_step() -> None:
    batch, ledger = engine()
    batch.submit("a", 10, 1000, now=0.0)
    batch.advance(0.010)
    assert batch.next_event_seconds() == pytest.approx(0.010 + 9.990)
    batch.advance(1.004)
    batch.submit("b", 10, 1, now=1.004)
    assert batch.next_event_seconds() == pytest.approx(1.010)
    batch.advance(2.0)
    assert ledger.first[1] == ("b", pytest.approx(1.010 + 0.020))


@pytest.mark.parametrize(
    ("until", "state"),
    [
        pytest.param(None, RequestState.WAITING, id="before its first step"),
        pytest.param(0.1005, RequestState.PREFILLING, id="during its prefill"),
        pytest.param(0.30, RequestState.DECODING, id="while it decodes"),
    ],
)
def test_an_aborted_request_gets_nothing_more_and_leaves_nothing_behind(
    until: float | None, state: RequestState
) -> None:
    batch, ledger = engine()
    request = batch.submit("gone", 150, 100, now=0.0)
    if until is not None:
        batch.advance(until)
    assert request.state is state
    batch.abort(request)
    batch.abort(request)  # no effect
    batch.submit("other", 10, 5, now=until or 0.0)
    progress = batch.advance(100.0)
    assert {p.request.key for p in progress} == {"other"}
    assert [key for key, _ in ledger.ended] == ["other"]
    assert (batch.running, batch.waiting, batch.kv_tokens) == (0, 0, 0)


def test_a_stall_delays_the_step_in_progress_by_its_length() -> None:
    batch, ledger = engine()
    batch.submit("a", 10, 2, now=0.0)
    batch.advance(0.005)
    batch.stall(5.0)
    batch.advance(5.005)
    assert ledger.first == []
    batch.advance(5.011)
    assert ledger.first == [("a", pytest.approx(5.010))]


@pytest.mark.parametrize(("prompt", "output"), [pytest.param(0, 1, id="no prompt"), pytest.param(1, 0, id="no output")])
def test_a_request_without_tokens_is_refused(prompt: int, output: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        engine()[0].submit("a", prompt, output, now=0.0)


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"max_num_seqs": 0}, id="no slots"),
        pytest.param({"max_num_seqs": 1, "frame_tokens": 0}, id="frames of no tokens"),
        pytest.param({"max_num_seqs": 9, "max_num_batched_tokens": 8}, id="a budget that cannot decode a full batch"),
    ],
)
def test_limits_that_could_never_run_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        BatchLimits(**limits)


REQUESTS = st.lists(
    st.tuples(st.floats(0, 30), st.integers(1, 400), st.integers(1, 80), st.floats(0, 40) | st.none()),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(requests=REQUESTS, slots=st.integers(1, 6), frame=st.integers(1, 40), pace=st.floats(0.003, 9))
def test_every_request_gets_its_tokens_and_the_pace_of_advancing_changes_nothing(
    requests: list[tuple[float, int, int, float | None]], slots: int, frame: int, pace: float
) -> None:
    """Against a second engine that is advanced at every event: same times and totals, whenever `advance` is called."""

    def run(by_event: bool) -> tuple[Ledger, dict[object, int]]:
        ledger = Ledger()
        batch = ContinuousBatch(ServiceTime(900.0, (1, 4), (0.01, 0.013)), BatchLimits(slots, 64, 2000, frame), ledger)
        tokens: dict[object, int] = {}
        inside: dict[object, BatchRequest] = {}
        moments = sorted(
            [(t, 0, key) for key, (t, *_) in enumerate(requests)]
            + [(t + after, 1, key) for key, (t, _, _, after) in enumerate(requests) if after is not None]
        )

        def advance(to: float) -> None:
            for progress in batch.advance(to):
                assert progress.tokens > tokens.get(progress.request.key, 0)
                assert progress.tokens - tokens.get(progress.request.key, 0) <= frame
                tokens[progress.request.key] = progress.tokens
                assert progress.finished == (progress.tokens == progress.request.output_tokens)

        now = 0.0
        for moment, kind, key in moments:
            while now < moment:
                upcoming = batch.next_event_seconds() if by_event else now + pace
                now = moment if upcoming is None else min(moment, upcoming)
                advance(now)
            if kind == 0:
                inside[key] = batch.submit(key, requests[key][1], requests[key][2], now)
            else:
                batch.abort(inside[key])
            assert batch.running <= slots
        while (upcoming := batch.next_event_seconds()) is not None:
            advance(upcoming)
        assert (batch.running, batch.waiting, batch.kv_tokens) == (0, 0, 0)
        for key, request in inside.items():
            assert request.state in (RequestState.FINISHED, RequestState.ABORTED)
            if request.state is RequestState.FINISHED:
                assert tokens[key] == request.output_tokens
        return ledger, tokens

    (ledger, tokens), (other, _) = run(by_event=True), run(by_event=False)
    assert tokens.keys() >= {key for key, _ in ledger.ended}
    assert [key for key, _ in ledger.ended] == [key for key, _ in other.ended]
    assert [t for _, t in ledger.ended] == pytest.approx([t for _, t in other.ended], abs=1e-5)
    assert ledger.busy_seconds == pytest.approx(other.busy_seconds)
    assert ledger.decoded == other.decoded


# --- disaggregation ---


class Arrivals(Ledger):
    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[BatchRequest] = []

    def receiving(self, request: BatchRequest, at_seconds: float) -> None:
        self.wanted.append(request)


def decoder(slots: int = 4, kv: int = 1 << 40) -> tuple[ContinuousBatch, Arrivals]:
    ledger = Arrivals()
    return ContinuousBatch(FLAT, BatchLimits(slots, 100, kv, 1000), ledger), ledger


def test_a_prompt_from_elsewhere_is_not_computed_and_joins_as_one_more_decoding_request() -> None:
    batch, ledger = decoder()
    batch.submit("a", 5000, 11, now=100.0, remote=True)
    assert batch.next_event_seconds() is None  # nothing happens before its keys and values are here
    assert [request.key for request in ledger.wanted] == ["a"]
    assert (batch.running, batch.waiting, batch.receiving, batch.kv_tokens) == (0, 1, 1, 4999)
    assert batch.advance(103.0) == []
    batch.deliver(ledger.wanted[0])
    assert batch.next_event_seconds() == pytest.approx(103.010)  # one decode step, not five seconds of prefill
    (first,) = batch.advance(103.010)
    assert first.tokens == 1
    (last,) = batch.advance(200.0)
    assert (last.tokens, last.finished) == (11, True)
    assert last.at_seconds == pytest.approx(103.110)
    assert (ledger.decoded, ledger.prefilled) == (10, 1)
    assert (batch.running, batch.waiting, batch.kv_tokens) == (0, 0, 0)


def test_no_transfer_begins_while_all_slots_are_taken() -> None:
    batch, ledger = decoder(slots=1)
    batch.submit("running", 10, 1000, now=0.0)
    batch.advance(1.0)
    batch.submit("late", 10, 5, now=1.0, remote=True)
    batch.advance(5.0)
    assert (batch.receiving, batch.waiting) == (0, 1)
    batch.advance(20.0)
    batch.next_event_seconds()
    assert (batch.receiving, batch.running) == (1, 0)
    assert len(ledger.wanted) == 1


def test_a_place_in_the_cache_is_taken_when_the_transfer_begins() -> None:
    batch, ledger = decoder(kv=250)
    batch.submit("first", 100, 10, now=0.0, remote=True)
    batch.submit("second", 100, 10, now=0.0, remote=True)
    batch.submit("third", 100, 10, now=0.0, remote=True)
    batch.next_event_seconds()
    assert (batch.receiving, batch.waiting) == (2, 3)
    batch.abort(ledger.wanted[0])
    batch.next_event_seconds()
    assert [request.key for request in ledger.wanted] == ["first", "second", "third"]
    batch.deliver(ledger.wanted[0])  # too late: it is gone
    assert batch.received == 0


def test_what_is_delivered_while_others_decode_joins_at_the_next_step() -> None:
    batch, ledger = decoder(slots=2)
    batch.submit("local", 10, 1000, now=0.0)
    batch.advance(1.0)
    batch.submit("remote", 500, 3, now=1.0, remote=True)
    batch.advance(1.05)
    assert batch.receiving == 1
    batch.deliver(ledger.wanted[0])
    assert (batch.received, batch.running) == (1, 1)
    batch.advance(1.075)
    assert (batch.received, batch.running) == (0, 2)
    progress = batch.advance(1.2)
    assert [(entry.request.key, entry.tokens) for entry in progress] == [("remote", 3)]


def test_a_kept_prompt_stays_in_the_cache_until_it_is_let_go() -> None:
    batch, ledger = engine(kv=110)
    request = batch.submit("kept", 100, 1, now=0.0, keep=True)
    (only,) = batch.advance(1.0)
    assert only.finished
    assert [key for key, _ in ledger.ended] == ["kept"]
    assert (batch.running, batch.waiting, batch.held, batch.kv_tokens) == (0, 0, 1, 100)
    batch.submit("next", 50, 1, now=1.0)
    assert batch.next_event_seconds() is None
    batch.let_go(request)
    batch.let_go(request)  # once is enough
    assert request.state is RequestState.FINISHED
    assert batch.next_event_seconds() == pytest.approx(1.050)
    batch.advance(2.0)
    assert (batch.held, batch.kv_tokens) == (0, 0)


@pytest.mark.parametrize("state", [RequestState.RECEIVING, RequestState.RECEIVED, RequestState.HELD])
def test_an_abort_frees_the_place_whatever_the_hand_over_waits_for(state: RequestState) -> None:
    batch, ledger = decoder(slots=1, kv=1000)
    if state is RequestState.HELD:
        request = batch.submit("a", 100, 1, now=0.0, keep=True)
        batch.advance(1.0)
    else:
        request = batch.submit("a", 100, 5, now=0.0, remote=True)
        batch.next_event_seconds()
        if state is RequestState.RECEIVED:
            batch.submit("b", 10, 100, now=0.0)
            batch.advance(0.001)
            batch.deliver(ledger.wanted[0])
    assert request.state is state
    batch.abort(request)
    batch.advance(100.0)
    assert request.state is RequestState.ABORTED
    assert (batch.running, batch.waiting, batch.held, batch.kv_tokens) == (0, 0, 0, 0)


@settings(max_examples=60, deadline=None)
@given(
    requests=st.lists(
        st.tuples(st.integers(1, 300), st.integers(1, 20), st.booleans(), st.booleans(), st.floats(0.0, 2.0)),
        min_size=1,
        max_size=20,
    ),
    slots=st.integers(1, 4),
)
def test_whatever_is_local_remote_or_kept_everybody_gets_their_tokens_and_nothing_stays_behind(
    requests: list[tuple[int, int, bool, bool, float]], slots: int
) -> None:
    batch, ledger = decoder(slots=slots, kv=1000)
    got: dict[object, int] = {}
    kept: list[BatchRequest] = []
    pending: list[tuple[float, BatchRequest]] = []
    arrivals = sorted(enumerate(requests), key=lambda entry: entry[1][4])
    now = 0.0
    while True:
        due = [(at, request) for at, request in pending if at <= now]
        pending = [entry for entry in pending if entry not in due]
        for progress in batch.advance(now):
            got[progress.request.key] = progress.tokens
            if progress.finished and progress.request.keep:
                kept.append(progress.request)
        for _, request in due:
            batch.deliver(request)
        while arrivals and arrivals[0][1][4] <= now:
            key, (prompt, output, remote, keep, _) = arrivals.pop(0)
            batch.submit(key, prompt, output, now, remote=remote, keep=keep)
        for request in kept:
            batch.let_go(request)
        kept = []
        upcoming = batch.next_event_seconds()
        pending += [(now + 0.05, request) for request in ledger.wanted]
        ledger.wanted = []
        times = [at for at, _ in pending] + [entry[1][4] for entry in arrivals[:1]]
        times += [] if upcoming is None else [upcoming]
        if not times:
            break
        now = max(now, min(times))
    assert got == {key: output for key, (_, output, *_) in enumerate(requests)}
    assert (batch.running, batch.waiting, batch.held, batch.kv_tokens) == (0, 0, 0, 0)
