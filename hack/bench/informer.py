"""What the informer, its queue and the election reach, against client-go and kubernetes_asyncio, as ratios in one run.

    python -m hack.bench.informer --output json

* ratioToOrjson: our pipeline in memory (line → projection → store → two indices → queue) ÷ `orjson.loads` of the same
  lines, in events per CPU second. Goal: 2.5.
* ratioToClientGoProtobuf, ratioToClientGoDynamic: our informer over HTTP on loopback ÷ client-go's SharedIndexInformer
  over the same server, typed in protobuf and dynamic in JSON (the one that custom resources get). All have two indexers
  and one handler that queues keys; 20,000 ADDED events of a 12.8 KB Pod; one core each. Goals: 2.5 and 20.
* ratioToKubernetesAsyncio: the same ÷ its `Watch` with typed objects, which caches and indexes nothing. Goal: 20.
* kibPerPod: growth of what is resident for each Pod that our informer caches. Goal: 1.2.
* clientGoKibPerPod: live heap for each Pod of the typed informer after a collection (with the keys in its queue, under
  1 % of it; what is resident is more). Goal: 12 times ours.
* residentMib150k, syncSeconds150k, lagP99Milliseconds, lagMaxMilliseconds: 150,000 Pods, with a full relist after the
  sync; each the worse of a streamed list and of an ordinary one. Wall time. Goals: 300 MiB, 20 s, 50 ms, 150 ms.
* wakeP99Milliseconds: from the moment when the server writes an event until its reconcile starts, at 1,000 events/s
  over 10,000 keys. Wall time. Goal: 50 ms.
* failoverCleanSeconds, failoverCrashSeconds: the longest of twenty (`hack.bench.failover`). Virtual time. Goals: 3 s,
  and lease + 3 s.

Rates are events for each second of CPU time of the measured process, user and system, so that neighbours on the machine
count less; ratios are made within a round, and the median of the rounds counts. Latencies are wall time and include
whatever else the machine does: `load` says how much. `details` has the absolute figures, the parts, and what is only
ours of a lag (`ownLag…`: the part in which this process had the processor).

Without Go the figures of client-go are null and a note says so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from hack.bench import measured
from hack.bench.client_go import GoPeer, PeerMissing, build_peer
from hack.bench.failover import failovers
from hack.bench.pod_server import pod_server
from hack.bench.pods import watch_lines

_FAILOVER_TRIALS = 20
# Of each peer the best of so many processes in a round. In a virtual machine the first one after a large one has ended
# pays the host for every page that it touches: a third of what all its events cost.
_ATTEMPTS = 3
_PIPELINE_SHARE = 4  # a quarter of the events is enough for what happens in memory


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    events: int
    dynamic_events: int
    peer_events: int
    pods: int
    keys: int
    rounds: int


class Progress:
    """One line on stderr for each step."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.notes: list[str] = []

    def step(self, what: str) -> None:
        print(f"{time.monotonic() - self._started:5.0f} s  {what}", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Something that the reader of the result must know."""
        self.notes.append(text)
        self.step(f"note: {text}")


def run(sizes: Sizes, progress: Progress) -> dict[str, Any]:
    """All measurements."""
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-informer-") as folder:
        peer = find_peer(Path(folder), progress)
        figures, details = _rates(sizes, peer, Path(folder), progress)
    for part in (_large(sizes, progress), _wake(sizes, progress), _failover(progress)):
        figures |= part[0]
        details |= part[1]
    details |= {"load": [round(load_before, 1), round(os.getloadavg()[0], 1)], "cores": os.cpu_count()}
    return {**figures, "details": details, "notes": progress.notes}


def find_peer(folder: Path, progress: Progress) -> GoPeer | None:
    """client-go's side, built into the folder; None, and a note, where that is not possible."""
    progress.step("building the Go peer")
    try:
        return build_peer(folder)
    except PeerMissing as missing:
        progress.note(f"client-go was not measured: {missing}")
        return None


def _rates(
    sizes: Sizes, peer: GoPeer | None, folder: Path, progress: Progress
) -> tuple[dict[str, float | None], dict[str, Any]]:
    """Everything that is a rate or a size of one cached object."""
    pipeline, ours, typed, dynamic, asyncio_peer = [], [], [], [], []
    kib, typed_kib, dynamic_kib, stripped_kib = [], [], [], []
    protobuf = None
    if peer is not None:
        protobuf = folder / "events.pb"
        peer.encode(watch_lines(sizes.events), protobuf)
    with (
        pod_server(sizes.events, as_changes=True, protobuf=protobuf) as url,
        pod_server(sizes.dynamic_events, as_changes=True) as dynamic_url,
        pod_server(sizes.peer_events, as_changes=True) as peer_url,
    ):
        for number in range(1, sizes.rounds + 1):
            progress.step(f"rates, round {number} of {sizes.rounds}")
            pipeline.append(measured.measure(measured.pipeline, sizes.events // _PIPELINE_SHARE))
            ours.append(max(measured.measure(measured.http, sizes.events, url)["perSecond"] for _ in range(_ATTEMPTS)))
            kib.append(measured.measure(measured.memory, sizes.events, url)["kibPerPod"])
            asyncio_peer.append(measured.measure(measured.kubernetes_asyncio, sizes.peer_events, peer_url))
            if peer is not None:
                attempts = [peer.watch(url, sizes.events, "typed") for _ in range(_ATTEMPTS)]
                in_go = min(attempts, key=lambda attempt: attempt.cpu_seconds)
                typed.append(sizes.events / in_go.cpu_seconds)
                typed_kib.append(in_go.kib_per_object)
                attempts = [peer.watch(dynamic_url, sizes.dynamic_events, "dynamic") for _ in range(_ATTEMPTS)]
                in_go = min(attempts, key=lambda attempt: attempt.cpu_seconds)
                dynamic.append(sizes.dynamic_events / in_go.cpu_seconds)
                dynamic_kib.append(in_go.kib_per_object)
        if peer is not None:
            stripped_kib.append(peer.watch(url, sizes.events, "typed", "-strip").kib_per_object)
    figures = {
        "ratioToOrjson": _round(median(each["ours"] / each["orjson"] for each in pipeline), 2),
        "ratioToClientGoProtobuf": ratio(ours, typed, 2),
        "ratioToClientGoDynamic": ratio(ours, dynamic, 1),
        "ratioToKubernetesAsyncio": ratio(ours, [each["typed"] for each in asyncio_peer], 1),
        "kibPerPod": _median(kib, 2),
        "clientGoKibPerPod": _median(typed_kib, 2),
    }
    details = {
        "events": sizes.events,
        "orjsonPerSecond": _median([each["orjson"] for each in pipeline], 0),
        "pipelinePerSecond": _median([each["ours"] for each in pipeline], 0),
        "httpPerSecond": _median(ours, 0),
        "clientGoProtobufPerSecond": _median(typed, 0),
        "clientGoDynamicPerSecond": _median(dynamic, 0),
        "kubernetesAsyncioPerSecond": _median([each["typed"] for each in asyncio_peer], 0),
        "kubernetesAsyncioRawPerSecond": _median([each["raw"] for each in asyncio_peer], 0),
        "clientGoDynamicKibPerPod": _median(dynamic_kib, 2),
        # Without managedFields and annotations, as a transform of a careful controller leaves it.
        "clientGoStrippedKibPerPod": _median(stripped_kib, 2),
    }
    return figures, details


def _large(sizes: Sizes, progress: Progress) -> tuple[dict[str, float], dict[str, Any]]:
    """150,000 Pods: the worse of both kinds of list, each the median of the rounds."""
    found: dict[str, dict[str, float]] = {}
    progress.step(f"making {sizes.pods} Pods")
    with pod_server(sizes.pods) as url:
        for way in (measured.sync_streamed, measured.sync_listed):
            progress.step(f"{way.__name__}: sync and relist, {sizes.rounds} times")
            runs = [measured.measure(way, sizes.pods, url) for _ in range(sizes.rounds)]
            found[way.__name__] = {name: median(each[name] for each in runs) for name in runs[0]}

    def worse(name: str, factor: float = 1.0) -> float:
        return round(max(each[name] for each in found.values()) * factor, 1)

    figures = {
        "residentMib150k": worse("residentMib"),
        "syncSeconds150k": worse("syncSeconds"),
        "lagP99Milliseconds": worse("lagP99", 1000),
        "lagMaxMilliseconds": worse("lagMax", 1000),
    }
    details = {
        "pods": sizes.pods,
        "syncCpuSeconds150k": worse("syncCpuSeconds"),
        "relistSeconds150k": worse("relistSeconds"),
        "peakMib150k": worse("peakMib"),
        "ownLagP99Milliseconds": worse("ownLagP99", 1000),
        "ownLagMaxMilliseconds": worse("ownLagMax", 1000),
        **{
            way: {name: round(value, 3) for name, value in figures_of_way.items()}
            for way, figures_of_way in found.items()
        },
    }
    return figures, details


def _wake(sizes: Sizes, progress: Progress) -> tuple[dict[str, float], dict[str, Any]]:
    progress.step(f"waking, {sizes.rounds} times {measured.WAKE_SECONDS:g} s")
    with pod_server(sizes.keys) as url:
        runs = [measured.measure(measured.wake, sizes.keys, url) for _ in range(sizes.rounds)]

    def of(name: str, factor: float, digits: int) -> float:
        return round(median(each[name] for each in runs) * factor, digits)

    details = {
        "keys": sizes.keys,
        "wakeP50Milliseconds": of("wakeP50", 1000, 1),
        "wakeMaxMilliseconds": of("wakeMax", 1000, 1),
        "wakeCpuPercent": of("wakeCpuShare", 100, 0),
    }
    return {"wakeP99Milliseconds": of("wakeP99", 1000, 1)}, details


def _failover(progress: Progress) -> tuple[dict[str, float], dict[str, Any]]:
    progress.step(f"failover, {_FAILOVER_TRIALS} times clean and {_FAILOVER_TRIALS} times by a crash")
    clean = failovers(_FAILOVER_TRIALS, clean=True)
    crash = failovers(_FAILOVER_TRIALS, clean=False)
    details = {
        "failoverCleanMedianSeconds": round(median(clean), 2),
        "failoverCrashMedianSeconds": round(median(crash), 2),
    }
    return {"failoverCleanSeconds": round(max(clean), 2), "failoverCrashSeconds": round(max(crash), 2)}, details


def ratio(ours: Sequence[float], theirs: Sequence[float], digits: int) -> float | None:
    """Median over the rounds; None where the peer was not measured."""
    return _median([mine / other for mine, other in zip(ours, theirs, strict=False)], digits)


def _median(values: Sequence[float], digits: int) -> float | None:
    return _round(median(values), digits) if values else None


def _round(value: float, digits: int) -> float:
    return round(value, digits or None)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Measure the informer against its goals and its peers.")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--dynamic-events", type=int, default=20_000, help="events for client-go's dynamic informer")
    parser.add_argument("--peer-events", type=int, default=2_000, help="events for kubernetes_asyncio")
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args()
    sizes = Sizes(
        options.events, options.dynamic_events, options.peer_events, options.pods, options.keys, options.rounds
    )
    results = run(sizes, Progress())
    if options.output == "json":
        print(json.dumps(results))
        return
    details = results.pop("details")
    notes = results.pop("notes")
    for name, value in {**results, **details}.items():
        print(f"{name:32} {value}")
    for note in notes:
        print(note)


if __name__ == "__main__":
    main()
