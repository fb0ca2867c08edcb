"""How long a key waits after its nth failure in a row: exponential per key, no jitter, no global bucket.

client-go also has a token bucket of 10 per second for all keys together, and a cap of 16.7 minutes. Both are left out
on purpose: after an outage the bucket makes a thousand keys wait for each other, and nobody waits a quarter of an
hour to see whether a repaired object works.

An outage is not the key's fault. While the API server cannot be reached or protects itself, every key fails, and a wait
that doubles with each try lasts as long again as the outage did: five minutes more for one of five minutes. So such a
failure waits as long as the server says, or by a lower cap, and leaves the exponent there: the first conflict after
the outage is not punished for it.
"""

from __future__ import annotations

from dataclasses import dataclass

BASE_SECONDS = 0.005
CAP_SECONDS = 300.0
# A thousand keys then ask a dead server a hundred times a second at most, far below what the cap on concurrent requests
# lets through, and all are back within a usual decision interval of its return.
OUTAGE_CAP_SECONDS = 10.0
# 5 ms · 2^16 is past the cap; larger exponents only make larger numbers.
_MAX_EXPONENT = 16


@dataclass(slots=True)
class _Failures:
    count: int = 0
    exponent: int = 0


class ItemBackoff:
    """Failures per key. A key costs memory from its first failure until `forget`."""

    def __init__(self, base_seconds: float = BASE_SECONDS, cap_seconds: float = CAP_SECONDS) -> None:
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._failures: dict[str, _Failures] = {}

    def next_delay(self, key: str, cap_seconds: float | None = None) -> float:
        """The delay after one more failure: base, 2·base, 4·base … up to the cap. A lower cap for this failure also
        keeps the exponent from growing beyond it."""
        cap = self._cap_seconds if cap_seconds is None else min(cap_seconds, self._cap_seconds)
        failures = self._failures.setdefault(key, _Failures())
        failures.count += 1
        delay = self._base_seconds * 2.0**failures.exponent
        if delay < cap and failures.exponent < _MAX_EXPONENT:
            failures.exponent += 1
        return min(delay, cap)

    def failures(self, key: str) -> int:
        """How often the key has failed since it was last forgotten."""
        found = self._failures.get(key)
        return found.count if found else 0

    def forget(self, key: str) -> None:
        """The key succeeded."""
        self._failures.pop(key, None)
