"""Options and small habits that several commands share."""

from __future__ import annotations

from enum import StrEnum
from importlib import metadata
from typing import Annotated

import typer


class Output(StrEnum):
    """How a command prints its result."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How the result is printed.")]


def package_version() -> str:
    """The installed version of this project; `unknown` when it runs from a tree that was never installed."""
    try:
        return metadata.version("model-deployment-scaler")
    except metadata.PackageNotFoundError:
        return "unknown"
