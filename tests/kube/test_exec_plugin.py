"""Programs that give credentials, and all that they do instead."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.foundation import UsageError
from controller.kube import load_connection
from controller.kube.exec_plugin import PluginAnswer, run_plugin
from tests.kube.test_config import kubeconfig, write

VERSION = "client.authentication.k8s.io/v1"
SECRET = "eyJ-very-secret-token"
# Real time for the kernel to end a process.
PATIENCE_SECONDS = 60


def plugin(tmp_path: Path, program: str, **more: Any) -> dict[str, Any]:
    script = tmp_path / "plugin.py"
    script.write_text("import json, os, sys, time, subprocess\n" + textwrap.dedent(program))
    return {"apiVersion": VERSION, "command": sys.executable, "args": [str(script)], **more}


def credential(status: object, api_version: str = VERSION) -> str:
    return json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": status})


def saying(tmp_path: Path, text: str) -> dict[str, Any]:
    return plugin(tmp_path, f"print({text!r})")


async def test_a_plugin_is_told_what_the_protocol_says_and_sees_no_terminal(tmp_path: Path) -> None:
    config = plugin(
        tmp_path,
        """
        info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
        assert info["kind"] == "ExecCredential" and info["spec"] == {"interactive": False}
        assert sys.stdin.read() == ""
        status = {"token": os.environ["WHO"], "expirationTimestamp": "2120-01-01T00:00:00Z"}
        print(json.dumps({**info, "status": status}))
        """,
        env=[{"name": "WHO", "value": "me"}],
    )
    answer = await run_plugin(config)
    assert answer.token == "me"
    assert answer.expires_at == 4733510400.0
    assert not answer.expired


async def test_certificates_of_a_plugin_are_used_and_change_with_its_answer(tmp_path: Path) -> None:
    answers = [{"clientCertificateData": f"pem {n}", "clientKeyData": f"key {n}"} for n in (1, 2)]
    (tmp_path / "answers").write_text(json.dumps(answers))
    config = plugin(
        tmp_path,
        f"""
        path = {str(tmp_path / "answers")!r}
        answers = json.load(open(path))
        json.dump(answers[1:], open(path, "w"))
        print(json.dumps({{"apiVersion": {VERSION!r}, "kind": "ExecCredential", "status": answers[0]}}))
        """,
    )
    connection = await load_connection(
        str(write(tmp_path, kubeconfig(users=[{"name": "u", "user": {"exec": config}}])))
    )
    clock = [1000.0]
    connection._now = lambda: clock[0]
    headers = await connection.headers()
    assert headers == {}
    assert connection._credentials.tls.certificate_file is not None
    assert Path(connection._credentials.tls.certificate_file).read_text() == "pem 1"
    clock[0] = 2000.0
    assert connection.reject(headers)
    await connection.headers()
    assert connection._credentials.tls.key_file is not None
    assert Path(connection._credentials.tls.key_file).read_text() == "key 2"


WRONG: list[tuple[str, str, str]] = [
    ("it fails and prints a token", f"print({SECRET!r}, file=sys.stderr); sys.exit(3)", "ended with status 3"),
    ("it prints a token, but no JSON", f"print({SECRET!r})", "is not JSON"),
    ("JSON that is nothing", "print('[1]')", "no ExecCredential with a status"),
    ("no status", f"print({credential(None)!r})", "no ExecCredential with a status"),
    ("another version", f"print({credential({'token': SECRET}, 'v0')!r})", "another apiVersion"),
    ("an empty token", f"print({credential({'token': ''})!r})", "needs a token"),
    ("half a pair", f"print({credential({'clientCertificateData': SECRET})!r})", "together with clientKeyData"),
    (
        "an odd expiry",
        f"print({credential({'token': SECRET, 'expirationTimestamp': 'soon'})!r})",
        "unreadable expirationTimestamp",
    ),
    ("a flood", "sys.stdout.write('x' * (1 << 21))", "more than 1048576 bytes"),
    ("an abyss", "sys.stdout.write('[' * 100000)", "is not JSON"),
]


@pytest.mark.parametrize(("program", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
async def test_what_a_plugin_wrote_reaches_neither_a_message_nor_a_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], *, program: str, message: str
) -> None:
    config = kubeconfig(users=[{"name": "u", "user": {"exec": plugin(tmp_path, program)}}])
    with caplog.at_level(logging.DEBUG), capture_logs() as lines, pytest.raises(UsageError, match=message) as caught:
        await load_connection(str(write(tmp_path, config)))
    assert SECRET not in f"{caught.value}{caplog.text}{lines}{''.join(capfd.readouterr())}"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"apiVersion": VERSION}, "missing key 'command'"),
        ({"command": "x"}, "missing key 'apiVersion'"),
        ({"command": "x", "apiVersion": VERSION, "interactiveMode": "Always"}, "needs a person at a terminal"),
    ],
    ids=["no command", "no version", "a plugin that asks a person"],
)
async def test_an_entry_that_cannot_work_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        await run_plugin(config)


async def test_much_on_standard_error_does_not_block_a_plugin(tmp_path: Path) -> None:
    config = plugin(
        tmp_path, f"sys.stderr.write('x' * 1000000); sys.stderr.flush(); print({credential({'token': 't'})!r})"
    )
    assert (await run_plugin(config)).token == "t"


async def test_a_plugin_that_is_not_waited_for_any_longer_dies_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    config = plugin(
        tmp_path,
        f"""
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        open({str(pids)!r} + ".new", "w").write(f"{{os.getpid()}} {{child.pid}}")
        os.rename({str(pids)!r} + ".new", {str(pids)!r})
        time.sleep(1000)
        """,
    )
    running = asyncio.ensure_future(run_plugin(config))
    while not pids.exists() and not running.done():
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    alive = {int(pid) for pid in pids.read_text().split()}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while alive and time.monotonic() < deadline:
        alive = {pid for pid in alive if is_running(pid)}
        await asyncio.sleep(0)
    assert alive == set()


async def test_a_plugin_whose_child_left_its_session_holds_nobody_up(tmp_path: Path) -> None:
    """It keeps the pipe open, and `Process.wait` waits for that."""
    pids = tmp_path / "pids"
    config = plugin(
        tmp_path,
        f"""
        stray = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
        open({str(pids)!r} + ".new", "w").write(str(stray.pid))
        os.rename({str(pids)!r} + ".new", {str(pids)!r})
        time.sleep(1000)
        """,
    )
    running = asyncio.ensure_future(run_plugin(config))
    while not pids.exists() and not running.done():
        await asyncio.sleep(0)
    running.cancel()
    try:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 60)
    finally:
        os.kill(int(pids.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("turns", range(8))
async def test_a_plugin_that_is_cancelled_while_it_starts_is_gone(tmp_path: Path, turns: int) -> None:
    before = children()
    running = asyncio.ensure_future(run_plugin(plugin(tmp_path, "time.sleep(1000)")))
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 60)
    assert children() <= before


def children() -> set[str]:
    found = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(found.read_text().split()) if found.exists() else set()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("seconds", "expired"), [(1000.0, False), (100.0, True), (-5.0, True)], ids=["long", "soon", "past"]
)
def test_an_answer_is_renewed_before_it_expires(seconds: float, expired: bool) -> None:
    assert PluginAnswer("t", expires_at=time.time() + seconds).expired is expired
    assert not PluginAnswer("t").expired
