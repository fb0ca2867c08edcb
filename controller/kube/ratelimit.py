"""How long a key waits after its nth failure in a row: exponential per key, no jitter, no global bucket.

client-go also has a token bucket of 10 per second for all keys together, and a cap of 16.7 minutes. Both are left out
on purpose: after an outage the bucket makes a thousand keys wait for each other, and nobody waits a quarter of an
hour to see whether a repaired object works.
"""

from __future__ import annotations

BASE_SECONDS = 0.005
CAP_SECONDS = 300.0
# 5 ms · 2^16 is past the cap; larger exponents only make larger numbers.
_MAX_EXPONENT = 16


class ItemBackoff:
    """Failures per key. A key costs memory from its first failure until `forget`."""

    def __init__(self, base_seconds: float = BASE_SECONDS, cap_seconds: float = CAP_SECONDS) -> None:
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._failures: dict[str, int] = {}

    def next_delay(self, key: str) -> float:
        """The delay after one more failure: base, 2·base, 4·base … up to the cap."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(self._base_seconds * 2.0 ** min(failures, _MAX_EXPONENT), self._cap_seconds)

    def failures(self, key: str) -> int:
        """How often the key has failed since it was last forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: str) -> None:
        """The key succeeded."""
        self._failures.pop(key, None)
