"""The objects that a demonstration starts from. Pure."""

from __future__ import annotations

from typing import Any

from controller.embedded.contract import MODEL_DEPLOYMENTS

Object = dict[str, Any]


def namespace_manifest(name: str) -> Object:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def model_deployment_manifest(
    *,
    name: str,
    namespace: str,
    role: str,
    replicas: int,
    model_name: str,
    engine_version: str,
    max_num_seqs: int,
    port: int,
    instance_type: str,
) -> Object:
    """A ModelDeployment with one Server role, as a user would write it."""
    return {
        "apiVersion": MODEL_DEPLOYMENTS.api_version,
        "kind": MODEL_DEPLOYMENTS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "model": {"name": model_name},
            "engine": {"name": "vLLM", "version": engine_version},
            "roles": [
                {
                    "name": role,
                    "kind": "Server",
                    "replicas": replicas,
                    "size": 1,
                    "instanceType": instance_type,
                    "resources": {"accelerator": "1"},
                    "ports": [{"port": port, "protocol": "TCP"}],
                    "extraArgs": ["--max-num-seqs", str(max_num_seqs)],
                }
            ],
        },
    }
