"""Resources that are questions: they are posted, answered in `status` and never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.access import Access
from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.rbac import Attributes, User
from controller.foundation import format_time

_DEFAULT_TOKEN_SECONDS = 3600
_SHORTEST_TOKEN_SECONDS = 600


def answer_review(kind: str, body: Object, user: User, namespace: str, access: Access) -> Object:
    """The body with its answer. Raises ApiError for a question that cannot be read."""
    spec = body.get("spec")
    given: Object = spec if isinstance(spec, dict) else {}
    return {**body, "status": _ANSWERS[kind](given, user, namespace, access)}


def _access_review(spec: Object, user: User, namespace: str, access: Access) -> Object:
    wanted = _attributes(spec, namespace)
    decision = access.decide(user, wanted)
    return (
        {"allowed": decision.allowed, "reason": decision.reason} if decision.reason else {"allowed": decision.allowed}
    )


def _subject_access_review(spec: Object, user: User, namespace: str, access: Access) -> Object:
    groups = tuple(spec.get("groups") or ())
    subject = User(str(spec.get("user", "")), groups, str(spec.get("uid", "")))
    if not subject.name and not groups:
        raise errors.bad_request("spec.user or spec.groups is required: whose access is asked for?")
    return _access_review(spec, subject, namespace, access)


def _attributes(spec: Object, namespace: str) -> Attributes:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(resource, dict):
        names = ("verb", "group", "resource", "subresource", "namespace", "name")
        found = {name: str(resource.get(name) or "") for name in names}
        found["namespace"] = found["namespace"] or namespace
        return Attributes(**found)
    if isinstance(path, dict):
        return Attributes(str(path.get("verb") or ""), path=str(path.get("path") or ""))
    raise errors.bad_request("spec.resourceAttributes or spec.nonResourceAttributes is required")


def _rules_review(spec: Object, user: User, namespace: str, access: Access) -> Object:
    if access.rbac is None:
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        paths = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        return {"resourceRules": [everything], "nonResourceRules": [paths], "incomplete": False}
    rules = access.rbac.rules_of(user, str(spec.get("namespace") or ""))
    return {
        "resourceRules": [rule for rule in rules if "resources" in rule],
        "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
        "incomplete": False,
    }


def _token_review(spec: Object, user: User, namespace: str, access: Access) -> Object:
    token = str(spec.get("token", ""))
    found = access.tokens.get(token) or access.service_account(token)
    if found is None:
        return {"authenticated": False, "error": "invalid bearer token"}
    return {"authenticated": True, "user": found.as_object()}


def _self_review(spec: Object, user: User, namespace: str, access: Access) -> Object:
    return {"userInfo": user.as_object()}


_ANSWERS: dict[str, Callable[[Object, User, str, Access], Object]] = {
    "LocalSubjectAccessReview": _subject_access_review,
    "SelfSubjectAccessReview": _access_review,
    "SelfSubjectReview": _self_review,
    "SelfSubjectRulesReview": _rules_review,
    "SubjectAccessReview": _subject_access_review,
    "TokenReview": _token_review,
}


def issue_token(body: Any, namespace: str, name: str, access: Access) -> Object:
    """A TokenRequest (`serviceaccounts/NAME/token`) with its token. Raises ApiError 404 and 422."""
    request: Object = body if isinstance(body, dict) else {}
    spec = request.get("spec") or {}
    seconds = spec.get("expirationSeconds") or _DEFAULT_TOKEN_SECONDS
    if not isinstance(seconds, int) or seconds < _SHORTEST_TOKEN_SECONDS:
        text = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
        cause = errors.Cause("spec.expirationSeconds", "FieldValueInvalid", text)
        raise errors.invalid(errors.GroupResource("authentication.k8s.io", "TokenRequest"), "", [cause])
    token, expires = access.issue(namespace, name, seconds)
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": format_time(expires - seconds)},
        "spec": {**spec, "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": format_time(expires)},
    }
