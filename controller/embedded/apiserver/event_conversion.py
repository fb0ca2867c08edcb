"""Events under two groups: one stored object (core/v1 form), seen as core `Event` or as events.k8s.io/v1 `Event`.

The fields are the same data under other names; `series`, `eventTime`, `action`, `related` and `reportingController` /
`reportingComponent` come from the newer form, `count`, `firstTimestamp`, `lastTimestamp` and `source` from the older.
"""

from __future__ import annotations

from controller.embedded.apiserver.errors import Object

# core/v1 name → events.k8s.io/v1 name; names not listed are the same in both.
_NEWER_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_OLDER_NAMES = {newer: older for older, newer in _NEWER_NAMES.items()}
# Members that the typed encoding of the real server always shows.
_ALWAYS_SHOWN: dict[str, object] = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}


def newer_event(stored: Object) -> Object:
    """The events.k8s.io/v1 form of a stored event."""
    renamed = {
        _NEWER_NAMES.get(name, name): value
        for name, value in stored.items()
        if value or name not in ("reportingComponent", "reportingInstance")
    }
    return renamed | {"kind": "Event", "apiVersion": "events.k8s.io/v1"}


def stored_event(newer: Object) -> Object:
    """The stored form of an event written as events.k8s.io/v1."""
    return complete_event({_OLDER_NAMES.get(name, name): value for name, value in newer.items()})


def complete_event(core: Object) -> Object:
    """A core event with the members that the real server always shows, type members first."""
    head: Object = {"kind": "Event", "apiVersion": "v1"}
    head |= {name: value for name, value in core.items() if name not in head}
    for name, empty in _ALWAYS_SHOWN.items():
        head.setdefault(name, empty)
    return head
