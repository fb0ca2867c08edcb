"""Options and small habits that several commands share."""

from __future__ import annotations

from enum import StrEnum
from importlib import metadata
from typing import Annotated, Any, TypeVar

import typer

E = TypeVar("E", bound=StrEnum)


class Output(StrEnum):
    """How a command prints its result."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[
    Output, typer.Option("--output", "-o", case_sensitive=False, help="How the result is printed.")
]


def choice(kind: type[E], *, metavar: str | None = None) -> dict[str, Any]:
    """What `typer.Option` needs for a choice whose names have capitals: taken in any case, shown as they are written
    (typer itself lists them in lower case where a wrong one was given). `metavar` stands for names that are too long
    for 80 columns; the help has to tell them."""

    def parse(value: str) -> E:
        for member in kind:
            if member.casefold() == value.casefold():
                return member
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(repr(str(member)) for member in kind)}.")

    return {"parser": parse, "metavar": metavar or f"<{'|'.join(kind)}>"}


def counted(count: int, one: str, many: str) -> str:
    """A number with what it counts: `1 shrink`, `2 shrinks`, `1,204 shrinks`."""
    return f"{count:,} {one if count == 1 else many}"


def plain_help(command: Any) -> None:
    """Let the help of a command, and of those below it, read as a person writes: paragraphs that are broken where the
    terminal ends, nothing beside a switch, and `<path>` where typer shows Python's `<list[Path]>`.
    """
    command.help = _unwrapped(command.help)
    for parameter in command.params:
        _show_plain_type(parameter)
    made = command.get_help_option

    def help_option(context: Any) -> Any:
        option = made(context)
        if option is not None:
            _show_plain_type(option)
        return option

    command.get_help_option = help_option
    for below in getattr(command, "commands", {}).values():
        plain_help(below)


def _unwrapped(text: str | None) -> str | None:
    return text and "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _show_plain_type(parameter: Any) -> None:
    shown = getattr(parameter, "display_type", None)
    if shown is not None:  # older typer writes types as click does, which needs no help
        parameter.display_type = lambda context: plain_type(shown(context))


def plain_type(shown: str | None) -> str | None:
    """`<list[Path]>` as `<path>`, `<str>` as `<text>`, numbers as `<n>`, which leaves long names of options
    their place in 80 columns, `<bool>` as nothing; choices and the rest as they are."""
    if not shown or "|" in shown:
        return shown
    name = shown.removeprefix("<").removesuffix(">").removeprefix("list[").removesuffix("]").lower()
    numbers = dict.fromkeys(("int", "float", "int range", "float range"), "<n>")
    return {"bool": "", "str": "<text>", **numbers}.get(name, f"<{name}>")


def package_version() -> str:
    """The installed version of this project; `unknown` when it runs from a tree that was never installed."""
    try:
        return metadata.version("model-deployment-scaler")
    except metadata.PackageNotFoundError:
        return "unknown"
