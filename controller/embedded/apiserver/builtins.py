"""The built-in resource types that are served, with their traits, and what the server fills in on create.

Only what the clients of this project touch: objects are schema-less JSON except for the checks in `builtin_rules`.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.embedded.apiserver.event_conversion import complete_event, newer_event, stored_event
from controller.embedded.apiserver.resources import ALL_VERBS, Registry, ResourceType, Traits

CRD_GROUP = "apiextensions.k8s.io"
CRD_PLURAL = "customresourcedefinitions"

_PLAIN = Traits(status=False, generation=False, unconditional_update=True)
_RBAC = Traits(status=False, generation=False, unconditional_update=True, create_on_update=True)
_REVIEW = Traits(status=False, generation=False, virtual=True)
_WORKLOAD = Traits(unconditional_update=True)
_EVENT = Traits(status=False, generation=False, unconditional_update=True, create_on_update=True, wall_clock=True)
_EVENT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)


@dataclass(frozen=True, slots=True)
class _Row:
    group: str
    version: str
    plural: str
    kind: str
    traits: Traits
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    selectable: tuple[str, ...] = ()


_ALL = ("all",)
_DEPRECATIONS = {"endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"}
_ROWS = (
    _Row("", "v1", "configmaps", "ConfigMap", _PLAIN, short=("cm",)),
    _Row(
        "",
        "v1",
        "endpoints",
        "Endpoints",
        Traits(status=False, generation=False, unconditional_update=True, create_on_update=True),
        short=("ep",),
    ),
    _Row(
        "",
        "v1",
        "namespaces",
        "Namespace",
        Traits(generation=False, unconditional_update=True, status_writes_metadata=True, returns_deleted=True),
        namespaced=False,
        short=("ns",),
        selectable=("status.phase",),
    ),
    _Row(
        "",
        "v1",
        "nodes",
        "Node",
        Traits(generation=False, unconditional_update=True, status_on_create=True, status_writes_metadata=True),
        namespaced=False,
        short=("no",),
        selectable=("spec.unschedulable",),
    ),
    _Row("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", _WORKLOAD, short=("pvc",)),
    _Row(
        "",
        "v1",
        "pods",
        "Pod",
        Traits(unconditional_update=True, status_writes_metadata=True, returns_deleted=True, graceful=True),
        short=("po",),
        categories=_ALL,
        selectable=_POD_FIELDS,
    ),
    _Row("", "v1", "secrets", "Secret", _PLAIN, selectable=("type",)),
    _Row(
        "",
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        Traits(status=False, generation=False, unconditional_update=True, returns_deleted=True),
        short=("sa",),
    ),
    _Row(
        "",
        "v1",
        "services",
        "Service",
        Traits(generation=False, unconditional_update=True, returns_deleted=True, create_on_update=True),
        short=("svc",),
        categories=_ALL,
        selectable=("spec.clusterIP", "spec.type"),
    ),
    _Row(
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        Traits(status=False, unconditional_update=True),
        namespaced=False,
    ),
    _Row(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        Traits(status=False, unconditional_update=True),
        namespaced=False,
    ),
    _Row(
        CRD_GROUP,
        "v1",
        CRD_PLURAL,
        "CustomResourceDefinition",
        Traits(),
        namespaced=False,
        short=("crd", "crds"),
        categories=("api-extensions",),
    ),
    _Row(
        "apiregistration.k8s.io",
        "v1",
        "apiservices",
        "APIService",
        Traits(generation=False),
        namespaced=False,
        categories=("api-extensions",),
    ),
    _Row("apps", "v1", "deployments", "Deployment", _WORKLOAD, short=("deploy",), categories=_ALL),
    _Row("apps", "v1", "replicasets", "ReplicaSet", _WORKLOAD, short=("rs",), categories=_ALL),
    _Row("apps", "v1", "statefulsets", "StatefulSet", _WORKLOAD, short=("sts",), categories=_ALL),
    _Row("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", _REVIEW, namespaced=False),
    _Row("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", _REVIEW, namespaced=False),
    _Row("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", _REVIEW),
    _Row(
        "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", _REVIEW, namespaced=False
    ),
    _Row("authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", _REVIEW, namespaced=False),
    _Row("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", _REVIEW, namespaced=False),
    _Row("batch", "v1", "jobs", "Job", _WORKLOAD, categories=_ALL),
    _Row(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        Traits(status=False, generation=False, create_on_update=True, wall_clock=True),
    ),
    _Row("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", Traits(status=False, unconditional_update=True)),
    _Row(
        "networking.k8s.io",
        "v1",
        "networkpolicies",
        "NetworkPolicy",
        Traits(status=False, unconditional_update=True),
        short=("netpol",),
    ),
    _Row("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", Traits(), short=("pdb",)),
    _Row("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", _RBAC, namespaced=False),
    _Row("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", _RBAC, namespaced=False),
    _Row("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", _RBAC),
    _Row("rbac.authorization.k8s.io", "v1", "roles", "Role", _RBAC),
)


def install_builtins(registry: Registry) -> None:
    """Serve the built-in types."""
    for row in _ROWS:
        resource = ResourceType(
            group=row.group,
            plural=row.plural,
            singular=row.kind.lower(),
            kind=row.kind,
            namespaced=row.namespaced,
            storage_version=row.version,
            short_names=row.short,
            categories=row.categories,
            verbs=("create",) if row.traits.virtual else ALL_VERBS,
            traits=row.traits,
        )
        resource.add_version(row.version, selectable=row.selectable, deprecation=_DEPRECATIONS.get(row.plural, ""))
        registry.add(resource)
    _install_events(registry)


def _install_events(registry: Registry) -> None:
    common = {"reason": "reason", "type": "type"}
    core = ResourceType("", "events", "event", "Event", True, "v1", short_names=("ev",), traits=_EVENT)
    core.add_version(
        "v1",
        to_storage=complete_event,
        selectable=tuple(f"involvedObject.{name}" for name in _EVENT_FIELDS),
        selectable_aliases={**common, "reportingComponent": "reportingComponent", "source": "source.component"},
    )
    newer = ResourceType(
        "events.k8s.io",
        "events",
        "event",
        "Event",
        True,
        "v1",
        short_names=("ev",),
        traits=_EVENT,
        storage_key=core.storage_key,
    )
    newer.add_version(
        "v1",
        from_storage=newer_event,
        to_storage=stored_event,
        selectable=tuple(f"regarding.{name}" for name in _EVENT_FIELDS),
        selectable_aliases={**common, "reportingController": "reportingController"},
    )
    registry.add(core)
    registry.add(newer)
