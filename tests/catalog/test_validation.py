"""Every finding of a document, at its path, in order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.findings import MAX_FINDINGS
from catalog.validation import validate_document
from tests.catalog.builders import catalog_document, point_document, profile_document
from tests.work import counted


def _with_point(**changes: Any) -> dict[str, Any]:
    return profile_document(points=[point_document(**{"concurrency": 8, **changes})])


FINDINGS: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown field comes with the nearest known one": (
        profile_document(quantisation="bf16"),
        "profiles[0].quantisation",
        "did you mean quantization?",
    ),
    "an unknown role": (profile_document(role="Encode"), "profiles[0].role", "must be one of Server, Prefill, Decode"),
    "a quantization in a tool's spelling": (profile_document(quantization="mxfp4"), "profiles[0].quantization", "fp4"),
    "a model that is a mount path": (
        profile_document(model={"name": "/mnt/m"}),
        "profiles[0].model.name",
        "mount path",
    ),
    "an unknown engine": (profile_document(engine={"name": "tgi"}), "profiles[0].engine.name", "unknown engine"),
    "an unknown hardware": (profile_document(hardware="nvidia-a100"), "profiles[0].hardware", "must be one of"),
    "a topology that does not multiply out": (
        profile_document(parallel={"gpus": 4, "tp": 2}),
        "profiles[0].parallel",
        "cannot multiply out",
    ),
    "a run with cache hits": (
        profile_document(workload={"inputTokens": 1, "outputTokens": 1, "cacheBehavior": "SomeHits"}),
        "profiles[0].workload.cacheBehavior",
        "must be one of AllMisses",
    ),
    "no points": (profile_document(points=[]), "profiles[0].points", "at least one point"),
    "points missing": (
        {k: v for k, v in profile_document().items() if k != "points"},
        "profiles[0].points",
        "is required",
    ),
    "a concurrency measured twice": (
        profile_document(points=[point_document(8), point_document(8)]),
        "profiles[0].points[1].concurrency",
        "already measured by points[0]",
    ),
    "a concurrency of zero": (_with_point(concurrency=0), "profiles[0].points[0].concurrency", "between 1 and"),
    "a concurrency that is no whole number": (
        _with_point(concurrency=2.5),
        "profiles[0].points[0].concurrency",
        "whole number",
    ),
    "a throughput of zero": (
        _with_point(totalTokensPerSecond="0"),
        "profiles[0].points[0].totalTokensPerSecond",
        "above zero",
    ),
    "a negative throughput": (
        _with_point(outputTokensPerSecond=-1),
        "profiles[0].points[0].outputTokensPerSecond",
        "above zero",
    ),
    "a throughput that is not a number": (
        _with_point(totalTokensPerSecond=float("nan")),
        "profiles[0].points[0].totalTokensPerSecond",
        "must be finite",
    ),
    "an infinite latency": (
        _with_point(ttftMilliseconds={"p50": float("inf")}),
        "profiles[0].points[0].ttftMilliseconds.p50",
        "must be finite",
    ),
    "NaN as text": (
        _with_point(totalTokensPerSecond="NaN"),
        "profiles[0].points[0].totalTokensPerSecond",
        "must be a quantity",
    ),
    "output above total": (
        _with_point(outputTokensPerSecond="7000"),
        "profiles[0].points[0].outputTokensPerSecond",
        "above the total",
    ),
    "a server that was sent nothing": (
        _with_point(outputTokensPerSecond="6400"),
        "profiles[0].points[0].totalTokensPerSecond",
        "equals the output",
    ),
    "a quantile in a tool's spelling": (
        _with_point(ttftMilliseconds={"median": "1"}),
        "profiles[0].points[0].ttftMilliseconds",
        "'median' is not a quantile",
    ),
    "decreasing quantiles": (
        _with_point(ttftMilliseconds={"p99": "90", "p50": "100"}),
        "profiles[0].points[0].ttftMilliseconds",
        r"p99 (90) is below p50 (100)",
    ),
    "one quantile in two spellings": (
        _with_point(ttftMilliseconds={"p50": "1", "p50.0": "2"}),
        "profiles[0].points[0].ttftMilliseconds.p50.0",
        "given twice",
    ),
    "fewer requests than concurrency": (
        _with_point(requests=4),
        "profiles[0].points[0].concurrency",
        "load axis is incoherent: 4 requests",
    ),
    "seconds written as milliseconds": (
        _with_point(ttftMilliseconds={"p50": "0.1"}, itlMilliseconds={"p50": "0.006"}),
        "profiles[0].points[0].concurrency",
        "load axis is incoherent: this throughput",
    ),
    "a Server profile without TTFT": (
        _with_point(ttftMilliseconds=None),
        "profiles[0].points[0].ttftMilliseconds",
        "required",
    ),
    "a Server profile without ITL or TPOT": (
        _with_point(itlMilliseconds=None),
        "profiles[0].points[0].itlMilliseconds",
        "or tpotMilliseconds",
    ),
    "a digest that is none": (
        profile_document(source={"digests": ["sha256:12"]}),
        "profiles[0].source.digests[0]",
        "64 hexadecimal digits",
    ),
    "a date that is none": (
        profile_document(source={"date": "yesterday"}),
        "profiles[0].source.date",
        "start with a date",
    ),
    "a profile that is a word": ("x", "profiles[0]", "must be a mapping, found 'x'"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize(("profile", "path", "message"), FINDINGS.values(), ids=FINDINGS.keys())
def test_finding_names_path_and_way_out(profile: dict[str, Any], path: str, message: str) -> None:
    catalog, findings = validate_document(catalog_document(profile))
    assert catalog is None
    assert [f.path for f in findings] == [path]
    assert message in findings[0].message


def test_repeated_identity_and_workload_is_found_across_spellings() -> None:
    other = profile_document(model={"name": "qwen/QWEN3-8b"}, engine={"name": "VLLM"})
    catalog, findings = validate_document(catalog_document(profile_document(), other))
    assert catalog is None
    assert [f.path for f in findings] == ["profiles[1]"]
    assert "repeats the identity and workload of profiles[0]" in findings[0].message


def test_every_finding_is_reported_sorted_by_path_with_numeric_indices() -> None:
    profiles = [profile_document(workload={"inputTokens": n + 1, "outputTokens": 1}) for n in range(11)]
    profiles[10]["role"] = "X"
    profiles[2]["role"] = "X"
    profiles[2]["hardware"] = "x"
    document = {**catalog_document(*profiles), "kind": "Other", "extra": 1}
    _, findings = validate_document(document)
    assert [f.path for f in findings] == [
        "extra",
        "kind",
        "profiles[2].hardware",
        "profiles[2].role",
        "profiles[10].role",
    ]


def test_an_unknown_optional_part_is_absent_not_zero() -> None:
    catalog, findings = validate_document(catalog_document(profile_document()))
    assert findings == []
    assert catalog is not None
    point = catalog.profiles[0].points[0]
    assert point.requests is None
    assert point.tpot == ()
    assert catalog.profiles[0].source.date is None


LIMITS = {
    "1,001 profiles": (catalog_document() | {"profiles": [0] * 1001}, "has 1,001 entries; the limit is 1,000"),
    "257 points": (catalog_document(profile_document(points=[0] * 257)), "has 257 entries; the limit is 256"),
}


@pytest.mark.parametrize(("document", "message"), LIMITS.values(), ids=LIMITS.keys())
def test_limits_give_one_finding(document: dict[str, Any], message: str) -> None:
    catalog, findings = validate_document(document)
    assert catalog is None
    assert len(findings) == 1
    assert message in findings[0].message


def test_a_mistake_in_every_field_is_bounded() -> None:
    document = catalog_document() | {"profiles": [{f"k{i}": 1 for i in range(100)} for _ in range(1000)]}
    (_, findings), calls = counted(lambda: validate_document(document))
    assert len(findings) == MAX_FINDINGS
    assert calls < 300_000, "twice what was counted, and for as many profiles as a catalog may have"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
_FIELDS = ("role", "model", "quantization", "engine", "hardware", "parallel", "workload", "points", "source")


@given(st.sampled_from(_FIELDS), _json)
def test_any_value_in_any_field_is_validated_without_an_exception(field: str, value: object) -> None:
    catalog, findings = validate_document(catalog_document(profile_document(**{field: value})))
    assert (catalog is None) is bool(findings)


@given(st.sampled_from(tuple(point_document())), _json)
def test_any_value_in_a_point_is_validated_without_an_exception(field: str, value: object) -> None:
    catalog, findings = validate_document(catalog_document(_with_point(**{field: value})))
    assert (catalog is None) is bool(findings)


@given(_json)
def test_any_document_is_validated_without_an_exception(document: object) -> None:
    catalog, findings = validate_document(document)
    assert catalog is None
    assert findings
