"""Lines of a watch and bodies of lists: one pass for what fits, a reason for what does not."""

from __future__ import annotations

import json

import pytest

from controller.kube.envelopes import Added, Bookmark, Deleted, EventDecoder, Failed, Modified, Skipped
from controller.kube.errors import BadAnswer, Expired, Forbidden, ServerFailed, Throttled
from controller.kube.listdecoder import ListDecoder
from tests.kube.scripted_client import THING, Thing, bookmark, error, event, thing, thing_list
from tests.kube.scripted_server import status_body

DECODER = EventDecoder(THING, Thing)
LISTS = ListDecoder(THING, Thing)


@pytest.mark.parametrize(("kind", "type_"), [("ADDED", Added), ("MODIFIED", Modified), ("DELETED", Deleted)])
def test_an_object_event_becomes_its_projection(kind: str, type_: type) -> None:
    decoded = DECODER.decode(event(kind, thing("a", 7, size=3)))
    assert type(decoded) is type_
    assert isinstance(decoded, Added | Modified | Deleted)
    assert decoded.object.metadata.key == "ns/a"
    assert decoded.object.spec is not None
    assert decoded.object.spec.size == 3


def test_the_order_of_members_does_not_matter() -> None:
    obj = thing("a", 7)
    late = json.dumps({"object": {**{k: v for k, v in obj.items() if k != "kind"}, "kind": "Thing"}, "type": "ADDED"})
    assert isinstance(DECODER.decode(late.encode()), Added)


def test_an_object_without_kind_is_taken_as_ours() -> None:
    obj = {key: value for key, value in thing("a", 7).items() if key not in ("kind", "apiVersion")}
    assert isinstance(DECODER.decode(event("ADDED", obj)), Added)


@pytest.mark.parametrize(
    ("annotation", "ends"),
    [("true", True), ("false", False), ("True", False), ("", False), (None, False)],
    ids=["true", "false", "True", "empty", "absent"],
)
def test_only_exactly_true_ends_the_initial_events(annotation: str | None, ends: bool) -> None:
    """W11."""
    decoded = DECODER.decode(bookmark(9, annotation))
    assert isinstance(decoded, Bookmark)
    assert decoded.ends_initial_events is ends
    assert decoded.object.metadata.resource_version == "9"


def test_a_bookmark_full_of_nulls_is_fine() -> None:
    """A real server sends the zero object with it."""
    line = event(
        "BOOKMARK",
        {
            "kind": "Thing",
            "metadata": {"resourceVersion": "9", "creationTimestamp": None, "annotations": None},
            "spec": {"containers": None},
            "status": None,
        },
    )
    assert isinstance(DECODER.decode(line), Bookmark)


SKIPPED = [
    ("an object of another kind", event("ADDED", {**thing("a", 1), "kind": "Other"}), "Thing was expected", "ns/a"),
    ("a Table", event("ADDED", {"kind": "Table", "rows": []}), "found Table", ""),
    ("an unknown event type", event("PATCHED", thing("a", 1)), "unknown event type 'PATCHED'", ""),
    ("no event type", b'{"object":{}}', "without an event type", ""),
    ("no metadata", event("ADDED", {"kind": "Thing"}), "no metadata.name", ""),
    ("null metadata", event("ADDED", {"kind": "Thing", "metadata": None}), "no metadata.name", ""),
    ("a misfit", event("ADDED", {**thing("a", 1), "spec": {"size": "big"}}), "`$.object.spec.size`", "ns/a"),
    (
        "a misfit whose metadata is broken",
        event("ADDED", {"kind": "Thing", "metadata": {"name": 5}}),
        "no metadata",
        "",
    ),
    ("a null object", event("MODIFIED", None), "no metadata.name", ""),
]


@pytest.mark.parametrize(("line", "reason", "key"), [row[1:] for row in SKIPPED], ids=[row[0] for row in SKIPPED])
def test_what_cannot_be_used_is_skipped_with_a_reason(line: bytes, reason: str, key: str) -> None:
    """R21, R22, R23, R24."""
    decoded = DECODER.decode(line)
    assert isinstance(decoded, Skipped)
    assert reason in decoded.reason
    assert decoded.key == key


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (error(410, "Expired"), Expired),
        (error(410, "Gone"), Expired),
        (error(0, "Expired"), Expired),
        (error(429, "TooManyRequests"), Throttled),
        (error(500, "InternalError"), ServerFailed),
        (json.dumps(status_body(410, "Expired")).encode(), Expired),
        (json.dumps(status_body(403, "Forbidden")).encode(), Forbidden),
        (b'{"type":"ERROR","object":{"code":410}}', Expired),
    ],
    ids=["410", "gone", "by reason", "429", "500", "bare status", "bare 403", "object without kind"],
)
def test_a_failure_in_the_stream_is_an_error_of_its_own_name(line: bytes, kind: type) -> None:
    """Third and fourth shape of 410; X4."""
    decoded = DECODER.decode(line)
    assert isinstance(decoded, Failed)
    assert type(decoded.error) is kind


@pytest.mark.parametrize(
    "line",
    [b"<html>", b'{"type":"ADDED","object":{"kind":"Thing","metadata":{"na', b"\xff\xfe"],
    ids=["html", "half", "binary"],
)
def test_a_line_that_is_no_json_breaks_the_stream(line: bytes) -> None:
    """X3."""
    with pytest.raises(BadAnswer):
        DECODER.decode(line)


def test_an_unreadable_error_event_is_still_an_error() -> None:
    decoded = DECODER.decode(b'{"type":"ERROR","object":"boom"}')
    assert isinstance(decoded, Failed)


def test_a_list_gives_objects_and_its_version() -> None:
    page = LISTS.decode(thing_list(12, thing("a", 3), thing("b", 4), continue_="token"))
    assert [obj.metadata.name for obj in page.objects] == ["a", "b"]
    assert (page.meta.resource_version, page.meta.continue_) == ("12", "token")


def test_null_items_are_an_empty_list() -> None:
    """Go writes an empty slice as null."""
    body = b'{"kind":"ThingList","metadata":{"resourceVersion":"5"},"items":null}'
    assert LISTS.decode(body).objects == []


def test_one_misfit_does_not_spoil_the_page() -> None:
    """I23: a broken item does not take the others with it."""
    page = LISTS.decode(thing_list(9, thing("a", 1), {**thing("b", 2), "spec": {"size": "x"}}, {}, thing("c", 3)))
    assert [obj.metadata.name for obj in page.objects] == ["a", "c"]
    assert sorted(skipped.key for skipped in page.skipped) == ["", "ns/b"]


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (thing_list(1, kind="Table"), BadAnswer, "ThingList was asked for, the server sent Table"),
        (thing_list(1, kind="OtherList"), BadAnswer, "sent OtherList"),
        (b'{"metadata":{}}', BadAnswer, "no kind"),
        (b"<html>502</html>", BadAnswer, "cannot be read"),
        (b"", BadAnswer, "cannot be read"),
        (json.dumps(status_body(410, "Expired", "too old")).encode(), Expired, "too old"),
        (json.dumps(status_body(403, "Forbidden", "may not")).encode(), Forbidden, "may not"),
    ],
    ids=["a Table", "another list", "no kind", "HTML", "nothing", "a Status with 200", "a forbidden Status with 200"],
)
def test_what_is_no_list_is_an_error(body: bytes, kind: type[Exception], text: str) -> None:
    """R24, X4."""
    with pytest.raises(kind, match=text):
        LISTS.decode(body)
