"""Discovery: which groups, versions and resources are served, in the legacy and the aggregated form."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.resources import Registry, ResourceType, ServedVersion

# The server presents itself as this release; clients switch features on by it.
GIT_VERSION = "v1.34.0"
VERSION: Object = {
    "major": "1",
    "minor": "34",
    "gitVersion": f"{GIT_VERSION}+embedded",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "embedded/python",
}
AGGREGATED = "apidiscovery.k8s.io"


def core_versions(address: str) -> Object:
    """`/api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(registry: Registry) -> Object:
    """`/apis`."""
    groups = [group_object(name, versions) for name, versions in registry.groups().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group_object(name: str, versions: list[str]) -> Object:
    """One group of `/apis`, without its type members."""
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(registry: Registry, group: str, version: str) -> Object | None:
    """`/api/v1` or `/apis/GROUP/VERSION`; None where nothing is served there."""
    resources: list[Object] = []
    for served in _served_at(registry, group, version):
        resource = served.type
        entry: Object = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        if not resource.traits.virtual:
            entry["storageVersionHash"] = _storage_hash(resource)
        resources.append(entry)
        if served.status:
            resources.append(
                {
                    "name": f"{resource.plural}/status",
                    "singularName": "",
                    "namespaced": resource.namespaced,
                    "kind": resource.kind,
                    "verbs": ["get", "patch", "update"],
                }
            )
    if not resources:
        return None
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}


def _storage_hash(resource: ResourceType) -> str:
    """What tells clients that the stored form has changed: a short digest of group, version and kind."""
    name = f"{resource.group}/{resource.storage_version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(name.encode()).digest()[:8]).decode()


def _served_at(registry: Registry, group: str, version: str) -> list[ServedVersion]:
    return [
        resource.versions[version] for resource in registry if resource.group == group and version in resource.versions
    ]


def aggregated(registry: Registry, api_version: str, *, core: bool) -> Object:
    """`/api` or `/apis` in the aggregated form that current clients ask for: everything in one document."""
    items = []
    for group, versions in registry.groups().items():
        if (not group) is not core:
            continue
        listed = [
            {
                "version": version,
                "resources": [_aggregated_resource(served) for served in _served_at(registry, group, version)],
                "freshness": "Current",
            }
            for version in versions
        ]
        items.append({"metadata": {"name": group, "creationTimestamp": None}, "versions": listed})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items}


def _aggregated_resource(served: ServedVersion) -> Object:
    resource: ResourceType = served.type
    kind: dict[str, Any] = {"group": resource.group, "version": served.version, "kind": resource.kind}
    entry: Object = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if served.status:
        entry["subresources"] = [{"subresource": "status", "responseKind": kind, "verbs": ["get", "patch", "update"]}]
    return entry
