"""Failures as the wire carries them: `ApiError` holds one `metav1.Status` and knows its HTTP code.

The factories below reproduce the wording and the shape of the real server where clients are known to look at them:
`reason`, `code`, `details.kind` (the plural for 404 and most 409, the CamelCase kind for 422 and failed preconditions),
`details.causes`. Nothing here knows HTTP beyond the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

Object = dict[str, Any]  # one JSON object, as orjson reads it


# Go's JSON escapes what HTML would take for markup.
_MARKUP = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&"})


class GroupResource(NamedTuple):
    """What a Status names: `pods`, or `widgets.example.com`; also `Widget.example.com` where a kind is meant."""

    group: str
    name: str

    def __str__(self) -> str:
        return f"{self.name}.{self.group}" if self.group else self.name


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `details.causes`: a field path (`spec.roles[1].name`), a reason (FieldValueInvalid), a text."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def as_object(self) -> Object:
        return {"reason": self.reason, "message": self.message, "field": self.field}


def shown(value: Any) -> str:
    """A value as messages show it: JSON, and a whole float like an integer, as Go prints it."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return text.translate(_MARKUP) if isinstance(value, dict | list) else text


class ApiError(Exception):
    """A request that failed, with the Status to send. `headers` holds Retry-After and the like."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: Object | None = None, headers: Object | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers: dict[str, str] = headers or {}
        self.metadata: Object = {}
        self.warnings: list[str] = []  # sent as headers, as with a success

    def status(self) -> Object:
        """The `metav1.Status` object."""
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:  # several failures of the real server carry code 500 and no reason at all
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


@contextmanager
def warned(warnings: list[str]) -> Iterator[None]:
    """Gives the warnings that a request has earned so far to the failure that ends it."""
    try:
        yield
    except ApiError as error:
        error.warnings[:0] = warnings
        raise


class Undecodable(ApiError):
    """400: a body that is no object of the kind, with the decoder's `problem`."""

    def __init__(self, kind: str, version: str, problem: str) -> None:
        message = f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}'
        super().__init__(400, "BadRequest", message)
        self.problem = problem


def _details(subject: GroupResource, name: str, **more: Any) -> Object:
    details: Object = {}
    if name:
        details["name"] = name
    if subject.group:
        details["group"] = subject.group
    if subject.name:
        details["kind"] = subject.name
    return details | more


def not_found(resource: GroupResource, name: str) -> ApiError:
    """404: the object does not exist."""
    return ApiError(404, "NotFound", f'{resource} "{name}" not found', details=_details(resource, name))


def no_such_path() -> ApiError:
    """404: the group and version are served, this resource is not."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(resource: GroupResource, name: str, *, deleting: bool = False) -> ApiError:
    """409: create of a name that is taken, be it by an object that is on its way out."""
    text = f'{resource} "{name}" already exists'
    message = f"object is being deleted: {text}" if deleting else text
    return ApiError(409, "AlreadyExists", message, details=_details(resource, name))


def conflict(subject: GroupResource, name: str, message: str) -> ApiError:
    """409: an optimistic write or a precondition that lost."""
    text = f'Operation cannot be fulfilled on {subject} "{name}": {message}'
    return ApiError(409, "Conflict", text, details=_details(subject, name))


def modified(resource: GroupResource, name: str) -> ApiError:
    """409: the resourceVersion of the write is not the stored one."""
    return conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def apply_conflict(causes: Sequence[Cause], managers: str) -> ApiError:
    """409: server-side apply would overwrite fields of other managers."""
    plural = "s" if len(causes) > 1 else ""
    message = f"Apply failed with {len(causes)} conflict{plural}: {managers}"
    return ApiError(409, "Conflict", message, details={"causes": [cause.as_object() for cause in causes]})


def invalid(kind: GroupResource, name: str, causes: Iterable[Cause]) -> ApiError:
    """422: the object breaks its schema or a rule of its kind."""
    found = list(causes)
    said = list(dict.fromkeys(str(cause) for cause in found))
    text = f"[{', '.join(said)}]" if len(said) > 1 else said[0]
    details = _details(kind, name, causes=[cause.as_object() for cause in found])
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details=details)


def unpatchable() -> ApiError:
    """422: a JSON patch that does not apply. The real server says no more than this, whatever was wrong
    (control-plane.md §3), so a failed `test` cannot be told from a malformed patch."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", details={})


