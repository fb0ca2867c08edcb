"""What this process knows of each deployment between two passes. Dropped when the deployment goes.

Nothing here is needed for safety: a process that starts without it takes the stored operation up and reads twice again,
and what is known of the Pods' origin begins with what the stored condition says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from controller.deployment.provenance import Provenance
from controller.deployment.retirement import Operation, delayed

# A pass may be so late on a busy machine without anything being wrong.
LATE_SECONDS: Final = 15.0


@dataclass(slots=True)
class Track:
    """One operation of this process, and when its members may be read again (model time)."""

    operation: Operation
    next_look_at: float = float("-inf")
    seen_at: float | None = None  # when it was last carried on
    due_at: float | None = None  # and when it was to be carried on next

    def carried(self, now: float, again_in: float | None) -> None:
        """It was carried on, and is to be again in so many seconds (None: on an event)."""
        self.seen_at = now
        self.due_at = None if again_in is None else now + again_in

    def catch_up(self, now: float) -> bool:
        """Time in which nobody looked is not charged, whatever took it: a process that was stopped, an API server that
        did not answer, a clock that was set forward, or back. The budgets move by it; whether they did."""
        if self.seen_at is None or not self.operation.running:
            return False
        moved = 0.0
        if now < self.seen_at:
            moved = now - self.seen_at
        elif self.due_at is not None and now > self.due_at + LATE_SECONDS:
            moved = now - self.due_at
        if not moved:
            return False
        self.operation = delayed(self.operation, moved)
        self.next_look_at += moved
        self.carried(now, 0.0)
        return True


@dataclass(slots=True)
class DeploymentMemory:
    """One deployment, by its UID: another UID under the same name is another deployment."""

    uid: str
    retirement: Track | None = None
    replacement: Track | None = None
    provenance: Provenance = field(default_factory=Provenance)
    told: dict[str, str] = field(default_factory=dict)  # topic → what was last said about it in an event
    lags: int = 0  # passes in a row that had to wait for a cache
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)  # write → kind of its failure and first message

    def news(self, topic: str, text: str) -> bool:
        """Whether this has not just been said; an empty text ends the topic."""
        if self.told.get(topic, "") == text:
            return False
        self.told[topic] = text
        return bool(text)


class Memories:
    """The memory of every deployment this process carries out."""

    def __init__(self) -> None:
        self._by_key: dict[str, DeploymentMemory] = {}

    def of(self, key: str, uid: str) -> DeploymentMemory:
        """The memory of a deployment; a new one for a new UID."""
        known = self._by_key.get(key)
        if known is None or known.uid != uid:
            known = self._by_key[key] = DeploymentMemory(uid)
        return known

    def pop(self, key: str) -> DeploymentMemory | None:
        """Forget a deployment that is gone."""
        return self._by_key.pop(key, None)
