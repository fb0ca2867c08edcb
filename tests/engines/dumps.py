"""Recorded expositions; where each comes from is in tests/data/metrics/PROVENANCE.md."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "data" / "metrics"
FILES = sorted(path for path in FOLDER.iterdir() if ".txt" in path.suffixes)


def read(path: Path) -> bytes:
    """The body in a file."""
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw


def dump(name: str) -> bytes:
    """The body whose file name starts with `name` (`vllm-02`)."""
    (path,) = (path for path in FILES if path.name.startswith(name))
    return read(path)


def restart_series() -> Iterator[dict[str, Any]]:
    """The scrapes of vllm-10 in their order, failed ones without `text`."""
    (path,) = FOLDER.glob("vllm-10-*.jsonl.gz")
    for line in gzip.decompress(path.read_bytes()).splitlines():
        record = json.loads(line)
        if "t" in record:
            yield record
