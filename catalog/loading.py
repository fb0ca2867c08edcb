"""Getting a catalog: from a text, from a ConfigMap's data, from the package.

Parsing is bounded and validation total, so the worst that a hostile catalog does is to cost a moment and be refused
with its findings. Parsed catalogs, good and bad, are remembered by the digest of their text: a reconcile reads the
same ConfigMap every few seconds. At most 32 are remembered and one is evicted at a time, the least recently used, so
that the 33rd catalog never empties the cache for the other 31. The embedded catalog is parsed once per process.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Final

from catalog.config_map import catalog_of_config_map
from catalog.document import DocumentError, read_document
from catalog.index import CatalogIndex
from catalog.schema import CONFIG_MAP_KEY, Catalog
from catalog.validation import validate_document
from controller.foundation import FieldError, printable

MAX_CACHED: Final = 32
# A condition message is read on one screen.
_FINDINGS_SHOWN: Final = 3
_EMBEDDED: Final = "embedded catalog"


class CatalogProblem(StrEnum):
    """Why there is no catalog; the values are reasons of the condition CapacityPriorResolved."""

    CONFIG_MAP_NOT_FOUND = "ConfigMapNotFound"
    CATALOG_INVALID = "CatalogInvalid"


@dataclass(frozen=True, slots=True)
class LoadedCatalog:
    """A usable catalog. `source` names it in messages (`embedded catalog`, `ConfigMap team-a/priors`, a path)."""

    source: str
    digest: str
    catalog: Catalog
    index: CatalogIndex

    @property
    def named(self) -> str:
        """`source` inside a sentence: a name stands for itself, and only what has none takes an article."""
        return f"the {self.source}" if self.source == _EMBEDDED else self.source


@dataclass(frozen=True, slots=True)
class CatalogFailure:
    """No usable catalog; `findings` is empty where it was never read. `source` names what was read, as in
    `LoadedCatalog`."""

    problem: CatalogProblem
    message: str
    findings: tuple[FieldError, ...] = ()
    source: str = ""


CatalogResult = LoadedCatalog | CatalogFailure


def load_text(text: str | bytes, source: str) -> CatalogResult:
    """Parse and validate one catalog text. Never raises for any input."""
    try:
        document = read_document(text)
    except DocumentError as error:
        return _unreadable(source, str(error))
    catalog, findings = validate_document(document)
    if catalog is None:
        shown = "; ".join(str(finding).removeprefix(": ") for finding in findings[:_FINDINGS_SHOWN])
        more = f"; and {len(findings) - _FINDINGS_SHOWN} more" if len(findings) > _FINDINGS_SHOWN else ""
        message = f"{source} has {len(findings)} error{'s' * (len(findings) > 1)}: {shown}{more}"
        return CatalogFailure(CatalogProblem.CATALOG_INVALID, message, tuple(findings), source)
    return LoadedCatalog(source, _digest(text), catalog, CatalogIndex(catalog))


def load_file(content: bytes, source: str) -> CatalogResult:
    """The catalog in a file's content: the document itself, or a ConfigMap that holds it, as kubectl writes it. Never
    raises for any input."""
    try:
        inside = catalog_of_config_map(content)
    except DocumentError as error:
        return _unreadable(source, str(error))
    return load_text(content, source) if inside is None else load_text(inside.text, f"{source} ({inside.name})")


def _unreadable(source: str, why: str) -> CatalogFailure:
    finding = FieldError("", printable(why))
    message = f"{source} is not readable: {finding.message}"
    return CatalogFailure(CatalogProblem.CATALOG_INVALID, message, (finding,), source)


@cache
def load_embedded() -> LoadedCatalog:
    """The catalog of this package. A broken one is a defect of the build and raises RuntimeError."""
    result = load_text(resources.files("catalog").joinpath("priors.yaml").read_bytes(), _EMBEDDED)
    if isinstance(result, CatalogFailure):
        raise RuntimeError(result.message)
    return result


class CatalogCache:
    """Parsed ConfigMap catalogs by content. Not thread-safe: one event loop owns it."""

    def __init__(self, capacity: int = MAX_CACHED) -> None:
        self._capacity = capacity
        self._by_digest: OrderedDict[str, CatalogResult] = OrderedDict()

    def config_map(self, name: str, data: Mapping[str, str] | None) -> CatalogResult:
        """The catalog of ConfigMap `name` (`namespace/name`) with this `data`; None where the object does not exist."""
        source = f"ConfigMap {name}"
        if data is None:
            return CatalogFailure(
                CatalogProblem.CONFIG_MAP_NOT_FOUND,
                f"{source} does not exist: create it with the key {CONFIG_MAP_KEY}, or remove catalogRef to use the "
                "embedded catalog",
            )
        text = data.get(CONFIG_MAP_KEY)
        if text is None:
            keys = ", ".join(sorted(data)[:5]) or "none"
            return CatalogFailure(
                CatalogProblem.CATALOG_INVALID, f"{source} has no key {CONFIG_MAP_KEY} (keys: {keys})"
            )
        # The source is part of what is remembered, because it stands in messages.
        key = f"{source}\0{_digest(text)}"
        result = self._by_digest.get(key)
        if result is not None:
            self._by_digest.move_to_end(key)
            return result
        result = load_text(text, source)
        self._by_digest[key] = result
        if len(self._by_digest) > self._capacity:
            self._by_digest.popitem(last=False)
        return result

    def __len__(self) -> int:
        return len(self._by_digest)


def _digest(text: str | bytes) -> str:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
