"""Reading flags out of an argument list as the engines' own parsers do (Python's argparse with their additions).

Rules (capacity-data §5.6, model-deployment §7): `--flag value` and `--flag=value`; underscores for dashes where the
engine rewrites them, and there also `--flag.member value`; a unique prefix of a long flag; the last occurrence wins;
reading stops at a bare `--`; a value may be a negative number but no other flag; `-n2` is glued only for one-letter
spellings. `$(NAME)` is expanded from the role's own literal variables as Kubernetes does before the engine sees it.

What cannot be read is an ArgumentProblem, never a guess: a flag without its value, a token with a flag and a space in
it, a reference to a variable that the role does not define.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_LONGEST_SHOWN: Final = 64
_NEGATIVE: Final = re.compile(r"-\d+|-\d*\.\d+")


class FlagKind(StrEnum):
    """What follows a flag."""

    VALUE = "Value"
    SWITCH = "Switch"


class Flag(NamedTuple):
    """One flag in all its spellings; `name` is how it is called in messages and results."""

    name: str
    spellings: tuple[str, ...]
    kind: FlagKind = FlagKind.VALUE
    # Spellings that switch it off again (`--no-enable-expert-parallel`).
    off: tuple[str, ...] = ()


class Value(NamedTuple):
    """A flag's value as the engine gets it. `hidden` values came out of an environment variable."""

    text: str
    hidden: bool

    @property
    def shown(self) -> str:
        """The value in a message: never cut short, because a part of a secret is not found when secrets are blanked."""
        if self.hidden:
            return "a value from an environment variable"
        return repr(self.text) if len(self.text) <= _LONGEST_SHOWN else f"a text of {len(self.text)} characters"


class ArgumentProblem(NamedTuple):
    """Why the list cannot be read; `flag` is the flag that it concerns, `found` what stands there."""

    flag: str
    wanted: str
    found: str


class Arguments(NamedTuple):
    """Last values by flag name; switches hold an empty text when on and are absent when off."""

    values: Mapping[str, Value]

    def text(self, name: str) -> str | None:
        """The value of a flag, None where it is absent."""
        value = self.values.get(name)
        return None if value is None else value.text

    def has(self, name: str) -> bool:
        """The flag was given (and not switched off again)."""
        return name in self.values


def expand(tokens: Sequence[str], env: Iterable[tuple[str, str]]) -> list[tuple[Value, bool]]:
    """Each token with `$(NAME)` replaced, and whether a reference in it stayed open. `$$` stands for a dollar sign."""
    variables = dict(env)
    expanded = []
    for token in tokens:
        hidden = False
        unresolved = False

        def replace(match: re.Match[str]) -> str:
            nonlocal hidden, unresolved
            name = match.group(1)
            if name is None:
                return "$"
            if name in variables:
                hidden = True
                return variables[name]
            unresolved = True
            return match.group(0)

        text = _REFERENCE.sub(replace, token)
        expanded.append((Value(text, hidden), unresolved))
    return expanded


