"""What one tick came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog import ScalerPriors
from controller.reconcile.drift import Drift, drift_note
from controller.reconcile.sampler import Sampled
from controller.scaling import Adaptive, Capacity, Correction, Decision, DecisionSpec, State


@dataclass(frozen=True, slots=True)
class Tick:
    """One decision and everything it was made from."""

    sampled: Sampled
    spec: DecisionSpec
    capacity: Capacity
    priors: ScalerPriors | None
    decision: Decision
    state: State
    drifts: Mapping[str, Drift]

    @property
    def drift_notes(self) -> dict[str, str]:
        """By role: what to tell of a prior that does not describe its replicas any more."""
        if self.priors is None:
            return {}
        return {
            name: drift_note(name, drift, self.priors, corrected=_corrects(self.spec, drift))
            for name, drift in self.drifts.items()
            if drift.alarming
        }


def _corrects(spec: DecisionSpec, drift: Drift) -> bool:
    """Only Adaptive does, and only in the directions that it is allowed."""
    algorithm = spec.algorithm
    if not isinstance(algorithm, Adaptive):
        return False
    return algorithm.correction is Correction.BOTH or (algorithm.correction is Correction.LOWER and drift.factor < 1)
