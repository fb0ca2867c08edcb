"""A catalog that somebody took out of the cluster: `kubectl get configmap my-priors -o yaml`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from catalog import CONFIG_MAP_KEY, CatalogFailure, LoadedCatalog, catalog_digest, load_file, load_text
from controller.foundation import UsageError
from tests.catalog.builders import DATA
from tests.catalog.command import run, run_json
from tests.catalog.tools import IDENTITY

SWEEP = DATA / "h200-sweep.yaml"
TEXT = SWEEP.read_text()
# Larger than any scalar of a catalog may be, as a real one is.
LARGE = TEXT + "# a remark\n" * 4000
DIGEST = catalog_digest(load_text(TEXT, "x").catalog)  # type: ignore[union-attr]


def _map(name: str = "my-priors", **data: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "team-a",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"data": data})},
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:data": {".": {}, f"f:{CONFIG_MAP_KEY}": {}}}}],
    }
    return {"apiVersion": "v1", "data": data, "kind": "ConfigMap", "metadata": metadata}


def _with(text: Any = LARGE, name: str = "my-priors") -> dict[str, Any]:
    return _map(name, **{CONFIG_MAP_KEY: text})


def _list(*objects: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "items": list(objects), "kind": "List", "metadata": {"resourceVersion": ""}}


_OTHER = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {}}
READ: dict[str, str] = {
    "as YAML": yaml.safe_dump(_with()),
    "as JSON": json.dumps(_with(), indent=4),
    "as JSON with a character beyond the basic plane": json.dumps(_with(LARGE + "# \U0001f642\n")),
    "with a byte order mark": "\ufeff" + yaml.safe_dump(_with()),
    "in a List": yaml.safe_dump(_list(_with(), _map("other", a="b"))),
    "beside other objects": yaml.safe_dump_all([_OTHER, _with()]),
    "with the catalog as JSON": yaml.safe_dump(_with(json.dumps(yaml.safe_load(TEXT)))),
}


@pytest.mark.parametrize("content", READ.values(), ids=READ.keys())
def test_a_config_map_is_read_as_its_catalog(content: str) -> None:
    result = load_file(content.encode(), "cm.yaml")
    assert isinstance(result, LoadedCatalog), result.message
    assert catalog_digest(result.catalog) == DIGEST
    assert result.source == "cm.yaml (ConfigMap team-a/my-priors)"


REFUSED: dict[str, tuple[Any, str]] = {
    "another key": (_map(a="b", c="d"), "ConfigMap team-a/my-priors has no key catalog.yaml (keys: a, c)"),
    "no data": ({"apiVersion": "v1", "kind": "ConfigMap"}, "ConfigMap without a name has no key catalog.yaml"),
    "binary data": (_map() | {"binaryData": {CONFIG_MAP_KEY: "AA=="}}, "as binary data: create it again"),
    "fields in place of a text": (_with({"profiles": []}), "must be one text: write `catalog.yaml: |` before it"),
    "two catalogs": (
        _list(_with(), _with(name="b")),
        "2 ConfigMaps have the key catalog.yaml (ConfigMap team-a/my-priors, ConfigMap team-a/b): keep one",
    ),
    "a catalog with a mistake": (_with(TEXT.replace("role: Server", "role: X", 1)), "profiles[0].role: must be one of"),
    "a text that is no catalog": (_with("a: [b"), "line 2, column 1: did not find"),
}


@pytest.mark.parametrize(("document", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_a_config_map_without_one_good_catalog_says_why(document: Any, said: str) -> None:
    result = load_file(yaml.safe_dump(document).encode(), "cm.yaml")
    assert isinstance(result, CatalogFailure)
    assert said in result.message


def test_a_catalog_that_speaks_of_config_maps_is_a_catalog() -> None:
    text = TEXT + "# for the ConfigMap my-priors\n"
    result = load_file(text.encode(), "a.yaml")
    assert isinstance(result, LoadedCatalog)
    assert result.source == "a.yaml"


@pytest.fixture
def config_map(tmp_path: Path) -> Path:
    path = tmp_path / "cm.yaml"
    path.write_text(yaml.safe_dump(_with()))
    return path


READING: dict[str, Callable[[Path, Path], tuple[object, ...]]] = {
    "validate": lambda path, _: ("validate", path),
    "show": lambda path, _: ("show", path),
    "resolve": lambda path, _: ("resolve", "--identity", IDENTITY, "--catalog", path, "--ttft", 2000, "--itl", 33),
    "merge": lambda path, out: ("merge", path, "--out", out),
    "retire into another file": lambda path, out: (
        "retire", path, "--identity", IDENTITY, "--reason", "old engine", "--out", out,
    ),
}  # fmt: skip


@pytest.mark.parametrize("arguments", READING.values(), ids=READING.keys())
def test_every_command_that_reads_a_catalog_reads_its_config_map(
    arguments: Callable[[Path, Path], tuple[object, ...]],
    config_map: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out.yaml"
    status, answer = run_json(capsys, *arguments(config_map, out))
    assert status == 0
    assert answer.get("valid", True)
    assert not out.exists() or yaml.safe_load(out.read_text())["kind"].endswith("Catalog")


def test_validate_says_where_the_catalog_was(config_map: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("validate", config_map) == 0
    assert capsys.readouterr().out.startswith(f"{config_map} (ConfigMap team-a/my-priors): valid, 1 profile, 6 points")


WRITING: dict[str, Callable[[Path], tuple[object, ...]]] = {
    "retire in place": lambda path: ("retire", path, "--identity", IDENTITY, "--reason", "x"),
    "tombstones": lambda path: ("retire", SWEEP, "--identity", IDENTITY, "--reason", "x", "--tombstones", path),
    "merge": lambda path: ("merge", SWEEP, "--out", path),
    "import": lambda path: ("import", "--from", "vllm", DATA / "absent.json", "--out", path),
}


@pytest.mark.parametrize("arguments", WRITING.values(), ids=WRITING.keys())
def test_no_command_writes_over_a_config_map(arguments: Callable[[Path], tuple[object, ...]], config_map: Path) -> None:
    before = config_map.read_bytes()
    with pytest.raises(
        UsageError, match=r"is a ConfigMap, which is read and never written: give --out .* kubectl apply"
    ):
        run(*arguments(config_map))
    assert config_map.read_bytes() == before


def test_a_config_map_beside_a_deployment_does_not_stop_its_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "all.yaml"
    path.write_text((DATA / "qwen3-8b-deployment.yaml").read_text() + "\n---\n" + yaml.safe_dump(_with()))
    arguments = ("resolve", "--deployment", path, "--catalog", path, "--ttft", 2000, "--itl", 33)
    status, answer = run_json(capsys, *arguments)
    assert (status, answer["seedTokensPerSecond"]) == (0, 17135.159)
