"""What in a result file must not be repeated in a refusal: keys for the endpoint, variables of the server.

Tools write down how they were called and what they measured: AIPerf its whole configuration, llm-d the variables of the
engine's container. A refusal quotes what it found, so every such value is blanked in it, wherever else it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

# A key that holds one of these words, whatever is written around it.
_SECRET_KEY: Final = re.compile(
    r"(?i)secret|passw|credential|authorization|api[-_ ]?key|(?:^|[-_])(?:token|bearer)$|^(?:hf|auth|access)token$"
)
_VARIABLES_KEY: Final = re.compile(r"(?i)env|envs|envvars?|envars?|env[-_]vars?|environment(?:[-_]variables)?")
# In a command line that somebody wrote down: --api-key value, --api-key=value, Bearer value, NAME_TOKEN=value.
_IN_COMMAND: Final = re.compile(
    r"(?:--api[-_]key[ =]|Bearer |[A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|API_KEY)=)[\"']?([^\s\"']+)"
)
# Without any of these in the text there is nothing to look for; most files have none.
_HINTS: Final = (
    *(b"secret", b"passw", b"credential", b"authorization", b"api_key", b"api-key", b"apikey", b'_token"', b"-token"),
    *(b'"token"', b"token:", b"token=", b"bearer", b'"env', b"env:", b"env_vars:", b"envars:", b"environment"),
)
_MOST_NODES: Final = 500_000


def may_hold_secrets(data: bytes) -> bool:
    """Whether it is worth looking through what was read from `data`."""
    lower = data.lower()
    return any(hint in lower for hint in _HINTS)


def secrets_of(documents: Iterable[Any]) -> set[str]:
    """Every text that stands under the name of a secret or among variables."""
    found: set[str] = set()
    stack: list[tuple[Any, bool]] = [(document, False) for document in documents]
    nodes = 0
    while stack and nodes < _MOST_NODES:
        nodes += 1
        value, hidden = stack.pop()
        if isinstance(value, str):
            found.update(_hidden(value) if hidden else _IN_COMMAND.findall(value))
        elif isinstance(value, Mapping):
            # {name: HF_TOKEN, value: …}, as a Pod lists its variables: the name is none.
            pair = hidden and set(value) <= {"name", "value", "valueFrom"}
            for key, entry in value.items():
                name = str(key)
                inside = name != "name" if pair else hidden or _is_hidden(name)
                stack.append((entry, inside))
        elif isinstance(value, list):
            stack.extend((entry, hidden) for entry in value)
        elif hidden and isinstance(value, int | float) and not isinstance(value, bool):
            found.add(str(value))
    return found


def _is_hidden(key: str) -> bool:
    return bool(_SECRET_KEY.search(key) or _VARIABLES_KEY.fullmatch(key))


def _hidden(text: str) -> Iterator[str]:
    yield text
    # NAME=value, as a list of variables may be written.
    _, equals, value = text.partition("=")
    if equals:
        yield value
