"""The Go peer of the informer's measurements: built from `clientgo/` with the Go toolchain, run on the same events.

Nothing is kept: Go's own build cache makes every build after the first a matter of linking.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NO_GO = "there is no Go here (1.21 or newer is enough: it fetches the version it needs)"
_MODULE = Path(__file__).resolve().parent / "clientgo"


class PeerMissing(Exception):
    """client-go cannot be measured here; the message says why."""


@dataclass(frozen=True, slots=True)
class PeerFigures:
    """What one run of client-go cost. kib_per_object: live heap after two collections; what is resident is more."""

    cpu_seconds: float
    wall_seconds: float
    kib_per_object: float


@dataclass(frozen=True, slots=True)
class GoPeer:
    """The built program."""

    program: Path

    def encode(self, lines: Iterable[bytes], target: Path) -> None:
        """Write the events as protobuf frames."""
        with (
            target.open("wb") as out,
            subprocess.Popen([self.program, "encode"], stdin=subprocess.PIPE, stdout=out) as process,
        ):
            assert process.stdin is not None
            for line in lines:
                process.stdin.write(line + b"\n")
            process.stdin.close()
        if process.returncode:
            raise PeerMissing("the Go peer could not encode the events; its error is above")

    def watch(self, url: str, count: int, client: str, *options: str) -> PeerFigures:
        """Fill an informer with `count` events. client: "typed" (protobuf) or "dynamic" (JSON). One core."""
        command = [self.program, "watch", "-server", url, "-events", str(count), "-client", client, *options]
        if taskset := shutil.which("taskset"):
            command = [taskset, "-c", str(min(os.sched_getaffinity(0))), *command]
        done = subprocess.run(command, env={**os.environ, "GOMAXPROCS": "1"}, stdout=subprocess.PIPE, check=False)
        if done.returncode:
            raise PeerMissing(f"the Go peer failed as a {client} client; its error is above")
        found = json.loads(done.stdout)
        return PeerFigures(found["cpuSeconds"], found["wallSeconds"], found["kibPerObject"])


def build_peer(folder: Path) -> GoPeer:
    """Build into a folder. Raises PeerMissing without Go, or when Go cannot fetch or build the module."""
    if shutil.which("go") is None:
        raise PeerMissing(NO_GO)
    program = folder / "clientgo"
    command = ["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "."]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(command, cwd=_MODULE, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise PeerMissing(f"its program could not be built: {said}")
    return GoPeer(program)
