"""What people install, as files: up to date, and one thing whichever way it is read."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.api import KINDS, MANAGED_BY, MANAGED_BY_LABEL
from hack.generate_manifests import NAME, STANDALONE, stale
from hack.permissions import CLUSTER_RULES, NAMESPACE_RULES, STANDALONE_RULES
from tests.cluster.kubectl import Kubectl, find_kubectl

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


def by_identity(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_the_manifests_are_up_to_date():
    assert stale() == [], "run python -m hack.generate_manifests"


@pytest.mark.parametrize("folder", ["", "crds"])
def test_kustomize_builds_what_is_there(tmp_path: Path, folder: str):
    program = find_kubectl()
    if program is None:
        pytest.skip("there is no kubectl")
    built = asyncio.run(Kubectl(program, tmp_path / "none", tmp_path)("kustomize", str(MANIFESTS / folder)))
    objects = by_identity([each for each in yaml.safe_load_all(built) if each])
    if folder:
        assert len(objects) == len(KINDS)
    else:
        assert objects == by_identity(documents(MANIFESTS / "install.yaml"))


def external(directory: Path) -> Path:
    """A kustomization of a person who installs beside an operator."""
    return with_component(directory, "external")


def with_component(directory: Path, component: str) -> Path:
    """A kustomization of a person who installs with one of our components."""
    folder = directory / f"with-{component}"
    folder.mkdir()
    base = os.path.relpath(MANIFESTS, folder.resolve())
    wanted = {"resources": [base], "components": [f"{base}/{component}"]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(wanted), encoding="utf-8")
    return folder


def test_beside_an_operator_nothing_of_standalone_mode_is_installed(tmp_path: Path):
    program = find_kubectl()
    if program is None:
        pytest.skip("there is no kubectl")
    built = asyncio.run(Kubectl(program, tmp_path / "none", tmp_path)("kustomize", str(external(tmp_path))))
    less = by_identity([each for each in yaml.safe_load_all(built) if each])
    all_of_it = by_identity(documents(MANIFESTS / "install.yaml"))
    assert set(all_of_it) - set(less) == {("ClusterRole", STANDALONE), ("ClusterRoleBinding", STANDALONE)}
    changed = {key for key in less if less[key] != all_of_it[key]}
    assert changed == {("Deployment", NAME)}
    (container,) = less["Deployment", NAME]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["controller", "--deployments=external"]


def test_without_an_operator_its_definitions_are_installed_too_and_they_say_whose_they_are(tmp_path: Path):
    program = find_kubectl()
    if program is None:
        pytest.skip("there is no kubectl")
    folder = with_component(tmp_path, "standalone")
    built = asyncio.run(Kubectl(program, tmp_path / "none", tmp_path)("kustomize", str(folder)))
    more = by_identity([each for each in yaml.safe_load_all(built) if each])
    base = by_identity(documents(MANIFESTS / "install.yaml"))
    definitions = {key: value for key, value in more.items() if key not in base}
    assert {key: more[key] for key in base} == base
    files = [each for path in (MANIFESTS / "crds").glob("model*.yaml") for each in documents(path)]
    files += documents(MANIFESTS / "crds" / "instancetypes.yaml")
    assert definitions == {key: value for key, value in by_identity(files).items() if key not in base}
    assert len(definitions) == len(KINDS) - 1
    for each in definitions.values():
        assert each["metadata"]["labels"][MANAGED_BY_LABEL] == MANAGED_BY, "the mode is told by it"


def test_no_permission_is_wider_than_it_must_be():
    for rule in (*CLUSTER_RULES, *STANDALONE_RULES, *NAMESPACE_RULES):
        assert "*" not in (rule.group, rule.resource, *rule.verbs)
        assert rule.resource not in ("secrets", "serviceaccounts")
        assert rule.resource != "nodes" or set(rule.verbs) <= {"list", "watch"}
        assert len(rule.why) > 10
