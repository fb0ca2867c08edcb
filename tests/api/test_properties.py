"""Laws of reading and writing, over values generated from the types themselves."""

from __future__ import annotations

import json
import random
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.api import ModelDeployment, ScalerSpec, ScalerStatus, decode_view, parse_spec, parse_status, render
from controller.api.members import Form, members_of
from controller.api.reading import read_exact, read_tolerant
from controller.api.target_rules import validate_against_target
from tests.api.samples import PD_DEPLOYMENT, scaler_spec

NANO = Decimal("1e-9")
NAMES = st.sampled_from(["server", "prefill", "decode", "encode", "a-1"])


def bound(value, default):
    return default if value is None else Decimal(value)


def values(shape):
    """JSON values that a member of this shape may have."""
    member = shape.member
    match shape.form:
        case Form.STRING if member.pattern:
            return NAMES
        case Form.STRING:
            return st.text(
                st.characters(codec="utf-8", exclude_characters="\x00"),
                min_size=member.min_length,
                max_size=min(member.max_length or 12, 12),
            )
        case Form.INTEGER:
            return st.integers(int(bound(member.at_least, -(2**31))), int(bound(member.at_most, 2**53)))
        case Form.BOOLEAN:
            return st.booleans()
        case Form.QUANTITY:
            low, high = bound(member.at_least, 0), bound(member.at_most, 10**9)
            low = low if member.above is None else Decimal(member.above) + NANO
            high = high if member.below is None else Decimal(member.below) - NANO
            exact = st.decimals(low, high, places=9)
            return exact.map(lambda number: format(number, "f")) | exact.filter(
                lambda number: number == int(number)
            ).map(int)
        case Form.TIME:
            return st.integers(0, 4_000_000_000).map(
                lambda seconds: (
                    f"{2026 + seconds % 50}-{1 + seconds % 12:02}-{1 + seconds % 28:02}"
                    f"T{seconds % 24:02}:{seconds % 60:02}:{seconds % 59:02}.{seconds % 1000:03}000Z"
                )
            )
        case Form.ENUM:
            return st.sampled_from([str(option) for option in shape.python])
        case Form.LIST:
            return st.lists(values(shape.item), min_size=member.min_items, max_size=min(3, member.max_items))
        case Form.OBJECT:
            return objects(shape.python)
    raise AssertionError(shape)


def objects(struct):
    """JSON objects of a type: required members always, others sometimes."""
    fields = members_of(struct)
    made = {field.json_name: st.deferred(lambda f=field: values(f.shape)) for field in fields}
    required = {field.json_name for field in fields if field.required}
    return st.fixed_dictionaries(
        {name: strategy for name, strategy in made.items() if name in required},
        optional={name: strategy for name, strategy in made.items() if name not in required},
    )


def shuffled(value, source):
    if isinstance(value, dict):
        keys = list(value)
        source.shuffle(keys)
        return {key: shuffled(value[key], source) for key in keys}
    if isinstance(value, list):
        return [shuffled(element, source) for element in value]
    return value


@settings(max_examples=40, deadline=None)
@given(objects(ScalerSpec))
def test_whatever_the_types_allow_is_read_and_survives_being_written(value):
    spec, findings = read_exact(ScalerSpec, value, "spec")
    assert findings == []
    written = json.loads(json.dumps(render(spec)))
    assert read_exact(ScalerSpec, written, "spec") == (spec, [])
    assert render(spec) == render(read_exact(ScalerSpec, written, "spec")[0])


@settings(max_examples=40, deadline=None)
@given(objects(ScalerStatus))
def test_a_status_of_any_content_survives_being_written(value):
    status, note = read_tolerant(ScalerStatus, value, "status")
    assert note == ""
    first = parse_status(json.dumps(render(status)).encode())[0]  # may cut a time to whole seconds
    assert parse_status(json.dumps(render(first)).encode()) == (first, "")


@settings(max_examples=40, deadline=None)
@given(objects(ScalerSpec), st.randoms(use_true_random=False))
def test_the_order_of_members_never_matters_and_findings_are_the_same_every_time(value, source):
    spec, findings = parse_spec(value)
    assert parse_spec(shuffled(value, source)) == (spec, findings)
    assert parse_spec(json.dumps(value).encode()) == (spec, findings)
    assert findings == sorted(findings)
    assert len(findings) == len(set(findings))
    assert all(finding.path.startswith("spec") and finding.message for finding in findings)


def names_of(struct):
    for field in members_of(struct):
        yield field.json_name
        shape = field.shape.item if field.shape.form is Form.LIST else field.shape
        if shape.form is Form.OBJECT:
            yield from names_of(shape.python)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["prefill", "Proportional", "Adaptive", "1200", "0.5"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted({*names_of(ScalerSpec), *names_of(ScalerStatus)})), inner, max_size=5)
    ),
    max_leaves=20,
)


@settings(max_examples=80, deadline=None)
@given(ANYTHING)
def test_any_value_is_a_spec_or_a_list_of_findings(value):
    spec, findings = parse_spec(value)
    assert (spec is None) is bool(findings)


@settings(max_examples=50, deadline=None)
@given(ANYTHING)
def test_any_value_is_a_status(value):
    status, _ = parse_status(value)
    assert isinstance(status, ScalerStatus)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_spec_or_findings_and_a_status(data):
    spec, findings = parse_spec(data)
    assert (spec is None) is bool(findings)
    parse_status(data)


@settings(max_examples=40, deadline=None)
@given(objects(ScalerSpec), ANYTHING)
def test_no_target_makes_the_second_check_raise(value, target):
    spec, findings = parse_spec(value)
    if findings:
        spec = parse_spec(scaler_spec())[0]
    read = decode_view(ModelDeployment, json.dumps({"spec": target, "status": target}, allow_nan=False).encode()) \
        if finite(target) else None  # fmt: skip
    for seen in (read, None):
        found = validate_against_target(spec, seen)
        assert found == sorted(set(found))


def finite(value):
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("seed", range(5))
def test_findings_against_a_target_do_not_depend_on_the_order_of_its_roles(seed):
    target = json.loads(json.dumps(PD_DEPLOYMENT))
    random.Random(seed).shuffle(target["spec"]["roles"])
    spec = parse_spec(scaler_spec(algorithm={"type": "Adaptive", "adaptive": {}}))[0]
    read = decode_view(ModelDeployment, json.dumps(target).encode())
    whole = decode_view(ModelDeployment, json.dumps(PD_DEPLOYMENT).encode())
    assert validate_against_target(spec, read) == validate_against_target(spec, whole) != []
