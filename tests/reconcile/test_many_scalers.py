"""Many scalers at once: nobody waits for another one's engines, and bad objects cost the good ones nothing."""

from __future__ import annotations

import random

from structlog.testing import capture_logs

from controller.api import MODEL_DEPLOYMENT_SCALERS
from tests.reconcile.harness import World


def _ticks(team: World, name: str) -> int:
    path = team.directory / "records" / f"team_{name}.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


async def test_scalers_whose_engines_hang_keep_no_other_one_from_its_intervals(team: World):
    await team.loaded("good")
    hanging = [f"bad-{number}" for number in range(24)]
    for name in hanging:
        (await team.loaded(name)).hang()
    # Ten intervals: what a hanging engine costs its own scaler.
    await team.controller(scrape_timeout_seconds=0.5)
    await team.ticks(20, "good")
    assert max(_ticks(team, name) for name in hanging) < 10


GARBAGE = [None, 0, -1, 2**40, "", "1e400", "NaN", "x" * 300, True, [], {}, [None], {"name": 5}]


def _garbled(spec: object, rng: random.Random) -> object:
    """The spec with one member replaced by something else."""
    if rng.random() < 0.2 or not isinstance(spec, dict | list) or not spec:
        return rng.choice(GARBAGE)
    if isinstance(spec, list):
        return [_garbled(spec[0], rng), *spec[1:]]
    key = rng.choice(sorted(spec))
    return {**spec, key: _garbled(spec[key], rng)}


async def test_a_hundred_garbled_scalers_are_each_told_and_cost_the_good_one_nothing(lax: World):
    rng = random.Random(7)
    await lax.loaded("good")
    names = [f"bad-{number}" for number in range(100)]
    for name in names:
        made = lax.scaler(name, target="nosuch")
        lax.server.put({**made, "spec": _garbled(made["spec"], rng)})
        lax.edit(MODEL_DEPLOYMENT_SCALERS, name, lambda obj: obj.update(status=rng.choice(GARBAGE)))
    with capture_logs() as logs:
        await lax.controller()
        await lax.until(lambda: lax.count("good") == 3, "the good one works")
        await lax.until(lambda: all(lax.reason("ScalingActive", name) for name in names), "all are told")
    assert [line for line in logs if line["log_level"] == "error"] == []
    valid = [name for name in names if lax.reason("ScalingActive", name) != "InvalidSpec"]
    assert len(valid) < 40
    assert len(lax.server.list(MODEL_DEPLOYMENT_SCALERS, "team")) == 101
