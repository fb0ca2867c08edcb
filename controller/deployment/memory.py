"""What this process knows of each deployment between two passes. Dropped when the deployment goes.

Nothing here is needed for safety: a process that starts without it takes the stored operation up and reads twice again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.deployment.retirement import Operation


@dataclass(slots=True)
class Track:
    """One operation of this process, and when its members may be read again (model time)."""

    operation: Operation
    next_look_at: float = float("-inf")


@dataclass(slots=True)
class DeploymentMemory:
    """One deployment, by its UID: another UID under the same name is another deployment."""

    uid: str
    retirement: Track | None = None
    replacement: Track | None = None
    told: dict[str, str] = field(default_factory=dict)  # topic → what was last said about it in an event

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
