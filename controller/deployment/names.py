"""What the objects of a ModelDeployment are called, and which names cannot be.

A Pod is `<deployment>-<role>-<ordinal>`, above size 1 with `-m<member>`: one replica has one name, so two controllers
can never both create it, and a crash between a create and its answer is found again by the same name. Services are
`<deployment>` (in front of the first role), `<deployment>-<role>`, and for each replica above size 1 the headless
`<deployment>-<role>-r<ordinal>`, by which its members find their leader.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from controller.api import ModelDeployment, Role

# On Pods, beside the contract's.
FINGERPRINT_ANNOTATION: Final = "modeldeployment.gpustack.ai/pod-spec-hash"
# Ours: when the Pod first became eligible. A Pod without it has never been offered a request, whoever asks, after
# whatever crash.
FIRST_ELIGIBLE_ANNOTATION: Final = "scaling.worker.gpustack.ai/first-eligible"
# Ours: members of the replica as it was created; the spec may have changed since.
REPLICA_SIZE_ANNOTATION: Final = "scaling.worker.gpustack.ai/replica-size"

_MAX_LABEL = 63  # of a DNS label, of a label's value
# RFC 1035, which Services still ask for where RelaxedServiceNameValidation is off: a letter comes first.
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def pod_name(deployment: str, role: str, ordinal: int, member: int, size: int) -> str:
    """The name of one member's Pod."""
    replica = replica_name(deployment, role, ordinal)
    return replica if size == 1 else f"{replica}-m{member}"


def replica_name(deployment: str, role: str, ordinal: int) -> str:
    """What messages call a replica: the name of its Pod, or the stem of its Pods' names."""
    return f"{deployment}-{role}-{ordinal}"


def role_service(deployment: str, role: str) -> str:
    """The Service in front of a role."""
    return f"{deployment}-{role}"


def group_service(deployment: str, role: str, ordinal: int) -> str:
    """The headless Service of a replica above size 1."""
    return f"{deployment}-{role}-r{ordinal}"


def leader_host(deployment: str, role: Role, ordinal: int, namespace: str) -> str:
    """Where the members of a replica find member 0; it resolves before the leader is Ready. Empty at size 1."""
    if role.size == 1:
        return ""
    leader = pod_name(deployment, role.name, ordinal, 0, role.size)
    return f"{leader}.{group_service(deployment, role.name, ordinal)}.{namespace}.svc"


def service_names(deployment: ModelDeployment) -> list[str]:
    """Every Service that the declared replicas ask for, in a stable order."""
    name = deployment.metadata.name
    names = [name]
    for role in deployment.roles:
        names.append(role_service(name, role.name))
        if role.size > 1:
            names += [group_service(name, role.name, ordinal) for ordinal in range(role.replicas)]
    return names


def name_finding(deployment: ModelDeployment, role: Role) -> str:
    """Why a role's objects cannot be named, with the way out; empty where they can."""
    name = deployment.metadata.name
    service = role_service(name, role.name)
    if len(name) > _MAX_LABEL:
        return f"the name of the ModelDeployment has {len(name)} characters, a label holds {_MAX_LABEL}: rename it"
    if _DNS_1035.fullmatch(name) is None:
        return f"Service {name} cannot exist: a Service's name starts with a letter and has no dots; rename it"
    last = max(role.replicas - 1, 0)
    longest = max(
        (service, pod_name(name, role.name, last, role.size - 1, role.size), group_service(name, role.name, last)),
        key=len,
    )
    if len(longest) > _MAX_LABEL:
        return f"{longest} has {len(longest)} characters, a DNS label holds {_MAX_LABEL}: choose shorter names"
    wanted = Counter(service_names(deployment))
    mine = {service} | {group_service(name, role.name, each) for each in range(role.replicas) if role.size > 1}
    twice = sorted(each for each in mine if wanted[each] > 1)
    if twice:
        return f"two Services of this ModelDeployment would be called {twice[0]}: rename a role"
    return ""
