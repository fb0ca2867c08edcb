"""The console script `mdscaler`: one small module per command, loaded when it is called.

Exit status: 0 done, 1 failed, 2 wrong usage or input. An error is one line on standard error, never a traceback, unless
it is a bug of ours.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Protocol, runtime_checkable

import typer
import typer.main

from controller.cli import controller as controller_command
from controller.cli import decide as decide_command
from controller.cli import demo as demo_command
from controller.cli import explain as explain_command
from controller.cli import release as release_command
from controller.cli import version as version_command
from controller.cli.crd import crd
from controller.cli.priors import priors_app
from controller.foundation import MdscalerError, printable

app = typer.Typer(
    name="mdscaler",
    help="Autoscaler for the replicas of large-language-model deployments on Kubernetes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("controller")(controller_command.controller)
app.command("demo")(demo_command.demo)
app.command("decide")(decide_command.decide_file)
app.command("explain")(explain_command.explain)
app.command("release")(release_command.release)
app.command("crd")(crd)
app.add_typer(priors_app, name="priors")
app.command("version")(version_command.version)


@runtime_checkable
class _UsageProblem(Protocol):
    """click's ClickException. Newer typer carries a copy of click under a private name, so the shape decides."""

    exit_code: int

    def format_message(self) -> str: ...


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit status."""
    try:
        outcome = typer.main.get_command(app).main(args=arguments, prog_name="mdscaler", standalone_mode=False)
    except MdscalerError as error:
        return _say(str(error), error.exit_status)
    except typer.Exit as stop:
        return stop.exit_code
    except (typer.Abort, KeyboardInterrupt, asyncio.CancelledError):
        return _say("interrupted", 1)
    except BrokenPipeError:
        # The reader of our output went away (`mdscaler crd | head`): that is its right, and no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if not isinstance(error, _UsageProblem):
            raise
        message = " ".join(error.format_message().split())
        if not message:
            return error.exit_code  # no command was given, and the help has been printed
        return _say(f"{message} (mdscaler --help, or mdscaler COMMAND --help)", error.exit_code)
    return outcome if isinstance(outcome, int) else 0


def _say(message: str, status: int) -> int:
    print("\n".join(printable(line) for line in f"mdscaler: {message}".split("\n")), file=sys.stderr)
    return status
