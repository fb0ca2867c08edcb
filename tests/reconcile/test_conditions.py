"""The condition never says that counts are held while they move, and an event says why one moved."""

from __future__ import annotations

import pytest

from controller.reconcile.conditions import active_condition, why_moved
from controller.scaling import (
    Decision,
    DecisionSpec,
    MetricsStatus,
    RoleCapacity,
    RoleDecision,
    RoleKind,
    RoleSpec,
    Stage,
    StageRecord,
    TokenThroughput,
)
from tests.reconcile.direct import Pair

TAKEN_BACK = "2 replicas were not admitted within 300 s and are taken back"


def _role(current: int, desired: int, raw: int | None, stage: Stage | None = None, why: str = "") -> RoleDecision:
    record = () if stage is None else (StageRecord(stage=stage, before=current, after=desired, reason=why),)
    return RoleDecision(
        name="server",
        current=current,
        raw=raw,
        desired=desired,
        limited_by=stage,
        stages=record,
        algorithm_reason="what was measured",
        metrics=MetricsStatus.NO_READY_REPLICAS,
    )


REASONS = [
    ("the load asks for it", _role(1, 3, 3), "what was measured"),
    ("the load asks for more than a step allows", _role(1, 3, 8, Stage.STEP, "at most 2"), "what was measured"),
    ("nothing was measured, and nobody admits", _role(3, 1, None, Stage.SETTLING, TAKEN_BACK), f"settling: {TAKEN_BACK}"),
    ("the load asks for what nobody admits", _role(3, 1, 3, Stage.SETTLING, TAKEN_BACK), f"settling: {TAKEN_BACK}"),
    ("the load asks for fewer than the bounds", _role(1, 2, 1, Stage.BOUNDS, "at least 2"), "bounds: at least 2"),
]  # fmt: skip


@pytest.mark.parametrize(("role", "why"), [c[1:] for c in REASONS], ids=[c[0] for c in REASONS])
def test_why_a_count_moves(role: RoleDecision, why: str):
    assert why_moved(role) == why


SPEC = DecisionSpec(
    roles=(RoleSpec(name="server", kind=RoleKind.SERVER, min_replicas=1, max_replicas=5),), algorithm=TokenThroughput()
)
STANDING = [
    ("nobody is Ready, and nothing moves", _role(3, 3, None), True, "held within their bounds until one is", "→"),
    ("nobody is Ready, and replicas are taken back", _role(3, 1, None, Stage.SETTLING, TAKEN_BACK), True, f"server 3 → 1 (settling: {TAKEN_BACK})", "held"),
    ("no capacity, and nothing moves", _role(3, 3, None), False, "the counts are held", "→"),
    ("no capacity, and a move that is not made", _role(3, 1, None, Stage.SETTLING, TAKEN_BACK), False, "the counts are held, though this is recommended: server 3 → 1", "only"),
    ("no capacity, and a count out of bounds", _role(9, 5, None, Stage.BOUNDS, "at most 5"), False, "only counts outside their bounds move: server 9 → 5 (bounds: at most 5)", "held"),
]  # fmt: skip


@pytest.mark.parametrize(("role", "known", "says", "never"), [c[1:] for c in STANDING], ids=[c[0] for c in STANDING])
def test_what_becomes_of_the_counts(role: RoleDecision, known: bool, says: str, never: str):
    capacity = {"server": RoleCapacity(effective_tokens_per_second=1000.0)} if known else {}
    message = active_condition(Decision(now=0.0, roles=(role,)), SPEC, capacity, None, 1).message
    assert says in message
    assert never not in message


async def test_that_nobody_is_ready_is_told_once():
    world = Pair()
    world.declare([{"name": "server", "replicas": 1}])
    world.homeless |= {"chat-server-0"}
    world.scaler(suspend=True)
    world.start()
    await world.until(lambda: world.reason("ScalingActive") == "Suspended", "said so")
    world.edit_scaler(lambda obj: obj["spec"].update(suspend=False))
    await world.until(lambda: world.reason("ScalingActive") == "NoReadyReplicas", "nobody to ask")
    await world.run(300)
    assert world.reasons().count("NoReadyReplicas") == 1
