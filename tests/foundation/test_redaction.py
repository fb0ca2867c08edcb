"""No secret survives redaction: not overlapping, not nested, not escaped."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.foundation import REDACTED, redact

_CASES = [
    ("a secret is replaced", "token=hunter22!", ["hunter22"], "token=[redacted]!"),
    ("every occurrence is replaced", "abcd-abcd", ["abcd"], "[redacted]-[redacted]"),
    ("a text without secrets is left as it is", "nothing here", ["hunter22"], "nothing here"),
    ("no secrets, no change", "plain", [], "plain"),
    ("three characters are no secret", "the cat sat", ["cat"], "the cat sat"),
    ("an empty secret is no secret", "plain", [""], "plain"),
    ("a secret that contains another is replaced whole", "xx-pass-word-yy", ["word", "pass-word"], "xx-[redacted]-yy"),
    ("secrets that overlap leave no tail", "abcd1234efgh.", ["abcd1234", "1234efgh"], "[redacted]."),
    ("a secret that overlaps itself leaves no tail", "aaaaaa", ["aaaa"], "[redacted]"),
    ("neighbours become one marker", "abcdefgh", ["abcd", "efgh"], "[redacted]"),
    ("the text between two secrets stays", "abcd, efgh", ["abcd", "efgh"], "[redacted], [redacted]"),
    ("a secret that is a word of the marker is hidden too", "was redacted", ["redacted"], "was [redacted]"),
    ("a marker is not redacted again", "was [redacted]", ["redacted"], "was [redacted]"),
    ("the whole text may be secret", "hunter22", ["hunter22"], "[redacted]"),
    ("a secret with quotes is found in JSON", json.dumps({"a": 'p"q\\rs'}), ['p"q\\rs'], '{"a": "[redacted]"}'),
    ("a secret with a line break is found in a repr", repr("pa\nss"), ["pa\nss"], "'[redacted]'"),
    ("a secret with umlauts is found as ASCII JSON", json.dumps("schlüssel"), ["schlüssel"], '"[redacted]"'),
]


@pytest.mark.parametrize(("text", "secrets", "clean"), [r[1:] for r in _CASES], ids=[r[0] for r in _CASES])
def test_secrets_are_hidden(text: str, secrets: list[str], clean: str) -> None:
    assert redact(text, secrets) == clean


# A small alphabet makes overlaps likely; none of its letters is in the marker.
_SECRETS = st.lists(st.text("xyz01", min_size=4, max_size=8), max_size=4)


@given(st.text("xyz01 .", max_size=60), _SECRETS)
def test_no_secret_and_no_part_that_overlaps_one_survives(text: str, secrets: list[str]) -> None:
    clean = redact(text, secrets)
    assert not any(secret in clean for secret in secrets)
    # What is left between the markers stood in the text, in order and untouched by any secret.
    position = 0
    for piece in clean.split(REDACTED):
        position = text.find(piece, position)
        assert position >= 0
        position += len(piece)


@given(st.text("xyz01 .", max_size=60), _SECRETS)
def test_redacting_twice_changes_nothing(text: str, secrets: list[str]) -> None:
    once = redact(text, secrets)
    assert redact(once, secrets) == once


@given(st.text("xyz01", min_size=1, max_size=30), st.text(min_size=4, max_size=20), st.text(max_size=20))
def test_a_planted_secret_is_gone_from_json_repr_and_plain_text(before: str, secret: str, after: str) -> None:
    assume(secret not in REDACTED)
    for written in (
        before + secret + after,
        json.dumps(before + secret + after),
        json.dumps({"v": secret}),
        f"{secret!r}",
    ):
        clean = redact(written, [secret])
        assert REDACTED in clean
        assert secret not in clean.replace(REDACTED, "\0")


def test_the_order_of_the_secrets_does_not_matter() -> None:
    secrets = ["abcd", "cdef", "abcdef", "efgh"]
    assert redact("zabcdefghz", secrets) == redact("zabcdefghz", reversed(secrets)) == "z[redacted]z"
