"""Take from a folder of InferenceX results what the embedded catalog is built from.

    python -m hack.priors.extract FOLDER      # FOLDER/official/run_*/agg_bmk.json

Writes one file a run under `sources/inferencex/`: its single-node rows, one row a line, without the fields that no
importer reads (standard deviations, interactivity). Values are kept digit for digit. Disaggregated rows are left out
because no rule lets them in.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import orjson

SOURCES = Path(__file__).parent / "sources"
DROPPED_PREFIXES = ("std_",)
DROPPED_SUFFIXES = ("_intvty",)
_RUNS = "official/run_*/agg_bmk.json"


def main(arguments: list[str]) -> int:
    """Write the extracts of one folder; returns the exit status."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m hack.priors.extract", description=summary)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help=f"the folder of results: FOLDER/{_RUNS}")
    folder: Path = parser.parse_args(arguments).folder
    if not folder.is_dir():
        parser.error(f"{folder} is no folder")
    paths = sorted(folder.glob(_RUNS))
    if not paths:
        parser.error(f"{folder} has no run: looked for {folder / _RUNS}")
    # All of them are read before one is written.
    try:
        runs = {path.parent.name: _rows(path) for path in paths}
    except (OSError, ValueError) as error:
        parser.error(str(error))
    target = SOURCES / "inferencex"
    target.mkdir(parents=True, exist_ok=True)
    for run, rows in runs.items():
        if rows:
            lines = ",\n".join(orjson.dumps(row).decode() for row in rows)
            (target / f"{run}.json").write_text(f"[\n{lines}\n]\n")
        print(f"{run}: {len(rows)} rows{'' if rows else ' of a single node, nothing written'}")
    return 0


def _rows(path: Path) -> list[dict[str, object]]:
    """The single-node rows of a run. Raises OSError, and ValueError for what is no list of rows."""
    try:
        rows = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path} is no list of rows")
    return [_kept(row) for row in rows if not row.get("disagg")]


def _kept(row: dict[str, object]) -> dict[str, object]:
    return {
        key: value
        for key, value in row.items()
        if not key.startswith(DROPPED_PREFIXES) and not key.endswith(DROPPED_SUFFIXES)
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
