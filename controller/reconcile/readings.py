"""From what the scraper brings to the members of an observation. Pure.

A member's incarnation says when its counters start anew: another container, another start of the process, another
series that the counters are read from. What an engine did not report stays None, and why it did not is kept for the
record.
"""

from __future__ import annotations

import math

from controller import engines, scaling
from controller.engines import EngineReading, ScrapeResult
from controller.reconcile.observe import MemberView


def member_of(view: MemberView, result: ScrapeResult | None, now: float) -> scaling.Member:
    """One member with its reading, or with the reason why there is none. `now` is the model time of the
    tick; a reading is dated by the moment at which its answer began to arrive, which is when the numbers were true."""
    reading = result.reading if result is not None else None
    if result is None:
        failure: str | None = str(view.endpoint) if isinstance(view.endpoint, str) else "NotSampled"
    elif reading is None:
        failure = str(result.failure.reason) if result.failure is not None else "Failed"
    else:
        failure = None
    return scaling.Member(
        key=view.key,
        incarnation=view.incarnation if reading is None else _incarnation(view, reading),
        replica=view.replica,
        ready=view.ready,
        serving=view.serving and not _asleep(reading),
        ready_since=view.ready_since,
        sampled_at=now if result is None or result.answered_at is None else result.answered_at,
        reading=None if reading is None else _reading(reading),
        failure=failure,
    )


def unseen_members(count: int, now: float) -> list[scaling.Member]:
    """Members that the operator reports and nobody sees: silent ones, so that nothing shrinks for the lack of them."""
    return [
        scaling.Member(
            key=f"unseen-{number}",
            incarnation="",
            replica=f"unseen-{number}",
            ready=True,
            serving=True,
            ready_since=None,
            sampled_at=now,
            failure="NoPodSeen",
        )
        for number in range(count)
    ]


def _incarnation(view: MemberView, reading: EngineReading) -> str:
    start = reading.process_start_time_seconds
    return "/".join([view.incarnation, "" if start is None else f"{start:.2f}", reading.counter_basis])


def _asleep(reading: EngineReading | None) -> bool:
    """A sleeping engine holds its GPU and has no capacity."""
    return reading is not None and reading.sleep_state not in (None, engines.SleepState.AWAKE)


def _reading(reading: EngineReading) -> scaling.MemberReading:
    return scaling.MemberReading(
        running_requests=reading.running_requests,
        waiting_requests=reading.waiting_requests,
        waiting_for_kv_requests=reading.kv_waiting_requests,
        computed_prompt_tokens=reading.computed_prompt_tokens,
        cached_prompt_tokens=reading.cached_prompt_tokens,
        generation_tokens=reading.generation_tokens,
        finished_requests=reading.finished_requests,
        started_requests=reading.ttft.count if reading.ttft is not None else None,
        ttft=_histogram(reading.ttft),
        itl=_histogram(reading.itl),
    )


def _histogram(histogram: engines.Histogram | None) -> scaling.Histogram | None:
    if histogram is None:
        return None
    finite = [(bound, count) for bound, count in histogram.buckets if math.isfinite(bound)]
    return scaling.Histogram(
        bounds=tuple(bound for bound, _ in finite),
        cumulative=(*(count for _, count in finite), histogram.count),
        sum=histogram.sum,
    )
