"""What a request about objects is answered with: whole, as a Table, or as metadata only; as JSON or YAML; compressed
where that is worth it."""

from __future__ import annotations

import gzip
from collections.abc import Sequence

import orjson
import yaml
from aiohttp import web

from controller.embedded.apiserver.builtin_tables import columns_of
from controller.embedded.apiserver.negotiation import Accepted, Form, negotiate, warning_header
from controller.embedded.apiserver.resources import ServedVersion
from controller.embedded.apiserver.storage import Stored, encode
from controller.embedded.apiserver.table import TableFormat, partial_metadata
from controller.embedded.apiserver.targets import Outcome
from controller.foundation import Clock

# The real server compresses lists beyond this size, and never watches.
_GZIP_FROM_BYTES = 128 * 1024


def respond(
    request: web.BaseRequest, body: bytes, accepted: Accepted, status: int = 200, warnings: Sequence[str] = ()
) -> web.Response:
    """An answer with the body, which is JSON, in the media type that the client accepts."""
    content_type = "application/json"
    if accepted.yaml:
        body, content_type = yaml.safe_dump(orjson.loads(body), sort_keys=False).encode(), "application/yaml"
    response = web.Response(body=body, status=status, content_type=content_type)
    response.headers["Cache-Control"] = "no-cache, private"
    for text in warnings:
        response.headers.add("Warning", warning_header(text))
    if len(body) > _GZIP_FROM_BYTES and "gzip" in request.headers.get("Accept-Encoding", ""):
        response.body = gzip.compress(body, compresslevel=1)
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
    return response


def answer_stored(request: web.BaseRequest, served: ServedVersion, stored: Stored, clock: Clock) -> web.Response:
    """A stored object in the form that the client accepts. Raises ApiError 406."""
    accepted = negotiate(request.headers.get("Accept", ""))
    if accepted.form is Form.OBJECT:
        return respond(request, encode(stored, served), accepted)
    return _shaped(request, served, Outcome(served.view(stored.object)), accepted, clock)


def answer_outcome(request: web.BaseRequest, served: ServedVersion, outcome: Outcome, clock: Clock) -> web.Response:
    """What a write came to, in the form that the client accepts. Raises ApiError 406."""
    return _shaped(request, served, outcome, negotiate(request.headers.get("Accept", "")), clock)


def _shaped(
    request: web.BaseRequest, served: ServedVersion, outcome: Outcome, accepted: Accepted, clock: Clock
) -> web.Response:
    obj, warnings = outcome.object, outcome.warnings
    status = 201 if outcome.created else 200
    if accepted.form is Form.TABLE:
        table = table_format(request, served, clock)
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return respond(request, table.table([obj], metadata), accepted, status, warnings)
    body = orjson.dumps(partial_metadata(obj) if accepted.form is Form.PARTIAL else obj)
    return respond(request, body, accepted, status, warnings)


def table_format(request: web.BaseRequest, served: ServedVersion, clock: Clock) -> TableFormat:
    """The Table of a type, with as much of the objects as the request wants."""
    return TableFormat(served, columns_of(served), clock, request.query.get("includeObject", "Metadata"))


def list_item(stored: Stored, served: ServedVersion) -> bytes:
    """An item of a list: those of built-in types lack kind and apiVersion (control-plane.md §5)."""
    body = encode(stored, served)
    if not served.type.custom and body.startswith(served.prefix):
        return b"{" + body[len(served.prefix) :].removeprefix(b",")
    return body
