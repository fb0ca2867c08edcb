"""How this process is watched and run: logs, metrics, health, endpoints, order of start and stop."""

from controller.operations.deployment_metrics import ModelDeploymentMetrics
from controller.operations.health import Check, Health, Probe, Verdict
from controller.operations.kube_metrics import KubeMetrics
from controller.operations.lifecycle import Component, Lifecycle
from controller.operations.logging import LEVELS, LogFormat, configure_logging, get_logger, hide
from controller.operations.loop_lag import LoopLag
from controller.operations.metrics import ScalerMetrics, register_build_info
from controller.operations.server import OperationsServer, parse_bind_address
from controller.operations.work_metrics import QueueMetrics, ReconcileMetrics, WorkMetrics

__all__ = [
    "LEVELS",
    "Check",
    "Component",
    "Health",
    "KubeMetrics",
    "Lifecycle",
    "LogFormat",
    "LoopLag",
    "ModelDeploymentMetrics",
    "OperationsServer",
    "Probe",
    "QueueMetrics",
    "ReconcileMetrics",
    "ScalerMetrics",
    "Verdict",
    "WorkMetrics",
    "configure_logging",
    "get_logger",
    "hide",
    "parse_bind_address",
    "register_build_info",
]
