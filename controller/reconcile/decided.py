"""What one tick came to."""

from __future__ import annotations

from dataclasses import dataclass

from catalog import ScalerPriors
from controller.reconcile.sampler import Sampled
from controller.scaling import Capacity, Decision, DecisionSpec, State


@dataclass(frozen=True, slots=True)
class Tick:
    """One decision and everything it was made from."""

    sampled: Sampled
    spec: DecisionSpec
    capacity: Capacity
    priors: ScalerPriors | None
    decision: Decision
    state: State
