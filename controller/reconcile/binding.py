"""Who may write the target: the binding as a pure decision.

The claim lives in annotations of the target: `bound-by` names one scaler, `term` is a number that only grows. Every
write of a count tests both, so a process that was overtaken cannot write any more. This module says what to do next;
the patches are made in `fence`, sent by `reconciler`.

The rules:

* A process uses only a term that it wrote itself in this leadership; before its first count it raises the term once.
* A new term is max(annotation, our status, our own last) + 1. Release keeps it, so that an old write in flight never
fits.
* A higher term under our own UID: another process leads. We are deposed and never raise again.
* A holder that a live read shows to be gone is taken over; of two living claimants the older scaler wins.
* Annotations that a person edited are written anew under a higher term: the fence tests their text, not their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Step(StrEnum):
    """What to do about the binding now."""

    KEEP = "keep"  # it is ours, under a term that this process wrote
    CLAIM = "claim"  # write bound-by and a new term: acquire, raise or take over
    WAIT = "wait"  # another scaler holds it: plan as in Shadow
    DEPOSED = "deposed"  # another process of ours holds it: stop writing
    ASK = "ask"  # read the holder live, then decide again


class Holder(StrEnum):
    """What a live read says of the scaler that holds the binding."""

    UNKNOWN = "unknown"
    GONE = "gone"
    ALIVE = "alive"


@dataclass(frozen=True, slots=True, order=True)
class Claimant:
    """A scaler that claims a target. Ordered by age: the earlier creation wins, the UID breaks a tie."""

    created: str  # RFC 3339 in UTC with whole seconds: text order is time order
    uid: str
    name: str


# Half of what 64 bits hold: raised once in a nanosecond, a term gets there in a century. A larger one is no term of
# ours but somebody's edit, and to follow it would sooner or later end at a number that nobody can write.
_LAST_TERM = 2**62


@dataclass(frozen=True, slots=True)
class Claim:
    """The annotations as they are; a claim nobody can read counts as no holder, an unreadable term as 0.

    `verbatim`: the term's text is the one that we would write for it. `noted`: the counts that others' writes are
    told by are there, as far as there are any to note."""

    holder_name: str | None
    holder_uid: str | None
    term: int
    verbatim: bool = True
    noted: bool = True


def believed(term: int) -> int:
    """A stored term, 0 for one that no process of ours can have written."""
    return term if term <= _LAST_TERM else 0


@dataclass(frozen=True, slots=True)
class BindingStep:
    """The verdict: the step, the term to hold or to write, and a sentence for the condition's message."""

    step: Step
    term: int
    message: str


def next_binding_step(
    me: Claimant,
    claim: Claim,
    *,
    status_term: int,
    own_term: int | None,
    deposed: bool,
    holder: Holder = Holder.UNKNOWN,
    holder_claimant: Claimant | None = None,
) -> BindingStep:
    """What an Active scaler does about its target's binding.

    `own_term` is the term this process wrote in this leadership, None before the first. `holder` and `holder_claimant`
    are what a live read of the holding scaler gave; they are not needed while nobody else holds the target.
    """
    written_term = believed(claim.term)
    new_term = max(written_term, believed(status_term), own_term or 0) + 1
    if deposed:
        return BindingStep(
            Step.DEPOSED, own_term or 0, "another process of this controller raised the term; this one writes no more"
        )
    if claim.holder_uid is None:
        return BindingStep(Step.CLAIM, new_term, "no scaler holds the target")
    if claim.holder_uid == me.uid:
        if own_term is None:
            return BindingStep(Step.CLAIM, new_term, "raising the term for this leadership")
        if written_term > own_term:
            return BindingStep(
                Step.DEPOSED,
                own_term,
                f"the target carries term {written_term}, this process wrote {own_term}: another one leads",
            )
        if written_term < own_term:
            return BindingStep(
                Step.CLAIM, new_term, f"the target's term fell from {own_term} to {written_term}; raising it again"
            )
        if claim.holder_name != me.name or not (claim.verbatim and claim.noted):
            return BindingStep(Step.CLAIM, new_term, "somebody edited the binding; writing it anew")
        return BindingStep(Step.KEEP, own_term, f"bound under term {own_term}")
    name = claim.holder_name or claim.holder_uid
    if holder is Holder.UNKNOWN:
        return BindingStep(Step.ASK, 0, f"the target is held by scaler {name}")
    if holder is Holder.GONE:
        return BindingStep(Step.CLAIM, new_term, f"scaler {name} held the target and is gone")
    if holder_claimant is not None and me < holder_claimant:
        return BindingStep(Step.CLAIM, new_term, f"scaler {name} holds the target but is younger than this one")
    return BindingStep(
        Step.WAIT,
        0,
        f"scaler {name} holds the target; delete or suspend it, or set it to Shadow, to let this one write",
    )
