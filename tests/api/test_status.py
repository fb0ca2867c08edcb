"""Status: complete in both directions, and no memory that a bad one could poison."""

from __future__ import annotations

import json
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.api import (
    AdaptiveState,
    Binding,
    CapacitySource,
    Condition,
    ConditionStatus,
    ForeignReversal,
    HistoryEntry,
    LoweringState,
    ObservedRole,
    OperatingPoint,
    PanicState,
    PlannerStage,
    PointSelection,
    QuotaShortfall,
    RoleCapacity,
    RoleStatus,
    ScalerStatus,
    SettlingState,
    StartupSeconds,
    Summary,
    parse_status,
    render,
    status_number,
)
from controller.api.members import members_of

FULL = ScalerStatus(
    observed_generation=7,
    conditions=(
        Condition(
            type="Bound",
            status=ConditionStatus.TRUE,
            last_transition_time=1_790_000_000.0,
            observed_generation=7,
            reason="Acquired",
            message="term 3",
        ),
    ),
    summary=Summary(ready="decode=2,prefill=1", desired="decode=3,prefill=1", limited_by="decode=step"),
    binding=Binding(target_uid="0d4c", term=3, acquired_time=1_790_000_000.0),
    last_sample_time=1_790_000_100.0,
    last_decision_time=1_790_000_101.0,
    roles=(
        RoleStatus(
            name="decode",
            current_replicas=2,
            ready_replicas=2,
            pending_replicas=1,
            unadmitted_replicas=1,
            starting_replicas=0,
            retiring_replicas=0,
            unlisted_replicas=1,
            quota=QuotaShortfall(asked=2, granted=1, missing=1),
            raw_recommended_replicas=5,
            recommended_replicas=3,
            limited_by="step",
            next_change_time=1_790_000_200.0,
            observed=ObservedRole(
                tokens_per_second=Decimal("2054.69"),
                running_requests=Decimal(24),
                waiting_requests=Decimal(3),
                ttft_milliseconds=Decimal("480.418"),
                itl_milliseconds=Decimal("9.463"),
                input_output_ratio=Decimal("4.1"),
                coverage=Decimal("0.5"),
            ),
            capacity=RoleCapacity(
                source=CapacitySource.CATALOG,
                seed_tokens_per_second=Decimal("17135.159"),
                effective_tokens_per_second=Decimal("12851.37"),
                identity="Server/Qwen/Qwen3-8B/bf16/vllm/nvidia-h200/gpus=1,tp=1,ep=1,pp=1,dp=1,ldp=1,cp=1",
                declared=True,
                workload="1024/256",
                observed_workload="900/310",
                profile_digest="sha256:47d9",
                fingerprint="sha256:1b",
                operating_point=OperatingPoint(
                    concurrency=32, ttft_milliseconds=Decimal("712.9"), itl_milliseconds=Decimal("13.4")
                ),
                selection=PointSelection.EXPLICIT_SATURATION,
                mix_factor=Decimal("0.71"),
                sigma=Decimal("0.03"),
                measured_factor=Decimal("0.97"),
            ),
            adaptive=AdaptiveState(
                headroom=Decimal("1.2"), peak=Decimal("3.4"), miss_factor=Decimal("1.05"), learned="v1:AAEC"
            ),
            startup_seconds=StartupSeconds(p50=Decimal(76), p90=Decimal("99.6")),
            stabilization_history=(
                HistoryEntry(time=1_790_000_000.25, replicas=2),
                HistoryEntry(time=1_790_000_060.0, replicas=3),
            ),
            panic=PanicState(since=1_790_000_050.5, floor=3),
            settling=SettlingState(unadmitted_since=1_790_000_090.0, pauses=2, raise_not_before=1_790_000_900.0),
            lowering=LoweringState(
                aborts=1, aborted_at=1_790_000_070.0, not_before=1_790_000_370.0, raised_to=2, retry_token="again"
            ),
            memory="{}",
            reason="2,400 tokens/s, 1,000 per replica",
            stages=(PlannerStage(stage="step", before=3, after=2, floor=1, ceiling=2, reason="two at a time"),),
        ),
        RoleStatus(name="prefill", current_replicas=0),
    ),
    foreign_reversals=(ForeignReversal(time=1_790_000_010.0),),
    resumed="go on",
)


def test_the_sample_fills_every_member():
    """A guard of the tests below: a member that is added must be added to the sample."""

    def check(struct):
        for field in members_of(type(struct)):
            value = getattr(struct, field.name)
            assert value not in (None, "", ()), f"{type(struct).__name__}.{field.name} is not in the sample"
            for element in value if isinstance(value, tuple) else (value,):
                if isinstance(element, msgspec.Struct) and not (
                    isinstance(element, RoleStatus) and element.name == "prefill"
                ):
                    check(element)

    check(FULL)


