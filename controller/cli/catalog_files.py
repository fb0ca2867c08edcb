"""The catalog files of `mdscaler priors …`: read within bounds, written whole or not at all.

A file that is written over must be a catalog, and its tombstones go into what replaces it. Whatever cannot be read or
written is one clear line (UsageError; OperationFailed where nothing is wrong with the command).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from catalog import Catalog, CatalogFailure, LoadedCatalog, catalog_json, catalog_yaml, load_text
from catalog.document import MANIFEST_BOUNDS, DocumentError, read_documents
from controller.foundation import (
    FileChangedError,
    OperationFailed,
    UsageError,
    check_replaceable,
    printable,
    read_file,
    replace_file,
)

# Of a catalog's name.
_LONGEST_NAME: Final = 253


def read(path: Path) -> bytes:
    """The content of an input file."""
    try:
        return read_file(path, MANIFEST_BOUNDS.max_bytes)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def content_before(out: Path | None) -> bytes | None:
    """What is in the place of an output file now. Said before the work is done: that it cannot be written there."""
    if out is None:
        return None
    try:
        return read(out) if check_replaceable(out).exists() else None
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}") from None


def name_of(out: Path | None) -> str:
    """The name of a new catalog: the file's, where a catalog can be called so."""
    name = "" if out is None else out.stem
    return name if name.isprintable() and name.strip() and len(name) <= _LONGEST_NAME else "imported"


def catalog_of(content: bytes, path: Path) -> Catalog:
    """The catalog in the content of a file."""
    result = load_text(content, str(path))
    if isinstance(result, CatalogFailure):
        raise UsageError(result.message)
    return result.catalog


def tombstones_of(before: bytes | None, path: Path | None) -> list[Catalog]:
    """The tombstones of a catalog that will be written over: whatever else goes, what is retired stays retired."""
    if before is None or path is None:
        return []
    there = catalog_of(before, path)
    return [Catalog(name=there.name, retired=there.retired)]


def load(path: Path) -> LoadedCatalog:
    """The catalog in a file, with its index."""
    result = load_text(read(path), str(path))
    if isinstance(result, CatalogFailure):
        raise UsageError(result.message)
    return result


def documents_of(path: Path) -> list[object]:
    """The plain values of every document in a manifest."""
    try:
        return read_documents(read(path))
    except DocumentError as error:
        raise UsageError(f"{path}: {error}") from None


def write(path: Path, catalog: Catalog, before: bytes | None) -> None:
    """Write a catalog, as JSON into `*.json`, in place of what `content_before` gave."""
    text = catalog_json(catalog) if path.suffix == ".json" else catalog_yaml(catalog)
    # Nothing is written that would not be read again: an import can outgrow the limits of a catalog.
    check = load_text(text, f"the catalog for {path}")
    if isinstance(check, CatalogFailure):
        raise OperationFailed(f"{check.message}; nothing was written")
    new_folder = not path.parent.exists()
    try:
        replace_file(path, text.encode(), before=before)
        if new_folder:
            print(f"mdscaler: made the folder {printable(str(path.parent))}", file=sys.stderr)
    except FileChangedError:
        raise OperationFailed(
            f"{path} was changed by another command meanwhile; nothing was written: run this one again"
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
