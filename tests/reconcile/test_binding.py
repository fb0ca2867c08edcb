"""Who may write: the rules of the binding, one row each."""

import pytest

from controller.reconcile.binding import Claim, Claimant, Holder, Step, next_binding_step

ME = Claimant("2026-01-02T00:00:00Z", "uid-me", "me")
OLDER = Claimant("2026-01-01T00:00:00Z", "uid-older", "older")
YOUNGER = Claimant("2026-01-03T00:00:00Z", "uid-younger", "younger")
FREE = Claim(None, None, 0)


def _held(by: Claimant, term: int) -> Claim:
    return Claim(by.name, by.uid, term)


CASES = [
    ("a free target is claimed with the first term", FREE, dict(), Step.CLAIM, 1),
    ("a released target keeps its term, the next one is higher", Claim(None, None, 7), dict(), Step.CLAIM, 8),
    ("status remembers a term that the annotation lost", FREE, dict(status_term=9), Step.CLAIM, 10),
    ("a new process raises its own binding before it writes", _held(ME, 4), dict(status_term=4), Step.CLAIM, 5),
    ("a binding this process wrote is kept", _held(ME, 5), dict(own_term=5), Step.KEEP, 5),
    ("a higher term under our UID: deposed", _held(ME, 6), dict(own_term=5), Step.DEPOSED, 5),
    ("once deposed, never again in this leadership", _held(ME, 5), dict(own_term=5, deposed=True), Step.DEPOSED, 5),
    ("a term that fell (a restored object) is raised above all we know", _held(ME, 2), dict(own_term=5, status_term=5), Step.CLAIM, 6),
    ("another holder is first looked up live", _held(OLDER, 3), dict(), Step.ASK, 0),
    ("a holder that is gone is taken over", _held(OLDER, 3), dict(holder=Holder.GONE), Step.CLAIM, 4),
    ("an older living holder keeps the target", _held(OLDER, 3), dict(holder=Holder.ALIVE, holder_claimant=OLDER), Step.WAIT, 0),
    ("a younger living holder gives way", _held(YOUNGER, 3), dict(holder=Holder.ALIVE, holder_claimant=YOUNGER), Step.CLAIM, 4),
    ("a living holder of unknown age keeps the target", _held(YOUNGER, 3), dict(holder=Holder.ALIVE), Step.WAIT, 0),
    ("our own binding under another name was edited: written anew", Claim("other", ME.uid, 5), dict(own_term=5), Step.CLAIM, 6),
    ("so was our own term in other words", Claim(ME.name, ME.uid, 5, verbatim=False), dict(own_term=5), Step.CLAIM, 6),
    ("so were the counts to compare with", Claim(ME.name, ME.uid, 5, noted=False), dict(own_term=5), Step.CLAIM, 6),
    ("a term that none could follow is no term", _held(ME, 2**63 - 1), dict(own_term=5), Step.CLAIM, 6),
    ("neither is one in the status", _held(ME, 4), dict(status_term=2**63 - 1), Step.CLAIM, 5),
    ("taken over by somebody else: the living older one keeps it", _held(OLDER, 9), dict(own_term=5, holder=Holder.ALIVE, holder_claimant=OLDER), Step.WAIT, 0),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "given", "step", "term"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_next_step(claim, given, step, term):
    arguments = dict(status_term=0, own_term=None, deposed=False) | given
    verdict = next_binding_step(ME, claim, **arguments)
    assert (verdict.step, verdict.term) == (step, term)
    assert verdict.message


def test_of_two_claimants_of_the_same_second_exactly_one_is_older():
    twin = Claimant(ME.created, "uid-twin", "twin")
    mine = next_binding_step(
        ME, _held(twin, 1), status_term=0, own_term=None, deposed=False, holder=Holder.ALIVE, holder_claimant=twin
    )
    theirs = next_binding_step(
        twin, _held(ME, 1), status_term=0, own_term=None, deposed=False, holder=Holder.ALIVE, holder_claimant=ME
    )
    assert {mine.step, theirs.step} == {Step.CLAIM, Step.WAIT}
