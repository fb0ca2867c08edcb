"""What one run of the embedded world shows: sampled at the end of every interval, summed up at any time.

The clients keep what happened to requests; the recorder adds, per interval, the load of the engines and the replicas.
Every time is model time of the injected clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from controller.embedded.audit import audit
from controller.embedded.census import Census, Counts, RoleCounts
from controller.embedded.clients import OpenLoopClients
from controller.embedded.kubelet import Kubelet
from controller.embedded.measures import Distribution, Interval
from controller.embedded.results import Quantiles, RoleResults, WorldResults, WorldSeries
from controller.embedded.retirement_history import retirements
from controller.embedded.world_config import WorldConfig
from controller.foundation import Clock

_RECENT_SECONDS = 60.0


@dataclass(slots=True)
class _Course:
    """What the sampler saw at the end of every interval."""

    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)


class Recorder:
    """Records from its construction on, which is when the traffic begins, until `end`."""

    def __init__(
        self, config: WorldConfig, clock: Clock, census: Census, kubelet: Kubelet, clients: OpenLoopClients
    ) -> None:
        self.clients = clients
        self.began_seconds = clock.now()
        self._config = config
        self._clock = clock
        self._census = census
        self._kubelet = kubelet
        self._course = _Course()
        self._ended_seconds: float | None = None

    def end(self) -> None:
        """The run is over; results no longer change with the time."""
        self._ended_seconds = self._clock.now()

    async def sample(self) -> None:
        """Append to the course at the end of every interval, catching up where the machine was slow."""
        width = self._config.interval_seconds
        while True:
            await self._clock.sleep(self.began_seconds + (len(self._course.counts) + 1) * width - self._clock.now())
            loads = [container.load() for container in self._kubelet.containers.values()]
            self._course.running.append(sum(load.running for load in loads))
            self._course.waiting.append(sum(load.waiting for load in loads))
            self._course.counts.append(self._census.now)

    def recent(self, now: float) -> tuple[list[Interval], float]:
        """The intervals of about the last minute, the current one included, and how long they have lasted."""
        width = self._config.interval_seconds
        last = int((now - self.began_seconds) / width)
        first = max(0, last - max(1, round(_RECENT_SECONDS / width)))
        return self.clients.series.intervals[first : last + 1], max(1.0, now - self.began_seconds - first * width)

    def results(self, history: list[Mapping[str, Any]] | None) -> WorldResults:
        """What the run showed so far, or in all. `history` is every version of the deployment, where that is known."""
        clients, began = self.clients, self.began_seconds
        ended = self._ended_seconds if self._ended_seconds is not None else self._clock.now()
        steps = _steps(self._census.timeline, began, ended)
        totals = clients.totals
        return WorldResults(
            duration_seconds=ended - began,
            requests=totals.requests,
            completed=totals.completed,
            lost=totals.lost,
            rejected=totals.rejected,
            abandoned=totals.abandoned,
            tokens=totals.tokens,
            output_tokens=totals.output_tokens,
            roles={role.name: _role_results(role.name, steps) for role in self._config.roles},
            ttft_milliseconds=_quantiles(clients.ttft),
            itl_milliseconds=_quantiles(clients.itl),
            latest_send_seconds=clients.latest_seconds,
            late_requests=clients.late,
            loss_reasons=dict(clients.losses),
            cut_requests=self._kubelet.cut,
            writers=None if history is None else audit(history),
            retirements=None if history is None else retirements(history),
            series=self._series(),
        )

    def _series(self) -> WorldSeries:
        width = self._config.interval_seconds
        clients, course = self.clients, self._course
        # The run may end within an interval that has no sample yet.
        size = min(len(clients.series.intervals), len(course.counts))
        intervals = clients.series.intervals[:size]
        counts = course.counts[:size]
        return WorldSeries(
            interval_seconds=width,
            t_seconds=[index * width for index in range(size)],
            demand_tokens_per_second=[interval.arrived_tokens / width for interval in intervals],
            prompt_tokens_per_second=[interval.arrived_prompt_tokens / width for interval in intervals],
            served_tokens_per_second=[interval.served_tokens / width for interval in intervals],
            requests=[interval.requests for interval in intervals],
            lost=[interval.lost for interval in intervals],
            ttft_p50_seconds=[interval.ttft.quantile(0.50) for interval in intervals],
            ttft_p95_seconds=[interval.ttft.quantile(0.95) for interval in intervals],
            itl_p50_seconds=[interval.itl.quantile(0.50) for interval in intervals],
            replicas={
                role.name: [each.roles.get(role.name, RoleCounts()) for each in counts] for role in self._config.roles
            },
            running_requests=course.running[:size],
            waiting_requests=course.waiting[:size],
        )


def _steps(timeline: Sequence[Counts], began: float, ended: float) -> list[tuple[Counts, float]]:
    """(counts, how long they held) between two moments."""
    steps = []
    for index, counts in enumerate(timeline):
        start = max(began, counts.t_seconds)
        end = min(ended, timeline[index + 1].t_seconds if index + 1 < len(timeline) else ended)
        if end > start:
            steps.append((counts, end - start))
    return steps


def _role_results(name: str, steps: Sequence[tuple[Counts, float]]) -> RoleResults:
    held = [(counts.roles.get(name, RoleCounts()), seconds) for counts, seconds in steps]
    return RoleResults(
        ready_replica_seconds=sum(seconds * counts.ready for counts, seconds in held),
        desired_replica_seconds=sum(seconds * counts.desired for counts, seconds in held),
        max_ready_replicas=max((counts.ready for counts, _ in held), default=0),
        max_desired_replicas=max((counts.desired for counts, _ in held), default=0),
        replica_changes=sum(a.desired != b.desired for (a, _), (b, _) in pairwise(held)),
    )


def _quantiles(distribution: Distribution) -> Quantiles:
    def milliseconds(share: float) -> float | None:
        value = distribution.quantile(share)
        return None if value is None else value * 1000

    return Quantiles(milliseconds(0.50), milliseconds(0.95), milliseconds(0.99))
