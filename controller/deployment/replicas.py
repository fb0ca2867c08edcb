"""Pods as replicas: who belongs together, what a replica is able to do, what has become of it. Pure.

Everything is told from the Pods themselves (how many members they were created as, which of them answer), never from
the spec, which may have changed since or dropped the role.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.api import ROLE_KIND_LABEL, SCRAPE_ANNOTATION, Pod, RoleKind
from controller.deployment.names import (
    FINGERPRINT_ANNOTATION,
    FIRST_ELIGIBLE_ANNOTATION,
    REPLICA_SIZE_ANNOTATION,
    replica_name,
)

_HANDING_OVER = {str(kind).lower() for kind in (RoleKind.PREFILL, RoleKind.DECODE, RoleKind.ENCODE)}


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica: its members that exist, in the order of their seats."""

    deployment: str
    role: str
    ordinal: int
    members: tuple[Pod, ...]

    @property
    def name(self) -> str:
        """What messages call it."""
        return replica_name(self.deployment, self.role, self.ordinal)

    @property
    def size(self) -> int:
        """Members it was created with; 1 where no Pod says so."""
        sizes = [pod.metadata.annotation(REPLICA_SIZE_ANNOTATION) or "" for pod in self.members]
        return max((int(size) for size in sizes if size.isascii() and size.isdecimal() and len(size) < 4), default=1)

    @property
    def seats(self) -> set[int]:
        """The seats that are taken, by Pods that are leaving too."""
        return {pod.member_index for pod in self.members if pod.member_index is not None}

    @property
    def uids(self) -> tuple[str, ...]:
        """The Pods' UIDs."""
        return tuple(pod.metadata.uid for pod in self.members)

    @property
    def complete(self) -> bool:
        """Every member exists and stays."""
        staying = {pod.member_index for pod in self.members if not pod.deleting and not pod.finished}
        return staying >= set(range(self.size))

    @property
    def ready(self) -> bool:
        """Every member is there and Ready."""
        return self.complete and all(pod.ready for pod in self.members)

    @property
    def leaving(self) -> bool:
        """A member is being deleted."""
        return any(pod.deleting for pod in self.members)

    @property
    def labelled(self) -> bool:
        """A member carries the eligibility label."""
        return any(pod.eligible for pod in self.members)

    @property
    def served(self) -> bool:
        """A request may have reached it: it was offered once, or what answers for it is Ready."""
        offered = any(
            pod.eligible or pod.metadata.annotation(FIRST_ELIGIBLE_ANNOTATION) is not None for pod in self.members
        )
        return offered or any(pod.ready for pod in self.answering or self.members)

    @property
    def stripped(self) -> bool:
        """A member has lost an annotation that each is created with, so it may have lost others that would tell."""
        return any(pod.metadata.annotation(FINGERPRINT_ANNOTATION) is None for pod in self.members)

    @property
    def answering(self) -> tuple[Pod, ...]:
        """The members that answer for it; empty for a role that took over its command line."""
        return tuple(pod for pod in self.members if pod.metadata.annotation(SCRAPE_ANNOTATION) == "true")

    @property
    def led(self) -> bool:
        """One member answers for all: they share their fate."""
        return self.size > 1 and all(pod.member_index == 0 for pod in self.answering)

    @property
    def broken(self) -> bool:
        """It served as one process over several Pods and has lost one: what is left can do nothing."""
        return self.led and self.served and not self.leaving and not self.complete

    @property
    def hands_over(self) -> bool:
        """Prefill and decode replicas hold blocks for each other after a request has left their queues; an encoder may
        hold embeddings that the prefill side has still to fetch (SGLang's, with the transfer backend mooncake, counts a
        request as ended before that)."""
        return any(pod.metadata.label(ROLE_KIND_LABEL) in _HANDING_OVER for pod in self.members)


def group_replicas(deployment: str, pods: Iterable[Pod]) -> list[Replica]:
    """The replicas that these Pods make up, by role and ordinal; Pods whose labels do not place them are left out."""
    groups: dict[tuple[str, int], list[Pod]] = {}
    for pod in pods:
        if pod.role is not None and pod.ordinal is not None and pod.member_index is not None and pod.router is None:
            groups.setdefault((pod.role, pod.ordinal), []).append(pod)
    return [
        Replica(deployment, role, ordinal, tuple(sorted(members, key=lambda pod: pod.member_index or 0)))
        for (role, ordinal), members in sorted(groups.items())
    ]
