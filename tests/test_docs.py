"""The pages: generated ones are up to date, and what they give to paste is accepted."""

from __future__ import annotations

import copy
import re
import shlex
import textwrap
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import orjson
import pytest
import yaml

from controller.api import GROUP, KINDS, MdsView, render_crds
from controller.embedded.apiserver import ApiServer
from controller.foundation import WallClock
from hack import generate_metrics_docs

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"(?:(?<=\n\n)|\A)((?: {4,}\S.*\n|[ \t]*\n(?= {4,}\S))+)")
_FENCED = re.compile(r"^```ya?ml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEREDOC = re.compile(r"(?P<command>.*)<<'YAML'\n(?P<body>.*?)^YAML$", re.MULTILINE | re.DOTALL)
_MANIFEST = re.compile(r"(#.*\n)*(apiVersion|kind|metadata|spec|resources):")


@dataclass(frozen=True, slots=True)
class Example:
    """One document that a page gives."""

    page: str
    body: dict[str, Any]
    applied: bool  # over what is there, as `kubectl apply --server-side` does

    @property
    def ours(self) -> bool:
        """A whole object of one of our kinds."""
        return str(self.body.get("apiVersion", "")).startswith(f"{GROUP}/")


def _examples() -> Iterator[Example]:
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for block in [*_BLOCK.findall(text), *_FENCED.findall(text)]:
            source, applied = textwrap.dedent(block), False
            if found := _HEREDOC.search(source):
                source, applied = found["body"], "--server-side" in found["command"]
            if _MANIFEST.match(source):
                for body in yaml.safe_load_all(source):
                    yield Example(path.name, body, applied)


EXAMPLES = list(_examples())
OURS = [each for each in EXAMPLES if each.ours]
SCALER_SPEC = next(each.body for each in OURS if each.body["kind"] == "ModelDeploymentScaler")["spec"]


def test_the_metrics_page_lists_the_metrics_that_exist():
    assert generate_metrics_docs.PAGE.read_text() == generate_metrics_docs.render(), (
        "run python -m hack.generate_metrics_docs"
    )


def test_the_line_that_builds_the_image_gives_the_tag_that_the_manifests_ask_for():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^ {4}(docker build .*)$", text, flags=re.MULTILINE)
    command = shlex.split(line)
    assert command[-1] == "."
    tag = command[command.index("--tag") + 1]
    install = yaml.safe_load_all((ROOT / "manifests" / "install.yaml").read_text(encoding="utf-8"))
    (deployment,) = (each for each in install if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert tag == container["image"]
    assert f"VERSION={tag.partition(':')[2]}" in command
    assert set(re.findall(r"\bmdscaler:[\w.]+", text)) == {tag}, "everywhere on the page"
    arguments = set(re.findall(r"^ARG (\w+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert set(re.findall(r"--build-arg (\w+)=", line)) <= arguments


def test_every_kind_has_an_example_of_a_whole_object():
    assert {each.body["kind"] for each in OURS if not each.applied} == {kind.resource.kind for kind in KINDS}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    made = ApiServer(clock=WallClock(), create_namespaces=True)
    for crd in render_crds(None):
        made.install_crd(crd)
    await made.start()
    yield made
    await made.stop()


async def _send(server: ApiServer, example: Example) -> str:
    """Empty, or what the server has against it."""
    body = example.body
    resource = next(kind.resource for kind in KINDS if kind.resource.kind == body["kind"])
    version, metadata = body["apiVersion"].partition("/")[2], body["metadata"]
    namespace = f"/namespaces/{metadata['namespace']}" if resource.namespaced else ""
    url = f"{server.url}/apis/{GROUP}/{version}{namespace}/{resource.plural}"
    query = "fieldManager=reader&fieldValidation=Strict"
    async with aiohttp.ClientSession() as session:
        if example.applied:
            headers = {"Content-Type": "application/apply-patch+yaml"}
            request = session.patch(f"{url}/{metadata['name']}?{query}", data=yaml.safe_dump(body), headers=headers)
        else:
            request = session.post(f"{url}?{query}", json=body)
        async with request as answer:
            return "" if answer.status < 300 else (await answer.json())["message"]


@pytest.mark.parametrize("page", sorted({each.page for each in OURS}))
async def test_whole_objects_on_a_page_are_accepted_without_an_unknown_member(server: ApiServer, page: str):
    whole = next(each for each in OURS if each.body["kind"] == "ModelDeployment" and not each.applied)
    for example in (each for each in OURS if each.page == page):
        if example.applied:
            # It is there before, with this name and these counts: an apply that changes none meets no conflict.
            there = {**copy.deepcopy(whole.body), "metadata": example.body["metadata"]}
            for role, given in zip(there["spec"]["roles"], example.body["spec"]["roles"], strict=True):
                role["replicas"] = given["replicas"]
            assert await _send(server, Example(page, there, applied=False)) == ""
        assert await _send(server, example) == "", example.body
        if example.body["kind"] == "ModelDeploymentScaler":
            _, findings = msgspec.json.decode(orjson.dumps(example.body), type=MdsView).parse_spec()
            assert not findings


async def test_parts_of_a_scaler_s_spec_are_accepted_in_a_whole_one(server: ApiServer):
    parts = [each for each in EXAMPLES if set(each.body) == {"spec"} and "algorithm" in each.body["spec"]]
    assert parts
    for number, part in enumerate(parts):
        body = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "ModelDeploymentScaler",
            "metadata": {"name": f"part-{number}", "namespace": "team-a"},
            "spec": {**SCALER_SPEC, **part.body["spec"]},
        }
        assert await _send(server, Example(part.page, body, applied=False)) == "", part
        _, findings = msgspec.json.decode(orjson.dumps(body), type=MdsView).parse_spec()
        assert not findings, part


def test_what_a_kustomization_names_exists():
    named = [path for each in EXAMPLES for key in ("resources", "components") for path in each.body.get(key, ())]
    assert {"manifests", "manifests/standalone", "manifests/external"} <= set(named)
    for path in named:
        assert (ROOT / path / "kustomization.yaml").is_file(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_to_files(page: Path):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_front_page_leads_to_every_page():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in PAGES[1:] if f"docs/{path.name}" not in text] == []


def test_the_table_of_permissions_says_which_role_grants_what():
    """One column for each ClusterRole; of the one for scaling only what the table is about."""
    documents = yaml.safe_load_all((ROOT / "manifests" / "install.yaml").read_text(encoding="utf-8"))
    granted: dict[str, dict[str, set[str]]] = {}
    for document in documents:
        if document["kind"] == "ClusterRole":
            verbs = granted.setdefault(document["metadata"]["name"], {})
            for rule in document["rules"]:
                for resource in rule["resources"]:
                    verbs.setdefault(resource, set()).update(rule["verbs"])
    told: list[dict[str, set[str]]] = [{}, {}]
    text = (ROOT / "docs" / "retirement.md").read_text(encoding="utf-8")
    for row in text.split("| resource | verbs in")[1].split("\n\n")[0].splitlines()[2:]:
        resources, *columns = (cell.strip() for cell in row.strip("|").split("|"))
        for resource in resources.split(", "):
            for role, cell in zip(told, columns, strict=True):
                verbs_told = set(re.sub(r"\(.*\)", "", cell).replace(" ", "").split(",")) - {""}
                if verbs_told:
                    role[resource.split(".")[0]] = verbs_told
    assert told[0] == granted["model-deployment-scaler-standalone"]
    scaling = granted["model-deployment-scaler"]
    assert told[1] == {resource: scaling[resource] for resource in told[1]}
    assert {resource for resource in told[0] if resource in scaling} <= set(told[1])
