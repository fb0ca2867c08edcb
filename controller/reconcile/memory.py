"""What this process knows of each scaler between two reconciles. Dropped when the scaler goes.

Nothing here is needed for safety: a new process starts without it, reads the memory of decisions from the status,
raises the term of the binding, and lets nothing shrink before it has sampled long enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.api import ActiveReason
from controller.kube import look_again_seconds
from controller.planning import RoleMix
from controller.reconcile.drift import Drift
from controller.reconcile.listing import Sighting
from controller.scaling import State


@dataclass(slots=True)
class ScalerMemory:
    """One scaler, by its UID: another UID under the same name is another scaler."""

    uid: str
    state: State | None = None
    target_uid: str = ""
    sightings: dict[str, Sighting] = field(default_factory=dict)
    mixes: dict[str, RoleMix] = field(default_factory=dict)  # observed length mixes by role
    drifts: dict[str, Drift] = field(default_factory=dict)  # priors that do not describe their replicas, by role
    startups: dict[str, float] = field(default_factory=dict)  # Pod UID → seconds, not yet given to a decision
    next_tick: float = 0.0  # model time
    tick_generation: int = 0  # the spec's generation that the last tick was made for
    prior_inputs: tuple[object, ...] = ()  # what its priors were resolved from
    # The binding in this leadership.
    own_term: int | None = None
    acquired_time: float | None = None
    deposed: bool = False
    # What was reported, so that only changes are.
    status_written_at: float = float("-inf")  # model time
    last_words: tuple[object, ...] = ()  # the decision last logged
    reported: dict[str, str] = field(default_factory=dict)  # condition type → reason last reported
    told: dict[str, str] = field(default_factory=dict)  # condition type → reason last put into an event
    silent_since: float | None = None  # since when no role could be sampled
    silence_told: ActiveReason | None = None  # what the event about it said
    drifts_told: set[str] = field(default_factory=set)  # roles of which an event said so
    held: bool = False  # another writer made this one stop, and an event said so
    refusal: str = ""  # why the API server refused a write, as last put into an event
    setbacks: int = 0  # reconciles in a row that could not go on

    def setback_seconds(self) -> float:
        """The wait before the next try, wall time; each call counts as one more in a row. The cache lags behind our own
        writes, or another writer was faster: both are met with the same patience."""
        self.setbacks += 1
        return look_again_seconds(self.setbacks)

    def meet_target(self, uid: str) -> None:
        """A target of another UID is another target: nothing known about the old one holds for it."""
        if uid == self.target_uid:
            return
        self.target_uid = uid
        self.state = None
        self.sightings, self.startups, self.mixes, self.drifts = {}, {}, {}, {}
        self.own_term, self.acquired_time, self.deposed = None, None, False


class Memories:
    """The memory of every scaler this process reconciles."""

    def __init__(self) -> None:
        self._by_key: dict[str, ScalerMemory] = {}

    def of(self, key: str, uid: str) -> ScalerMemory:
        """The memory of a scaler; a new one for a new UID."""
        known = self._by_key.get(key)
        if known is None or known.uid != uid:
            known = self._by_key[key] = ScalerMemory(uid)
        return known

    def pop(self, key: str) -> ScalerMemory | None:
        """Forget a scaler that is gone."""
        return self._by_key.pop(key, None)
