"""Credentials from a program (`aws eks get-token` and the like), by the ExecCredential protocol of client-go.

Promised: the program never sees a terminal (it could wait for a person for ever), is killed with all its children when
it is not waited for any longer, and may write as much as it likes. What it writes reaches no message, neither its
answer nor its complaints: both may hold tokens.

Not promised: `provideClusterInfo`.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.foundation import UsageError, wall_now

# A credential is a few kilobytes; a program that writes more is not a plugin.
MAX_ANSWER_BYTES = 1 << 20
# Renewed so long before it expires: two refreshes of a connection.
EXPIRY_MARGIN_SECONDS = 120.0
# A killed process is gone within milliseconds.
_LAST_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class PluginAnswer:
    """The status of an ExecCredential. PEM texts and the token are secrets: `repr` hides nothing, do not log it."""

    token: str = ""
    certificate: str = ""
    key: str = ""
    expires_at: float | None = None  # wall-clock seconds; None: good until it is refused

    @property
    def expired(self) -> bool:
        """Whether it is time to ask again."""
        return self.expires_at is not None and wall_now() >= self.expires_at - EXPIRY_MARGIN_SECONDS


async def run_plugin(config: Mapping[str, Any]) -> PluginAnswer:
    """Run the `exec` entry of a kubeconfig user. Raises UsageError, or OSError when the program cannot be started.

    Cancellation kills the program.
    """
    for key in ("command", "apiVersion"):
        if not config.get(key):
            raise UsageError(f"exec: missing key {key!r}")
    if config.get("interactiveMode") == "Always":
        raise UsageError(f"exec: {config['command']} needs a person at a terminal (interactiveMode Always)")
    api_version = str(config["apiVersion"])
    info = {"apiVersion": api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = os.environ | {str(item["name"]): str(item["value"]) for item in config.get("env") or ()}
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(info)
    process = await _start([str(part) for part in (config["command"], *(config.get("args") or ()))], environment)
    try:
        output = await _read(process.stdout)
        code = await process.wait()
    finally:
        await _kill(process)
    if code != 0:
        raise UsageError(f"exec: {config['command']} ended with status {code}; run it by hand to see why")
    return _read_answer(output, api_version, str(config["command"]))


async def _start(command: Sequence[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # The library would kill the program alone, and wait for whatever that has started by then.
        await _kill(await starting)
        raise


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    output = bytearray()
    while stream is not None and (chunk := await stream.read(65536)):
        output += chunk
        if len(output) > MAX_ANSWER_BYTES:
            raise UsageError(f"exec: the plugin wrote more than {MAX_ANSWER_BYTES} bytes")
    return bytes(output)


async def _kill(process: asyncio.subprocess.Process) -> None:
    """The whole session: a shell script's children would live on."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        # `wait` also waits for the pipe, which whoever left the session in time still holds.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await process.wait()
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public closes the pipe


def _read_answer(output: bytes, api_version: str, command: str) -> PluginAnswer:
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        raise UsageError(f"exec: the answer of {command} is not JSON") from None
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, dict):
        raise UsageError(f"exec: the answer of {command} is no ExecCredential with a status")
    if answer.get("apiVersion") != api_version:
        raise UsageError(f"exec: the answer of {command} has another apiVersion than {api_version}, the kubeconfig's")
    token, certificate, key = (
        str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if bool(certificate) != bool(key) or not (token or certificate):
        raise UsageError(
            f"exec: the answer of {command} needs a token, or clientCertificateData together with clientKeyData"
        )
    return PluginAnswer(token, certificate, key, _read_expiry(status.get("expirationTimestamp"), command))


def _read_expiry(text: object, command: str) -> float | None:
    if not text:
        return None
    try:
        moment = dt.datetime.fromisoformat(str(text))
    except ValueError:
        raise UsageError(f"exec: the answer of {command} has an unreadable expirationTimestamp") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return moment.timestamp()
