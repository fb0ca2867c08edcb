"""The permissions of the controller, and those that people get. Each rule says why it is needed.

They are all that the controller has: `tests/cluster/test_install.py` runs it under them, in either mode, and fails on a
request that they forbid as well as on a permission that no request needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.api import (
    ACCELERATOR_TYPES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    ENDPOINT_SLICES,
    EVENTS,
    GROUP,
    INSTANCE_TYPES,
    LEASES,
    MODEL_ARTIFACTS,
    MODEL_DEPLOYMENT_SCALERS,
    MODEL_DEPLOYMENTS,
    NODES,
    PODS,
    SERVICES,
)
from controller.foundation.settings import LeaderElectionSettings

_SCALERS = MODEL_DEPLOYMENT_SCALERS.plural
_SCALER_CRD, _TARGET_CRD = f"{_SCALERS}.{GROUP}", f"{MODEL_DEPLOYMENTS.plural}.{GROUP}"


@dataclass(frozen=True, slots=True)
class Rule:
    """A permission, and why the controller needs it."""

    why: str
    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def as_object(self) -> dict[str, Any]:
        """The rule of a Role or ClusterRole."""
        names = {"resourceNames": list(self.names)} if self.names else {}
        return {"apiGroups": [self.group], "resources": [self.resource], **names, "verbs": list(self.verbs)}


_READ = ("list", "watch")
_FOLLOW = ("get", *_READ)
CLUSTER_RULES = (
    Rule(
        "Whether both kinds are installed, and whether the definition of the scaler is ours.",
        CUSTOM_RESOURCE_DEFINITIONS.group,
        CUSTOM_RESOURCE_DEFINITIONS.plural,
        ("get",),
        (_SCALER_CRD, _TARGET_CRD),
    ),
    Rule("The scalers; patch sets and removes the finalizer.", GROUP, _SCALERS, (*_FOLLOW, "patch")),
    Rule("Conditions, counts, and what is remembered across restarts.", GROUP, f"{_SCALERS}/status", ("patch",)),
    Rule("The targets; patch binds them and writes counts.", GROUP, MODEL_DEPLOYMENTS.plural, (*_FOLLOW, "patch")),
    Rule("Where the engines are and whether they are ready.", PODS.group, PODS.plural, _READ),
    Rule("Catalogs of capacity priors, where a scaler names one.", "", CONFIG_MAPS.plural, _READ),
    Rule("What model a prior is for, where the target names an artifact.", GROUP, MODEL_ARTIFACTS.plural, _READ),
    Rule("What hardware a prior is for.", GROUP, INSTANCE_TYPES.plural, _READ),
    Rule("The same, where an InstanceType does not say it; not read before.", NODES.group, NODES.plural, _READ),
    Rule("What happened, and its repetitions.", EVENTS.group, EVENTS.plural, ("create", "patch")),
)
STANDALONE_RULES = (
    Rule(
        "Replicas are Pods: made, given and denied requests by a label, read live while they leave, deleted by UID.",
        PODS.group,
        PODS.plural,
        ("get", "create", "patch", "delete"),
    ),
    Rule(
        "What a leaving replica has in flight where its port cannot be reached from here; from 1.35 on both verbs.",
        PODS.group,
        f"{PODS.plural}/exec",
        ("get", "create"),
    ),
    Rule(
        "Services in front of roles; whether one that still lists a leaving replica is there for peers only.",
        SERVICES.group,
        SERVICES.plural,
        (*_FOLLOW, "create", "patch", "delete"),
    ),
    Rule(
        "Who is sent requests, and whether a leaving replica still is.",
        ENDPOINT_SLICES.group,
        ENDPOINT_SLICES.plural,
        _READ,
    ),
    Rule("Counts, conditions, the retirement.", GROUP, f"{MODEL_DEPLOYMENTS.plural}/status", ("patch",)),
    Rule(
        "Owner references that block the deletion of their owner, where the API server checks who may set them.",
        GROUP,
        f"{MODEL_DEPLOYMENTS.plural}/finalizers",
        ("update",),
    ),
    Rule("Where weights are.", GROUP, MODEL_ARTIFACTS.plural, ("get",)),
    Rule("What a card of a pool comes with.", GROUP, INSTANCE_TYPES.plural, ("get",)),
    Rule("The same under the kind's older name.", GROUP, ACCELERATOR_TYPES.plural, ("get",)),
)
_LEASE = LeaderElectionSettings().name
NAMESPACE_RULES = (
    Rule("Leader election; a create cannot be limited to a name.", LEASES.group, LEASES.plural, ("create",)),
    Rule("Only our own Lease.", LEASES.group, LEASES.plural, ("get", "update"), (_LEASE,)),
)
_EDIT = ("create", "delete", "deletecollection", "patch", "update")
VIEW_RULES = (Rule("Read scalers.", GROUP, _SCALERS, _FOLLOW),)
EDIT_RULES = (Rule("Make and change scalers; only the controller writes their status.", GROUP, _SCALERS, _EDIT),)
