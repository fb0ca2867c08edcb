"""Take from a folder of InferenceX results what the embedded catalog is built from.

    python -m hack.priors.extract FOLDER      # FOLDER/official/run_*/agg_bmk.json

Writes one file a run under `sources/inferencex/`: its single-node rows, one row a line, without the fields that no
importer reads (standard deviations, interactivity). Values are kept digit for digit. Disaggregated rows are left out
because no rule lets them in.
"""

from __future__ import annotations

import sys
from pathlib import Path

import orjson

SOURCES = Path(__file__).parent / "sources"
DROPPED_PREFIXES = ("std_",)
DROPPED_SUFFIXES = ("_intvty",)


def main(arguments: list[str]) -> int:
    """Write the extracts of one folder; returns the exit status."""
    if len(arguments) != 1:
        print("usage: python -m hack.priors.extract FOLDER", file=sys.stderr)
        return 2
    target = SOURCES / "inferencex"
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(Path(arguments[0]).glob("official/run_*/agg_bmk.json")):
        rows = [_kept(row) for row in orjson.loads(path.read_bytes()) if not row.get("disagg")]
        if rows:
            lines = ",\n".join(orjson.dumps(row).decode() for row in rows)
            (target / f"{path.parent.name}.json").write_text(f"[\n{lines}\n]\n")
            print(f"{path.parent.name}: {len(rows)} rows")
    return 0


def _kept(row: dict[str, object]) -> dict[str, object]:
    return {
        key: value
        for key, value in row.items()
        if not key.startswith(DROPPED_PREFIXES) and not key.endswith(DROPPED_SUFFIXES)
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
