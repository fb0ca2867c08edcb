"""Declared counts that go up and down while clients stream: the hardest thing for a promise to lose no request.

Plays the person who edits a ModelDeployment, through the API alone. A cycle raises the count of one role, waits until
the new replicas serve, lowers it again, and waits until the surplus is gone. With several roles the cycles take turns.
A retirement that is aborted (its budgets are model time, and a machine may stall) keeps its replica out of service; the
count is raised over it and lowered again, as a scaler would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np

from controller.embedded.apiclient import ApiClient, ApiFailure
from controller.embedded.census import Census, RoleCounts
from controller.embedded.contract import MODEL_DEPLOYMENTS
from controller.embedded.pace import patience_seconds
from controller.foundation import Clock, OperationFailed
from controller.plant import Arrival, RequestTrace

_LOOK_SECONDS = 1.0
# Of model time for one leg of a cycle: a start-up, or the retirements with their drains and the grace of hand-overs. A
# leg that has an aborted retirement begins anew, so often at most: a machine that stalls aborts several in a row.
_PATIENCE_SECONDS = 3600.0
_MOST_TRIES = 20
_CONFLICT = (409, 422)


@dataclass(frozen=True, slots=True)
class Cycles:
    """How often, between which counts."""

    count: int = 20
    low: int = 1
    high: int = 4


async def cycle_counts(
    api: ApiClient,
    clock: Clock,
    census: Census,
    *,
    namespace: str,
    deployment: str,
    roles: Sequence[str],
    cycles: Cycles,
    routed: Callable[[], int],
) -> int:
    """Carry the cycles out; how many legs had to be begun again after an aborted retirement.

    `routed`: how many members the router would choose; a cycle is up when all replicas are. Raises OperationFailed
    where a leg does not come to its end.
    """
    again = 0
    for role in islice(cycle(roles), cycles.count):
        await _declare(api, namespace, deployment, role, cycles.high)
        await _until(clock, lambda role=role: _up(census, role, cycles.high, routed), f"{role} up")  # type: ignore[misc]
        await _declare(api, namespace, deployment, role, cycles.low)
        lowered, tries = clock.now(), 1
        while not _is(census, role, cycles.low):
            await clock.sleep(_LOOK_SECONDS)
            if await _aborted(api, namespace, deployment) and tries < _MOST_TRIES:
                again += 1
                await _declare(api, namespace, deployment, role, cycles.high)
                await _until(clock, lambda role=role: _up(census, role, cycles.high, routed), f"{role} up again")  # type: ignore[misc]
                await _declare(api, namespace, deployment, role, cycles.low)
                lowered, tries = clock.now(), tries + 1
            if clock.now() - lowered > patience_seconds(clock, _PATIENCE_SECONDS):
                raise OperationFailed(f"{role} did not come down to {cycles.low} in {tries} tries: {census.now.roles}")
    return again


def sampled_traffic(
    trace: RequestTrace, *, requests_per_second: float, seed: int, done: Callable[[], bool]
) -> Iterator[Arrival]:
    """Requests with lengths drawn from a trace, at random moments, until `done`."""
    rng = np.random.default_rng(seed)
    served = np.flatnonzero((trace.prompt_tokens > 0) & (trace.output_tokens > 0))
    t_seconds = 0.0
    while not done():
        t_seconds += float(rng.exponential(1.0 / requests_per_second))
        row = int(rng.choice(served))
        yield Arrival(t_seconds, int(trace.prompt_tokens[row]), int(trace.output_tokens[row]))


def steady_traffic(
    *,
    requests_per_second: float,
    prompt_tokens: int,
    short_tokens: int,
    long_tokens: int,
    long_share: float,
    seed: int,
    done: Callable[[], bool],
) -> Iterator[Arrival]:
    """Requests at random moments, most of them short and some long, until `done`."""
    rng = np.random.default_rng(seed)
    t_seconds = 0.0
    while not done():
        t_seconds += float(rng.exponential(1.0 / requests_per_second))
        longest = long_tokens if rng.random() < long_share else short_tokens
        yield Arrival(t_seconds, prompt_tokens, int(rng.integers(longest // 2, longest + 1)))


async def _declare(api: ApiClient, namespace: str, deployment: str, role: str, count: int) -> None:
    """Write one count, from what is there now; a write that somebody else was faster than is made again."""
    while True:
        found = await api.get(MODEL_DEPLOYMENTS, namespace, deployment)
        roles = [each | ({"replicas": count} if each["name"] == role else {}) for each in found["spec"]["roles"]]
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        try:
            await api.merge_patch(
                MODEL_DEPLOYMENTS, namespace, deployment, {"metadata": version, "spec": {"roles": roles}}
            )
        except ApiFailure as failure:
            if failure.status not in _CONFLICT:
                raise
        else:
            return


async def _aborted(api: ApiClient, namespace: str, deployment: str) -> bool:
    found = await api.get(MODEL_DEPLOYMENTS, namespace, deployment)
    return ((found.get("status") or {}).get("retirement") or {}).get("state") == "Aborted"


def _is(census: Census, role: str, count: int) -> bool:
    return census.now.roles.get(role) == RoleCounts(count, count, count)


def _up(census: Census, role: str, count: int, routed: Callable[[], int]) -> bool:
    return _is(census, role, count) and routed() == census.now.total.ready


async def _until(clock: Clock, condition: Callable[[], bool], what: str) -> None:
    began = clock.now()
    while not condition():
        if clock.now() - began > patience_seconds(clock, _PATIENCE_SECONDS):
            raise OperationFailed(f"never came true: {what}")
        await clock.sleep(_LOOK_SECONDS)
