"""How long to wait before trying again: exponential with jitter, forgotten after a stretch of health.

Pure: the caller passes the time and does the waiting. Used by reflectors; the back-off of a work queue's keys (no
jitter, no reset by time) is in `ratelimit`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """`jitter` 1.0 draws from [d, 2d): hundreds of reflectors cut off by one restart of the server come back spread."""

    initial_seconds: float
    factor: float
    cap_seconds: float
    jitter: float
    reset_after_seconds: float


# client-go's figures for list+watch: 800 ms and 30 s keep a dead server at 1/45 requests per second and reflector, two
# minutes of health are longer than any single delay, so a flapping server is not taken for a healthy one.
REFLECTOR_BACKOFF = BackoffPolicy(0.8, 2.0, 30.0, 1.0, 120.0)


class Backoff:
    """The state of one series of attempts."""

    def __init__(self, policy: BackoffPolicy, rng: random.Random) -> None:
        self._policy = policy
        self._rng = rng
        self._base_seconds = policy.initial_seconds
        self._last_at: float | None = None
        self.failures = 0  # in a row, for logs and metrics

    def next_delay(self, now: float) -> float:
        """The delay before the next attempt, in seconds. Each call counts as one failure."""
        if self._last_at is not None and now - self._last_at > self._policy.reset_after_seconds:
            self.reset()
        self._last_at = now
        self.failures += 1
        base = self._base_seconds
        self._base_seconds = min(base * self._policy.factor, self._policy.cap_seconds)
        return base + base * self._policy.jitter * self._rng.random()

    def reset(self) -> None:
        """Forget the failures: the next delay is the shortest again."""
        self._base_seconds = min(self._policy.initial_seconds, self._policy.cap_seconds)
        self._last_at = None
        self.failures = 0
