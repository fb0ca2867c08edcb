"""Every wrong use is one clear line and an exit status: 2 for usage and input, 1 for what failed."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from controller.cli import app, run

CASES = [
    ("an unknown command", ["scale"], 2, "No such command"),
    ("an unknown option", ["demo", "--fast"], 2, "--fast"),
    ("a trace that is not there", ["demo", "--trace", "/nonexistent.csv"], 2, "/nonexistent.csv is not a file"),
    ("a trace that is no trace", ["demo", "--trace", __file__], 2, "trace"),
    ("a speed beyond all bounds", ["demo", "--speed", "100000"], 2, "speed"),
    ("real time and a speed at once", ["demo", "--serve", "--speed", "10"], 2, "leave out --speed"),
    (
        "and with choices in any case",
        ["demo", "--algorithm", "adaptive", "--roles", "PD", "--serve", "--speed", "10"],
        2,
        "leave out --speed",
    ),
    ("a kubeconfig that is not there", ["controller", "--kubeconfig", "/nonexistent"], 2, "/nonexistent"),
    ("a bind address that is none", ["controller", "--metrics-bind-address", "here"], 2, "--metrics-bind-address"),
    (
        "an algorithm that is none, with the names as the help writes them",
        ["demo", "--algorithm", "best"],
        2,
        "'--algorithm': 'best' is not one of 'TokenThroughput', 'Proportional', 'Predictive', 'Adaptive'",
    ),
    (
        "a workload that is none",
        ["priors", "resolve", "--workload", "best"],
        2,
        "'--workload': 'best' is not one of 'Profile', 'Observed'",
    ),
    ("cycles and minutes at once", ["demo", "--cycles", "1", "--minutes", "3"], 2, "leave out --minutes"),
    (
        "a kill after the end",
        ["demo", "--minutes", "2", "--kill-controller-every", "600"],
        2,
        "--kill-controller-every: the traffic lasts 120 s, so nothing would be killed",
    ),
    ("an output that is none", ["version", "--output", "yaml"], 2, "'yaml' is not one of 'text', 'json'"),
    ("a mode that is none", ["controller", "--deployments", "mine"], 2, "--deployments"),
    ("a log level that is none", ["controller", "--log-level", "loud"], 2, "debug, info, warning, error"),
    (
        "a lease that cannot work",
        ["controller", "--kubeconfig", "KUBECONFIG", "--renew-deadline", "20"],
        2,
        "renew deadline",
    ),
    ("a lease that lasts no number of seconds", ["controller", "--lease-duration", "nan"], 2, "--lease-duration"),
    ("a lease that lasts for ever", ["controller", "--lease-duration", "inf"], 2, "--lease-duration"),
    ("a deadline of no number of seconds", ["controller", "--renew-deadline", "nan"], 2, "--renew-deadline"),
    ("a clock that stands still", ["controller", "--clock-factor", "nan"], 2, "--clock-factor"),
    ("a namespace that can be none", ["controller", "--namespace", "a/b"], 2, "--namespace"),
    ("a lease in no namespace", ["controller", "--lease-namespace", "A b"], 2, "--lease-namespace"),
    ("a lease beyond the longest name", ["controller", "--lease-name", "x" * 254], 2, "--lease-name"),
    (
        "a host that can be none",
        ["controller", "--kubeconfig", "KUBECONFIG", "--metrics-bind-address", f"{'ä' * 80}:80"],
        1,
        "cannot listen on",
    ),
    ("a scaler that can be none", ["explain", "a b", "--kubeconfig", "KUBECONFIG"], 2, "not a name"),
    ("a record file that is not there", ["decide", "/nonexistent.jsonl"], 2, "/nonexistent.jsonl"),
    ("a file that holds no records", ["decide", __file__], 2, "not a decision record"),
    ("a kind that has no definition", ["crd", "--kind", "Nosuch"], 2, "Nosuch"),
]


@pytest.fixture
def kubeconfig(tmp_path):
    """Points at a port of this machine where nobody listens, nor can while the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield _kubeconfig(tmp_path / "config", held.getsockname()[1])


