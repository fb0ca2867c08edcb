"""What people install, as files: up to date, and one thing whichever way it is read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.api import KINDS
from hack.generate_manifests import CLUSTER_RULES, NAMESPACE_RULES, stale
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


def test_no_permission_is_wider_than_it_must_be():
    for rule in (*CLUSTER_RULES, *NAMESPACE_RULES):
        assert "*" not in (rule.group, rule.resource, *rule.verbs)
        assert rule.resource not in ("secrets", "serviceaccounts", "nodes")
        assert len(rule.why) > 10
