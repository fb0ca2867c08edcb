"""Built-in types and discovery."""

from __future__ import annotations

from typing import Any

from tests.embedded.apiserver.cases.steps import (
    CAUSE,
    EVENTS,
    NEWER_EVENTS,
    PODS,
    case,
    delete,
    get,
    newer_event,
    patch,
    pod,
    post,
)

POD_WITH_PARTS: dict[str, Any] = {
    "containers": [
        {
            "name": "c",
            "image": "i:1",
            "args": ["a"],
            "ports": [{"containerPort": 80, "name": "http"}],
            "env": [
                {"name": "A", "value": "b"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ],
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
    ],
    "volumes": [{"name": "v", "emptyDir": {}}],
    "nodeSelector": {"a": "b"},
}
MANAGERS = ("metadata.managedFields.0.fieldsV1.f:metadata", "metadata.managedFields.0.fieldsV1.f:spec")

KINDS = (
    case(
        "managers of a pod",
        post(PODS, pod(metadata={"labels": {"a": "b"}}, **POD_WITH_PARTS), only=MANAGERS),
        patch(
            f"{PODS}/one/status",
            {"status": {"podIP": "127.1.2.3", "hostIP": "10.0.0.1"}},
            only=("metadata.managedFields.1.fieldsV1", "metadata.managedFields.1.subresource", "status.podIPs"),
        ),
    ),
    case(
        "managers of a deployment",
        post(
            "/apis/apps/v1/namespaces/$N/deployments",
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d"},
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                },
            },
            only=(
                "metadata.managedFields.0.fieldsV1.f:spec.f:selector",
                "metadata.managedFields.0.fieldsV1.f:spec.f:template.f:metadata",
            ),
        ),
    ),
    case(
        "webhook configurations",
        post(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "hooks-of-$N"},
                "webhooks": [
                    {
                        "name": "h.example.com",
                        "clientConfig": {"service": {"name": "s", "namespace": "$N"}},
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                        "objectSelector": {"matchLabels": {"nothing": "has-this"}},
                        "rules": [
                            {
                                "operations": ["CREATE"],
                                "apiGroups": ["none.example.com"],
                                "apiVersions": ["v1"],
                                "resources": ["things"],
                            }
                        ],
                    }
                ],
            },
        ),
        delete(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hooks-of-$N", only=("kind", "status")
        ),
        post(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "bad-of-$N"},
                "webhooks": [{"name": "h", "clientConfig": {}, "rules": []}],
            },
            only=("code", "reason", "details.causes.0.field"),
        ),
    ),
    case(
        "namespaces",
        get("/api/v1/namespaces/$N", only=("spec", "status", "metadata.labels")),
        delete("/api/v1/namespaces/default"),
        delete("/api/v1/namespaces/$N", only=("kind", "status", "metadata.deletionTimestamp")),
    ),
    case(
        "nodes",
        post(
            "/api/v1/nodes",
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-of-$N"}, "status": {"phase": "Running"}},
            only=("status.phase", "metadata.generation"),
        ),
        patch(
            "/api/v1/nodes/node-of-$N/status",
            {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Pending"}},
            only=("status.phase", "metadata.labels"),
        ),
        delete("/api/v1/nodes/node-of-$N", only=("kind", "status")),
    ),
    case(
        "discovery",
        get("/apis/example.com"),
        get("/apis/example.com/v1"),
        get("/apis/none.example.com", only=("x",)),
        get("/apis/example.com/v9", only=("x",)),
    ),
    case(
        "secrets",
        post(
            "/api/v1/namespaces/$N/secrets",
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}},
            only=("data", "type", "stringData"),
        ),
    ),
    case(
        "services",
        post(
            "/api/v1/namespaces/$N/services",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "s"},
                "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
            },
            only=("spec.type", "spec.sessionAffinity", "spec.ports", "status"),
        ),
        delete("/api/v1/namespaces/$N/services/s", only=("kind", "status")),
    ),
    case(
        "deployments",
        post(
            "/apis/apps/v1/namespaces/$N/deployments",
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d"},
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                },
            },
            only=("spec.replicas", "status", "metadata.generation"),
        ),
        patch(
            "/apis/apps/v1/namespaces/$N/deployments/d",
            {"spec": {"replicas": 3}},
            only=("spec.replicas", "metadata.generation"),
        ),
        delete("/apis/apps/v1/namespaces/$N/deployments/d", only=("kind", "status", "details.kind", "details.group")),
    ),
    case(
        "pods",
        post(
            PODS,
            pod(),
            only=(
                "status.phase",
                "status.qosClass",
                "spec.restartPolicy",
                "spec.dnsPolicy",
                "spec.terminationGracePeriodSeconds",
                "spec.schedulerName",
                "spec.enableServiceLinks",
                "spec.securityContext",
                "spec.containers.0.imagePullPolicy",
                "spec.containers.0.resources",
                "spec.containers.0.terminationMessagePath",
                "metadata.generation",
            ),
        ),
        post(PODS, pod("two", containers=[]), only=CAUSE),
        post(PODS, pod("three", containers=[{"name": "c"}]), only=CAUSE),
        get(
            PODS,
            query={"fieldSelector": "status.phase=Pending,spec.nodeName="},
            only=("items.0.metadata.name", "items.1.metadata.name"),
        ),
        get(PODS, query={"fieldSelector": "spec.colour=x"}),
    ),
    case(
        "events",
        post(NEWER_EVENTS, newer_event()),
        get(f"{EVENTS}/one"),
        get(f"{NEWER_EVENTS}/one"),
        patch(f"{NEWER_EVENTS}/one", {"series": {"count": 2, "lastObservedTime": "2026-11-29T15:50:15.000000Z"}}),
        get(EVENTS, query={"fieldSelector": "involvedObject.name=one,reason=Scaled"}),
        get(NEWER_EVENTS, query={"fieldSelector": "regarding.name=one"}),
    ),
    case(
        "event rules",
        post(NEWER_EVENTS, newer_event(action="")),
        post(NEWER_EVENTS, newer_event(type="Odd")),
        post(NEWER_EVENTS, newer_event(eventTime=None)),
        post(NEWER_EVENTS, newer_event(note="x" * 1025), only=("code", "reason")),
    ),
    case(
        "an older event",
        post(
            EVENTS,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": "old"},
                "involvedObject": {"kind": "Widget", "name": "one", "namespace": "$N"},
                "reason": "R",
                "message": "m",
                "type": "Normal",
                "count": 1,
                "firstTimestamp": "2026-11-29T15:49:15Z",
                "lastTimestamp": "2026-11-29T15:49:15Z",
                "source": {"component": "c"},
            },
        ),
        get(f"{NEWER_EVENTS}/old"),
    ),
)
