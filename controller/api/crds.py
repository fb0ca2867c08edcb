"""The CustomResourceDefinitions, made from the types.

Each kind is served at v1alpha1 (storage, the version that requests use) and v1 from one schema, conversion None: a rule
that only one version had would not hold for writes through the other.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import yaml

from controller.api.contract import (
    CATEGORY,
    INSTANCE_TYPES,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    MODEL_ARTIFACTS,
    MODEL_DEPLOYMENT_SCALERS,
    MODEL_DEPLOYMENTS,
    PUBLIC_VERSION,
)
from controller.api.members import members_of
from controller.api.model_deployment import ModelDeployment
from controller.api.pools import InstanceType, ModelArtifact
from controller.api.scaler import ModelDeploymentScaler
from controller.api.schema import Schema, described, member_schema
from controller.foundation import Resource, UsageError


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    json_path: str
    description: str
    type: str = "string"
    wide: bool = False  # only with -o wide


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind that this project can install."""

    resource: Resource
    struct: type[msgspec.Struct]
    short_name: str
    columns: tuple[Column, ...]


_AGE = Column("Age", ".metadata.creationTimestamp", "Time since creation.", "date")

KINDS = (
    Kind(
        MODEL_DEPLOYMENT_SCALERS,
        ModelDeploymentScaler,
        "mds",
        (
            Column("Target", ".spec.targetRef.name", "The ModelDeployment that is scaled."),
            Column("Mode", ".spec.mode", "Shadow reports only; Active also writes the target."),
            Column("Suspended", ".spec.suspend", "Whether it neither plans nor writes.", "boolean"),
            Column("Algorithm", ".spec.algorithm.type", "How replica counts are found."),
            Column("Ready", ".status.summary.ready", "Ready replicas by role."),
            Column(
                "Desired", ".status.summary.desired", "Recommended replicas by role; empty while nothing is decided."
            ),
            Column("Limited By", ".status.summary.limitedBy", "What limited the last decision; empty without one."),
            Column(
                "Prior",
                '.status.conditions[?(@.type=="CapacityPriorResolved")].reason',
                "How the capacity prior was resolved.",
            ),
            _AGE,
        ),
    ),
    Kind(
        MODEL_DEPLOYMENTS,
        ModelDeployment,
        "md",
        (
            Column("Engine", ".spec.engine.name", "The inference engine."),
            Column("Roles", ".status.roleSummary", "Ready replicas by kind."),
            Column("Phase", ".status.phase", "Where the deployment stands."),
            Column("Endpoint", ".status.endpoint", "Where requests go."),
        ),
    ),
    Kind(
        INSTANCE_TYPES,
        InstanceType,
        "instype",
        (
            Column("Group", ".spec.acceleratorGroup", "Key of the accelerator."),
            Column("Free", ".status.accelerator.remaining", "Whole cards free now."),
            Column("Capacity", ".status.accelerator.capacity", "Whole cards of the pool."),
            Column("Phase", ".status.phase", "Whether the pool admits Pods."),
            _AGE,
        ),
    ),
    Kind(
        MODEL_ARTIFACTS,
        ModelArtifact,
        "mart",
        (
            Column("Revision", ".status.resolved.revision", "Resolved revision."),
            Column("Resolved", '.status.conditions[?(@.type=="Resolved")].status', "Whether the source was resolved."),
            _AGE,
        ),
    ),
)


def render_crds(kinds: Sequence[str] | None = None) -> list[Schema]:
    """The CRDs of the kinds asked for (by kind, plural or short name, any case), each once; None: all of them.

    Raises UsageError for a kind that this project does not define."""
    if kinds is None:
        return [_crd(kind) for kind in KINDS]
    return [_crd(kind) for kind in dict.fromkeys(_find(name) for name in kinds)]


def scaler_crd() -> Schema:
    """The CRD of ModelDeploymentScaler."""
    return _crd(_find(MODEL_DEPLOYMENT_SCALERS.kind))


def model_deployment_crd() -> Schema:
    """The CRD of ModelDeployment for clusters without the operator that owns the kind: the part that serving needs."""
    return _crd(_find(MODEL_DEPLOYMENTS.kind))


def crds_as_yaml(crds: Sequence[Schema]) -> str:
    """YAML documents, each beginning with `---`; the same CRDs give the same bytes."""
    return "".join(
        yaml.dump(crd, Dumper=_PlainDumper, sort_keys=False, width=110, allow_unicode=True, explicit_start=True)
        for crd in crds
    )


class _PlainDumper(yaml.SafeDumper):
    """Without anchors: both versions of a kind hold the same schema, and readers should see it."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def _find(name: str) -> Kind:
    wanted = name.lower()
    for kind in KINDS:
        if wanted in (kind.resource.kind.lower(), kind.resource.plural, kind.short_name):
            return kind
    known = ", ".join(kind.resource.kind for kind in KINDS)
    raise UsageError(f"unknown kind {name!r}: the kinds are {known}")


def _crd(kind: Kind) -> Schema:
    resource = kind.resource
    version = _version(kind)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            "labels": {MANAGED_BY_LABEL: MANAGED_BY},
        },
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": [kind.short_name],
                "categories": [CATEGORY],
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "conversion": {"strategy": "None"},
            "versions": [
                {"name": resource.version, "served": True, "storage": True, **copy.deepcopy(version)},
                {"name": PUBLIC_VERSION, "served": True, "storage": False, **copy.deepcopy(version)},
            ],
        },
    }


def _version(kind: Kind) -> Schema:
    columns: list[Schema] = []
    for column in kind.columns:
        shown: Schema = {
            "name": column.name,
            "type": column.type,
            "description": column.description,
            "jsonPath": column.json_path,
        }
        columns.append(shown | {"priority": 1} if column.wide else shown)
    parts = {field.name: field for field in members_of(kind.struct)}
    schema: Schema = {
        "type": "object",
        "description": described(kind.struct),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of the schema of this object."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {"type": "object"},
            "spec": member_schema(parts["spec"], defaults=True),
            "status": member_schema(parts["status"], defaults=False),
        },
    }
    return {
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }
