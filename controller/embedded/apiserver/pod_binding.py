"""`pods/NAME/binding`: how a scheduler gives a Pod its node.

Nothing else may: a node's name is fixed once it is set. The node itself need not exist, as on a real server.
"""

from __future__ import annotations

from typing import Any

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.errors import GroupResource, Object
from controller.embedded.apiserver.operations import Operations
from controller.embedded.apiserver.requests import WriteOptions
from controller.embedded.apiserver.targets import Target
from controller.foundation import format_time

_POD_BINDINGS = GroupResource("", "pods/binding")


def bind_pod(operations: Operations, target: Target, body: Any, options: WriteOptions) -> Object:
    """Give the Pod its node; the answer is a Status.

    Raises ApiError 404, 409 (it has a node, or is leaving), 400 and 500 (the binding is malformed)."""
    binding: Object = body if isinstance(body, dict) else {}
    if (binding.get("metadata") or {}).get("name") not in (None, "", target.name):
        raise errors.bad_request("name in URL does not match name in Binding object")
    aim = binding.get("target")
    kind, node = (aim.get("kind") or "", aim.get("name") or "") if isinstance(aim, dict) else ("", "")
    problems = []
    if kind not in ("", "Node"):
        problems.append(f'target.kind: Unsupported value: {errors.shown(kind)}: supported values: "Node", "<empty>"')
    if not node:
        problems.append("target.name: Required value")
    if problems:  # the real server gives the findings as they are, which makes it an error of its own
        raise errors.internal(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    stored = operations.store.of(target.served).get(target.key)
    if stored is None:
        raise target.not_found()
    pod = target.served.view(stored.copy())
    spec = pod.setdefault("spec", {})
    if pod["metadata"].get("deletionTimestamp"):
        text = f"pod {target.name} is being deleted, cannot be assigned to a host"
        raise errors.conflict(_POD_BINDINGS, target.name, text)
    if spec.get("nodeName"):
        text = f'pod {target.name} is already assigned to node "{spec["nodeName"]}"'
        raise errors.conflict(_POD_BINDINGS, target.name, text)
    spec["nodeName"] = node
    status = pod.setdefault("status", {})
    now = format_time(operations.now(target.served))
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    others = [condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"]
    status["conditions"] = [*others, scheduled]
    pod["metadata"].pop("managedFields", None)
    if not options.dry_run:
        operations.replace_now(target, pod, options)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
