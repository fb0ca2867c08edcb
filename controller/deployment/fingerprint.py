"""What a Pod was made from, as a short text: another text means that the Pod has to be made again. Pure.

It covers what a person asks for, not what was made of it: a new release of this controller that renders an argument
differently must not restart every engine of a cluster. Members that have their default do not count either, so that a
member that a later version adds changes nothing.
"""

from __future__ import annotations

import hashlib

import orjson

from controller.api import ModelDeployment, Role, quantity_of, render
from controller.foundation import format_quantity

# Of a role: what its Pods are not made from.
_NOT_OF_PODS = ("replicas",)


def fingerprint(deployment: ModelDeployment, role: Role) -> str:
    """16 hexadecimal characters."""
    spec = deployment.spec
    shape = {name: _normal(name, value) for name, value in render(role).items() if name not in _NOT_OF_PODS}
    asked = {
        "engine": render(spec.engine),
        "model": render(spec.model),
        "kvTransfer": render(spec.kv_transfer) if spec.kv_transfer is not None else None,
        "role": shape,
    }
    return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _normal(name: str, value: object) -> object:
    """Quantities in one spelling: `1`, `"1"` and `"1.0"` ask for the same."""
    if name == "resources" and isinstance(value, dict):
        return {key: _normal("quantity", each) for key, each in value.items()}
    if name in ("quantity", "shmSize") and isinstance(value, str | int):
        number = quantity_of(value)
        return value if number is None else format_quantity(number)
    return value
