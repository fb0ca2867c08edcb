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
