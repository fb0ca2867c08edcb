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
import secrets
import ssl
import sys
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.embedded.apiserver.cases import CASES, Case, Step
from tests.embedded.apiserver.cases.steps import CRDS

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
        made, _ = await self._send(Step("POST", "/api/v1/namespaces", space), namespace, [])
        assert made["status"] == 201, f"the namespace {namespace} is not fresh"
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
                lines: list[Any] = []
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


def forget_moving_versions(value: Any) -> None:
    """Lists, tables and bookmarks carry the resourceVersion of the whole store, which others move, too."""
    if isinstance(value, dict):
        moving = "items" in value or "rows" in value or value.get("type") == "BOOKMARK"
        holder = value.get("object") if value.get("type") == "BOOKMARK" else value
        if moving and isinstance(holder, dict) and isinstance(holder.get("metadata"), dict):
            holder["metadata"]["resourceVersion"] = "<rv>"
        for member in value.values():
            forget_moving_versions(member)
    elif isinstance(value, list):
        for item in value:
            forget_moving_versions(item)


def comparable(records: list[dict[str, Any]], namespace: str) -> list[dict[str, Any]]:
    """The answers without what differs from run to run."""
    forget_moving_versions(records)
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
    for record in records:  # answers of which only some members are compared
        body = record["body"]
        for path, value in body.items() if isinstance(body, dict) else ():
            if path.endswith("metadata.resourceVersion") and str(value).isdigit():
                versions.add(int(value))
    rank = {str(version): f"rv{number}" for number, version in enumerate(sorted(versions), 1)}

    def clean(value: Any, key: str = "", parent: Any = None) -> Any:
        if isinstance(value, dict):
            kept = {
                name: member
                for name, member in value.items()
                if not (name == "description" and "priority" in value and value.get("format") == "name")
            }
            return {name: clean(member, name, value) for name, member in sorted(kept.items())}
        if isinstance(value, list):
            cleaned = [clean(item, key) for item in value]
            # Some checks run twice on the real server and report everything twice.
            return [item for at, item in enumerate(cleaned) if item not in cleaned[:at]] if key == "causes" else cleaned
        if not isinstance(value, str):
            return value
        if key == "uid" and len(value) == 36:
            return "<uid>"
        if key.endswith("resourceVersion"):
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
            text = re.sub(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b", "<uid>", text)
            text = re.sub(r"ResourceVersion in record \(\d+\)", "ResourceVersion in record (<rv>)", text)
        return re.sub(r"^\d+s$", "<age>", text)

    cleaned: list[dict[str, Any]] = clean(records)
    return cleaned


def render(version: str, answers: dict[str, list[dict[str, Any]]]) -> str:
    """The file of transcripts: one answer a line, so that a change shows as what it is."""
    cases = []
    for name, records in answers.items():
        listed = ",\n  ".join(json.dumps(record, sort_keys=True) for record in records)
        cases.append(f"{json.dumps(name)}: [\n  {listed}\n]")
    return f'{{"server": {json.dumps(version)}, "cases": {{\n' + ",\n".join(cases) + "\n}}\n"


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
        run = f"case-{secrets.token_hex(3)}"  # a server may be recorded more than once
        answers = {}
        for number, case in enumerate(CASES):
            answers[case.name] = await player.play(case, f"{run}-{number:03d}")
    TRANSCRIPTS.write_text(render(version, answers))


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1], sys.argv[2]))
