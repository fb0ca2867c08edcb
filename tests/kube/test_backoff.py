"""Waiting between attempts, and comparing versions: small pure rules."""

from __future__ import annotations

import random

import pytest

from controller.kube import Backoff, BackoffPolicy, is_older, parse_version
from controller.kube.backoff import REFLECTOR_BACKOFF


def test_delays_double_up_to_the_cap_without_jitter() -> None:
    """R12: 10 + 20 + 40 + 80 + 100 ms."""
    backoff = Backoff(BackoffPolicy(0.010, 2.0, 0.100, 0.0, 60.0), random.Random(0))
    delays = [backoff.next_delay(now) for now in (0, 1, 2, 3, 4)]
    assert delays == pytest.approx([0.010, 0.020, 0.040, 0.080, 0.100])
    assert sum(delays) == pytest.approx(0.250)


def test_full_jitter_stays_between_one_and_two_times_the_delay() -> None:
    rng = random.Random(1)
    for _ in range(200):
        backoff = Backoff(REFLECTOR_BACKOFF, rng)
        for base in (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0):
            assert base <= backoff.next_delay(0.0) < 2 * base


def test_only_a_stretch_of_health_resets_the_delay() -> None:
    """R13."""
    backoff = Backoff(BackoffPolicy(1.0, 2.0, 30.0, 0.0, 120.0), random.Random(0))
    assert [backoff.next_delay(0), backoff.next_delay(119)] == [1.0, 2.0]
    assert backoff.next_delay(239) == 4.0  # exactly two minutes are not enough
    assert backoff.next_delay(360) == 1.0
    assert backoff.failures == 1


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("1", 1),
        ("18446744073709551616", 2**64),
        ("", None),
        ("01", None),
        ("-1", None),
        ("1a", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
    ids=[
        "zero",
        "one",
        "beyond 64 bits",
        "empty",
        "a leading zero",
        "a sign",
        "letters",
        "digits of another script",
        "more digits than Python reads",
    ],
)
def test_versions_are_unsigned_decimal_numbers_of_any_sensible_size(text: str, number: int | None) -> None:
    assert parse_version(text) == number


def test_a_version_without_order_is_never_older() -> None:
    assert is_older("9", "10")
    assert not is_older("10", "9")
    assert not is_older("10", "10")
    assert not is_older("abc", "10")
    assert not is_older("9", "abc")
