"""The annotations of a binding: written one way, read without ever raising."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.api import (
    BOUND_BY_ANNOTATION,
    FOUND_ANNOTATION,
    RETIREMENT_RETRY_ANNOTATION,
    TERM_ANNOTATION,
    WRITTEN_ANNOTATION,
    AnnotationProblem,
    BoundBy,
    RetirementRetry,
    format_written,
    identity_annotation,
    read_bound_by,
    read_found,
    read_retirement_retry,
    read_term,
    read_written,
)
from controller.foundation import ObjectMeta

READERS = {
    BOUND_BY_ANNOTATION: read_bound_by,
    TERM_ANNOTATION: read_term,
    WRITTEN_ANNOTATION: read_written,
    FOUND_ANNOTATION: read_found,
    RETIREMENT_RETRY_ANNOTATION: read_retirement_retry,
}


def read(key, value):
    return READERS[key](ObjectMeta(annotations={key: value}))


def test_keys_are_those_of_the_contract():
    assert BOUND_BY_ANNOTATION == "scaling.worker.gpustack.ai/bound-by"
    assert TERM_ANNOTATION == "scaling.worker.gpustack.ai/term"
    assert WRITTEN_ANNOTATION == "scaling.worker.gpustack.ai/written"
    assert FOUND_ANNOTATION == "scaling.worker.gpustack.ai/found"
    assert identity_annotation("decode") == "scaling.worker.gpustack.ai/identity.decode"


@pytest.mark.parametrize("key", READERS)
def test_an_absent_annotation_is_none(key):
    assert READERS[key](ObjectMeta()) is None


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param(BOUND_BY_ANNOTATION, "chat/0d4c-11", BoundBy("chat", "0d4c-11"), id="a holder"),
        pytest.param(TERM_ANNOTATION, "17", 17, id="a term"),
        pytest.param(TERM_ANNOTATION, "9223372036854775807", 2**63 - 1, id="the last term"),
        pytest.param(WRITTEN_ANNOTATION, "decode=3,prefill=2", {"decode": 3, "prefill": 2}, id="counts"),
        pytest.param(FOUND_ANNOTATION, "decode=3,prefill=2", {"decode": 3, "prefill": 2}, id="found counts"),
        pytest.param(WRITTEN_ANNOTATION, "prefill=2,decode=3", {"decode": 3, "prefill": 2}, id="counts in any order"),
        pytest.param(RETIREMENT_RETRY_ANNOTATION, "decode:1:abc", RetirementRetry("decode", 1, "abc"), id="a retry"),
    ],
)
def test_a_well_formed_annotation_is_read(key, value, expected):
    assert read(key, value) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (BOUND_BY_ANNOTATION, ""),
        (BOUND_BY_ANNOTATION, "chat"),
        (BOUND_BY_ANNOTATION, "/0d4c"),
        (BOUND_BY_ANNOTATION, "chat/"),
        (BOUND_BY_ANNOTATION, "a/b/c"),
        (TERM_ANNOTATION, ""),
        (TERM_ANNOTATION, "-1"),
        (TERM_ANNOTATION, "1.0"),
        (TERM_ANNOTATION, "٣"),
        (TERM_ANNOTATION, "9223372036854775808"),
        (WRITTEN_ANNOTATION, ""),
        (WRITTEN_ANNOTATION, "decode"),
        (WRITTEN_ANNOTATION, "decode=0"),
        (WRITTEN_ANNOTATION, "decode=2,decode=2"),
        (WRITTEN_ANNOTATION, "decode=2,"),
        (WRITTEN_ANNOTATION, "decode=2, prefill=1"),
        (WRITTEN_ANNOTATION, "decode=99999"),
        (FOUND_ANNOTATION, "decode=0"),
        (RETIREMENT_RETRY_ANNOTATION, "decode:1"),
        (RETIREMENT_RETRY_ANNOTATION, "decode:1:a:b"),
        (RETIREMENT_RETRY_ANNOTATION, "decode:x:a"),
    ],
)
def test_a_malformed_annotation_is_a_problem_to_report(key, value):
    problem = read(key, value)
    assert isinstance(problem, AnnotationProblem)
    assert str(problem).startswith(f"annotation {key} must be ")
    assert str(problem).endswith("correct or remove it")


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(READERS)), st.text())
def test_no_text_raises(key, value):
    READERS[key](ObjectMeta(annotations={key: value}))


NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(NAMES, st.integers(1, 1024), min_size=1))
def test_counts_survive_and_do_not_depend_on_their_order(counts):
    written = format_written(counts)
    assert read(WRITTEN_ANNOTATION, written) == counts
    assert format_written(dict(reversed(counts.items()))) == written


@settings(max_examples=40, deadline=None)
@given(NAMES, st.uuids())
def test_a_holder_survives(name, uid):
    assert read(BOUND_BY_ANNOTATION, str(BoundBy(name, str(uid)))) == BoundBy(name, str(uid))
