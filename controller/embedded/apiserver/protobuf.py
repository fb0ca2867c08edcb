"""Bodies in Kubernetes' protobuf envelope, as far as kubectl sends them.

kubectl's `create configmap|secret|serviceaccount|namespace|role|…`, `create token` and `auth can-i` post typed objects
as `application/vnd.kubernetes.protobuf` and do not fall back to JSON on 415. The tables below hold the field numbers of
those types (from the `generated.proto` files of k8s.io/api and apimachinery); a field outside them is refused with its
number, never dropped in silence. Answers are always JSON, which these clients accept.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from controller.embedded.apiserver.errors import Object, bad_request
from controller.foundation import format_time

PROTOBUF = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class _Field:
    """One field: JSON name, type (a scalar name or a message name), and whether it repeats or is a map."""

    name: str
    type: str
    repeated: bool = False
    map: bool = False


def _message(text: str) -> dict[int, _Field]:
    """Read the notation of the tables: `number name type`, `*` for repeated, `%` for a map from strings."""
    fields = {}
    for part in text.split(","):
        number, name, kind = part.split()
        fields[int(number)] = _Field(name, kind.strip("*%"), kind.endswith("*"), kind.endswith("%"))
    return fields


_MESSAGES: dict[str, dict[int, _Field]] = {
    "Unknown": _message("1 typeMeta TypeMeta, 2 raw bytes, 3 contentEncoding string, 4 contentType string"),
    "TypeMeta": _message("1 apiVersion string, 2 kind string"),
    "OwnerReference": _message(
        "1 kind string, 3 name string, 4 uid string, 5 apiVersion string, 6 controller bool, 7 blockOwnerDeletion bool"
    ),
    "ObjectMeta": _message(
        "1 name string, 2 generateName string, 3 namespace string, 4 selfLink string, 5 uid string, "
        "6 resourceVersion string, 7 generation int, 8 creationTimestamp Time, 9 deletionTimestamp Time, "
        "10 deletionGracePeriodSeconds int, 11 labels string%, 12 annotations string%, "
        "13 ownerReferences OwnerReference*, 14 finalizers string*"
    ),
    "ConfigMap": _message("1 metadata ObjectMeta, 2 data string%, 3 binaryData bytes%, 4 immutable bool"),
    "Secret": _message("1 metadata ObjectMeta, 2 data bytes%, 3 type string, 4 stringData string%, 5 immutable bool"),
    "LocalObjectReference": _message("1 name string"),
    "ObjectReference": _message(
        "1 kind string, 2 namespace string, 3 name string, 4 uid string, 5 apiVersion string, "
        "6 resourceVersion string, 7 fieldPath string"
    ),
    "ServiceAccount": _message(
        "1 metadata ObjectMeta, 2 secrets ObjectReference*, 3 imagePullSecrets LocalObjectReference*, "
        "4 automountServiceAccountToken bool"
    ),
    "NamespaceSpec": _message("1 finalizers string*"),
    "NamespaceStatus": _message("1 phase string"),
    "Namespace": _message("1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status NamespaceStatus"),
    "PolicyRule": _message(
        "1 verbs string*, 2 apiGroups string*, 3 resources string*, 4 resourceNames string*, 5 nonResourceURLs string*"
    ),
    "LabelSelectorRequirement": _message("1 key string, 2 operator string, 3 values string*"),
    "LabelSelector": _message("1 matchLabels string%, 2 matchExpressions LabelSelectorRequirement*"),
    "AggregationRule": _message("1 clusterRoleSelectors LabelSelector*"),
    "Role": _message("1 metadata ObjectMeta, 2 rules PolicyRule*"),
    "ClusterRole": _message("1 metadata ObjectMeta, 2 rules PolicyRule*, 3 aggregationRule AggregationRule"),
    "Subject": _message("1 kind string, 2 apiGroup string, 3 name string, 4 namespace string"),
    "RoleRef": _message("1 apiGroup string, 2 kind string, 3 name string"),
    "RoleBinding": _message("1 metadata ObjectMeta, 2 subjects Subject*, 3 roleRef RoleRef"),
    "ClusterRoleBinding": _message("1 metadata ObjectMeta, 2 subjects Subject*, 3 roleRef RoleRef"),
    "ResourceAttributes": _message(
        "1 namespace string, 2 verb string, 3 group string, 4 version string, 5 resource string, 6 subresource string, "
        "7 name string"
    ),
    "NonResourceAttributes": _message("1 path string, 2 verb string"),
    "SelfSubjectAccessReviewSpec": _message(
        "1 resourceAttributes ResourceAttributes, 2 nonResourceAttributes NonResourceAttributes"
    ),
    "SubjectAccessReviewStatus": _message("1 allowed bool, 2 reason string, 3 evaluationError string, 4 denied bool"),
    "SelfSubjectAccessReview": _message(
        "1 metadata ObjectMeta, 2 spec SelfSubjectAccessReviewSpec, 3 status SubjectAccessReviewStatus"
    ),
    "SelfSubjectRulesReviewSpec": _message("1 namespace string"),
    "ResourceRule": _message("1 verbs string*, 2 apiGroups string*, 3 resources string*, 4 resourceNames string*"),
    "NonResourceRule": _message("1 verbs string*, 2 nonResourceURLs string*"),
    "SubjectRulesReviewStatus": _message(
        "1 resourceRules ResourceRule*, 2 nonResourceRules NonResourceRule*, 3 incomplete bool, "
        "4 evaluationError string"
    ),
    "SelfSubjectRulesReview": _message(
        "1 metadata ObjectMeta, 2 spec SelfSubjectRulesReviewSpec, 3 status SubjectRulesReviewStatus"
    ),
    "UserInfo": _message("1 username string, 2 uid string, 3 groups string*"),
    "SelfSubjectReviewStatus": _message("1 userInfo UserInfo"),
    "SelfSubjectReview": _message("1 metadata ObjectMeta, 2 status SelfSubjectReviewStatus"),
    "BoundObjectReference": _message("1 kind string, 2 apiVersion string, 3 name string, 4 uid string"),
    "TokenRequestSpec": _message("1 audiences string*, 3 boundObjectRef BoundObjectReference, 4 expirationSeconds int"),
    "TokenRequestStatus": _message("1 token string, 2 expirationTimestamp Time"),
    "TokenRequest": _message("1 metadata ObjectMeta, 2 spec TokenRequestSpec, 3 status TokenRequestStatus"),
    "ContainerPort": _message("1 name string, 2 hostPort int, 3 containerPort int, 4 protocol string, 5 hostIP string"),
    "ResourceRequirements": _message("1 limits Quantity%, 2 requests Quantity%"),
    "EnvVar": _message("1 name string, 2 value string"),
    "Container": _message(
        "1 name string, 2 image string, 3 command string*, 4 args string*, 5 workingDir string, "
        "6 ports ContainerPort*, 7 env EnvVar*, 8 resources ResourceRequirements, 14 imagePullPolicy string"
    ),
    "PodSpec": _message("2 containers Container*, 3 restartPolicy string, 8 serviceAccountName string"),
    "PodTemplateSpec": _message("1 metadata ObjectMeta, 2 spec PodSpec"),
    "DeploymentStrategy": _message("1 type string"),
    "DeploymentSpec": _message(
        "1 replicas int, 2 selector LabelSelector, 3 template PodTemplateSpec, 4 strategy DeploymentStrategy"
    ),
    "DeploymentStatus": _message("1 observedGeneration int, 2 replicas int"),
    "Deployment": _message("1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status DeploymentStatus"),
    "Preconditions": _message("1 uid string, 2 resourceVersion string"),
    "DeleteOptions": _message(
        "1 gracePeriodSeconds int, 2 preconditions Preconditions, 3 orphanDependents bool, 4 propagationPolicy string, "
        "5 dryRun string*"
    ),
}


def decode_envelope(body: bytes) -> Object:
    """The JSON form of a protobuf body. Raises ApiError 400 for a type or a field outside the tables."""
    if not body.startswith(_MAGIC):
        raise bad_request("the object provided is unrecognized: a protobuf body begins with its magic number")
    envelope = _decode("Unknown", body[len(_MAGIC) :])
    kind = envelope.get("typeMeta", {})
    name = kind.get("kind", "")
    if name not in _MESSAGES or name in ("Unknown", "TypeMeta"):
        raise bad_request(f"a {name or 'nameless kind'} cannot be read as protobuf here: send application/json")
    found = _decode(name, base64.b64decode(envelope.get("raw", "")))
    return {"kind": name, "apiVersion": kind.get("apiVersion", ""), **found}


def _decode(message: str, body: bytes) -> Object:
    fields = _MESSAGES[message]
    found: Object = {}
    for number, value in _entries(body):
        field = fields.get(number)
        if field is None:
            if value in (b"", 0):
                continue  # an empty value of a field that these tables do not know means nothing
            raise bad_request(f"field {number} of {message} cannot be read as protobuf here: send application/json")
        if field.map:
            key, item = _pair(field.type, value)
            found.setdefault(field.name, {})[key] = item
        elif field.repeated:
            found.setdefault(field.name, []).append(_value(field.type, value))
        else:
            decoded = _value(field.type, value)
            if decoded not in ("", {}, None):
                found[field.name] = decoded
    return found


def _pair(kind: str, body: int | bytes) -> tuple[str, Any]:
    parts = dict(_entries(_as_bytes(body)))
    return _as_bytes(parts.get(1, b"")).decode(), _value(kind, parts.get(2, b""))


def _value(kind: str, value: int | bytes) -> Any:
    if kind == "bool":
        return bool(value)
    if kind == "int":
        return value if not isinstance(value, int) or value < 1 << 63 else value - (1 << 64)
    raw = _as_bytes(value)
    if kind == "string":
        return raw.decode()
    if kind == "bytes":
        return base64.b64encode(raw).decode()
    if kind == "Time":
        seconds = dict(_entries(raw)).get(1)
        return format_time(seconds) if isinstance(seconds, int) and 0 < seconds < 1 << 62 else None
    if kind == "Quantity":
        return _as_bytes(dict(_entries(raw)).get(1, b"0")).decode()
    return _decode(kind, raw)


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise bad_request("the protobuf body is malformed: a number where bytes are expected")
    return value


def _entries(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, varint or bytes) of a message, in order."""
    position = 0
    while position < len(body):
        tag, position = _varint(body, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(body, position)
            yield number, value
            continue
        if wire == _BYTES:
            size, position = _varint(body, position)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise bad_request(f"the protobuf body is malformed: wire type {wire}")
        if position + size > len(body):
            raise bad_request("the protobuf body is malformed: it ends within a field")
        yield number, body[position : position + size]
        position += size


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(body) or shift > 63:
            raise bad_request("the protobuf body is malformed: a bad number")
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, position
