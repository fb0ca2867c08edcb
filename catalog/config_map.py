"""The catalog inside a ConfigMap, out of a file as kubectl writes it: one object, a List, or several documents.

People validate, show and merge what is in the cluster with `kubectl get configmap my-priors -o yaml > my-priors.yaml`.
Only the object that the controller would read is looked for: `data` with the key `catalog.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from catalog.document import MANIFEST_BOUNDS, DocumentError, read_document, read_documents
from catalog.objects import flattened
from catalog.schema import CONFIG_MAP_KEY

# Keys that one message names.
_KEYS_NAMED: Final = 5


class ConfigMapCatalog(NamedTuple):
    """The text of a catalog and the ConfigMap that holds it, as messages call it."""

    name: str
    text: str


def catalog_of_config_map(content: bytes) -> ConfigMapCatalog | None:
    """The catalog text of the one ConfigMap in a file; None where the file holds no ConfigMap. Raises DocumentError
    where it holds no catalog, or several."""
    if b"ConfigMap" not in content:
        return None  # a catalog of a megabyte is not read twice
    maps = list(_config_maps(content))
    if not maps:
        return None
    holding = [each for each in maps if CONFIG_MAP_KEY in _section(each, "data")]
    if len(holding) > 1:
        names = ", ".join(_name(each) for each in holding[:_KEYS_NAMED])
        raise DocumentError(f"{len(holding)} ConfigMaps have the key {CONFIG_MAP_KEY} ({names}): keep one in the file")
    if not holding:
        raise DocumentError(_nothing_in(maps[0]))
    name, text = _name(holding[0]), _section(holding[0], "data")[CONFIG_MAP_KEY]
    if not isinstance(text, str):
        raise DocumentError(f"{CONFIG_MAP_KEY} of {name} must be one text: write `{CONFIG_MAP_KEY}: |` before it")
    return ConfigMapCatalog(name, text)


def _config_maps(content: bytes) -> Iterator[Mapping[str, object]]:
    try:
        # JSON is no YAML where its strings hold escaped surrogates.
        is_json = content.lstrip()[:1] == b"{"
        documents = [read_document(content, MANIFEST_BOUNDS)] if is_json else read_documents(content)
    except DocumentError:
        return  # whoever reads it as a catalog says what is wrong with it
    yield from (each for each in flattened(documents) if each.get("kind") == "ConfigMap")


def _nothing_in(config_map: Mapping[str, object]) -> str:
    name, keys = _name(config_map), sorted(_section(config_map, "data"))
    if CONFIG_MAP_KEY in _section(config_map, "binaryData"):
        return f"{name} has {CONFIG_MAP_KEY} as binary data: create it again from a file in UTF-8"
    return f"{name} has no key {CONFIG_MAP_KEY} (keys: {', '.join(keys[:_KEYS_NAMED]) or 'none'})"


def _name(config_map: Mapping[str, object]) -> str:
    metadata = _section(config_map, "metadata")
    parts = [metadata.get("namespace"), metadata.get("name")]
    return f"ConfigMap {'/'.join(part for part in parts if isinstance(part, str) and part) or 'without a name'}"


def _section(holder: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = holder.get(key)
    return value if isinstance(value, Mapping) else {}
