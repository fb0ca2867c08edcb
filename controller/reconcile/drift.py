"""Whether replicas still do what their prior says. Pure.

The measured capacity factor κ is what replicas serve ÷ what the prior's curve gives at their own concurrency. Outside
0.7…1.4 for one stable window, the prior does not describe these replicas: another engine version, a slower board,
another mix of lengths. That is told (condition, event, metric) and, outside Adaptive, nothing more: a number that a
person put into a catalog is not corrected behind that person's back.

The alarm ends when κ has been inside again for one stable window, so that a factor at the border does not ring all
night.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from catalog import ScalerPriors
from controller.planning import prior_of
from controller.scaling import Decision

LOW, HIGH = 0.7, 1.4


class DriftState(StrEnum):
    """How far it is. A role without drift has no state."""

    SUSPECTED = "Suspected"  # outside, not for a stable window yet
    DRIFTED = "Drifted"
    RECOVERING = "Recovering"  # inside again, not for a stable window yet


@dataclass(frozen=True, slots=True)
class Drift:
    """One role's: its state, since when (model time), and κ as last measured."""

    state: DriftState
    since: float
    factor: float

    @property
    def alarming(self) -> bool:
        """Somebody should know."""
        return self.state is not DriftState.SUSPECTED


def drifts(
    known: Mapping[str, Drift], decision: Decision, priors: ScalerPriors | None, stable_seconds: float
) -> dict[str, Drift]:
    """The drifts after one more decision. Roles without a resolved prior, and those of which nothing is measured (any
    more), have none."""
    found: dict[str, Drift] = {}
    for role in decision.roles:
        prior = prior_of(priors, role.name)
        if prior is None or prior.capacity is None or role.capacity_factor is None:
            continue
        drift = _stepped(known.get(role.name), role.capacity_factor, decision.now, stable_seconds)
        if drift is not None:
            found[role.name] = drift
    return found


def drift_note(role: str, drift: Drift, priors: ScalerPriors, *, corrected: bool) -> str:
    """For the person on call: what was measured, what may explain it, what was made of it."""
    prior = prior_of(priors, role)
    mix = None if prior is None else prior.mix
    explained = "" if mix is None else f"; its mix of lengths alone makes {mix.factor:.2f} of it"
    done = "Adaptive corrects for it" if corrected else "nothing is corrected"
    return (
        f"role {role} serves {drift.factor:.2f} of what its prior says at the same concurrency (alarm outside "
        f"{LOW:g} to {HIGH:g} for a stable window){explained}; {done}: measure it again"
    )


def _stepped(known: Drift | None, factor: float, now: float, stable_seconds: float) -> Drift | None:
    outside = not LOW <= factor <= HIGH
    if known is None:
        return Drift(DriftState.SUSPECTED, now, factor) if outside else None
    since = min(known.since, now)  # a clock that was set back must not keep the alarm waiting
    lasting = now - since >= stable_seconds
    match known.state:
        case DriftState.SUSPECTED if outside:
            return Drift(DriftState.DRIFTED if lasting else DriftState.SUSPECTED, since, factor)
        case DriftState.RECOVERING if not outside:
            return None if lasting else Drift(DriftState.RECOVERING, since, factor)
        case DriftState.RECOVERING:
            return Drift(DriftState.DRIFTED, now, factor)
        case DriftState.DRIFTED:
            return Drift(DriftState.DRIFTED, since, factor) if outside else Drift(DriftState.RECOVERING, now, factor)
    return None
