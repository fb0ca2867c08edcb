"""Playing the cases against a server and writing down what it answers, made comparable.

`python -m tests.embedded.apiserver.transcripts URL TOKEN` records `transcripts.json` from a real kube-apiserver
(control-plane.md §1 and §2 tell how to build and start one). What differs from run to run is replaced: uids, times,
generated names, the numbers in messages; resourceVersions become their rank within the case, so that their order still
counts.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import sys
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.embedded.apiserver.cases import CASES, CRDS, Case, Step

TRANSCRIPTS = Path(__file__).with_name("transcripts.json")
_REFERENCE = re.compile(r"\$\{(\d+):([^}]+)\}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_NUMBERS = re.compile(r"\b\d{2,}\b")
_ABSENT = "<absent>"
# What clients have sent as a time and must come back as it was.
_SENT_TIMES = ("2026-11-29T15:49:15", "2026-11-29T13:49:15", "2026-11-29T15:50:15")


class Player:
    """Plays cases against one server."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def play(self, case: Case, namespace: str) -> list[dict[str, Any]]:
        """The comparable answers of a case, in a namespace of its own."""
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await self._send(Step("POST", "/api/v1/namespaces", space), namespace, [])
        answers: list[Any] = []
        records = []
        for step in case.steps:
            record, answer = await self._send(step, namespace, answers)
            answers.append(answer)
            records.append(record)
        return comparable(records, namespace)

    async def _send(self, step: Step, namespace: str, answers: list[Any]) -> tuple[dict[str, Any], Any]:
        def filled(value: Any) -> Any:
            if isinstance(value, str):
                value = value.replace("$N", namespace)
                return _REFERENCE.sub(lambda match: str(look(answers[int(match[1])], match[2])), value)
            if isinstance(value, dict):
                return {key: filled(member) for key, member in value.items()}
            return [filled(item) for item in value] if isinstance(value, list) else value

        body = step.body
        data = body if isinstance(body, bytes) else json.dumps(filled(body)).encode() if body is not None else None
        headers = {"Accept": step.accept, "User-Agent": "cases/1"}
        if data is not None:
            headers["Content-Type"] = step.content_type
        async with self._session.request(
            step.method, self._url + filled(step.path), params=filled(step.query), data=data, headers=headers
        ) as response:
            if step.events and response.status == 200:
                lines = []
                while len(lines) < step.events:
                    line = await response.content.readline()
                    if not line:
                        break
                    lines.append(json.loads(line))
                found: Any = lines
            else:
                raw = await response.read()
                try:
                    found = json.loads(raw)
                except ValueError:
                    found = raw.decode()
        warnings = sorted(response.headers.getall("Warning", []))
        shown = {path: look(found, path) for path in step.only} if step.only else found
        return {"status": response.status, "warnings": warnings, "body": shown}, found


def look(value: Any, path: str) -> Any:
    """The member at a dotted path."""
    for name in path.split("."):
        if isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return _ABSENT
    return value


def comparable(records: list[dict[str, Any]], namespace: str) -> list[dict[str, Any]]:
    """The answers without what differs from run to run."""
    versions: set[int] = set()

    def collect(value: Any, depth: int = 0) -> None:
        if isinstance(value, dict):
            if "items" not in value and isinstance(value.get("metadata"), dict):
                version = value["metadata"].get("resourceVersion", "")
                if isinstance(version, str) and version.isdigit():
                    versions.add(int(version))
            for member in value.values():
                collect(member)
        elif isinstance(value, list):
            for item in value:
                collect(item)

    collect(records)
    rank = {str(version): f"rv{number}" for number, version in enumerate(sorted(versions), 1)}

    def clean(value: Any, key: str = "", parent: Any = None) -> Any:
        if isinstance(value, dict):
            return {name: clean(member, name, value) for name, member in sorted(value.items())}
        if isinstance(value, list):
            return [clean(item, key) for item in value]
        if not isinstance(value, str):
            return value
        if key == "uid" and len(value) == 36:
            return "<uid>"
        if key == "resourceVersion":
            return rank.get(value, "<rv>") if value else value
        if key == "continue" and value:
            return "<token>"
        if _TIME.fullmatch(value) and not value.startswith(_SENT_TIMES):
            return "<time>"
        text = value.replace(namespace, "$N")
        if key == "name" and re.fullmatch(r"run-[a-z0-9]{5}", text):
            return "run-<generated>"
        if key == "message" and isinstance(parent, dict) and ("code" in parent or "reason" in parent):
            text = re.sub(
                r"resource version: \d+, current: \d+|resource version: \d+ \(\d+\)", "resource version: <rv>", text
            )
            text = re.sub(r"UID in object meta: [0-9a-f-]{36}", "UID in object meta: <uid>", text)
            text = re.sub(r"ResourceVersion in object meta: \d+", "ResourceVersion in object meta: <rv>", text)
        return re.sub(r"^\d+s$", "<age>", text)

    cleaned: list[dict[str, Any]] = clean(records)
    return cleaned


async def prepare(url: str, session: aiohttp.ClientSession) -> None:
    """Install the definition of the Widgets and wait until it is served."""
    crd = yaml.safe_load(Path(__file__).with_name("widgets.yaml").read_text())
    async with session.post(url + CRDS, json=crd) as response:
        if response.status not in (201, 409):
            raise SystemExit(f"cannot install the definition: {response.status} {await response.text()}")
    for _ in range(100):
        async with session.get(f"{url}/apis/example.com/v1/widgets") as response:
            if response.status == 200:
                return
        await asyncio.sleep(0.1)
    raise SystemExit("the definition is not served")


async def record(url: str, token: str) -> None:
    """Write the transcripts of a real server."""
    insecure = ssl.create_default_context()
    insecure.check_hostname = False
    insecure.verify_mode = ssl.CERT_NONE
    connector = aiohttp.TCPConnector(ssl=insecure)
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        await prepare(url, session)
        player = Player(url, session)
        async with session.get(f"{url}/version") as response:
            version = (await response.json())["gitVersion"]
        answers = {}
        for number, case in enumerate(CASES):
            answers[case.name] = await player.play(case, f"case-{number:03d}")
    TRANSCRIPTS.write_text(json.dumps({"server": version, "cases": answers}, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1], sys.argv[2]))
