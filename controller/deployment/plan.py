"""Which Pods to create, to throw away, and which replica to make again. Pure: one look at what is there.

Retirement is not decided here; a replica that an operation is about is `held` and left alone.

Thrown away without a drain are Pods that can hold no request any more: those whose containers have ended for good (an
evicted Pod, say), and what is left of a replica that served as one process over several Pods and lost one of them.

A changed spec is carried out one replica at a time over the whole deployment, and only while every other replica of
the role is Ready: a spec that does not start stops after the first. Replicas that are not Ready go first; they lose
nothing. What Pods say that they were made from is believed within bounds (`provenance`): a replica that does not say is
left alone, and where one that is known to be made from the present spec denies it, the role's rollout stops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from controller.api import ModelDeployment, Pod, Role
from controller.deployment.fingerprint import fingerprint
from controller.deployment.pods import Seat
from controller.deployment.provenance import Origin, Provenance, origin_of, silent_members
from controller.deployment.replicas import Replica

Place = tuple[str, int]  # role and ordinal


@dataclass(frozen=True, slots=True)
class Discard:
    """A Pod that can hold no request any more, and why it goes."""

    pod: Pod
    reason: str  # of the event
    note: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about the Pods."""

    create: tuple[tuple[Role, Seat], ...]
    discard: tuple[Discard, ...]


@dataclass(frozen=True, slots=True)
class Rollout:
    """Declared replicas made from an older spec, by role, and the one to make again now (None: none may be). `silent`:
    Pods that do not say what they were made from. `stopped`: replicas that were made from the present spec and deny it,
    by role; nothing is made again in these roles."""

    outdated: Mapping[str, int]
    victim: Replica | None
    waits_for: str = ""
    silent: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()


def plan_replicas(
    deployment: ModelDeployment,
    roles: Iterable[Role],
    replicas: Iterable[Replica],
    held: Collection[Place],
    provenance: Provenance,
) -> Plan:
    """What leads to the declared replicas of `roles`, which are those that can be carried out."""
    present = {(replica.role, replica.ordinal): replica for replica in replicas}
    create: list[tuple[Role, Seat]] = []
    for role in roles:
        made_from = fingerprint(deployment, role)
        for ordinal in range(role.replicas):
            if (role.name, ordinal) not in held:
                replica = present.get((role.name, ordinal))
                outdated = replica is not None and is_outdated(replica, made_from, provenance)
                missing = [] if outdated else _missing_seats(role, replica)
                create += [(role, Seat(ordinal, member)) for member in missing]
    free = (replica for place, replica in present.items() if place not in held)
    return Plan(tuple(create), tuple(_discards(free)))


def _discards(replicas: Iterable[Replica]) -> Iterable[Discard]:
    """The Pods that can hold no request any more."""
    for replica in replicas:
        for pod in replica.members:
            if pod.deleting:
                continue
            if pod.finished:
                note = f"Pod {pod.metadata.name} has ended ({pod.status.phase}) and is removed"
                yield Discard(pod, "ReplicaEvicted", note)
            elif replica.broken:
                note = f"{replica.name} has lost a member, so Pod {pod.metadata.name} is removed as well"
                yield Discard(pod, "ReplicaRestarted", note)


def is_outdated(replica: Replica, made_from: str, provenance: Provenance) -> bool:
    """Whether a replica has to be made again: it says that it was made from another spec, and may well have been."""
    return origin_of(replica, made_from) is Origin.OLDER and not provenance.knows(replica.role, replica.ordinal)


def plan_rollout(
    deployment: ModelDeployment,
    roles: Iterable[Role],
    replicas: Iterable[Replica],
    held: Collection[Place],
    provenance: Provenance,
) -> Rollout:
    """Where a changed spec stands."""
    outdated: dict[str, int] = {}
    victim: Replica | None = None
    waits_for = ""
    silent: list[str] = []
    stopped: list[str] = []
    everything = list(replicas)
    for role in roles:
        made_from = fingerprint(deployment, role)
        declared = [each for each in everything if each.role == role.name and each.ordinal < role.replicas]
        silent += [name for replica in declared for name in silent_members(replica)]
        old = [replica for replica in declared if origin_of(replica, made_from) is Origin.OLDER]
        # What is on its way out says what it was made from, and its place is known for what will be there.
        free = [replica for replica in old if (role.name, replica.ordinal) not in held and not replica.leaving]
        deny = [replica.name for replica in free if provenance.knows(role.name, replica.ordinal)]
        stopped += deny
        if len(old) > len(deny):
            outdated[role.name] = len(old) - len(deny)
        if victim is not None or not free or deny:
            continue
        unready = [replica for replica in declared if not replica.ready]
        # One that is out of selection already is where an earlier process stopped.
        candidate = min(free, key=lambda each: (each.ready, each.labelled, -each.ordinal))
        if candidate.ready and (unready or len(declared) < role.replicas):
            waits_for = waits_for or f"role {role.name} has replicas that are not Ready"
        else:
            victim = candidate
    return Rollout(outdated, victim, waits_for, tuple(silent), tuple(stopped))


def surplus(deployment: ModelDeployment, replicas: Iterable[Replica]) -> Replica | None:
    """The next replica to retire: of the first role in spec order that has too many, the highest ordinal; roles that
    the spec has dropped come last. None where no replica is beyond the declared count."""
    order = {role.name: index for index, role in enumerate(deployment.roles)}
    beyond = [
        replica
        for replica in replicas
        if not declares(deployment, replica.role, replica.ordinal) and not replica.leaving and not replica.broken
    ]
    living = [replica for replica in beyond if not all(pod.finished for pod in replica.members)]
    return min(living, key=lambda each: (order.get(each.role, len(order)), each.role, -each.ordinal), default=None)


def declares(deployment: ModelDeployment, role: str, ordinal: int) -> bool:
    """Whether the declared counts include this replica."""
    declared = deployment.role(role)
    return declared is not None and ordinal < declared.replicas


def _missing_seats(role: Role, replica: Replica | None) -> list[int]:
    if replica is None:
        return list(range(role.size))
    if replica.broken or (replica.led and replica.leaving):
        return []  # it is made again as a whole first
    return sorted(set(range(role.size)) - replica.seats)