def read_arguments(
    tokens: Sequence[str], env: Iterable[tuple[str, str]], flags: Sequence[Flag], *, underscores: bool
) -> Arguments | ArgumentProblem:
    """The values of `flags` in an argument list; unknown and ambiguous flags pass. See the module for the rules."""
    table = {spelling: (flag, True) for flag in flags for spelling in flag.spellings}
    table |= {spelling: (flag, False) for flag in flags for spelling in flag.off}
    values: dict[str, Value] = {}
    expanded = expand(tokens, env)
    index = 0
    after_unknown_flag = False
    while index < len(expanded):
        value, unresolved = expanded[index]
        token = value.text
        index += 1
        if token == "--":  # noqa: S105 - the end of options, no secret
            break
        if not token.startswith("-") or token == "-" or _NEGATIVE.fullmatch(token):  # noqa: S105
            if unresolved and not after_unknown_flag:
                return ArgumentProblem("arguments", "literal arguments", "a reference to an undefined variable")
            after_unknown_flag = False
            continue
        if any(character.isspace() for character in token.partition("=")[0]):
            return ArgumentProblem("arguments", "flag and value as two list items", "a flag and a space in one item")
        matched = _match(token, table, underscores)
        if matched is None:
            after_unknown_flag = "=" not in token
            continue
        after_unknown_flag = False
        if isinstance(matched, ArgumentProblem):
            return matched
        flag, on, given, member = matched
        if flag.kind is FlagKind.SWITCH:
            # A switch with a value is not what the engine accepts; it passes unrecorded.
            if given is None and on:
                values[flag.name] = Value("", False)
            elif given is None:
                values.pop(flag.name, None)
            continue
        if given is not None:
            found = Value(given, value.hidden)
        else:
            following = expanded[index] if index < len(expanded) else None
            if following is None or _is_flag(following[0].text):
                return ArgumentProblem(flag.name, "a value", "nothing")
            found, open_value = following
            unresolved = unresolved or open_value
            index += 1
        if unresolved:
            return ArgumentProblem(flag.name, "a literal value", "a reference to an undefined variable")
        values[flag.name] = _with_member(values.get(flag.name), member, found) if member else found
    return Arguments(values)


def _with_member(known: Value | None, member: str, found: Value) -> Value:
    """A JSON flag with one more member: the engine adds it to those that were given before."""
    text = f"{member}={found.text}"
    return Value(text, found.hidden) if known is None else Value(f"{known.text};{text}", known.hidden or found.hidden)


def _is_flag(token: str) -> bool:
    return token.startswith("-") and token != "-" and not _NEGATIVE.fullmatch(token)  # noqa: S105


class _Match(NamedTuple):
    """What a token means: the flag, whether it is switched on, its value where it stands in the same token, and the
    member where the value is only one of a JSON flag's."""

    flag: Flag
    on: bool
    given: str | None
    member: str = ""


def _match(token: str, table: Mapping[str, tuple[Flag, bool]], underscores: bool) -> _Match | ArgumentProblem | None:
    name, equals, given = token.partition("=")
    value = given if equals else None
    if token.startswith("--"):
        if underscores:
            # vLLM takes members of a JSON flag one by one: --speculative-config.method eagle.
            flag_name, _, member = name[2:].partition(".")
            name = "--" + flag_name.replace("_", "-")
            if member and name in table:
                return _Match(*table[name], value, member)
        if name in table:
            return _Match(*table[name], value)
        return _by_prefix(name, value, table)
    if name in table:
        return _Match(*table[name], value)
    short, _, member = name.partition(".")
    if underscores and member and short in table:
        return _Match(*table[short], value, member)
    one_letter = token[:2]
    if one_letter in table:  # -n2: only one-letter spellings take a glued value
        flag, on = table[one_letter]
        return _Match(flag, on, token[2:])
    matches = {flag.name for spelling, (flag, _) in table.items() if spelling.startswith(name) and spelling[1] != "-"}
    if len(matches) == 1:
        flag = next(flag for spelling, (flag, _) in table.items() if spelling.startswith(name) and spelling[1] != "-")
        if equals and flag.kind is FlagKind.VALUE:
            return ArgumentProblem(flag.name, "the whole flag before =", repr(name))
        return _Match(flag, True, value)
    glued = [flag for spelling, (flag, _) in table.items() if spelling[1] != "-" and _is_glued(token, spelling)]
    if glued and glued[0].kind is FlagKind.VALUE:
        return ArgumentProblem(glued[0].name, "flag and value as two list items", "one glued to the other")
    return None


def _is_glued(token: str, spelling: str) -> bool:
    return token.startswith(spelling) and token[len(spelling) :].isdigit()


def _by_prefix(name: str, value: str | None, table: Mapping[str, tuple[Flag, bool]]) -> _Match | None:
    found = {spelling: match for spelling, match in table.items() if spelling.startswith(name) and len(name) > 2}
    names = {(flag.name, on) for flag, on in found.values()}
    if len(names) != 1:
        return None  # ambiguous or unknown: the engine decides, and nothing is recorded
    flag, on = next(iter(found.values()))
    return _Match(flag, on, value)