def test_a_status_survives_being_written_and_read():
    written = json.dumps(render(FULL)).encode()
    assert parse_status(msgspec.Raw(written)) == (FULL, "")


def test_what_is_empty_is_not_written():
    assert render(ScalerStatus()) == {}
    assert render(RoleStatus(name="a", panic=PanicState(since=0.0))) == {
        "name": "a",
        "panic": {"since": "1970-01-01T00:00:00Z"},
    }


def test_a_count_of_zero_is_written_because_it_was_observed():
    assert render(RoleStatus(name="a", ready_replicas=0)) == {"name": "a", "readyReplicas": 0}


def test_numbers_are_strings_and_times_are_rfc_3339():
    written = render(FULL)
    role = written["roles"][0]
    assert role["capacity"]["seedTokensPerSecond"] == "17135.159"
    assert role["observed"]["runningRequests"] == "24"
    assert written["lastSampleTime"] == "2026-09-21T14:15:00Z"
    assert written["binding"]["targetUID"] == "0d4c"
    json.dumps(written)  # plain JSON throughout


def test_times_that_decisions_rest_on_keep_their_fraction():
    history = render(FULL)["roles"][0]["stabilizationHistory"]
    assert [entry["time"] for entry in history] == ["2026-09-21T14:13:20.250000Z", "2026-09-21T14:14:20Z"]


@pytest.mark.parametrize(
    ("value", "digits", "number"),
    [
        (12851.369249, 6, Decimal("12851.4")),
        (0.000123456789, 6, Decimal("0.000123457")),
        (3.0, 6, Decimal(3)),
        (-0.0, 6, Decimal(0)),
        (1 / 3, 3, Decimal("0.333")),
        (1e21, 6, Decimal("1e21")),
        (None, 6, None),
        (float("nan"), 6, None),
        (float("inf"), 6, None),
    ],
)
def test_a_measured_number_is_shown_with_few_digits(value, digits, number):
    assert status_number(value, digits) == number


@pytest.mark.parametrize(
    ("status", "note"),
    [
        pytest.param([1], "status: must be an object, found a list", id="a list"),
        pytest.param({"roles": "x"}, "status.roles: must be a list, found a string", id="roles that are none"),
        pytest.param(
            {"roles": [{"currentReplicas": 3}]},
            "status.roles[0].name: is required: name of the role",
            id="a role without a name",
        ),
        pytest.param(
            {"roles": [{"name": "a", "stabilizationHistory": [{"time": "yesterday", "replicas": 3}]}]},
            "status.roles[0].stabilizationHistory[0].time: must be an RFC 3339 time such as 2026-11-29T15:49:15Z, "
            "found a string",
            id="a time that is none",
        ),
        pytest.param(
            {"binding": {"targetUID": "u", "term": -3}},
            "status.binding.term: must be a whole number of at least 0, found a whole number",
            id="a term below zero",
        ),
    ],
)
def test_a_damaged_status_is_noted_and_what_is_left_serves(status, note):
    read, found = parse_status(status)
    assert found == note
    assert read.role("a") is None or read.role("a").stabilization_history == ()


@pytest.mark.parametrize("status", [None, b"", b"null", {}])
def test_no_status_is_an_empty_one_without_a_note(status):
    assert parse_status(status) == (ScalerStatus(), "")


def test_unreadable_bytes_are_an_empty_status_with_a_note():
    status, note = parse_status(b'{"binding":{"term":1e999}}')
    assert status == ScalerStatus()
    assert note.startswith("status: is no readable JSON")


def test_an_older_term_is_kept_beside_damage():
    """The fence must survive damage elsewhere: a lost term would let an old writer back in."""
    read, note = parse_status({"binding": {"targetUID": "u", "term": 9, "acquiredTime": 5}, "roles": [None]})
    assert (read.binding.target_uid, read.binding.term, read.binding.acquired_time) == ("u", 9, None)
    assert "acquiredTime" in note
    assert "roles[0]" in note


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damage_anywhere_never_raises_and_is_always_noted(data):
    written = json.loads(json.dumps(render(FULL)))
    at, depth = written, 0
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else list(range(len(at)))))
        depth += 1
        child = at[key]
        if not isinstance(child, dict | list) or not child or data.draw(st.booleans()):
            at[key] = data.draw(JSON)
            break
        at = child
    read, note = parse_status(json.dumps(written).encode())
    assert isinstance(read, ScalerStatus)
    if read == FULL or not note:
        return  # the drawn value was a good one, or absent
    again, second = parse_status(json.dumps(render(read)).encode())
    assert (again, second) == (read, "")
