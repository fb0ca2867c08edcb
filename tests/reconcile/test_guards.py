"""When a target must not be touched, and what may be written while it retires a replica."""

import msgspec
import pytest

from controller.api import ActiveReason, RetirementReason, RoleBounds, Router
from controller.reconcile.guards import holds, retirement_block, unsupported, writable
from controller.reconcile.writing import Writing
from tests.reconcile.objects import role, target

BOUNDS = (RoleBounds(name="server", max_replicas=4),)

UNSUPPORTED = [
    ("a plain role is fine", role(), {}, False),
    ("an elastic role resizes by itself", role(elasticEp={"width": 4}), {}, True),
    ("a role with its own command has no probes", role(command=["sh"]), {}, True),
    ("a kind that this version does not know", role(kind="Draft"), {}, True),
    ("a replica of no Pods cannot be", role(size=0), {}, True),
    ("a count below zero cannot be", role(replicas=-1), {}, True),
    ("a stopped role is fine", role(replicas=0), {}, False),
    ("a role that the operator calls unmanaged", role(), {"roles": [{"name": "server", "unmanaged": True}]}, True),
]


@pytest.mark.parametrize(
    ("declared", "status", "refused"), [c[1:] for c in UNSUPPORTED], ids=[c[0] for c in UNSUPPORTED]
)
def test_unsupported(declared, status, refused):
    guard = unsupported(target([declared], status=status), BOUNDS)
    assert (guard is not None) == refused
    if guard is not None:
        assert guard.reason is ActiveReason.TARGET_UNSUPPORTED
        assert "server" in guard.message


def test_a_role_declared_twice_has_no_count():
    assert unsupported(target([role(), role(replicas=2)]), BOUNDS) is not None


def test_a_role_outside_the_scalers_spec_does_not_matter():
    assert unsupported(target([role(), role("other", command=["sh"])]), BOUNDS) is None


def _conditions(**status):
    return {"conditions": [{"type": type_, "status": value, "reason": "Why"} for type_, value in status.items()]}


def test_weights_that_are_not_ready_hold_every_write():
    guard = holds(target([role()], status=_conditions(WeightsReady="False")))
    assert guard is not None
    assert guard.reason is ActiveReason.WEIGHTS_NOT_READY


@pytest.mark.parametrize("value", ["True", "Unknown"])
def test_weights_that_are_ready_or_not_observed_hold_nothing(value):
    assert holds(target([role()], status=_conditions(WeightsReady=value))) is None


PAIR = [role("prefill", "Prefill"), role("decode", "Decode")]
ROUTERS = [
    ("the router of a pair is down", PAIR, True, "False", True),
    ("it is not known whether it is", PAIR, True, "Unknown", False),
    ("it is up", PAIR, True, "True", False),
    ("a pair without a router", PAIR, False, "False", False),
    ("servers can be reached without it", [role()], True, "False", False),
]


@pytest.mark.parametrize(("roles", "routed", "value", "held"), [c[1:] for c in ROUTERS], ids=[c[0] for c in ROUTERS])
def test_routers(roles, routed, value, held):
    found = target(roles, status=_conditions(RouterReady=value))
    if routed:
        spec = msgspec.structs.replace(found.spec, router=Router(name="vllm-router"))
        found = msgspec.structs.replace(found, spec=spec)
    guard = holds(found)
    assert (guard is not None) == held
    if guard is not None:
        assert guard.reason is ActiveReason.ROUTER_NOT_READY


CHANGES = {"prefill": (2, 3), "decode": (4, 2)}
WRITABLE = [
    ("without a retirement all goes", CHANGES, RetirementReason.NONE, False, {"prefill": 3, "decode": 2}),
    ("a retirement under way lets no count fall, a raise goes on", CHANGES, RetirementReason.RETIREMENT_IN_PROGRESS, False, {"prefill": 3}),
    ("so does an aborted one", CHANGES, RetirementReason.RETIREMENT_ABORTED, False, {"prefill": 3}),
    ("under a band roles move together or not at all", CHANGES, RetirementReason.RETIREMENT_IN_PROGRESS, True, {}),
    ("raises alone never wait", {"decode": (2, 4)}, RetirementReason.RETIREMENT_IN_PROGRESS, True, {"decode": 4}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason", "banded", "expected"), [c[1:] for c in WRITABLE], ids=[c[0] for c in WRITABLE]
)
def test_writable(changes, reason, banded, expected):
    wanted, note = writable(changes, reason, banded=banded)
    assert wanted == expected
    assert bool(note) == (len(expected) < len(changes))


RAISES = [
    ("a raise goes on, a shrink beside it does not", {"prefill": 3, "decode": 1}, False, {"prefill": 3}),
    ("under a hard band the raise waits for the shrink", {"prefill": 3, "decode": 1}, True, {}),
    ("under a hard band raises alone go on", {"prefill": 3, "decode": 4}, True, {"prefill": 3, "decode": 4}),
]


@pytest.mark.parametrize(("wanted", "banded", "expected"), [c[1:] for c in RAISES], ids=[c[0] for c in RAISES])
def test_what_is_written_without_a_stored_status(wanted, banded, expected):
    current = {"prefill": 2, "decode": 2}
    assert Writing(wanted, {}, RetirementReason.NONE, "", {}, current, banded).raises_only() == expected


RETIREMENTS = [
    ("no retirement", None, RetirementReason.NONE),
    ("draining", "Draining", RetirementReason.RETIREMENT_IN_PROGRESS),
    ("aborted", "Aborted", RetirementReason.RETIREMENT_ABORTED),
    ("completed", "Completed", RetirementReason.NONE),
]


@pytest.mark.parametrize(("state", "reason"), [c[1:] for c in RETIREMENTS], ids=[c[0] for c in RETIREMENTS])
def test_retirement_state(state, reason):
    status = {"retirement": {"roleName": "server", "replicaOrdinal": 1, "state": state}} if state else {}
    assert retirement_block(target([role()], status=status))[0] is reason
