"""The Go types of built-in kinds, as far as this server looks into them: `{struct: {member: type}}`.

`[]X` is a list, `map[string]X` a map, `v1.X` a struct or a text. Structs in `CLOSED` are complete: what they do not
name is unknown. All others are open: what they do not name passes unseen.
"""

from __future__ import annotations

from controller.embedded.apiserver.errors import GroupResource
from controller.embedded.apiserver.timestamps import MICRO_TIME, TIME

ANY = "any"
SCHEMA_OR_BOOL = "JSONSchemaPropsOrBool"
SCHEMA_OR_ARRAY = "JSONSchemaPropsOrArray"


def _members(text: str) -> dict[str, str]:
    """Read `name type, name type …`; a name without a type is a string."""
    found = {}
    for part in text.split(","):
        name, _, kind = part.strip().partition(" ")
        found[name] = kind.strip() or "string"
    return found


_EVENT = {
    "reason": "string",
    "type": "string",
    "eventTime": MICRO_TIME,
    "series": "v1.EventSeries",
    "action": "string",
    "related": "v1.ObjectReference",
    "reportingInstance": "string",
}
_WORKLOAD_SPEC = "replicas int32, selector v1.LabelSelector, template v1.PodTemplateSpec"
_WORKLOAD_STATUS = "replicas int32, readyReplicas int32, updatedReplicas int32, availableReplicas int32"
_WEBHOOK = (
    "name, clientConfig v1.WebhookClientConfig, rules []v1.RuleWithOperations, failurePolicy v1.FailurePolicyType, "
    "matchPolicy v1.MatchPolicyType, namespaceSelector v1.LabelSelector, objectSelector v1.LabelSelector, "
    "sideEffects v1.SideEffectClass, timeoutSeconds int32, admissionReviewVersions []string, "
    "matchConditions []v1.MatchCondition"
)

