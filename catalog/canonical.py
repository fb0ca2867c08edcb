"""The canonical form of a catalog: same content, same bytes, whatever order and spelling it was written in.

The text is YAML with one line per point, so that a review of a re-measurement reads as a diff of points. Numbers are
quoted decimals (a YAML float would lose digits in some readers), identities and workloads order the profiles. Degrees
of 1, empty fields and defaults are left out.

A profile's digest is sha256 over the compact JSON (sorted keys, numbers as numbers) of its canonical form without
`source.digests` (the list of what it was merged from), so that merging again does not change it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec
import orjson

from catalog.identity import DEGREES
from catalog.quantiles import quantile_key
from catalog.schema import API_VERSION, KIND, Basis, Catalog, Point, Profile, Source, Tombstone
from controller.foundation import format_quantity

_SOURCE_FIELDS: Final = (
    ("tool", "tool"),
    ("version", "version"),
    ("image", "image"),
    ("run", "run"),
    ("date", "date"),
    ("recipeFingerprint", "recipe_fingerprint"),
    ("notes", "notes"),
)


def profile_document(profile: Profile, number: Callable[[float], Any] | None = None) -> dict[str, Any]:
    """The canonical plain form of one profile, fields in the order in which they are written. Numbers are decimal
    texts, or what `number` makes of them."""
    write = number or _decimal
    model = {"name": profile.model, "revision": profile.revision, "tokenizer": profile.tokenizer}
    degrees = {name: getattr(profile.parallel, name) for name in DEGREES}
    workload = profile.workload
    document: dict[str, Any] = {
        "role": profile.role.value,
        "model": _present(model),
        "quantization": profile.quantization.value,
        "engine": _present({"name": profile.engine.value, "version": profile.engine_version}),
        "hardware": profile.hardware,
        # gpus and tp are always written: they are what a reader looks for first.
        "parallel": {name: n for name, n in degrees.items() if n != 1 or name in ("gpus", "tp")},
        "workload": _present(
            {
                "inputTokens": workload.input_tokens,
                "outputTokens": workload.output_tokens,
                "cacheBehavior": workload.cache_behavior.value,
                "meanInputTokens": _optional(workload.mean_input_tokens, write),
                "meanOutputTokens": _optional(workload.mean_output_tokens, write),
            }
        ),
        "points": [_point(point, write) for point in profile.points],
    }
    source = _source(profile.source)
    if source:
        document["source"] = source
    return document


def profile_digest(profile: Profile) -> str:
    """`sha256:<64 hex>` of the profile's canonical form without the digests it was merged from."""
    if profile.source.digests:
        profile = msgspec.structs.replace(profile, source=msgspec.structs.replace(profile.source, digests=()))
    # Numbers as numbers: the encoder writes the shortest decimal of a float, as `_decimal` does, and much faster.
    return _sha256(profile_document(profile, float))


def catalog_document(catalog: Catalog) -> dict[str, Any]:
    """The canonical plain form of a whole catalog."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": catalog.name},
        "profiles": [profile_document(profile) for profile in catalog.profiles],
        "retired": [_tombstone(tombstone) for tombstone in catalog.retired],
    }


def catalog_digest(catalog: Catalog) -> str:
    """`sha256:<64 hex>` of the canonical form of the catalog."""
    return _sha256(catalog_document(catalog))


def catalog_yaml(catalog: Catalog) -> str:
    """The canonical text, ready for a file or for the `catalog.yaml` key of a ConfigMap."""
    lines = [
        f"apiVersion: {API_VERSION}",
        f"kind: {KIND}",
        f"metadata: {_flow({'name': catalog.name})}",
        "profiles:" if catalog.profiles else "profiles: []",
    ]
    for profile in catalog.profiles:
        document = profile_document(profile)
        points = document.pop("points")
        source = document.pop("source", None)
        prefix = "- "
        for name, value in document.items():
            lines.append(f"{prefix}{name}: {_flow(value)}")
            prefix = "  "
        lines.append("  points:")
        lines += [f"  - {_flow(point)}" for point in points]
        if source:
            lines.append("  source:")
            lines += [f"    {name}: {_flow(value)}" for name, value in source.items()]
    lines.append("retired:" if catalog.retired else "retired: []")
    lines += [f"- {_flow(_tombstone(tombstone))}" for tombstone in catalog.retired]
    return "\n".join(lines) + "\n"


def catalog_json(catalog: Catalog) -> str:
    """The canonical form as indented JSON."""
    return json.dumps(catalog_document(catalog), indent=1, ensure_ascii=False) + "\n"


def _sha256(document: dict[str, Any]) -> str:
    return f"sha256:{hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()}"


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _decimal(value: float) -> str:
    # The shortest decimal of almost every float is its repr; the general way is five times slower, and a digest needs
    # twelve numbers a point.
    text = repr(value)
    if text.endswith(".0"):
        return text[:-2]
    return format_quantity(value) if "e" in text else text


def _optional(value: float | None, write: Callable[[float], Any]) -> Any:
    return None if value is None else write(value)


_key = lru_cache(maxsize=256)(quantile_key)


def _point(point: Point, write: Callable[[float], Any]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "concurrency": point.concurrency,
        "totalTokensPerSecond": write(point.total_tokens_per_second),
        "outputTokensPerSecond": write(point.output_tokens_per_second),
    }
    for name, measured in (
        ("ttftMilliseconds", point.ttft),
        ("itlMilliseconds", point.itl),
        ("tpotMilliseconds", point.tpot),
    ):
        if measured:
            document[name] = {_key(quantile): write(milliseconds) for quantile, milliseconds in measured}
    if point.requests is not None:
        document["requests"] = point.requests
    if point.flags:
        document["flags"] = [flag.value for flag in point.flags]
    if point.run is not None:
        document["run"] = point.run
    if point.date is not None:
        document["date"] = point.date
    return document


def _source(source: Source) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(source, attribute) for name, attribute in _SOURCE_FIELDS}
    fields["basis"] = None if source.basis is Basis.MEASURED else source.basis.value
    fields["streamInterval"] = source.stream_interval
    fields["digests"] = list(source.digests) or None
    return _present(fields)


def _tombstone(tombstone: Tombstone) -> dict[str, Any]:
    return {
        "key": tombstone.key,
        "digest": tombstone.digest,
        "date": tombstone.date,
        "reason": tombstone.reason,
    }


def _flow(value: Any) -> str:
    """A value in YAML flow style: words that need no quotes are left bare, everything else is a JSON string."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_word(name)}: {_flow(entry)}" for name, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(entry) for entry in value) + "]"
    if isinstance(value, int):
        return str(value)
    return _word(value)


# Words that YAML readers of any version take for something other than a string.
_RESERVED: Final = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))


def _word(text: str) -> str:
    bare = text.isascii() and text[:1].isalpha() and text.replace("/", "").replace("-", "").replace(".", "").isalnum()
    return text if bare and text.lower() not in _RESERVED else _quoted(text)


def _quoted(text: str) -> str:
    """A double-quoted scalar that every YAML reader takes; characters that it would refuse are escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)
