"""RBAC: whether the roles and bindings in the store allow a user an action.

The rules are those of rbac.authorization.k8s.io/v1: bindings grant, nothing denies; `*` matches everything;
`resources` name subresources as `pods/status` or `*/status`; `resourceNames` need a name in the request; members of
`system:masters` may do everything. Aggregated cluster roles are not aggregated: give their rules directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.storage import Store, storage_key

RBAC_GROUP = "rbac.authorization.k8s.io"
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated (or anonymous) user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    def as_object(self) -> Object:
        """authentication/v1 UserInfo."""
        info: Object = {"username": self.name, "groups": list(self.groups)}
        return {**info, "uid": self.uid} if self.uid else info


@dataclass(frozen=True, slots=True)
class Attributes:
    """What somebody wants to do: to a resource, or to a `path` that is none."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def qualified(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer; `rule` is the granting rule as (role, index), so that tests can tell which rules are used."""

    allowed: bool
    reason: str = ""
    rule: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Rbac:
    """Decides from what is stored at that moment."""

    store: Store

    def decide(self, user: User, wanted: Attributes) -> Decision:
        """Whether `user` may do `wanted`."""
        if MASTERS in user.groups:
            return Decision(True)
        for role, rules in self._granted(user, wanted.namespace):
            for index, rule in enumerate(rules):
                if _allows(rule, wanted):
                    return Decision(True, f"RBAC: allowed by {role}", (role, index))
        return Decision(False)

    def rules_of(self, user: User, namespace: str) -> list[Object]:
        """Every rule that holds for a user in a namespace."""
        return [rule for _, rules in self._granted(user, namespace) for rule in rules]

    def _granted(self, user: User, namespace: str) -> Iterator[tuple[str, list[Object]]]:
        """(role, rules) of every binding that names the user, cluster-wide ones first."""
        for binding in self.store.collection((RBAC_GROUP, "clusterrolebindings")).scan():
            if any(_names(subject, user, "") for subject in binding.object.get("subjects") or ()):
                yield self._rules(binding.object, "")
        if not namespace:
            return
        for binding in self.store.collection((RBAC_GROUP, "rolebindings")).scan(namespace):
            if any(_names(subject, user, namespace) for subject in binding.object.get("subjects") or ()):
                yield self._rules(binding.object, namespace)

    def _rules(self, binding: Object, namespace: str) -> tuple[str, list[Object]]:
        reference = binding.get("roleRef") or {}
        kind, name = str(reference.get("kind", "")), str(reference.get("name", ""))
        if kind == "Role":
            found = self.store.collection((RBAC_GROUP, "roles")).get(storage_key(namespace, name))
        else:
            found = self.store.collection((RBAC_GROUP, "clusterroles")).get(name)
        return f"{kind} {name}", [] if found is None else found.object.get("rules") or []


def _names(subject: Object, user: User, namespace: str) -> bool:
    kind, name = subject.get("kind"), str(subject.get("name", ""))
    if kind == "User":
        return name == user.name
    if kind == "Group":
        return name in user.groups
    owner = subject.get("namespace") or namespace
    return kind == "ServiceAccount" and user.name == f"{SERVICE_ACCOUNT_PREFIX}{owner}:{name}"


def _has(rule: Object, member: str, *wanted: str) -> bool:
    given: Any = rule.get(member) or ()
    return "*" in given or any(text in given for text in wanted)


def _allows(rule: Object, wanted: Attributes) -> bool:
    if not _has(rule, "verbs", wanted.verb):
        return False
    if not wanted.resource:
        urls = rule.get("nonResourceURLs") or ()
        return any(
            url in ("*", wanted.path) or (url.endswith("*") and wanted.path.startswith(url[:-1])) for url in urls
        )
    forms = [wanted.qualified] + ([f"*/{wanted.subresource}"] if wanted.subresource else [])
    names = rule.get("resourceNames")
    return (
        _has(rule, "apiGroups", wanted.group)
        and _has(rule, "resources", *forms)
        and (not names or wanted.name in names)
    )


def bootstrap_objects() -> list[Object]:
    """The cluster roles and bindings that every cluster has, as far as clients need them."""
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    paths = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/openapi",
        "/openapi/*",
        "/healthz",
        "/livez",
        "/readyz",
        "/version",
    ]
    reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    health = ["/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/version", "/version/*"]
    roles: list[tuple[str, list[Object], list[str]]] = [
        ("cluster-admin", [everything, {"nonResourceURLs": ["*"], "verbs": ["*"]}], [MASTERS]),
        ("system:discovery", [{"nonResourceURLs": paths, "verbs": ["get"]}], [AUTHENTICATED]),
        (
            "system:basic-user",
            [
                {"apiGroups": ["authorization.k8s.io"], "resources": reviews, "verbs": ["create"]},
                {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
            ],
            [AUTHENTICATED],
        ),
        (
            "system:public-info-viewer",
            [{"nonResourceURLs": health, "verbs": ["get"]}],
            [AUTHENTICATED, UNAUTHENTICATED],
        ),
    ]
    objects: list[Object] = []
    for name, rules, groups in roles:
        head = {"apiVersion": f"{RBAC_GROUP}/v1", "metadata": {"name": name}}
        subjects = [{"kind": "Group", "name": group, "apiGroup": RBAC_GROUP} for group in groups]
        reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": name}
        objects.append({**head, "kind": "ClusterRole", "rules": rules})
        objects.append({**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects})
    return objects
