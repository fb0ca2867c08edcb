"""What Pods were made from, as far as that can be told: the bound on making replicas again. Pure.

A Pod says it itself, in an annotation that this controller writes at the creation. Annotations are not ours alone: an
admission webhook can strip or change them when the Pod is made, a policy engine at any time after. A Pod that is made
again because of what somebody else wrote comes up the same way, and would be made again for ever, on accelerators that
serve nobody meanwhile. Hence:

* Without a fingerprint of our shape nobody knows what a Pod was made from, and what is not known is not outdated.
* A place that is known to be made from the present spec cannot be outdated. Whatever its Pods say then, somebody else
  wrote it, or reckons differently; they are left as they are. Known is a place that this process created or made again
  from that spec, or saw carry its fingerprint; and after a restart every place of which the stored condition says so
  for the present generation, or says that its rollout was stopped.

So one process makes a place again once at most for each change of its spec, whatever the reason. One that starts in the
middle of a rollout, or after a change that nobody carried out, may do so once more. A changed spec begins anew; so do
Pods that are made again after a person has deleted them, as soon as they keep what was written on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from controller.api import ModelDeployment
from controller.deployment.fingerprint import fingerprint
from controller.deployment.names import FINGERPRINT_ANNOTATION
from controller.deployment.replicas import Replica
from controller.foundation import some_of

# The condition that tells of it, and its reasons.
UP_TO_DATE: Final = "ReplicasUpToDate"
UP_TO_DATE_REASON: Final = "UpToDate"
STOPPED_REASON: Final = "RolloutStopped"
UNREADABLE_REASON: Final = "PodSpecHashUnreadable"

_FINGERPRINT: Final = re.compile(r"[0-9a-f]{16}")


# Of Pods and replicas that a message names.
_SHOWN: Final = 8


class Origin(StrEnum):
    """What a replica was made from."""

    PRESENT = "Present"  # every member from the present spec
    OLDER = "Older"  # a member says that it was another one
    UNKNOWN = "Unknown"  # a member does not say, and none says that it was another one


def origin_of(replica: Replica, present: str) -> Origin:
    """What the members of a replica say."""
    said = [pod.metadata.annotation(FINGERPRINT_ANNOTATION) or "" for pod in replica.members]
    readable = [each for each in said if _FINGERPRINT.fullmatch(each)]
    if any(each != present for each in readable):
        return Origin.OLDER
    return Origin.PRESENT if len(readable) == len(said) else Origin.UNKNOWN


def silent_members(replica: Replica) -> list[str]:
    """The names of the Pods that do not say what they were made from."""
    return [
        pod.metadata.name
        for pod in replica.members
        if not _FINGERPRINT.fullmatch(pod.metadata.annotation(FINGERPRINT_ANNOTATION) or "")
    ]


@dataclass(slots=True)
class _Role:
    """The places of a role that are known to be made from one spec."""

    made_from: str
    ordinals: set[int] = field(default_factory=set)


class Provenance:
    """What one process knows of the places of one deployment."""

    def __init__(self) -> None:
        self._roles: dict[str, _Role] | None = None

    def look(self, deployment: ModelDeployment, replicas: Iterable[Replica]) -> None:
        """Take in what there is at the beginning of a pass. The first look also takes in what is stored."""
        stored = self._roles is None and _told_before(deployment)
        known = self._roles or {}
        self._roles = {}
        for role in deployment.roles:
            present = fingerprint(deployment, role)
            before = known.get(role.name)
            if before is None or before.made_from != present:
                before = _Role(present, set(range(role.replicas)) if stored else set())
            self._roles[role.name] = before
        for replica in replicas:
            mine = self._roles.get(replica.role)
            if mine is not None and origin_of(replica, mine.made_from) is Origin.PRESENT:
                mine.ordinals.add(replica.ordinal)

    def made(self, role: str, ordinal: int) -> None:
        """A Pod of this place was created from the spec of the last look, or deleted to be made again from it."""
        if self._roles is not None and role in self._roles:
            self._roles[role].ordinals.add(ordinal)

    def knows(self, role: str, ordinal: int) -> bool:
        """Whether the place is known to be made from the spec of the last look."""
        return self._roles is not None and role in self._roles and ordinal in self._roles[role].ordinals


def unreadable_note(pods: Sequence[str]) -> str:
    """For people: these Pods do not say what they were made from. Empty for none."""
    if not pods:
        return ""
    return (
        f"nobody can tell from which spec these Pods were made: {some_of(pods, _SHOWN)}; their annotation "
        f"{FINGERPRINT_ANNOTATION} is missing or not this controller's, as an admission webhook or a policy leaves it, "
        "and without it a Pod is never made again when the spec changes: exempt the annotation there, then delete "
        "these Pods one at a time"
    )


def stopped_note(replicas: Sequence[str]) -> str:
    """For people: these replicas were made from the present spec and deny it. Empty for none."""
    if not replicas:
        return ""
    return (
        f"these replicas were made from the present spec and say otherwise: {some_of(replicas, _SHOWN)}; something "
        f"changes the annotation {FINGERPRINT_ANNOTATION} of Pods (an admission webhook, a policy, another version of "
        "this controller), so nothing of their role is made again: end that, then delete their Pods one at a time"
    )


def _told_before(deployment: ModelDeployment) -> bool:
    """Whether an earlier process found the replicas made from this very spec, or stopped making them again."""
    condition = deployment.condition(UP_TO_DATE)
    return (
        condition is not None
        and condition.observed_generation == deployment.metadata.generation
        and condition.reason in (UP_TO_DATE_REASON, STOPPED_REASON)
    )
