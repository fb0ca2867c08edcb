"""Build `catalog/priors.yaml` from the committed extracts under `sources/`.

    python -m hack.priors.build             # write it
    python -m hack.priors.build --check     # exit 1 when it is not what the extracts give

Every official single-node InferenceX row that passes every law goes in (a row whose tail shows kernels being compiled
does not), then the sweeps, then the tombstones of `sources/retired.yaml`. Nothing in the result is written by hand:
to change a number, change an extract or a rule.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from catalog.canonical import catalog_yaml
from catalog.importers import ColdTail, ImportOptions, import_files
from catalog.loading import CatalogFailure, load_text
from catalog.merge import merge_catalogs
from catalog.schema import Catalog

SOURCES = Path(__file__).parent / "sources"
TARGET = Path(__file__).parents[2] / "catalog" / "priors.yaml"
NAME = "embedded"


def build() -> tuple[Catalog, dict[str, int]]:
    """The catalog, and what was refused by rule."""
    retired = _load(SOURCES / "retired.yaml")
    report = import_files(
        sorted((SOURCES / "inferencex").glob("*.json")),
        "inferencex",
        ImportOptions(cold_tail=ColdTail.REFUSE),
        name=NAME,
        tombstones=retired.retired,
    )
    others = [_load(path) for path in sorted(SOURCES.glob("sweeps/*.yaml"))]
    return merge_catalogs([report.catalog, *others, retired], NAME).catalog, report.refused


def _load(path: Path) -> Catalog:
    result = load_text(path.read_bytes(), str(path))
    if isinstance(result, CatalogFailure):
        raise SystemExit(result.message)
    return result.catalog


def main(arguments: list[str]) -> int:
    """Write or check the embedded catalog; returns the exit status."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m hack.priors.build", description=summary)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 where it would change")
    check: bool = parser.parse_args(arguments).check
    catalog, refused = build()
    text = catalog_yaml(catalog)
    if check:
        if TARGET.read_text() == text:
            return 0
        print(f"{TARGET} is not what the extracts give: run make priors", file=sys.stderr)
        return 1
    TARGET.write_text(text)
    points = sum(len(profile.points) for profile in catalog.profiles)
    print(f"{TARGET.name}: {len(catalog.profiles)} profiles, {points} points, {len(text):,} bytes; refused {refused}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
