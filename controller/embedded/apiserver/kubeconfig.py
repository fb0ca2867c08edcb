"""A kubeconfig for this server: one cluster, one user, one context, all named `embedded`."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml

_NAME = "embedded"


def kubeconfig(
    url: str, *, token: str = "", certificate_authority: bytes = b"", namespace: str = "default"
) -> dict[str, Any]:
    """The kubeconfig as plain values."""
    cluster: dict[str, Any] = {"server": url}
    if certificate_authority:
        cluster["certificate-authority-data"] = base64.b64encode(certificate_authority).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token} if token else {}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": namespace}}],
        "current-context": _NAME,
    }


def write_kubeconfig(path: str | os.PathLike[str], content: dict[str, Any]) -> Path:
    """Write it for its owner only, whole or not at all: a reader never sees half a file."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yaml.safe_dump(content, file, sort_keys=False)
    partial.replace(target)
    return target
