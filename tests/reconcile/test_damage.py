"""Objects that hold anything: they are seen, reported on, and cost their neighbours nothing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from controller.api import ConfigMap, ModelDeployment, Pod
from controller.kube.envelopes import Added, EventDecoder
from controller.kube.listdecoder import ListDecoder

DAMAGED: list[tuple[str, Any, dict[str, Any]]] = [
    ("a target whose replicas are a text", ModelDeployment, {"metadata": {"name": "x", "namespace": "n"}, "spec": {"roles": [{"name": "a", "replicas": "two"}]}}),
    ("a target whose roles are an object", ModelDeployment, {"metadata": {"name": "x", "namespace": "n"}, "spec": {"roles": {"name": "a"}}}),
    ("a Pod whose conditions are a text", Pod, {"metadata": {"name": "x", "namespace": "n"}, "status": {"conditions": "Ready"}}),
    ("a ConfigMap whose data is a list", ConfigMap, {"metadata": {"name": "x", "namespace": "n"}, "data": ["a"]}),
]  # fmt: skip


@pytest.mark.parametrize(("view", "content"), [c[1:] for c in DAMAGED], ids=[c[0] for c in DAMAGED])
def test_a_damaged_object_reaches_the_cache_by_watch_and_by_list(view, content):
    resource = view.RESOURCE
    body = {"kind": resource.kind, "apiVersion": resource.api_version, **content}
    line = orjson.dumps({"type": "ADDED", "object": body})
    event = EventDecoder(resource, view).decode(line)
    assert isinstance(event, Added)
    assert event.object.metadata.name == "x"
    assert event.object.malformed
    healthy = {"metadata": {"name": "y", "namespace": "n"}}
    listed = ListDecoder(resource, view).decode(
        orjson.dumps(
            {"kind": f"{resource.kind}List", "metadata": {"resourceVersion": "1"}, "items": [content, healthy]}
        )
    )
    assert sorted(obj.metadata.name for obj in listed.objects) == ["x", "y"]
    assert listed.skipped == []
