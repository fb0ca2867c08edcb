"""What of a role cannot be carried out here, each as a sentence with the way out. Pure.

Of a refused role nothing is created or replaced, and status says why; the replicas it has serve on, and those beyond
the declared count are retired as ever.
"""

from __future__ import annotations

from controller.api import ModelDeployment, Role
from controller.deployment.flags import Flags
from controller.deployment.images import image_of
from controller.deployment.names import name_finding

# Set on every member, so that a command line may refer to them; nobody else's value would be right.
RESERVED_VARIABLES = ("GPUSTACK_REPLICA_LEADER_ADDRESS", "GPUSTACK_REPLICA_SIZE", "GPUSTACK_MEMBER_INDEX")


def nonsense(deployment: ModelDeployment) -> str:
    """What of the declared counts cannot be, whoever let it in; empty where they make sense. Nothing is changed on such
    evidence, or a count of -1 would retire everything."""
    names = [role.name for role in deployment.roles]
    for role in deployment.roles:
        if names.count(role.name) > 1:
            return f"role {role.name} is declared more than once: remove one"
        if role.size < 1 or role.replicas < 0:
            return (
                f"role {role.name} declares {role.replicas} replicas of {role.size} Pods, which cannot be: correct it"
            )
    return ""


def role_refusal(deployment: ModelDeployment, role: Role) -> str:
    """Why this role is not carried out; empty where it is."""
    engine = deployment.spec.engine.known
    if engine is None:
        return f"engine {deployment.spec.engine.name or '(none)'} is not known: it must be vLLM or SGLang"
    if role.known_kind is None:
        return f"kind {role.kind} is not known here: it must be Server, Prefill, Decode or Encode"
    if role.elastic:
        return "elasticEp resizes inside the engine, which standalone mode does not do: remove it, or run the operator"
    slices = role.resources
    if slices is not None and (
        slices.accelerator_sliced_memory_percentage
        or slices.accelerator_sliced_cores_percentage
        or slices.accelerator_partitioned_profile
    ):
        return "shares and partitions of cards need the operator's device manager: ask for whole cards"
    if Flags.of(engine, role.extra_args).several_ports:
        return (
            "--data-parallel-multi-port-external-lb puts several servers into one Pod: use --data-parallel-external-lb"
        )
    taken = sorted(variable.name for variable in role.env or () if variable.name in RESERVED_VARIABLES)
    if taken:
        return f"env {taken[0]} is reserved, its value is set on every member: remove it"
    if not image_of(deployment, role):
        return "there is no image: give spec.engine.image, spec.engine.version, or an image of the role"
    return name_finding(deployment, role)
