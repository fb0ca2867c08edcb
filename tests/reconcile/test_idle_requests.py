"""What a scaler asks of the API server while nothing happens, and while something is refused for ever."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.reconcile.harness import World


def _writes(team: World) -> Counter[str]:
    """The writes so far, by resource (and subresource)."""
    return Counter(
        f"{record.info.resource}/{record.info.subresource}".strip("/")
        for record in team.server.requests
        if record.info.verb in ("patch", "update", "create")
    )


LOADS = [("a steady load", 300, 100), ("a panic that lasts, and raises that nobody admits", 36_000, 12_000)]


@pytest.mark.parametrize(("prompt", "generated"), [c[1:] for c in LOADS], ids=[c[0] for c in LOADS])
async def test_a_scaler_whose_counts_stand_still_writes_its_status_about_once_a_minute(
    team: World, prompt: float, generated: float
):
    engine = await team.loaded()
    engine.load(prompt, generated)
    await team.controller()
    await team.until(lambda: "bound-by" in team.annotations(), "bound")
    await team.ticks(12)
    before = _writes(team)
    await team.ticks(36)  # three minutes
    after = _writes(team) - before
    assert after["modeldeploymentscalers/status"] <= 4
    assert after["modeldeployments"] == after["modeldeploymentscalers"] == 0
