"""A status that somebody edited, that another version wrote, or that nobody checked: it never stops the scaling."""

from __future__ import annotations

import json

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS
from tests.reconcile.harness import World


def _condition(type_: str, status: str = "True"):
    return {
        "type": type_,
        "status": status,
        "reason": "Somebody",
        "message": "wrote this",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def _memory(**members):
    return {"roles": [{"name": "server", "memory": json.dumps(members)}]}


STATUSES = [
    ("a text", "gone"),
    ("a list", []),
    ("as many conditions as there may be, all of them foreign", {"conditions": [_condition(f"Foreign{n}") for n in range(16)]}),
    ("a condition twice", {"conditions": [_condition("Bound"), _condition("Bound", "False")]}),
    ("conditions that are nonsense", {"conditions": [5, None, {"type": 1}, {"type": "Bound"}]}),
    ("a role twice", {"roles": [{"name": "server", "currentReplicas": 1}, {"name": "server", "currentReplicas": 2}]}),
    ("a role that is none", {"roles": [{"name": "SERVER!"}, 7]}),
    ("a binding of numbers", {"binding": {"targetUID": 5, "term": "many"}}),
    ("a summary beyond its length", {"summary": {"ready": "x" * 5000}}),
    ("memory that is cut", {"roles": [{"name": "server", "memory": '{"history":{"highs":[[17'}]}),
    ("memory that is no object", {"roles": [{"name": "server", "memory": "[]"}]}),
    ("memory of members that a later version has", _memory(later={"a": 1}, history={"sometimes": 3})),
    ("memory far beyond its length", _memory(flows=[[1.0, 1.0, 1.0, None]] * 5000)),
    ("recommendations from beyond all calendars", _memory(history={"highs": [[1e300, 2]], "known_since": -1e300})),
    ("recommendations below zero", _memory(history={"highs": [[1.8e9, -7]]})),
    ("recommendations that no count can be", _memory(history={"highs": [[1.8e9, 2**40]]})),
    ("a panic from beyond all calendars", _memory(panic={"since": -1e18, "last_crossing": 1e18, "floor": 2**62})),
    ("pauses without end", _memory(settling={"unadmitted_since": -5, "pauses": 2**62, "raise_not_before": -1e9})),
    ("start-ups that took less than no time", _memory(startups_seconds=[-5.0, 1e308])),
    ("a factor that divides by nothing", _memory(factor=[0.0, 0.0, 0.0, 0.0, 0])),
]  # fmt: skip


@pytest.mark.parametrize("status", [c[1] for c in STATUSES], ids=[c[0] for c in STATUSES])
async def test_a_status_that_is_not_ours_never_stops_the_scaling(lax: World, status):
    """Stored without a check, and then again under the schema, which refuses what is carried over from it."""
    await lax.loaded()
    lax.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj.update(status=status))
    lax.tighten()
    engine = lax.engines[0]
    await lax.controller()
    await lax.until(lambda: lax.count() == 3, "grown")
    assert lax.reason("Bound") == "Acquired"
    await lax.until(lambda: lax.status().summary.desired == "server=3", "reported")
    engine.load(300, 100)
    await lax.until(lambda: lax.count() == 1, "and shrunk, which needs the status")
