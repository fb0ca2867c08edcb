"""The kubelet's end of `exec`: a WebSocket that runs the command, here, as a process of its own."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from typing import Any

from aiohttp import web


class ExecServer:
    """Runs what it is asked to run. `path`: the API server's, or a kubelet's own."""

    def __init__(self, path: str = "/api/v1/namespaces/{namespace}/pods/{pod}/exec") -> None:
        self.commands: list[list[str]] = []
        self.environment: dict[str, str] = {}
        self.port = 0
        self._path = path
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        app = web.Application()
        app.router.add_get(self._path, self._exec)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        command = request.query.getall("command")
        self.commands.append(command)
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io", "v4.channel.k8s.io"))
        await socket.prepare(request)
        status = await self._run(socket, command)
        await socket.send_bytes(b"\x03" + json.dumps(status).encode())
        await socket.close()
        return socket

    async def _run(self, socket: web.WebSocketResponse, command: list[str]) -> dict[str, Any]:
        program, *arguments = command
        if program != "python3":
            message = f'exec: "{program}": executable file not found in $PATH'
            return {"metadata": {}, "status": "Failure", "reason": "InternalError", "message": message, "code": 500}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment,
        )
        out, err = await process.communicate()
        for channel, data in ((b"\x01", out), (b"\x02", err)):
            for start in range(0, len(data), 32_768):
                await socket.send_bytes(channel + data[start : start + 32_768])
        if process.returncode == 0:
            return {"metadata": {}, "status": "Success"}
        causes = [{"reason": "ExitCode", "message": str(process.returncode)}]
        message = f"command terminated with non-zero exit code: exit status {process.returncode}"
        details = {"causes": causes}
        return {"status": "Failure", "reason": "NonZeroExitCode", "message": message, "details": details}
