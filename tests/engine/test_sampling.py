"""What the scaler reads from a real engine under load, against what its clients were given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from controller import engines
from controller.engines import EngineReading, Histogram, Scraper
from tests.engine.clients import Clients
from tests.engine.conftest import Figures
from tests.engine.world import BATCH, MODEL, PATIENCE_SECONDS, World

pytestmark = pytest.mark.asyncio(loop_scope="session")

INTERVAL_SECONDS = 5.0
WINDOW_SAMPLES = 13  # a minute
# A request's tokens are on their way between the engine's counter and the client for a moment at both ends of a window.
SHARE = 0.03


@dataclass
class Sample:
    """One reading, and the moment at which it was true."""

    at: float
    reading: EngineReading


async def _samples(team: World, number: int) -> list[Sample]:
    """Readings of the only engine, an interval apart, as the scaler takes them."""
    (pod,) = team.engines()
    endpoint = team.endpoint(pod)
    target = engines.Target(
        key=pod.metadata.uid,
        host=endpoint.address,
        port=endpoint.port,
        path=endpoint.path,
        engine="vllm",
        served_model_names=(MODEL,),
        role=engines.Role.SERVER,
    )
    samples: list[Sample] = []
    async with Scraper(clock=team.clock) as scraper:
        while len(samples) < number:
            due = team.clock.now() + INTERVAL_SECONDS
            (result,) = await scraper.scrape([target])
            assert result.reading is not None, result.failure
            assert result.answered_at is not None
            samples.append(Sample(result.answered_at, result.reading))
            await team.clock.sleep(due - team.clock.now())
    return samples


def _grown(samples: list[Sample], field: str) -> float:
    first, last = (getattr(sample.reading, field) for sample in (samples[0], samples[-1]))
    assert isinstance(first, float), field
    assert isinstance(last, float), field
    return last - first


def _histogram_grown(samples: list[Sample], field: str) -> tuple[float, float]:
    """(observations, seconds) in the window."""
    first, last = (getattr(sample.reading, field) for sample in (samples[0], samples[-1]))
    assert isinstance(first, Histogram), field
    assert isinstance(last, Histogram), field
    assert [bound for bound, _ in first.buckets] == [bound for bound, _ in last.buckets]
    counts = [count for _, count in last.buckets]
    assert counts == sorted(counts)
    assert counts[-1] == last.count
    assert first.sum is not None
    assert last.sum is not None
    return last.count - first.count, last.sum - first.sum


async def test_token_rates_queues_and_latencies_are_what_the_clients_saw(team: World, figures: Figures):
    await team.at(1)
    clients = Clients(team.clock, team.router.url, MODEL)
    async with clients.streams(BATCH - 2):
        await team.clock.sleep(5.0)
        samples = await _samples(team, WINDOW_SAMPLES)
    assert clients.ledger.failures == []
    start, end = samples[0].at, samples[-1].at
    seconds = end - start
    seen = clients.ledger.between(start, end)

    prompt = _grown(samples, "computed_prompt_tokens") + _grown(samples, "cached_prompt_tokens")
    generation = _grown(samples, "generation_tokens")
    figures.add(
        f"tokens over {seconds:.0f} s: prompt {prompt / seconds:.1f}/s by the engine, {seen.prompt_tokens / seconds:.1f}/s "
        f"by its clients ({prompt / seen.prompt_tokens - 1:+.2%}); generation {generation / seconds:.1f}/s, "
        f"{seen.generation_tokens / seconds:.1f}/s ({generation / seen.generation_tokens - 1:+.2%})"
    )
    assert prompt == pytest.approx(seen.prompt_tokens, rel=SHARE)
    assert generation == pytest.approx(seen.generation_tokens, rel=SHARE)

    cached = _grown(samples, "cached_prompt_tokens")
    cached_by_clients = sum(
        request.cached_tokens or 0
        for request in clients.ledger.requests
        if request.first_at is not None and start < request.first_at <= end
    )
    figures.add(
        f"of the prompt tokens from the prefix cache: {cached:.0f} by the engine, {cached_by_clients} by its clients"
    )
    assert cached == pytest.approx(cached_by_clients, rel=SHARE, abs=300)  # one prompt at either end
    assert cached > 0

    first_tokens, ttft = _histogram_grown(samples, "ttft")
    gaps, itl = _histogram_grown(samples, "itl")
    figures.add(
        f"TTFT: {first_tokens:.0f} observations, mean {1000 * ttft / first_tokens:.1f} ms; clients {seen.first_tokens}, "
        f"{1000 * seen.ttft_seconds / seen.first_tokens:.1f} ms. ITL: {gaps:.0f}, {1000 * itl / gaps:.2f} ms; clients "
        f"{seen.later_tokens}, {1000 * seen.itl_seconds / seen.later_tokens:.2f} ms"
    )
    assert first_tokens == pytest.approx(seen.first_tokens, rel=SHARE)
    assert gaps == pytest.approx(seen.later_tokens, rel=SHARE)
    assert itl / gaps == pytest.approx(seen.itl_seconds / seen.later_tokens, rel=0.10)
    # A client waits for the router as well (and clients, router and API server share one core): never less.
    assert ttft / first_tokens <= seen.ttft_seconds / seen.first_tokens <= ttft / first_tokens + 0.5


async def test_what_is_beyond_the_batch_is_waiting(team: World, figures: Figures):
    await team.at(1)
    clients = Clients(team.clock, team.router.url, MODEL, output=(200, 300))
    async with clients.streams(BATCH + 6):
        await team.clock.sleep(5.0)
        samples = await _samples(team, 7)
    assert clients.ledger.failures == []
    running = [sample.reading.running_requests or 0.0 for sample in samples]
    waiting = [sample.reading.waiting_requests or 0.0 for sample in samples]
    sent = [clients.ledger.in_flight(sample.at) for sample in samples]
    figures.add(
        f"{BATCH + 6} clients, batch of {BATCH}: running {running}, waiting {waiting}; clients in flight {sent}"
    )
    assert max(running) == BATCH
    assert max(waiting) >= 4
    # Without a full batch the clients are behind with reading what the engine has answered: nothing is held then.
    full = [(held + queued, known) for held, queued, known in zip(running, waiting, sent, strict=True) if held == BATCH]
    assert len(full) >= 3
    assert sum(held for held, _ in full) == pytest.approx(sum(known for _, known in full), rel=0.15)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await _samples(team, 1))[0].reading.in_flight_requests != 0.0:
            await team.clock.sleep(1.0)
