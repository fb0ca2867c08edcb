"""`python -m hack.controlplane build` builds the programs; `… up` runs a control plane until it is interrupted."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from controller.foundation import MdscalerError
from hack.controlplane.binaries import build_binaries
from hack.controlplane.cluster import ControlPlane


def main() -> int:
    """Run one of the commands; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.controlplane", description=__doc__)
    parser.add_argument("command", choices=("build", "up"))
    command = parser.parse_args().command
    try:
        binaries = build_binaries(lambda line: print(line, file=sys.stderr, flush=True))
        if command == "build":
            print(binaries.apiserver.parent)
            return 0
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with ControlPlane(binaries, controller_manager=binaries.controller_manager is not None) as cluster:
            print(f"export KUBECONFIG={cluster.kubeconfig()}", flush=True)
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        return 0
    except MdscalerError as failure:
        print(f"hack.controlplane: {failure}", file=sys.stderr)
        return failure.exit_status


if __name__ == "__main__":
    raise SystemExit(main())
