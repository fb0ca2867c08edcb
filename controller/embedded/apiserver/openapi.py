"""OpenAPI documents: v3 with one document per group and version, and v2 as JSON.

Built-in types are described as open objects (their full schemas are large and nobody here reads them); custom resources
carry their CRD's schema, so `kubectl explain` works on them. Every operation names its kind, and PATCH declares
`fieldValidation`: by that kubectl knows that the server validates, and asks no more of the documents.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from controller.embedded.apiserver.discovery import GIT_VERSION
from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.resources import Registry, ServedVersion

_GVK = "x-kubernetes-group-version-kind"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_API_VERSION_TEXT = "The versioned schema of this representation of an object, as GROUP/VERSION."
_KIND_TEXT = "The kind of resource that this object represents, in CamelCase."
_OBJECT_META: Object = {
    "description": "Metadata that every persisted object has.",
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The name, unique within a namespace."},
        "generateName": {"type": "string", "description": "A prefix from which the server makes a unique name."},
        "namespace": {"type": "string", "description": "The namespace within which the name is unique."},
        "uid": {"type": "string", "description": "Unique in time and space; set by the server."},
        "resourceVersion": {"type": "string", "description": "Changes with every write; set by the server."},
        "generation": {"type": "integer", "format": "int64", "description": "Counts changes of the wanted state."},
        "creationTimestamp": {"type": "string", "format": "date-time", "description": "When the object was created."},
        "deletionTimestamp": {"type": "string", "format": "date-time", "description": "When deletion was asked for."},
        "labels": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Keys and values to select objects by.",
        },
        "annotations": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Keys and values for tools to keep data in.",
        },
        "finalizers": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Must be empty before the object is removed.",
            "x-kubernetes-list-type": "set",
        },
        "ownerReferences": {
            "type": "array",
            "items": {"type": "object"},
            "description": "Objects that this one depends on.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
        },
    },
}
_DELETE_OPTIONS: Object = {"description": "How to delete an object.", "type": "object"}


def index(registry: Registry) -> Object:
    """`/openapi/v3`: where the documents are; the hash makes a changed document a new address."""
    paths = {}
    for group, versions in registry.groups().items():
        for version in versions:
            place = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = hashlib.sha256(orjson.dumps(document(registry, group, version))).hexdigest().upper()
            paths[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={digest}"}
    return {"paths": paths}


def document(registry: Registry, group: str, version: str) -> Object | None:
    """The v3 document of one group and version; None where nothing is served there."""
    served = [r.versions[version] for r in registry if r.group == group and version in r.versions]
    if not served:
        return None
    schemas: Object = {f"{_META}.ObjectMeta": _OBJECT_META, f"{_META}.DeleteOptions": _DELETE_OPTIONS}
    paths: Object = {}
    for one in served:
        schemas[schema_name(one)] = object_schema(one, "#/components/schemas/")
        paths |= _paths(one)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def swagger(registry: Registry) -> Object:
    """`/openapi/v2` as JSON."""
    definitions: Object = {f"{_META}.ObjectMeta": _OBJECT_META}
    paths: Object = {}
    for resource in registry:
        for one in resource.versions.values():
            definitions[schema_name(one)] = object_schema(one, "#/definitions/")
            paths |= _paths(one)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": paths,
        "definitions": definitions,
    }


def schema_name(served: ServedVersion) -> str:
    """`com.example.v1.Widget`: the group reversed, the version, the kind."""
    group = ".".join(reversed(served.type.group.split("."))) or "io.k8s.api.core"
    return f"{group}.{served.version}.{served.type.kind}"


def object_schema(served: ServedVersion, references: str) -> Object:
    """The schema of one kind with its type members; `references` is where schemas are kept in the document."""
    schema: Object = dict(served.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    properties = {name: _published(node) for name, node in (schema.get("properties") or {}).items()}
    properties["apiVersion"] = {"type": "string", "description": _API_VERSION_TEXT}
    properties["kind"] = {"type": "string", "description": _KIND_TEXT}
    properties["metadata"] = {
        "description": "Standard object metadata.",
        "allOf": [{"$ref": f"{references}{_META}.ObjectMeta"}],
    }
    schema["properties"] = properties
    schema.setdefault("description", f"{served.type.kind} of {served.api_version}.")
    schema[_GVK] = [_kind(served)]
    return schema


def _published(node: Any) -> Any:
    """A structural node as OpenAPI has it: an int-or-string is a choice of two types."""
    if not isinstance(node, dict):
        return node
    published = dict(node)
    for name in ("properties",):
        if isinstance(node.get(name), dict):
            published[name] = {key: _published(value) for key, value in node[name].items()}
    for name in ("items", "additionalProperties"):
        if name in node:
            published[name] = _published(node[name])
    if node.get("x-kubernetes-int-or-string"):
        published.pop("type", None)
        published.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
    return published


def _kind(served: ServedVersion) -> Object:
    return {"group": served.type.group, "version": served.version, "kind": served.type.kind}


def _parameter(name: str, kind: str, place: str = "query") -> Object:
    return {"name": name, "in": place, "schema": {"type": kind, "uniqueItems": True}, "required": place == "path"}


_WRITE_PARAMETERS = [
    _parameter("dryRun", "string"),
    _parameter("fieldManager", "string"),
    _parameter("fieldValidation", "string"),
]
_LIST_PARAMETERS = [
    _parameter(name, kind)
    for name, kind in (
        ("allowWatchBookmarks", "boolean"),
        ("continue", "string"),
        ("fieldSelector", "string"),
        ("labelSelector", "string"),
        ("limit", "integer"),
        ("resourceVersion", "string"),
        ("resourceVersionMatch", "string"),
        ("sendInitialEvents", "boolean"),
        ("timeoutSeconds", "integer"),
        ("watch", "boolean"),
    )
]


def _paths(served: ServedVersion) -> Object:
    resource = served.type
    root = f"/apis/{resource.group}/{served.version}" if resource.group else f"/api/{served.version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{root}{scope}/{resource.plural}"
    shared = [_parameter("namespace", "string", "path")] if resource.namespaced else []

    def operation(action: str, parameters: list[Object]) -> Object:
        return {
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": action,
            _GVK: _kind(served),
        }

    paths: Object = {
        collection: {
            "get": operation("list", _LIST_PARAMETERS),
            "post": operation("post", _WRITE_PARAMETERS),
            "delete": operation("deletecollection", _LIST_PARAMETERS),
            "parameters": shared,
        }
    }
    if resource.traits.virtual:
        return paths
    one = {
        "get": operation("get", []),
        "put": operation("put", _WRITE_PARAMETERS),
        "patch": operation("patch", [*_WRITE_PARAMETERS, _parameter("force", "boolean")]),
        "parameters": [_parameter("name", "string", "path"), *shared],
    }
    paths[f"{collection}/{{name}}"] = {**one, "delete": operation("delete", [_parameter("dryRun", "string")])}
    if served.status:
        paths[f"{collection}/{{name}}/status"] = one
    if resource.namespaced:
        paths[f"{root}/{resource.plural}"] = {"get": operation("list", _LIST_PARAMETERS), "parameters": []}
    return paths