STRUCTS: dict[str, dict[str, str]] = {
    "ConfigMap": _members("data map[string]string, binaryData map[string][]uint8, immutable bool"),
    "Secret": _members("data map[string][]uint8, stringData map[string]string, type v1.SecretType, immutable bool"),
    "Lease": _members("spec v1.LeaseSpec"),
    "LeaseSpec": _members(
        "holderIdentity, leaseDurationSeconds int32, leaseTransitions int32, strategy v1.CoordinatedLeaseStrategy, "
        "preferredHolder"
    )
    | {"acquireTime": MICRO_TIME, "renewTime": MICRO_TIME},
    "ObjectReference": _members("kind, namespace, name, uid types.UID, apiVersion, resourceVersion, fieldPath"),
    "EventSource": _members("component, host"),
    "EventSeries": {"count": "int32", "lastObservedTime": MICRO_TIME},
    "Event": _EVENT
    | _members("involvedObject v1.ObjectReference, message, source v1.EventSource, count int32, reportingComponent")
    | {"firstTimestamp": TIME, "lastTimestamp": TIME},
    "NewerEvent": _EVENT
    | _members("regarding v1.ObjectReference, note, reportingController, deprecatedSource v1.EventSource")
    | {"deprecatedFirstTimestamp": TIME, "deprecatedLastTimestamp": TIME, "deprecatedCount": "int32"},
    "CustomResourceDefinition": _members(
        "spec v1.CustomResourceDefinitionSpec, status v1.CustomResourceDefinitionStatus"
    ),
    "CustomResourceDefinitionSpec": _members(
        "group, scope v1.ResourceScope, names v1.CustomResourceDefinitionNames, "
        "versions []v1.CustomResourceDefinitionVersion, conversion v1.CustomResourceConversion, "
        "preserveUnknownFields bool"
    ),
    "CustomResourceDefinitionStatus": _members(
        "conditions []v1.CustomResourceDefinitionCondition, acceptedNames v1.CustomResourceDefinitionNames, "
        "storedVersions []string, observedGeneration int64"
    ),
    "CustomResourceDefinitionCondition": _members("type, status, reason, message"),
    "CustomResourceDefinitionNames": _members(
        "plural, singular, kind, listKind, shortNames []string, categories []string"
    ),
    "CustomResourceConversion": _members("strategy v1.ConversionStrategyType, webhook v1.WebhookConversion"),
    "WebhookConversion": {},
    "CustomResourceDefinitionVersion": _members(
        "name, served bool, storage bool, deprecated bool, deprecationWarning, schema v1.CustomResourceValidation, "
        "subresources v1.CustomResourceSubresources, "
        "additionalPrinterColumns []v1.CustomResourceColumnDefinition, selectableFields []v1.SelectableField"
    ),
    "CustomResourceValidation": _members("openAPIV3Schema v1.JSONSchemaProps"),
    "CustomResourceSubresources": _members(
        "status v1.CustomResourceSubresourceStatus, scale v1.CustomResourceSubresourceScale"
    ),
    "CustomResourceSubresourceStatus": {},
    "CustomResourceSubresourceScale": _members("specReplicasPath, statusReplicasPath, labelSelectorPath"),
    "CustomResourceColumnDefinition": _members("name, type, format, description, priority int32, jsonPath"),
    "SelectableField": _members("jsonPath"),
    "JSONSchemaProps": _members(
        "id, $schema, $ref, description, type, format, title, pattern, maximum float64, minimum float64, "
        "exclusiveMaximum bool, exclusiveMinimum bool, multipleOf float64, maxLength int64, minLength int64, "
        "maxItems int64, minItems int64, uniqueItems bool, maxProperties int64, minProperties int64, "
        "required []string, allOf []v1.JSONSchemaProps, oneOf []v1.JSONSchemaProps, anyOf []v1.JSONSchemaProps, "
        "not v1.JSONSchemaProps, properties map[string]v1.JSONSchemaProps, nullable bool, enum []any, default any, "
        "example any, externalDocs any, patternProperties any, dependencies any, additionalItems any, "
        "definitions any, x-kubernetes-preserve-unknown-fields bool, x-kubernetes-embedded-resource bool, "
        "x-kubernetes-int-or-string bool, x-kubernetes-list-map-keys []string, x-kubernetes-list-type, "
        "x-kubernetes-map-type, x-kubernetes-validations []v1.ValidationRule"
    )
    | {"items": SCHEMA_OR_ARRAY, "additionalProperties": SCHEMA_OR_BOOL},
    "ValidationRule": _members(
        "rule, message, messageExpression, reason v1.FieldValueErrorReason, fieldPath, optionalOldSelf bool"
    ),
    # -- open from here on
    "Pod": _members("spec v1.PodSpec, status v1.PodStatus"),
    "PodSpec": _members(
        "containers []v1.Container, initContainers []v1.Container, nodeName, schedulerName, serviceAccountName, "
        "restartPolicy v1.RestartPolicy, terminationGracePeriodSeconds int64, dnsPolicy v1.DNSPolicy, "
        "nodeSelector map[string]string, hostNetwork bool, readinessGates []v1.PodReadinessGate"
    ),
    "PodReadinessGate": _members("conditionType v1.PodConditionType"),
    "Container": _members(
        "name, image, imagePullPolicy v1.PullPolicy, ports []v1.ContainerPort, env []v1.EnvVar, "
        "resources v1.ResourceRequirements, args []string, command []string"
    ),
    "ContainerPort": _members("name, containerPort int32, protocol v1.Protocol"),
    "EnvVar": _members("name, value"),
    "ResourceRequirements": _members("requests v1.ResourceList, limits v1.ResourceList"),
    "ResourceList": {},
    "PodStatus": _members(
        "phase v1.PodPhase, podIP, podIPs []v1.PodIP, hostIP, reason, message, qosClass v1.PodQOSClass, "
        "conditions []v1.PodCondition, containerStatuses []v1.ContainerStatus, "
        "initContainerStatuses []v1.ContainerStatus, nominatedNodeName"
    )
    | {"startTime": TIME},
    "PodIP": _members("ip"),
    "PodCondition": _members("type v1.PodConditionType, status v1.ConditionStatus, reason, message"),
    "ContainerStatus": _members("name, ready bool, restartCount int32, state v1.ContainerState"),
    "ContainerState": _members(
        "waiting v1.ContainerStateWaiting, running v1.ContainerStateRunning, terminated v1.ContainerStateTerminated"
    ),
    "ContainerStateWaiting": _members("reason, message"),
    "ContainerStateRunning": {"startedAt": TIME},
    "ContainerStateTerminated": _members("reason, exitCode int32, signal int32"),
    "Service": _members("spec v1.ServiceSpec, status v1.ServiceStatus"),
    "ServiceSpec": _members(
        "ports []v1.ServicePort, selector map[string]string, type v1.ServiceType, clusterIP, externalIPs []string"
    ),
    "ServicePort": _members("name, protocol v1.Protocol, port int32, nodePort int32"),
    "ServiceStatus": _members("loadBalancer v1.LoadBalancerStatus"),
    "LoadBalancerStatus": _members("ingress []v1.LoadBalancerIngress"),
    "LoadBalancerIngress": _members("ip, hostname"),
    "Endpoints": _members("subsets []v1.EndpointSubset"),
    "EndpointSubset": _members(
        "addresses []v1.EndpointAddress, notReadyAddresses []v1.EndpointAddress, ports []v1.EndpointPort"
    ),
    "EndpointAddress": _members("ip, hostname"),
    "EndpointPort": _members("name, port int32, protocol v1.Protocol"),
    "EndpointSlice": _members("addressType v1.AddressType, endpoints []v1.Endpoint, ports []v1.EndpointPort"),
    "Endpoint": _members("addresses []string, conditions v1.EndpointConditions, hostname, nodeName"),
    "EndpointConditions": _members("ready bool, serving bool, terminating bool"),
    "Deployment": _members("spec v1.DeploymentSpec, status v1.DeploymentStatus"),
    "DeploymentSpec": _members(_WORKLOAD_SPEC),
    "DeploymentStatus": _members(_WORKLOAD_STATUS),
    "ReplicaSet": _members("spec v1.ReplicaSetSpec, status v1.ReplicaSetStatus"),
    "ReplicaSetSpec": _members(_WORKLOAD_SPEC),
    "ReplicaSetStatus": _members(_WORKLOAD_STATUS),
    "StatefulSet": _members("spec v1.StatefulSetSpec, status v1.StatefulSetStatus"),
    "StatefulSetSpec": _members(_WORKLOAD_SPEC),
    "StatefulSetStatus": _members(_WORKLOAD_STATUS),
    "PodTemplateSpec": _members("metadata v1.ObjectMeta, spec v1.PodSpec"),
    "ObjectMeta": _members("name, labels map[string]string, annotations map[string]string"),
    "LabelSelector": _members("matchLabels map[string]string, matchExpressions []v1.LabelSelectorRequirement"),
    "LabelSelectorRequirement": _members("key, operator v1.LabelSelectorOperator, values []string"),
    "Node": _members("spec v1.NodeSpec, status v1.NodeStatus"),
    "NodeSpec": _members("taints []v1.Taint, unschedulable bool, providerID"),
    "Taint": _members("key, value, effect v1.TaintEffect"),
    "NodeStatus": _members("conditions []v1.NodeCondition, addresses []v1.NodeAddress, nodeInfo v1.NodeSystemInfo"),
    "NodeCondition": _members("type v1.NodeConditionType, status v1.ConditionStatus, reason, message"),
    "NodeAddress": _members("type v1.NodeAddressType, address"),
    "NodeSystemInfo": _members("kubeletVersion, osImage, kernelVersion, containerRuntimeVersion"),
    "Namespace": _members("spec v1.NamespaceSpec, status v1.NamespaceStatus"),
    "NamespaceSpec": _members("finalizers []v1.FinalizerName"),
    "NamespaceStatus": _members("phase v1.NamespacePhase"),
    "Role": _members("rules []v1.PolicyRule"),
    "ClusterRole": _members("rules []v1.PolicyRule"),
    "PolicyRule": _members(
        "verbs []string, apiGroups []string, resources []string, resourceNames []string, nonResourceURLs []string"
    ),
    "RoleBinding": _members("roleRef v1.RoleRef, subjects []v1.Subject"),
    "ClusterRoleBinding": _members("roleRef v1.RoleRef, subjects []v1.Subject"),
    "RoleRef": _members("apiGroup, kind, name"),
    "Subject": _members("apiGroup, kind, name, namespace"),
    "ValidatingWebhookConfiguration": _members("webhooks []v1.ValidatingWebhook"),
    "MutatingWebhookConfiguration": _members("webhooks []v1.MutatingWebhook"),
    "ValidatingWebhook": _members(_WEBHOOK),
    "MutatingWebhook": _members(f"{_WEBHOOK}, reinvocationPolicy v1.ReinvocationPolicyType"),
    "WebhookClientConfig": _members("url, caBundle []uint8, service v1.ServiceReference"),
    "ServiceReference": _members("name, namespace, path, port int32"),
    "RuleWithOperations": _members(
        "operations []v1.OperationType, apiGroups []string, apiVersions []string, resources []string, "
        "scope v1.ScopeType"
    ),
    "MatchCondition": _members("name, expression"),
    "SubjectAccessReview": _members("spec v1.SubjectAccessReviewSpec"),
    "LocalSubjectAccessReview": _members("spec v1.SubjectAccessReviewSpec"),
    "SelfSubjectAccessReview": _members("spec v1.SelfSubjectAccessReviewSpec"),
    "SubjectAccessReviewSpec": _members(
        "user, groups []string, uid, resourceAttributes v1.ResourceAttributes, "
        "nonResourceAttributes v1.NonResourceAttributes"
    ),
    "SelfSubjectAccessReviewSpec": _members(
        "resourceAttributes v1.ResourceAttributes, nonResourceAttributes v1.NonResourceAttributes"
    ),
    "ResourceAttributes": _members("namespace, verb, group, version, resource, subresource, name"),
    "NonResourceAttributes": _members("path, verb"),
    "SelfSubjectRulesReview": _members("spec v1.SelfSubjectRulesReviewSpec"),
    "SelfSubjectRulesReviewSpec": _members("namespace"),
    "TokenReview": _members("spec v1.TokenReviewSpec"),
    "TokenReviewSpec": _members("token, audiences []string"),
    "DeleteOptions": _members(
        "gracePeriodSeconds int64, preconditions v1.Preconditions, orphanDependents bool, "
        "propagationPolicy v1.DeletionPropagation, dryRun []string"
    ),
    "Preconditions": _members("uid types.UID, resourceVersion"),
}
_NAMES = tuple(STRUCTS)
CLOSED = frozenset(_NAMES[: _NAMES.index("Pod")]) - {"WebhookConversion", "CustomResourceDefinitionCondition"}
# Structs of objects, by plural.
ROOTS: dict[GroupResource, str] = {
    GroupResource(group, plural): struct
    for group, plurals in {
        "": {
            "configmaps": "ConfigMap",
            "secrets": "Secret",
            "events": "Event",
            "pods": "Pod",
            "services": "Service",
            "endpoints": "Endpoints",
            "nodes": "Node",
            "namespaces": "Namespace",
        },
        "coordination.k8s.io": {"leases": "Lease"},
        "events.k8s.io": {"events": "NewerEvent"},
        "apiextensions.k8s.io": {"customresourcedefinitions": "CustomResourceDefinition"},
        "discovery.k8s.io": {"endpointslices": "EndpointSlice"},
        "apps": {"deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet"},
        "rbac.authorization.k8s.io": {
            "roles": "Role",
            "clusterroles": "ClusterRole",
            "rolebindings": "RoleBinding",
            "clusterrolebindings": "ClusterRoleBinding",
        },
        "admissionregistration.k8s.io": {
            "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
            "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
        },
        "authorization.k8s.io": {
            "subjectaccessreviews": "SubjectAccessReview",
            "localsubjectaccessreviews": "LocalSubjectAccessReview",
            "selfsubjectaccessreviews": "SelfSubjectAccessReview",
            "selfsubjectrulesreviews": "SelfSubjectRulesReview",
        },
        "authentication.k8s.io": {"tokenreviews": "TokenReview"},
    }.items()
    for plural, struct in plurals.items()
}
