"""Runs `mdscaler priors …` in this process."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer.main

from controller.cli.priors import priors_app


def run(*arguments: object) -> int:
    """The exit status."""
    command = typer.main.get_command(priors_app)
    outcome = command.main(args=[str(argument) for argument in arguments], prog_name="priors", standalone_mode=False)
    return outcome if isinstance(outcome, int) else 0


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    """The exit status and the object that was printed."""
    status = run(*arguments, "--output", "json")
    return status, json.loads(capsys.readouterr().out)
