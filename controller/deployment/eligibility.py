"""Whether a replica may be offered requests, and the labels that say so. Pure; this controller is the only writer.

A replica is eligible when every leg holds; all its members carry the label then, and none of them otherwise. A leg
that fails takes the label away at once. A replica beyond the declared count stays eligible until its own retirement
begins: replicas are retired one at a time, and those that wait serve on.

    MemberSetComplete      every member exists and none is being deleted
    MembersReady           every member is Ready
    NoPlannedRetirement    no retirement targets it, an aborted one neither
    NoPendingReplacement   it is not being replaced by one made from the present spec

The operator's fifth leg, GroupForward, is about admission by Kueue, which does not exist here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from controller.api import Pod
from controller.deployment.replicas import Replica


class Leg(StrEnum):
    """What eligibility stands on."""

    MEMBER_SET_COMPLETE = "MemberSetComplete"
    MEMBERS_READY = "MembersReady"
    NO_PLANNED_RETIREMENT = "NoPlannedRetirement"
    NO_PENDING_REPLACEMENT = "NoPendingReplacement"


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A Pod whose label is not what it has to be."""

    pod: Pod
    eligible: bool


def failed_leg(replica: Replica, *, retiring: Iterable[str], replacing: Iterable[str]) -> Leg | None:
    """The first leg that does not hold, None for an eligible replica. `retiring`, `replacing`: UIDs of the Pods that
    a retirement or a replacement is about."""
    uids = set(replica.uids)
    if uids.intersection(retiring):
        return Leg.NO_PLANNED_RETIREMENT
    if uids.intersection(replacing):
        return Leg.NO_PENDING_REPLACEMENT
    if not replica.complete or replica.leaving:
        return Leg.MEMBER_SET_COMPLETE
    return None if replica.ready else Leg.MEMBERS_READY


def label_changes(
    replicas: Iterable[Replica], *, retiring: Iterable[str], replacing: Iterable[str]
) -> list[LabelChange]:
    """The Pods whose label must change, those that lose it first. What is being deleted is left alone, and so is a Pod
    that could not be read: nothing is known of it."""
    left, gained = set(retiring), set(replacing)
    changes = []
    for replica in replicas:
        eligible = failed_leg(replica, retiring=left, replacing=gained) is None
        changes += [
            LabelChange(pod, eligible)
            for pod in replica.members
            if pod.eligible is not eligible and not pod.deleting and not pod.malformed
        ]
    return sorted(changes, key=lambda change: change.eligible)
