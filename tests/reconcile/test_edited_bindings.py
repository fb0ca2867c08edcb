"""A binding whose annotations a person edited, or that was never one of ours."""

from __future__ import annotations

import pytest

from controller.api import MODEL_DEPLOYMENT_SCALERS, MODEL_DEPLOYMENTS
from tests.reconcile.harness import World

PREFIX = "scaling.worker.gpustack.ai/"
BOUND_BY, TERM, WRITTEN = PREFIX + "bound-by", PREFIX + "term", PREFIX + "written"
LARGEST = 2**63 - 1


def _annotate(team: World, key: str, value: str) -> None:
    def change(obj):
        obj["metadata"].setdefault("annotations", {})[key] = value

    team.edit(MODEL_DEPLOYMENTS, "chat", change)


NO_HOLDERS = ["nonsense", "two words/uid-1", "%2e%2e/uid-1", "../uid-1", "x" * 50_000 + "/uid-1"]  # fmt: skip


@pytest.mark.parametrize("value", NO_HOLDERS, ids=range(len(NO_HOLDERS)))
async def test_a_target_bound_to_what_can_be_no_scaler_is_taken_over(team: World, value: str):
    await team.loaded()
    _annotate(team, BOUND_BY, value)
    await team.controller()
    await team.until(lambda: team.count() == 3, "bound and grown")


async def test_a_target_bound_to_a_scaler_that_was_made_anew_since_and_claims_nothing_is_taken_over(team: World):
    team.scaler("other", mode="Shadow")
    await team.loaded()
    _annotate(team, BOUND_BY, "other/the-uid-before")
    await team.controller()
    await team.until(lambda: team.count() == 3, "bound and grown")


EDITS = [
    ("the holder's name", BOUND_BY, "somebody/{uid}"),
    ("the term to nonsense", TERM, "seven"),
    ("the term to a negative number", TERM, "-1"),
    ("the term to the same number in other words", TERM, "01"),
    ("the term to a lower number", TERM, "0"),
    ("the term beyond what a number can hold", TERM, "9" * 25),
    ("the term to the largest number, which none could follow", TERM, str(LARGEST)),
    ("the written counts to nonsense", WRITTEN, "server=many"),
    ("the written counts to nothing", WRITTEN, ""),
]


@pytest.mark.parametrize(("key", "value"), [c[1:] for c in EDITS], ids=[c[0] for c in EDITS])
async def test_scaling_goes_on_after_somebody_edited(team: World, key: str, value: str):
    engine = await team.loaded()
    await team.controller()
    await team.until(lambda: team.count() == 3, "grown")
    uid = team.server.get(MODEL_DEPLOYMENT_SCALERS, "chat", "team")["metadata"]["uid"]
    _annotate(team, key, value.format(uid=uid))
    engine.load(36_000, 12_000)
    await team.until(lambda: team.count() == 5, "grown again")
    assert team.annotations()["bound-by"] == f"chat/{uid}"
    assert int(team.annotations()["term"]) < 10


@pytest.mark.parametrize("place", ["annotation", "status"])
async def test_a_new_process_finds_a_term_that_none_can_follow(team: World, place: str):
    engine = await team.loaded()
    first = await team.controller("first")
    await team.until(lambda: team.count() == 3 and team.status().binding, "grown")
    await team.stop_controller(first)
    if place == "annotation":
        _annotate(team, TERM, str(LARGEST))
    else:
        team.edit(MODEL_DEPLOYMENT_SCALERS, "chat", lambda obj: obj["status"]["binding"].update(term=LARGEST))
    engine.load(36_000, 12_000)
    await team.controller("second")
    await team.until(lambda: team.count() == 5, "grown again")
    assert team.annotations()["term"] == "2"
    await team.until(lambda: team.status().binding.term == 2, "and the status says so")