def _kubeconfig(path, port):
    path.write_text(
        f"""apiVersion: v1
kind: Config
current-context: c
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
"""
    )
    return path


@pytest.mark.parametrize(("arguments", "status", "text"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_wrong_use(arguments, status, text, capsys, kubeconfig):
    arguments = [str(kubeconfig) if argument == "KUBECONFIG" else argument for argument in arguments]
    assert run(arguments) == status
    captured = capsys.readouterr()
    assert text in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_a_server_that_cannot_be_reached(capsys, kubeconfig):
    ports = ["--metrics-bind-address", "0", "--health-bind-address", "0"]
    assert run(["controller", "--kubeconfig", str(kubeconfig), *ports]) == 1
    assert "cannot reach the Kubernetes API at http://127.0.0.1" in capsys.readouterr().err


def test_a_port_in_use(capsys, kubeconfig):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        arguments = ["--kubeconfig", str(kubeconfig), "--metrics-bind-address", f"127.0.0.1:{port}"]
        assert run(["controller", *arguments, "--health-bind-address", "0"]) == 1
    error = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}" in error
    assert "--metrics-bind-address gives another address" in error


@pytest.mark.parametrize("command", ["controller", "demo", "decide", "explain", "priors", "crd", "version"])
def test_every_command_explains_itself(command, capsys):
    assert run([command, "--help"]) == 0
    assert "Usage:" in capsys.readouterr().out


def test_the_controllers_help_documents_connection_election_and_endpoints(capsys):
    run(["controller", "--help"])
    text = capsys.readouterr().out
    for option in (
        "--kubeconfig",
        "--context",
        "--namespace",
        "--leader-elect",
        "--lease-duration",
        "--metrics-bind",
        "--health-bind",
    ):
        assert option in text


def test_the_version_is_a_command_and_an_option(capsys):
    assert run(["version"]) == 0
    told = capsys.readouterr().out
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == told
    assert told.startswith("mdscaler ")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["version", "--output", "JSON"], id="an output"),
        pytest.param(["crd", "--output", "Json"], id="a format"),
    ],
)
def test_a_choice_may_be_written_in_any_case(arguments, capsys):
    assert run(arguments) == 0
    assert capsys.readouterr().out


COMMANDS = [
    *([name] for name in ("controller", "demo", "decide", "explain", "release", "crd", "version")),
    *(["priors", name] for name in ("import", "merge", "resolve")),
    [],
]


@pytest.mark.parametrize("command", COMMANDS, ids=[" ".join(command) or "mdscaler" for command in COMMANDS])
def test_help_shows_no_names_of_python(command, capsys):
    assert run([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert not [name for name in ("<bool>", "<>", "list[", "<str>", "Path]") if name in shown]


def _every_command(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from _every_command(below, (*path, name))


EVERY_COMMAND = list(_every_command(typer.main.get_command(app)))


@pytest.mark.parametrize(("path", "command"), EVERY_COMMAND, ids=[" ".join(p) or "mdscaler" for p, _ in EVERY_COMMAND])
def test_help_is_complete_in_80_columns(path, command, monkeypatch, capsys):
    """Where a column is too narrow for a word the renderer cuts it and writes `…`."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    written = [command.help, *(getattr(each, "help", None) for each in command.params)]
    assert shown.count("…") == sum(text.count("…") for text in written if text)
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    below = [other.name for _, other in EVERY_COMMAND if other.name in getattr(command, "commands", {})]
    names = [name for each in options for name in (*each.opts, *each.secondary_opts)]
    assert [name for name in (*names, *below) if name not in shown] == []


def test_paragraphs_of_help_break_where_the_terminal_ends(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    run(["demo", "--help"])
    prose = [line.strip() for line in capsys.readouterr().out.split("╭")[0].splitlines()]
    second = prose[next(index for index, line in enumerate(prose) if line.startswith("Everything runs")) :]
    full = [line for line in second if line][:-1]
    assert len(full) > 4
    assert all(len(line) > 60 for line in full)
