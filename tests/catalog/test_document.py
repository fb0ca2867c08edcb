"""Reading hostile and honest documents within bounds."""

from __future__ import annotations

import contextlib
import json
import math
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.document import MAX_NODES, DocumentError, read_document
from tests.work import counted

MIB = 1024 * 1024

HOSTILE = {
    "a bomb of anchors and aliases": "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
    "an alias without anchors before it": "a: *b\n",
    "a million nested flow lists": "[" * 10**6,
    "a million nested flow mappings": "{" * 10**6,
    "lists nested by indentation": "".join(" " * i + "-\n" for i in range(1400)),
    "half a million dashes on one line": "- " * 500_000,
    "nested JSON objects": '{"a":' * 200_000,
    "nested JSON lists inside an object": '{"a":' + "[" * 10**6,
    "a mebibyte of bytes that are not UTF-8": bytes(range(256)) * 4096,
    "a mebibyte of punctuation": ("%@`!#" * 300_000)[:MIB],
    "half a million small list entries": ("[" + "0," * 600_000)[:MIB],
    "three hundred thousand empty JSON objects": '{"a":[' + "{}," * 340_000 + "{}]}",
    "one scalar of a million digits": "a: " + "9" * 10**6,
    "one key of a million letters": "{" + "a" * 10**6,
    "a mebibyte of spaces": " " * MIB,
    "a mebibyte of comments": "# x\n" * (MIB // 4),
    "a document over the limit": "a: 1\n" * 300_000,
    "a key given twice in YAML": "a: 1\nb: 2\na: 3\n",
    "a key given twice in JSON": '{"a": 1, "a": 2}',
    "a Python tag": "a: !!python/object/apply:os.system [ls]\n",
    "a custom tag": "a: !secret b\n",
    "two documents": "a: 1\n---\nb: 2\n",
    "an empty document": "",
    "a mapping key that is a list": "? [a, b]\n: 1\n",
    "an unclosed quote": 'a: "b',
    "a NUL byte": "a: b\0c",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_document_is_refused_with_less_work_than_the_largest_honest_one(text: str | bytes) -> None:
    def refused() -> str:
        with pytest.raises(DocumentError) as caught:
            read_document(text)
        return str(caught.value)

    message, calls = counted(refused)
    assert calls < MAX_NODES
    assert len(message) < 300


def test_the_widest_hostile_document_stays_below_fifty_mebibytes() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError):
            read_document(HOSTILE["three hundred thousand empty JSON objects"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50 * MIB


def test_refusal_names_line_and_column_of_the_second_key() -> None:
    with pytest.raises(DocumentError, match=r"line 3, column 3: key 'total' is given twice"):
        read_document("a:\n  total: 1\n  total: 2\n")


SCALARS = {
    "a word": ("a: nvidia-h200", "nvidia-h200"),
    "yes is a word, not a boolean": ("a: yes", "yes"),
    "a leading zero makes no octal": ("a: 010", 10),
    "a colon makes no sexagesimal": ("a: 1:30", "1:30"),
    "a date stays text": ("a: 2026-01-21", "2026-01-21"),
    "a decimal": ("a: 17135.159", 17135.159),
    "an exponent": ("a: 1e3", 1000.0),
    "true": ("a: true", True),
    "null": ("a: ~", None),
    "an empty value": ("a:", None),
    "a quoted number stays text": ('a: "32"', "32"),
    "infinity": ("a: .inf", math.inf),
    "a number too long to be one stays text": ("a: " + "1" * 65, "1" * 65),
    "JSON with tabs": ('{\n\t"a": [1, "x"]\n}', [1, "x"]),
    "a flow mapping that is not JSON": ("{a: [1, x]}", [1, "x"]),
    "a byte order mark": ("\ufeffa: b", "b"),
}


@pytest.mark.parametrize(("text", "value"), SCALARS.values(), ids=SCALARS.keys())
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    assert read_document(text) == {"a": value}


def test_nan_reaches_the_validator() -> None:
    document = read_document("a: .nan")
    assert isinstance(document, dict)
    assert math.isnan(document["a"])


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_gives_a_value_or_a_document_error(text: str | bytes) -> None:
    with contextlib.suppress(DocumentError):  # any other exception fails the test
        read_document(text)


_TEXT = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=20)
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(_TEXT, _PLAIN, max_size=5))
def test_json_reads_back_as_written(document: dict[str, object]) -> None:
    assert read_document(json.dumps(document)) == document


@pytest.mark.parametrize("entry", ["1", "[]", "{}"])
def test_a_list_of_a_quarter_of_a_million_entries_in_json_is_refused_before_it_is_built(entry: str) -> None:
    many = ",".join([entry] * 250_000)
    for text in (f'{{"profiles":[{many}]}}', f'{{"profiles":[{many}]'):
        with pytest.raises(DocumentError, match="more than 200,000 nodes"):
            read_document(text)
