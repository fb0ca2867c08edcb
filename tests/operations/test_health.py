"""Health checks answer as kube-apiserver's do."""

import pytest

from controller.operations import Health, Probe


def _raise() -> str | None:
    raise RuntimeError("boom")


CASES = [
    ("with no check at all the probe passes", {}, None, False, 200, "ok\n"),
    ("a content check passes in one word", {"loop": lambda: None}, None, False, 200, "ok\n"),
    (
        "a failing check is named with its sentence",
        {"loop": lambda: "lag 9 s"},
        None,
        False,
        503,
        "[-]loop failed: lag 9 s",
    ),
    ("verbose lists the content ones too", {"loop": lambda: None}, None, True, 200, "[+]loop ok"),
    ("one check can be asked alone", {"loop": lambda: None, "lease": lambda: "expired"}, "loop", False, 200, "ok\n"),
    ("an unknown check is 404 and lists what there is", {"loop": lambda: None}, "lop", False, 404, "there are: loop"),
    ("a check that raises has failed", {"loop": _raise}, None, False, 503, "the check itself failed"),
]


@pytest.mark.parametrize(
    ("checks", "name", "verbose", "status", "text"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_probe(checks, name, verbose, status, text):
    health = Health()
    for each, check in checks.items():
        health.add(Probe.LIVE, each, check)
    verdict = health.verdict(Probe.LIVE, name, verbose=verbose)
    assert verdict.status == status
    assert text in verdict.text


def test_a_check_of_one_probe_does_not_answer_the_other():
    health = Health()
    health.add(Probe.READY, "caches", lambda: "not synced")
    assert health.verdict(Probe.LIVE).status == 200
    assert health.verdict(Probe.READY).status == 503


def test_a_name_is_taken_once():
    health = Health()
    health.add(Probe.LIVE, "loop", lambda: None)
    with pytest.raises(ValueError, match="loop"):
        health.add(Probe.LIVE, "loop", lambda: None)
