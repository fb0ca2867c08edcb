"""What is rendered for vLLM, read by vLLM's own parser: every kind of role, every member of a replica."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any, Final

import pytest

from controller.api import EngineName
from controller.deployment import flags
from controller.deployment.command_line import command_line
from controller.deployment.weights import Weights
from hack.engine import Engine
from tests.deployment.builders import deployment

# Reads a list of command lines; gives for each what `vllm serve` makes of it, and all spellings of all its options.
_PARSE: Final = """
import dataclasses, json, sys
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser

class Parser(FlexibleArgumentParser):
    def error(self, message):
        raise ValueError(message)

def plain(value):
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value if isinstance(value, (str, int, float, bool, list, dict, type(None))) else str(value)

command, whole = ServeSubcommand(), Parser()
serve = command.subparser_init(whole.add_subparsers(dest="subparser"))

def parse(words):
    sys.argv = ["vllm", *words]
    try:
        found = whole.parse_args(words)
        command.validate(found)
    except (ValueError, TypeError) as failure:
        return {"error": str(failure)}
    return {name: plain(value) for name, value in vars(found).items()}

spellings = {name: action.dest for name, action in serve._option_string_actions.items()}
answer = {"parsed": [parse(words) for words in json.load(sys.stdin)], "options": spellings}
print("\\n" + json.dumps(answer, default=str))
"""


_WEIGHTS = Weights("Qwen/Qwen3-8B")


@dataclass(frozen=True)
class Case:
    """A role, the place of a member, and what vLLM must understand."""

    sentence: str
    role: dict[str, Any]
    understood: dict[str, Any]
    member: int = 0
    weights: Weights = _WEIGHTS


_ROLE = {"name": "server", "kind": "Server"}
_SERVED = {"model_tag": "Qwen/Qwen3-8B", "served_model_name": ["Qwen/Qwen3-8B"], "port": 8000, "headless": False}
CASES = (
    Case("a server", _ROLE, _SERVED),
    Case("another port", {**_ROLE, "ports": [{"port": 9000}]}, {**_SERVED, "port": 9000}),
    Case("a pinned revision", _ROLE, {"revision": "abc"}, weights=Weights("Qwen/Qwen3-8B", "abc")),
    Case(
        "a prefill replica",
        {"name": "prefill", "kind": "Prefill"},
        {"kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}},
    ),
    Case(
        "a decode replica",
        {"name": "decode", "kind": "Decode"},
        {"kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}},
    ),
    Case(
        "an encode replica",
        {"name": "encode", "kind": "Encode"},
        {"mm_encoder_only": True, "enable_prefix_caching": False},
    ),
    Case(
        "the leader of two members",
        {**_ROLE, "size": 2, "extraArgs": ["-tp", "16"]},
        {"nnodes": 2, "node_rank": 0, "headless": False, "tensor_parallel_size": 16},
    ),
    Case(
        "the second of two members",
        {**_ROLE, "size": 2, "extraArgs": ["--tensor_parallel_size=16"]},
        {"nnodes": 2, "node_rank": 1, "headless": True, "tensor_parallel_size": 16},
        member=1,
    ),
    Case(
        "a person's own port wins",
        {**_ROLE, "extraArgs": ["--port", "9999"]},
        {"port": 9999},
    ),
    Case(
        "members that each answer for themselves",
        {**_ROLE, "size": 2, "extraArgs": ["-dp", "2", "-dpn", "1", "-dpa", "10.0.0.1"]},
        {"data_parallel_size": 2, "data_parallel_rank": 1, "data_parallel_address": "10.0.0.1", "nnodes": 1},
    ),
)


@pytest.fixture(scope="module")
def answer(engine: Engine) -> dict[str, Any]:
    lines = [_line(case) for case in CASES]
    done = subprocess.run(
        [str(engine.programs / "python"), "-c", _PARSE],
        input=json.dumps(lines),
        env={"PATH": f"{engine.programs}:/usr/bin:/bin", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.sentence for case in CASES])
def test_vllm_understands_the_command_line_of(answer: dict[str, Any], number: int):
    case, parsed = CASES[number], answer["parsed"][number]
    assert "error" not in parsed, (parsed, _line(case))
    for name, expected in case.understood.items():
        found = parsed[name]
        if isinstance(expected, dict):
            found = {key: found[key] for key in expected}
        assert found == expected, name


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(flags._WIRING, id="wire members"),
        pytest.param(flags._EVERY_MEMBER_ANSWERS, id="make every member answer"),
        pytest.param({EngineName.VLLM: flags._SEVERAL_PORTS}, id="open several ports"),
    ],
)
def test_every_flag_that_is_looked_for_exists_among_those_that(
    answer: dict[str, Any], table: dict[Any, tuple[str, ...]]
):
    options = answer["options"]
    assert [name for name in table[EngineName.VLLM] if name not in options] == []


def test_every_spelling_of_a_flag_that_is_looked_for_is_known(answer: dict[str, Any]):
    """A short spelling that is not in the table would be overlooked."""
    known = {*flags._WIRING[EngineName.VLLM], *flags._SEVERAL_PORTS}
    meant = {answer["options"][name] for name in known}
    spelt = {name for name, meaning in answer["options"].items() if meaning in meant and not name.startswith("--no-")}
    assert spelt - known == set()


def _line(case: Case) -> list[str]:
    made = deployment([case.role])
    line = command_line(made, made.roles[0], case.weights, 0, case.member)
    assert line is not None
    assert line.command == ("vllm",)
    return list(line.arguments)
