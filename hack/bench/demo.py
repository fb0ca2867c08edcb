"""What the demo costs: wall time, the processor time and the memory of all its processes together.

    python -m hack.bench.demo [--output json] [-- ARGUMENTS OF mdscaler demo]

Memory is the sum of the proportional set sizes (PSS) of the demo and everything it starts, from /proc, sampled twice a
second; shared pages are counted once. Linux only. Exit status 1 when the demo failed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

_SAMPLE_SECONDS = 0.5


def pss_kib(pid: int) -> int:
    """Proportional set size of one process; 0 when it is gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except (OSError, ProcessLookupError):
        return 0
    return 0


def family(root: int) -> list[int]:
    """A process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += parents.get(pid, [])
    return found


def main() -> int:
    """Run the demo and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument("arguments", nargs="*", help="arguments of mdscaler demo")
    options = parser.parse_args()
    started = time.monotonic()
    command = [sys.executable, "-m", "controller.cli", "demo", "--output", "json", *options.arguments]
    peak = processes = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as demo:
        while demo.poll() is None:
            members = family(demo.pid)
            total = sum(pss_kib(pid) for pid in members)
            if total > peak:
                peak, processes = total, len(members)
            time.sleep(_SAMPLE_SECONDS)
        outcome = json.loads(demo.stdout.read() if demo.stdout else b"{}")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "wallSeconds": round(time.monotonic() - started, 1),
        "cpuSeconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peakPssMiB": round(peak / 1024, 1),
        "processes": processes,
        "requests": outcome.get("requests"),
        "lost": outcome.get("lost"),
        "effectiveWriters": outcome.get("effectiveWriters"),
        "retirements": outcome.get("retirements"),
        "maxReadyReplicas": outcome.get("maxReadyReplicas"),
    }
    if options.output == "json":
        print(json.dumps(figures))
    else:
        print("\n".join(f"{name}: {value}" for name, value in figures.items()))
    return demo.returncode


if __name__ == "__main__":
    sys.exit(main())