def bad_request(message: str) -> ApiError:
    """400: the request cannot be read."""
    return ApiError(400, "BadRequest", message)


def internal(message: str) -> ApiError:
    """500 without a reason: the real server's answer to several malformed requests (control-plane.md §5)."""
    return ApiError(500, "", message)


def unauthorized() -> ApiError:
    """401: a bearer token that nobody issued."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: GroupResource, name: str, message: str) -> ApiError:
    """403: the user may not do this, or the state of the world refuses it."""
    subject = f'{resource} "{name}"' if name else str(resource)
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {message}", details=_details(resource, name))


def namespace_terminating(resource: GroupResource, name: str, namespace: str) -> ApiError:
    """403: create in a namespace that is being deleted; clients know it by its cause."""
    state = f"namespace {namespace} is being terminated"
    message = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = forbidden(resource, name, message)
    cause = {"reason": "NamespaceTerminating", "message": state, "field": "metadata.namespace"}
    error.details = {**(error.details or {}), "causes": [cause]}
    return error


def definition_terminating(resource: GroupResource, name: str) -> ApiError:
    """403: create of a custom resource whose definition is being deleted."""
    return forbidden(resource, name, "create not allowed while custom resource definition is terminating")


def precondition_failed(resource: GroupResource, name: str, what: str, wanted: str, found: str) -> ApiError:
    """409: a precondition that storage itself checks, on the `what` (UID, ResourceVersion) of the object."""
    return conflict(
        resource, name, f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
    )


def unreadable_patch(problem: str, patched: Any = None) -> ApiError:
    """422: the patch applies, but what comes out of it is no object of the kind. Names nothing, like the real one."""
    given = "" if patched is None else shown(orjson.dumps(patched, option=orjson.OPT_SORT_KEYS).decode()) + ": "
    return invalid(GroupResource("", ""), "", [Cause("patch", "FieldValueInvalid", f"Invalid value: {given}{problem}")])


def no_resource_version(resource: GroupResource, name: str) -> ApiError:
    """422: a write that must say which state it was made from."""
    cause = Cause("metadata.resourceVersion", "FieldValueInvalid", "Invalid value: 0: must be specified for an update")
    return invalid(resource, name, [cause])


def method_not_allowed() -> ApiError:
    """405: the resource does not support this verb."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, details={})


def not_acceptable(accepted: Sequence[str]) -> ApiError:
    """406: none of the media types that the client accepts can be produced."""
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return ApiError(406, "NotAcceptable", message)


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """415: a body in a format that this resource does not read."""
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return ApiError(415, "UnsupportedMediaType", message)


def too_large(message: str) -> ApiError:
    """413: a body or a patch beyond the limits."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def expired(message: str, *, continue_token: str | None = None) -> ApiError:
    """410: the history that was asked for has been compacted. A paged list gets a token to go on with."""
    error = ApiError(410, "Expired", message)
    if continue_token is not None:
        error.metadata = {"continue": continue_token}
    return error


def too_old(wanted: int, oldest: int) -> ApiError:
    """410: a watch (or exact read) from before the oldest event that is still kept."""
    return expired(f"too old resource version: {wanted} ({oldest})")


def gone(message: str = "The resourceVersion for the provided watch is too old.") -> ApiError:
    """410 with the older reason `Gone`; only fault scripts send it."""
    return ApiError(410, "Gone", message)


def too_large_resource_version(wanted: int, current: int) -> ApiError:
    """504: the server has not yet seen the resourceVersion that the client knows."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={"causes": [cause], "retryAfterSeconds": 1},
        headers={"Retry-After": "1"},
    )


def throttled(retry_after_seconds: int) -> ApiError:
    """429: the server sheds load."""
    return ApiError(
        429,
        "TooManyRequests",
        "the server has received too many requests and has asked us to try again later",
        details={"retryAfterSeconds": retry_after_seconds},
        headers={"Retry-After": str(retry_after_seconds)},
    )
