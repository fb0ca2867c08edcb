"""The scanner: what it reads, what it refuses, and that it agrees with prometheus_client wherever both read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from controller.engines import PROFILES, BodyReader, BodyRefused, PrintedName, Reason, Scan, Scanner
from tests.engines import dumps

NAMES = {name.printed: name for profile in PROFILES for name in profile.printed_names()}
RUNNING = "vllm:num_requests_running"


def new_scanner(**options: Any) -> Scanner:
    return Scanner(NAMES.values(), **options)


def rows(scan: Scan) -> list[tuple[str, tuple[tuple[str, str], ...], float]]:
    return [(sample.series.name, sample.series.labels, sample.value) for sample in scan.samples]


def one(body: bytes) -> tuple[tuple[tuple[str, str], ...], float]:
    ((name, labels, value),) = rows(new_scanner().scan(body))
    assert name == RUNNING
    return labels, value


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        pytest.param(b"vllm:num_requests_running 8", (), 8.0, id="without labels"),
        pytest.param(b'vllm:num_requests_running{engine="0"} 8.0', (("engine", "0"),), 8.0, id="with a label"),
        pytest.param(b"vllm:num_requests_running{} 8", (), 8.0, id="with empty braces"),
        pytest.param(b'vllm:num_requests_running{b="2",a="1",} 8', (("b", "2"), ("a", "1")), 8.0, id="trailing comma"),
        pytest.param(b'vllm:num_requests_running{ a = "1" , b = "2" } 8', (("a", "1"), ("b", "2")), 8.0, id="blanks"),
        pytest.param(b'vllm:num_requests_running {a="1"}8', (("a", "1"),), 8.0, id="blanks where others have none"),
        pytest.param(b'vllm:num_requests_running{a="1"}\t8', (("a", "1"),), 8.0, id="a tab before the value"),
        pytest.param(b"  vllm:num_requests_running 8", (), 8.0, id="blanks before the name"),
        pytest.param(b"vllm:num_requests_running 8 \t", (), 8.0, id="blanks after the value"),
        pytest.param(b"vllm:num_requests_running 8\r", (), 8.0, id="a line that ends with CRLF"),
        pytest.param(b"vllm:num_requests_running 8 1795957923360", (), 8.0, id="a timestamp"),
        pytest.param(b'vllm:num_requests_running{a="1"} 8 1795957923.36', (("a", "1"),), 8.0, id="an OpenMetrics time"),
        pytest.param(b'vllm:num_requests_running{a="1"} 8 # {t="x y"} 0.5 1.0', (("a", "1"),), 8.0, id="an exemplar"),
        pytest.param(b'vllm:num_requests_running{a="1"} 8 7 # {t="x"} 0.5', (("a", "1"),), 8.0, id="both of them"),
        pytest.param(b'{"vllm:num_requests_running",a="1"} 8', (("a", "1"),), 8.0, id="a quoted name"),
        pytest.param(b'{"vllm:num_requests_running"} 8', (), 8.0, id="a quoted name without labels"),
        pytest.param(b'vllm:num_requests_running{"b.c"="1"} 8', (("b.c", "1"),), 8.0, id="a quoted label name"),
        pytest.param(b'vllm:num_requests_running{a="x y"} 8', (("a", "x y"),), 8.0, id="a blank in a value"),
        pytest.param(b'vllm:num_requests_running{a="} 1"} 8', (("a", "} 1"),), 8.0, id="a brace in a value"),
        pytest.param(b'vllm:num_requests_running{a="# {"} 8', (("a", "# {"),), 8.0, id="an exemplar mark in a value"),
        pytest.param(rb'vllm:num_requests_running{a="\\\"\n"} 8', (("a", '\\"\n'),), 8.0, id="all three escapes"),
        pytest.param(
            rb'vllm:num_requests_running{a="\\n"} 8', (("a", "\\n"),), 8.0, id="an escaped backslash before n"
        ),
        pytest.param(rb'vllm:num_requests_running{a="\d"} 8', (("a", "\\d"),), 8.0, id="an unknown escape stays"),
        pytest.param(b'vllm:num_requests_running{a="\xc3\xa4"} 8', (("a", "ä"),), 8.0, id="UTF-8"),
        pytest.param(
            b'vllm:num_requests_running{handle="1"} 8', (("handle", "1"),), 8.0, id="a name that ends like le"
        ),
        pytest.param(
            b'vllm:num_requests_running{a="le=",le="1",b="2"} 8',
            (("a", "le="), ("le", "1"), ("b", "2")),
            8.0,
            id="a value that looks like le",
        ),
        pytest.param(b"vllm:num_requests_running 1.15e+011", (), 1.15e11, id="an exponent of three digits"),
        pytest.param(b"vllm:num_requests_running 1E-3", (), 1e-3, id="a capital exponent"),
        pytest.param(b"vllm:num_requests_running +Inf", (), math.inf, id="infinity"),
        pytest.param(b"vllm:num_requests_running -Inf", (), -math.inf, id="negative infinity"),
    ],
)
def test_a_line_is_read(line: bytes, labels: tuple[tuple[str, str], ...], value: float) -> None:
    scanner = new_scanner()
    body = b"# TYPE something gauge\n" + line + b"\n"
    assert rows(scanner.scan(body)) == [(RUNNING, labels, value)]
    assert rows(scanner.scan(line + b"\n")) == [(RUNNING, labels, value)], "again, from memory, as the first line"


@pytest.mark.parametrize("text", [b"NaN", b"nan", b"Nan", b"-nan", b"-NaN"])
def test_every_spelling_of_nan_is_nan(text: bytes) -> None:
    assert math.isnan(one(RUNNING.encode() + b" " + text + b"\n")[1])


def test_memory_never_answers_for_another_line() -> None:
    scanner = new_scanner()
    scanner.scan(b'vllm:num_requests_running{a="1",le="5",b="2"} 8\nvllm:num_requests_waiting{a="1"} 5\n')
    body = (
        b'vllm:num_requests_running{a="1",le="7",b="2"} 9\n'
        rb'vllm:num_requests_running{a="1",le="\\",b="2"} 9'
        b"\n"
        b'vllm:num_requests_waiting{a="1"} 5 123\n'
    )
    assert rows(scanner.scan(body)) == [
        (RUNNING, (("a", "1"), ("le", "7"), ("b", "2")), 9.0),
        (RUNNING, (("a", "1"), ("le", "\\"), ("b", "2")), 9.0),
        ("vllm:num_requests_waiting", (("a", "1"),), 5.0),
    ]


def test_the_same_series_is_the_same_object_scrape_after_scrape() -> None:
    scanner = new_scanner()
    for line in (b'vllm:num_requests_running{a="1"} 8\n', b'vllm:num_requests_running{a="1"} 8 123\n'):
        first, second = scanner.scan(line), scanner.scan(line)
        assert first.samples[0].series is second.samples[0].series


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"vllm:num_requests_running_total 8", id="a longer name"),
        pytest.param(b"vllm:num_requests_runnin 8", id="a shorter name"),
        pytest.param(b"xvllm:num_requests_running 8", id="another prefix"),
        pytest.param(b"vllm:prompt_tokens_created 1.7e9", id="a creation time"),
        pytest.param(b"vllm:prompt_tokens_by_source_created 1.7e9", id="a creation time of a longer name"),
        pytest.param(b"# vllm:num_requests_running 8", id="a comment"),
        pytest.param(b'{"something",a="1"} 8', id="another quoted name"),
        pytest.param(b'x{a="vllm:num_requests_running 8"} 1', id="a name inside a label value"),
    ],
)
def test_other_lines_are_not_read(line: bytes) -> None:
    scan = new_scanner().scan(line + b"\n")
    assert scan.samples == ()
    assert scan.damaged == {}


def test_names_of_one_family_are_told_apart_by_suffix() -> None:
    scan = new_scanner().scan(b'vllm:time_to_first_token_seconds_bucket{le="0.5"} 1\nvllm_prompt_tokens_total 2\n')
    assert [(s.series.family, s.series.suffix) for s in scan.samples] == [
        ("vllm_time_to_first_token_seconds", "_bucket"),
        ("vllm_prompt_tokens", "_total"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"vllm:num_requests_running", id="no value"),
        pytest.param(b"vllm:num_requests_running gauge", id="a word for a value"),
        pytest.param(b"vllm:num_requests_running 1_000", id="a number with an underscore"),
        pytest.param(b"vllm:num_requests_running 8 yesterday", id="a word for a timestamp"),
        pytest.param(b"vllm:num_requests_running 8 1 2", id="a third number"),
        pytest.param(b'vllm:num_requests_running{a="1" 8', id="braces that do not close"),
        pytest.param(b'vllm:num_requests_running{a="1} 8', id="quotes that do not close"),
        pytest.param(b"vllm:num_requests_running{a=1} 8", id="a value without quotes"),
        pytest.param(b'vllm:num_requests_running{a="1",a="2"} 8', id="a label twice"),
        pytest.param(b'vllm:num_requests_running{a="1",,b="2"} 8', id="two commas"),
        pytest.param(b'vllm:num_requests_running{a="1"b="2"} 8', id="no comma"),
        pytest.param(b'vllm:num_requests_running{"x",a="1"} 8', id="two names"),
        pytest.param(b'vllm:num_requests_running{a="\xff"} 8', id="a label value that is not UTF-8"),
        pytest.param(b'vllm:num_requests_running{le="\xff"} 8', id="a bound that is not UTF-8"),
        pytest.param(b"vllm:num_requests_running 0x10", id="a hexadecimal number"),
    ],
)
def test_a_wanted_line_that_cannot_be_read_is_reported_and_gives_no_number(line: bytes) -> None:
    scanner = new_scanner()
    scanner.scan(b'vllm:num_requests_running{le="1"} 8\n')  # what memory holds must not help
    scan = scanner.scan(line + b"\nvllm:num_requests_waiting 3\n")
    assert list(scan.damaged) == [RUNNING]
    assert [sample.series.name for sample in scan.samples] == ["vllm:num_requests_waiting"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"", Reason.EMPTY, id="nothing"),
        pytest.param(b" \n\r\n\t\n", Reason.EMPTY, id="blank lines"),
        pytest.param(b"<html>\nvllm:num_requests_running 8\n</html>\n", Reason.NOT_EXPOSITION, id="HTML"),
        pytest.param(b"\n <!doctype html>\n", Reason.NOT_EXPOSITION, id="HTML after blanks"),
        pytest.param(b'{"error": "not found"}\n', Reason.NOT_EXPOSITION, id="a JSON object"),
        pytest.param(b"{\n}\n", Reason.NOT_EXPOSITION, id="an empty JSON object"),
        pytest.param(b"[]\n", Reason.NOT_EXPOSITION, id="a JSON list"),
        pytest.param(b'"# TYPE x gauge\\nvllm:num_requests_running 8\\n"\n', Reason.NOT_EXPOSITION, id="a JSON string"),
        pytest.param(b"\x1f\x8b\x08\x00", Reason.NOT_EXPOSITION, id="gzip"),
        pytest.param("vllm:num_requests_running 8\n".encode("utf-16"), Reason.NOT_EXPOSITION, id="UTF-16"),
        pytest.param(b"vllm:num_requests_running 81", Reason.TRUNCATED, id="a number that may go on"),
        pytest.param(b"vllm:num_requests_running 8\n# HELP vllm:nu", Reason.TRUNCATED, id="cut in a comment"),
        pytest.param(b'a 1\nb{c="\n# EOF', None, id="a whole last line is complete even inside quotes"),
        pytest.param(b'vllm:num_requests_running{a="# EOF', Reason.TRUNCATED, id="cut after what looks like the end"),
        pytest.param(b'a 1\n{"vllm:num_requests_running",a="1 8\n', Reason.MALFORMED, id="a broken quoted name"),
    ],
)
def test_a_body_is_refused_with_its_reason(body: bytes, reason: Reason | None) -> None:
    if reason is None:
        new_scanner().scan(body)
        return
    with pytest.raises(BodyRefused) as refused:
        new_scanner().scan(body)
    assert refused.value.reason is reason
    assert refused.value.message


def test_an_openmetrics_body_must_have_its_end() -> None:
    body = b"vllm:num_requests_running 8\n"
    for end in (b"# EOF", b"# EOF\n", b"# EOF\r\n"):
        assert len(new_scanner().scan(body + end, openmetrics=True).samples) == 1
    with pytest.raises(BodyRefused) as refused:
        new_scanner().scan(body, openmetrics=True)
    assert refused.value.reason is Reason.TRUNCATED


def test_a_byte_order_mark_does_not_hide_the_first_line() -> None:
    assert one(b"\xef\xbb\xbfvllm:num_requests_running 8\n") == ((), 8.0)


def test_more_series_than_any_engine_prints_are_refused() -> None:
    body = b"vllm:num_requests_running 8\n" * 11
    assert len(new_scanner(sample_limit=11).scan(body).samples) == 11
    with pytest.raises(BodyRefused) as refused:
        new_scanner(sample_limit=10).scan(body)
    assert refused.value.reason is Reason.TOO_MANY_SERIES


def test_memory_is_bounded_and_losing_it_loses_nothing() -> None:
    scanner = new_scanner(cache_entries=100)
    for scrape in range(50):
        lines = [f'vllm:num_requests_running{{pod="{scrape}-{n}"}} {n}\n' for n in range(20)]
        assert [value for _, _, value in rows(scanner.scan("".join(lines).encode()))] == list(range(20))
        held = scanner._series, scanner._other_series, scanner._blocks, scanner._around_le
        assert sum(map(len, held)) <= 100 + 2 * 20


def test_a_cut_anywhere_never_yields_a_reading() -> None:
    body = dumps.dump("vllm-02")
    reader = BodyReader()
    whole = reader.read(body)
    for end in range(len(body) - 1, len(body) - 400, -1):
        if body[end - 1 : end] == b"\n":
            continue  # not visible in the body; HTTP framing tells
        with pytest.raises(BodyRefused) as refused:
            reader.read(body[:end])
        assert refused.value.reason is Reason.TRUNCATED
    assert reader.read(body) == whole


# ---------------------------------------------------------------- against prometheus_client


def their_rows(text: str) -> Counter[tuple[str, tuple[tuple[str, str], ...], object]]:
    samples = (sample for metric in text_string_to_metric_families(text) for sample in metric.samples)
    return Counter(comparable(s.name, s.labels.items(), float(s.value)) for s in samples if wanted(s.name))


def our_rows(scan: Scan) -> Counter[tuple[str, tuple[tuple[str, str], ...], object]]:
    return Counter(comparable(*row) for row in rows(scan))


def wanted(name: str) -> bool:
    # The library adds `_total` to the samples of a counter that was printed without it.
    return name in NAMES or (name.endswith("_total") and name.removesuffix("_total") in NAMES)


def comparable(
    name: str, labels: Iterable[tuple[str, str]], value: float
) -> tuple[str, tuple[tuple[str, str], ...], object]:
    return name.removesuffix("_total"), tuple(sorted(labels)), "NaN" if math.isnan(value) else value


@pytest.mark.parametrize("path", dumps.FILES, ids=lambda path: path.name)
def test_recorded_bodies_are_read_as_the_library_reads_them(path: Any) -> None:
    body = dumps.read(path)
    scanner = new_scanner()
    try:
        theirs = their_rows(body.decode())
    except ValueError:
        assert path.name.startswith("vllm-15"), "only the list of families is no exposition"
        return
    assert our_rows(scanner.scan(body)) == theirs
    assert our_rows(scanner.scan(body)) == theirs, "and again from memory"
    if path.name.startswith(("vllm-0", "vllm-1", "sglang-0")):
        assert theirs


LABEL_NAMES = st.sampled_from(["engine", "model_name", "le", "handle", "le_", "_", "a1", "dp_rank"])
LABEL_VALUES = st.one_of(
    st.sampled_from(
        ['le="1"', "} 5", ' # {x="y"} 1', "\\", "\\\\n", '"', "\n", ",", "=", "", "+Inf", "0.5", "vllm:x 8"]
    ),
    st.text(st.characters(codec="utf-8"), max_size=12),
)
VALUES = st.one_of(
    st.floats().map(repr),
    st.floats(0, 1e6).map(lambda number: f"{number:.3e}"),
    st.integers(-(2**53), 2**53).map(str),
    st.sampled_from(["NaN", "-nan", "Nan", "+Inf", "-Inf", "1.15e+011", "8.0"]),
)
BLANKS = st.sampled_from([" ", "\t", "  ", " \t "])
MAYBE_BLANKS = st.sampled_from(["", "", "", " "])


@st.composite
def sample_lines(draw: st.DrawFn) -> str:
    name = draw(
        st.sampled_from([*NAMES, "other:metric", "vllm:request_prompt_tokens_sum", "vllm:prompt_tokens_created"])
    )
    labels = draw(st.dictionaries(LABEL_NAMES, LABEL_VALUES, max_size=4))
    block = ""
    if labels or draw(st.booleans()):
        pairs = []
        for label, value in labels.items():
            escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
            pairs.append(f'{draw(MAYBE_BLANKS)}{label}{draw(MAYBE_BLANKS)}={draw(MAYBE_BLANKS)}"{escaped}"')
        end = "," if pairs and draw(st.booleans()) else ""
        block = "{" + ",".join(pairs) + end + draw(MAYBE_BLANKS) + "}"
    stamp = f" {draw(st.integers(0, 2**41))}" if draw(st.booleans()) else ""
    blank = draw(BLANKS)
    # The library splits value and timestamp at blanks or at tabs, not at both.
    blank = " " if stamp else blank
    end = draw(st.sampled_from(["\n", "\n", " \n", "\r\n"]))
    return f"{draw(MAYBE_BLANKS)}{name}{block}{blank}{draw(VALUES)}{stamp}{end}"


COMMENTS = st.sampled_from(
    ["\n", "# HELP vllm:prompt_tokens Tokens.\n", "# TYPE vllm:prompt_tokens counter\n", "# EOF\n", "#\n", "# x {\n"]
)


@settings(max_examples=250, deadline=None)
@given(st.lists(st.one_of(sample_lines(), COMMENTS), min_size=1, max_size=12))
@example(['vllm:num_requests_running{handle="1",le="5"} 8\n', 'vllm:num_requests_running{handle="1",le="6"} 8\n'])
def test_any_valid_exposition_is_read_as_the_library_reads_it(lines: list[str]) -> None:
    text = "".join(lines)
    assume(text.strip())
    theirs = their_rows(text)
    for _ in range(2):
        scan = SHARED.scan(text.encode())
        assert our_rows(scan) == theirs
        assert scan.damaged == {}


def reads_or_refuses(body: bytes, **options: bool) -> bool:
    try:
        return bool(READER.read(body, **options).engine)
    except BodyRefused as refused:
        return bool(refused.message)


SHARED = new_scanner(cache_entries=500)
READER = BodyReader()
FRAGMENTS = st.sampled_from(
    [
        b"\n",
        b"vllm:num_requests_running",
        b"{",
        b"}",
        b'"',
        b"\\",
        b'le="',
        b'="0"',
        b",",
        b" ",
        b"8",
        b"# EOF",
        b"\xff",
        b"_",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.lists(FRAGMENTS, max_size=30).map(b"".join)), st.booleans())
def test_no_bytes_make_it_raise_anything_but_a_refusal(body: bytes, openmetrics: bool) -> None:
    assert reads_or_refuses(body, openmetrics=openmetrics)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_recorded_body_gives_a_reading_or_a_refusal(data: st.DataObject) -> None:
    body = bytearray(dumps.dump(data.draw(st.sampled_from(["vllm-12", "sglang-05", "sglang-06"]))))
    for _ in range(data.draw(st.integers(1, 5))):
        position = data.draw(st.integers(0, len(body) - 1))
        body[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    assert reads_or_refuses(bytes(body))


def test_a_scanner_for_no_names_reads_nothing() -> None:
    assert Scanner([]).scan(b"vllm:num_requests_running 8\n").samples == ()


def test_names_are_found_whatever_their_order() -> None:
    names = [PrintedName("ab", "ab", ""), PrintedName("abc", "abc", ""), PrintedName("a", "a", "")]
    scan = Scanner(names).scan(b"abc 3\nab 2\na 1\nabcd 4\n")
    assert [(sample.series.name, sample.value) for sample in scan.samples] == [("abc", 3.0), ("ab", 2.0), ("a", 1.0)]
