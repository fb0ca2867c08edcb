"""The catalog files of `mdscaler priors …`: read within bounds, written whole or not at all.

Where a catalog is read, a ConfigMap that holds one is read as well; it is never written over. A file that is written
over must be a catalog, and its tombstones go into what replaces it. Whatever cannot be read or
written is one clear line (UsageError; OperationFailed where nothing is wrong with the command).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from catalog import (
    CONFIG_MAP_KEY,
    KIND,
    Catalog,
    CatalogFailure,
    CatalogProblem,
    CatalogResult,
    LoadedCatalog,
    RoleInput,
    catalog_json,
    catalog_yaml,
    load_file,
    load_text,
    role_inputs,
)
from catalog.document import MANIFEST_BOUNDS, DocumentError, read_documents
from catalog.importers import TOOL_NAMES, FileKind, Layout, Recognised, recognise_content
from controller.foundation import (
    FieldError,
    FileChangedError,
    OperationFailed,
    UsageError,
    check_replaceable,
    printable,
    read_file,
    reading_advice,
    replace_file,
)

# What catalogs are written as.
_SUFFIXES: Final = (".yaml", ".yml", ".json")
# Of a catalog's name.
_LONGEST_NAME: Final = 253


def read(path: Path) -> bytes:
    """The content of an input file."""
    try:
        return read_file(path, MANIFEST_BOUNDS.max_bytes)
    except OSError as error:
        raise UsageError(f"{path}: {reading_advice(path, error, _SUFFIXES)}") from None


def content_before(out: Path | None) -> bytes | None:
    """What is in the place of an output file now. Said before the work is done: that it cannot be written there."""
    if out is None:
        return None
    try:
        content = read(out) if check_replaceable(out).exists() else None
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}") from None
    found = None if content is None else recognise_content(content)
    if found is not None and found.kind is FileKind.CONFIG_MAP:
        raise UsageError(
            f"{out} is a ConfigMap, which is read and never written: give --out priors.yaml, then kubectl create "
            f"configmap NAME --from-file={CONFIG_MAP_KEY}=priors.yaml --dry-run=client -o yaml | kubectl apply -f -"
        )
    return content


def name_of(out: Path | None) -> str:
    """The name of a new catalog: the file's, where a catalog can be called so."""
    name = "" if out is None else out.stem
    return name if name.isprintable() and name.strip() and len(name) <= _LONGEST_NAME else "imported"


def catalog_of(content: bytes, path: Path) -> Catalog:
    """The catalog in the content of a file."""
    result = _checked(content, path)
    if isinstance(result, CatalogFailure):
        raise UsageError(result.message)
    return result.catalog


def check(path: Path) -> CatalogResult:
    """The catalog in a file, or what is wrong with the file; raises nothing, so that the next file is looked at,
    too."""
    try:
        return _checked(read(path), path)
    except UsageError as error:
        finding = FieldError("", f"cannot be read: {str(error).removeprefix(f'{path}: ')}")
        return CatalogFailure(CatalogProblem.CATALOG_INVALID, str(error), (finding,), str(path))


def _checked(content: bytes, path: Path) -> CatalogResult:
    result = load_file(content, str(path))
    found = recognise_content(content) if isinstance(result, CatalogFailure) else None
    advice = "" if found is None else _advice(found, content)
    if not advice:
        return result
    # The fields of another kind of file are no findings of a catalog.
    finding = FieldError("", f"no catalog: {advice}")
    return CatalogFailure(CatalogProblem.CATALOG_INVALID, f"{path} is {finding.message}", (finding,), str(path))


def _advice(found: Recognised, content: bytes) -> str:
    """What a file is in place of a catalog; empty for one that is a catalog with mistakes in it."""
    if b"profiles" in content:
        return ""  # with a wrong kind, too: its findings say so
    match found.kind:
        case FileKind.RESULT | FileKind.REQUESTS:
            what = f"a file of {TOOL_NAMES[found.name]}"
            return f"this is {what}: make a catalog of it with mdscaler priors import --from {found.name}"
        case FileKind.OBJECT if found.name not in ("ConfigMap", "List", "ConfigMapList"):
            return f"this is a Kubernetes object ({found.name}); a catalog has the kind {KIND}"
        case FileKind.OTHER_TEXT if found.layout is not Layout.YAML:
            return f"this is {found.layout.value}"
        case _:
            return ""


def tombstones_of(before: bytes | None, path: Path | None) -> list[Catalog]:
    """The tombstones of a catalog that will be written over: whatever else goes, what is retired stays retired."""
    if before is None or path is None:
        return []
    there = catalog_of(before, path)
    return [Catalog(name=there.name, retired=there.retired)]


def load(path: Path) -> LoadedCatalog:
    """The catalog in a file, with its index."""
    return load_all([path])[0]


def load_all(paths: Sequence[Path]) -> list[LoadedCatalog]:
    """The catalogs in several files. Every file is looked at before the wrong ones are told."""
    results = [check(path) for path in paths]
    wrong = [result.message for result in results if isinstance(result, CatalogFailure)]
    if wrong:
        raise UsageError("; ".join(wrong))
    return [result for result in results if isinstance(result, LoadedCatalog)]


def roles_of(path: Path) -> list[RoleInput]:
    """The roles of the ModelDeployment in a manifest."""
    content = read(path)
    try:
        return role_inputs(read_documents(content))
    except (DocumentError, UsageError) as error:
        raise UsageError(f"{path}: {error}") from None


def write(path: Path, catalog: Catalog, before: bytes | None) -> None:
    """Write a catalog, as JSON into `*.json`, in place of what `content_before` gave."""
    text = catalog_json(catalog) if path.suffix == ".json" else catalog_yaml(catalog)
    # Nothing is written that would not be read again: an import can outgrow the limits of a catalog.
    again = load_text(text, f"the catalog for {path}")
    if isinstance(again, CatalogFailure):
        raise OperationFailed(f"{again.message}; nothing was written")
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
