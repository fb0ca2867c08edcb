"""The rules of Events. Everything here works on the stored (core) form; the group of the request decides how strict the
rules are: events.k8s.io asks for more, and lets nothing but the series change."""

from __future__ import annotations

from typing import Any

from controller.embedded.apiserver.errors import Cause, Object, shown
from controller.embedded.apiserver.names import qualified_name_problems

_LEFT_OUT_EMPTY = ("reason", "message", "note", "type", "action", "count", "deprecatedCount")
_MAX_NAME = 128
_MAX_MESSAGE = 1024
# In the order in which the real server reports them; `reportingComponent` goes by its newer name.
_IMMUTABLE = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",  # twice, as there
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
_REFERENCE_MEMBERS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_SOURCE_MEMBERS = ("component", "host")


def tidy_event(event: Object) -> None:
    """Leave out what the typed encoding leaves out; works on both forms."""
    for name in _LEFT_OUT_EMPTY:
        if name in event and not event[name]:
            del event[name]
    if isinstance(event.get("series"), dict):
        event["series"].setdefault("lastObservedTime", None)


def event_causes(event: Object, old: Object | None, *, newer: bool) -> list[Cause]:
    """What is wrong with an event written through core v1, or through events.k8s.io (`newer`)."""
    causes = _common_causes(event, "reportingController" if newer else "reportingComponent")
    if not newer:
        return causes
    if old is None:
        return causes + _series_causes(event) + _creation_causes(event)
    changed = [name for name in _IMMUTABLE if (event.get(name) or None) != (old.get(name) or None)]
    causes += [_invalid(_newer_name(name), _typed(name, event.get(name)), "field is immutable") for name in changed]
    return causes + _series_causes(event)


def _invalid(field: str, value: str, text: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {value}: {text}")


def _required(field: str) -> Cause:
    return Cause(field, "FieldValueRequired", "Required value")


def _common_causes(event: Object, controller_field: str) -> list[Cause]:
    namespace = event["metadata"].get("namespace", "")
    regarded = (event.get("involvedObject") or {}).get("namespace", "")
    mismatch = [_invalid("involvedObject.namespace", shown(regarded), "does not match event.namespace")]
    if not event.get("eventTime"):  # an event of the older kind
        return mismatch if (regarded or "default") != namespace else []
    causes = mismatch if not regarded and namespace not in ("default", "kube-system") else []
    controller = event.get("reportingComponent") or ""
    if not controller:
        causes.append(_required(controller_field))
    causes += [_invalid(controller_field, shown(controller), text) for text in qualified_name_problems(controller)]
    for name in ("reportingInstance", "action", "reason"):
        if not event.get(name):
            causes.append(_required(name))
        causes += _length_causes(event, name, _MAX_NAME)
    return causes + _length_causes(event, "message", _MAX_MESSAGE)


def _length_causes(event: Object, name: str, limit: int) -> list[Cause]:
    too_long = len(str(event.get(name) or "")) > limit
    return [_invalid(name, '""', f"can have at most {limit} characters")] if too_long else []


def _series_causes(event: Object) -> list[Cause]:
    series = event.get("series")
    if not isinstance(series, dict):
        return []
    causes = []
    if (series.get("count") or 0) < 2:  # one occurrence is no series
        causes.append(_invalid("series.count", '""', "should be at least 2"))
    if not series.get("lastObservedTime"):
        causes.append(_required("series.lastObservedTime"))
    return causes


def _creation_causes(event: Object) -> list[Cause]:
    causes = [] if event.get("eventTime") else [_required("eventTime")]
    if event.get("type") not in ("Normal", "Warning"):
        causes.append(_invalid("type", '""', f"has invalid value: {event.get('type') or ''}"))
    causes += [
        _invalid(name, '""', "needs to be unset")
        for name in ("firstTimestamp", "lastTimestamp", "count", "source")
        if event.get(name)
    ]
    return causes


def _newer_name(name: str) -> str:
    return "reportingController" if name == "reportingComponent" else name


def _typed(name: str, value: Any) -> str:
    """A value as the server's internal type prints: references and sources with all their members."""
    if name in ("involvedObject", "related", "source"):
        members = _SOURCE_MEMBERS if name == "source" else _REFERENCE_MEMBERS
        if value is None:
            return "null"
        parts = (f"{shown(_go_name(member))}:{shown(value.get(member, ''))}" for member in members)
        return "{" + ",".join(parts) + "}"
    return shown("" if value is None and name not in ("count", "eventTime") else value)


def _go_name(member: str) -> str:
    return {"uid": "UID", "apiVersion": "APIVersion"}.get(member, member[:1].upper() + member[1:])
