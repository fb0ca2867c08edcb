"""What a request asks for: verb, resource, namespace, name, subresource and the options of its query.

`RequestInfo` is what authorization, fault scripts and the request log see; `ListOptions` and `WriteOptions` are the
query parameters of reads and writes, parsed and checked. Parsing has no side effects; a bad value is an `ApiError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from controller.embedded.apiserver.errors import Cause, GroupResource, bad_request, internal, invalid

_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection", "HEAD": "list"}
_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create", "HEAD": "get"}
_TRUE = frozenset(("1", "t", "true"))
_FALSE = frozenset(("", "0", "f", "false"))
# Subresources of namespaces: /api/v1/namespaces/NAME/status is a namespace's own, anything else is a namespaced plural.
_NAMESPACE_SUBRESOURCES = frozenset(("status", "finalize"))
# A field selector that asks for one name makes it the name that authorization sees.
_ONE_NAME = re.compile(r"(?:^|,)metadata\.name==?([^,=!]+)")
_INT64 = 1 << 63
# metav1.FieldManager: longer names are refused.
_MAX_MANAGER_LENGTH = 128


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """Who asks for what. `resource` is empty for paths that are not resources (`/version`, `/apis`)."""

    method: str
    path: str
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    user_agent: str = ""
    selected: str = ""  # the one name that a list or watch is limited to by its field selector

    @property
    def is_resource(self) -> bool:
        return bool(self.resource)


def parse_request(method: str, path: str, query: Mapping[str, str], user_agent: str = "") -> RequestInfo:
    """The request info of a method and a raw path; nothing is looked up, so the resource may not exist."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    group = ""
    if parts[0] == "api" and len(parts) >= 3:
        version, rest = parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(method, path, method.lower(), user_agent=user_agent)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verbs = _OBJECT_VERBS if name else _COLLECTION_VERBS
    verb = verbs.get(method, method.lower())
    selected = _ONE_NAME.search(query.get("fieldSelector", "")) if verb == "list" else None
    if verb == "list" and _flag(query.get("watch", "")):
        verb = "watch"
    if resource == "namespaces" and name:
        namespace = name  # as the real server reports it to authorization
    return RequestInfo(
        method,
        path,
        verb,
        group,
        version,
        resource,
        namespace,
        name,
        "/".join((subresource, *rest[3:])).strip("/"),
        user_agent,
        selected[1] if selected else "",
    )


def _flag(text: str) -> bool:
    return text.lower() in _TRUE


def _boolean(query: Mapping[str, str], name: str) -> bool | None:
    if name not in query:
        return None
    text = query[name].lower()
    if text not in _TRUE | _FALSE:
        raise bad_request(f"strconv.ParseBool: parsing {query[name]!r}: invalid syntax ({name})")
    return text in _TRUE


def integer(query: Mapping[str, str], name: str) -> int | None:
    """A whole number of a query. Raises ApiError 400."""
    text = query.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    value = int(text)
    if not -_INT64 <= value < _INT64:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def parse_resource_version(text: str, *, listing: bool = False) -> int | None:
    """The number of a resourceVersion; None for the empty text ("the newest").

    Anything but digits is 400 on a list and 500 elsewhere, as on the real server (control-plane.md §5).
    """
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    message = f'strconv.ParseUint: parsing "{text}": invalid syntax'
    raise bad_request(f"Invalid value: {text!r}: {message}") if listing else internal(message)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Query of list, watch and deletecollection."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    match: str = ""
    send_initial_events: bool | None = None
    allow_bookmarks: bool = False
    timeout_seconds: int | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str], *, watching: bool) -> ListOptions:
        """Raises ApiError for values and combinations that the real server refuses (400 or 422)."""
        options = cls(
            label_selector=query.get("labelSelector", ""),
            field_selector=query.get("fieldSelector", ""),
            limit=max(0, integer(query, "limit") or 0),
            continue_token=query.get("continue", ""),
            resource_version=query.get("resourceVersion", ""),
            match=query.get("resourceVersionMatch", ""),
            send_initial_events=_boolean(query, "sendInitialEvents"),
            allow_bookmarks=bool(_boolean(query, "allowWatchBookmarks")),
            timeout_seconds=integer(query, "timeoutSeconds"),
        )
        causes = options._watch_causes() if watching else options._list_causes()
        if causes:
            raise invalid(GroupResource("meta.k8s.io", "ListOptions"), "", causes)
        return options

    def _watch_causes(self) -> list[Cause]:
        causes = []
        if self.send_initial_events is None:
            if self.match:
                causes.append(
                    _forbidden(
                        "resourceVersionMatch",
                        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                    )
                )
            return causes
        if self.match != "NotOlderThan":
            causes.append(
                _forbidden(
                    "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                )
            )
        return causes

    def _list_causes(self) -> list[Cause]:
        if self.send_initial_events is not None:
            return [_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")]
        if not self.match:
            return []
        if self.continue_token:
            return [_forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")]
        if not self.resource_version:
            return [
                _forbidden(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
                )
            ]
        if self.match not in ("Exact", "NotOlderThan"):
            message = f'Unsupported value: "{self.match}": supported values: "Exact", "NotOlderThan", ""'
            return [Cause("resourceVersionMatch", "FieldValueNotSupported", message)]
        if self.match == "Exact" and self.resource_version == "0":
            return [
                _forbidden("resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
            ]
        return []


def _forbidden(field: str, text: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {text}")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Query of create, update, patch and delete."""

    dry_run: bool = False
    manager: str = "unknown"
    explicit_manager: bool = False
    field_validation: str = "Warn"
    force: bool = False

    def as_object(self) -> dict[str, object]:
        """The options as webhooks see them; what was not asked for is left out."""
        found: dict[str, object] = {"fieldManager": self.manager} if self.explicit_manager else {}
        return found | ({"dryRun": ["All"]} if self.dry_run else {})

    @classmethod
    def parse(cls, query: Mapping[str, str], user_agent: str, verb: str = "patch") -> WriteOptions:
        """The default field manager is the first word of the user agent, as on the real server."""
        causes = []
        dry_run = query.get("dryRun", "")
        if dry_run not in ("", "All"):
            causes.append(_unsupported("dryRun", f'["{dry_run}"]', ("All",)))
        validation = query.get("fieldValidation", "") or "Warn"
        if validation not in ("Ignore", "Warn", "Strict"):
            causes.append(_unsupported("fieldValidation", f'"{validation}"', ("", "Ignore", "Strict", "Warn")))
        manager = query.get("fieldManager", "")
        if len(manager) > _MAX_MANAGER_LENGTH:
            text = f"Too long: may not be more than {_MAX_MANAGER_LENGTH} bytes"
            causes.append(Cause("fieldManager", "FieldValueTooLong", text))
        if causes:
            raise invalid(GroupResource("meta.k8s.io", f"{verb.capitalize()}Options"), "", causes)
        default = user_agent.split("/", 1)[0].strip()[:_MAX_MANAGER_LENGTH] or "unknown"
        return cls(bool(dry_run), manager or default, bool(manager), validation, bool(_boolean(query, "force")))


def _unsupported(name: str, value: str, supported: tuple[str, ...]) -> Cause:
    listed = ", ".join(f'"{text}"' for text in supported)
    return Cause(name, "FieldValueNotSupported", f"Unsupported value: {value}: supported values: {listed}")
