"""Whose ModelDeployment it is. Pure.

Two operators on one object would create everything twice and delete each other's Pods, so the answer is "not ours"
whenever anything says so: the choice of the person who runs this process, the label of the CRD, another field manager
in the object's `status`, Pods of the object that another program made.

A cluster where the former operator is gone for good keeps its name in `managedFields`; the documented way to hand such
an object over is to reset them:

    kubectl patch modeldeployment NAME --type merge -p '{"metadata":{"managedFields":[{}]}}'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from controller.api import FIELD_MANAGER, MANAGED_BY, MANAGED_BY_LABEL, ModelDeployment, Pod
from controller.foundation.settings import DeploymentsMode


class Owner(StrEnum):
    """Who carries out one ModelDeployment."""

    US = "Us"
    OTHER = "Other"


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner, and why, in one sentence."""

    owner: Owner
    reason: str

    @property
    def ours(self) -> bool:
        """This controller may touch the object and its Pods."""
        return self.owner is Owner.US


def resolve_mode(wanted: DeploymentsMode, crd_labels: Mapping[str, str] | None) -> Ownership:
    """What `--deployments` means here. `crd_labels`: of the ModelDeployment CRD, None where it cannot be read."""
    if wanted is DeploymentsMode.MANAGED:
        return Ownership(Owner.US, "--deployments=managed")
    if wanted is DeploymentsMode.EXTERNAL:
        return Ownership(Owner.OTHER, "--deployments=external")
    if crd_labels is None:
        return Ownership(Owner.OTHER, "the ModelDeployment CRD cannot be read, so it may be another operator's")
    if crd_labels.get(MANAGED_BY_LABEL) == MANAGED_BY:
        return Ownership(Owner.US, f"the ModelDeployment CRD carries {MANAGED_BY_LABEL}={MANAGED_BY}")
    return Ownership(
        Owner.OTHER, f"the ModelDeployment CRD does not carry {MANAGED_BY_LABEL}={MANAGED_BY}: another operator's"
    )


def who_owns(deployment: ModelDeployment, pods: Iterable[Pod]) -> Ownership:
    """Whether this controller carries out `deployment`. `pods`: those that the deployment controls, router Pods
    aside."""
    name = deployment.metadata.name
    foreign = sorted(deployment.status_writers() - {FIELD_MANAGER})
    if foreign:
        return Ownership(
            Owner.OTHER,
            f"the status of ModelDeployment {name} was written by {', '.join(foreign)}: nothing is touched; if that "
            "operator is gone for good, reset metadata.managedFields to [{}]",
        )
    strange = sorted(pod.metadata.name for pod in pods if not made_by_us(pod))
    if strange:
        return Ownership(
            Owner.OTHER,
            f"{len(strange)} Pods of ModelDeployment {name} were made by another program ({strange[0]} first): nothing "
            "is touched; delete them to hand the deployment over",
        )
    return Ownership(Owner.US, "no other operator has left a trace")


def made_by_us(pod: Pod) -> bool:
    """This controller created the Pod, in this process or an earlier one."""
    return pod.metadata.label(MANAGED_BY_LABEL) == MANAGED_BY
