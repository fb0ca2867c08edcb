"""Content negotiation: what a client accepts, and how a body is read.

Bodies are JSON, YAML (without aliases: they can grow without bound) or, for a few types, protobuf. Answers are JSON, or
YAML where that is asked for first; lists and objects may be asked for as Table or PartialObjectMetadata.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson
import yaml

from controller.embedded.apiserver.errors import ApiError, bad_request, not_acceptable, unsupported_media_type
from controller.embedded.apiserver.protobuf import PROTOBUF, decode_envelope

JSON = "application/json"
YAML = "application/yaml"
_SUPPORTED = (JSON, YAML)
_ANY = ("*/*", "application/*")


class Form(Enum):
    """What the objects of an answer become."""

    OBJECT = "object"
    TABLE = "Table"
    PARTIAL = "PartialObjectMetadata"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The negotiated answer."""

    form: Form = Form.OBJECT
    yaml: bool = False


def media_types(accept: str) -> list[tuple[str, dict[str, str]]]:
    """(type, parameters) of an Accept header in order."""
    found = []
    for part in accept.split(","):
        name, *parameters = (text.strip() for text in part.split(";"))
        if name:
            pairs = (text.partition("=") for text in parameters)
            found.append((name.lower(), {key.strip(): value.strip() for key, _, value in pairs}))
    return found


def negotiate(accept: str) -> Accepted:
    """The first acceptable form. Raises ApiError 406 where there is none."""
    accepted = media_types(accept)
    if not accepted:
        return Accepted()
    for name, parameters in accepted:
        if name not in (*_SUPPORTED, *_ANY):
            continue
        wanted = parameters.get("as", "")
        if parameters.get("stream") or not wanted:
            return Accepted(yaml=name == YAML)
        if parameters.get("g") == "meta.k8s.io" and parameters.get("v") == "v1":
            form = {"Table": Form.TABLE}.get(wanted)
            if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                form = Form.PARTIAL
            if form is not None:
                return Accepted(form, yaml=name == YAML)
    raise not_acceptable((*_SUPPORTED, PROTOBUF))


class _Loader(yaml.SafeLoader):
    """YAML without aliases and without dates: a date in a manifest stays the text that it is."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted; write the value out")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load_yaml(text: bytes | str) -> Any:
    """One YAML document as plain JSON values: keys become text (`on:` is the key `true`). Raises yaml.YAMLError."""
    found = yaml.load(text, Loader=_Loader)  # noqa: S506  # a safe loader, with less
    try:
        return orjson.loads(orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS))
    except TypeError as error:
        raise yaml.YAMLError(f"not a JSON value: {error}") from None


def read_body(content_type: str, body: bytes) -> Any:
    """The parsed body of a request. Raises ApiError 400 for what cannot be read and 415 for other formats."""
    name = content_type.split(";", 1)[0].strip().lower()
    if name in ("", JSON) or name.endswith("+json"):
        return _read_json(body)
    if name in (YAML, "text/yaml", "application/x-yaml") or name.endswith("+yaml"):
        try:
            return orjson.loads(body)  # clients send JSON as YAML: the fast way first
        except orjson.JSONDecodeError:
            pass
        try:
            return load_yaml(body)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise bad_request(f"error parsing YAML: {error}") from None
    if name == PROTOBUF:
        return decode_envelope(body)
    raise unsupported_media_type((*_SUPPORTED, PROTOBUF))


def _read_json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from None


def warning_header(text: str) -> str:
    """The value of a Warning header."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'


def render_error(error: ApiError) -> bytes:
    """The body of a failed request."""
    return orjson.dumps(error.status())
