"""`mdscaler version`."""

from __future__ import annotations

import platform

import orjson
import typer

from controller.cli.options import Output, OutputOption, package_version


def version(output: OutputOption = Output.TEXT) -> None:
    """Print the version of mdscaler and of the Python it runs on."""
    if output is Output.JSON:
        typer.echo(orjson.dumps({"version": package_version(), "python": platform.python_version()}).decode())
    else:
        typer.echo(f"mdscaler {package_version()} (Python {platform.python_version()})")
