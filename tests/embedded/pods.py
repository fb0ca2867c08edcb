"""Pods as an operator makes them, written out by hand."""

from __future__ import annotations

from typing import Any

PORT = 18002
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")
HOOK = {"exec": {"command": ["python3", "-c", "text", f"http://127.0.0.1:{PORT}/metrics", "25", *GAUGES]}}


def pod(name: str = "chat-server-0", **changes: Any) -> dict[str, Any]:
    """An engine's Pod in namespace `demo`. `labels`, `annotations`, `container`, `spec` and `metadata` are merged in."""
    probe = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 10}
    container = {
        "name": "main",
        "image": "vllm/vllm-openai:v0.32.0",
        "command": ["vllm"],
        "args": ["serve", "m", "--served-model-name", "m", "--port", str(PORT), "--max-num-seqs", "4"],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": {**probe, "failureThreshold": 3},
        "livenessProbe": {**probe, "failureThreshold": 6},
        "lifecycle": {"preStop": HOOK},
        **changes.get("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "demo",
            "labels": {
                "app.kubernetes.io/name": "model-deployment",
                "app.kubernetes.io/instance": "chat",
                "app.kubernetes.io/component": "server",
                "modeldeployment.gpustack.ai/role-kind": "server",
                "modeldeployment.gpustack.ai/pod-ordinal": name.rpartition("-")[2],
                "modeldeployment.gpustack.ai/endpoint-eligible": "true",
                **changes.get("labels", {}),
            },
            "annotations": changes.get(
                "annotations", {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORT)}
            ),
            **changes.get("metadata", {}),
        },
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 30, **changes.get("spec", {})},
    }
