"""`python -m hack.engine install` installs vLLM for CPUs and says where; `… model FOLDER` writes the tiny model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from controller.foundation import MdscalerError
from hack.engine.installation import install_engine
from hack.engine.model import write_model


def main() -> int:
    """Run one of the commands; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install")
    commands.add_parser("model").add_argument("folder", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.command == "model":
            write_model(arguments.folder)
        else:
            engine = install_engine(lambda line: print(line, file=sys.stderr, flush=True))
            print(f"{engine} in {engine.folder}")
    except MdscalerError as failure:
        print(f"hack.engine: {failure}", file=sys.stderr)
        return failure.exit_status
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
