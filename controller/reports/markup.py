"""Markup that is safe by construction.

`element` is the only way to make a tag. Its children and attribute values are text and are escaped, unless they are
`Markup`, which only `element`, `join` and `trusted` return. So no text that came from outside can open a tag, close an
attribute or start a script; there is nothing that a caller could forget. The output is well-formed XML as well as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

# Not allowed in XML 1.0, whether escaped or not: most control characters, surrogates, the two noncharacters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_VOID = frozenset({"meta", "br", "hr", "line", "rect", "path", "circle", "polygon", "use"})
# Elements that could run or fetch something; a report needs none of them.
_REFUSED = frozenset({"script", "iframe", "object", "embed", "link", "img", "a", "form", "base", "foreignObject"})


@dataclass(frozen=True, slots=True)
class Markup:
    """A finished piece of HTML or SVG."""

    text: str


EMPTY = Markup("")


def element(tag: str, *children: Markup | str, **attributes: str | float | None) -> Markup:
    """One element. Attribute names are written with `_` for `-` (`aria_label`) and a trailing `_` where Python reserves
    the word (`class_`); an attribute that is None is left out. Numbers are written with at most two decimals.

    Raises ValueError for an element that could run or fetch something.
    """
    if tag in _REFUSED:
        raise ValueError(f"<{tag}> has no place in a report")
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    inner = join(children).text
    if not inner and tag in _VOID:
        return Markup(f"<{tag}{written}/>")
    return Markup(f"<{tag}{written}>{inner}</{tag}>")


def join(children: Iterable[Markup | str], separator: str = "") -> Markup:
    """Pieces one after the other; text among them is escaped."""
    return Markup(separator.join(c.text if isinstance(c, Markup) else escape_text(c) for c in children))


def trusted(text: str) -> Markup:
    """A constant of this package, such as its style sheet. Never call it with anything that came from outside."""
    return Markup(text)


def escape_text(text: str) -> str:
    """Text for element content or a quoted attribute; characters that no document may hold become U+FFFD."""
    return escape(_FORBIDDEN.sub("\ufffd", text), quote=True)


def coordinate(number: float) -> str:
    """A coordinate with one decimal, a twentieth of a pixel off at most; no trailing zeros."""
    text = f"{number:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _attribute(value: str | float) -> str:
    if isinstance(value, str):
        return escape_text(value)
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
