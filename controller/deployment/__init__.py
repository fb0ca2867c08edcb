"""The ModelDeployment side of standalone mode: replicas, eligibility, retirement, drain.

Pure, each one noun: ownership · flags, command_line, images, pools, weights, pods, services, fingerprint · replicas,
provenance, eligibility, plan · retirement, replacement, record · serving, status. Shells: withdrawal, drain,
exec_gauges, evidence · writes, retiring, creating, burial, reporter · reconciler, caches, controller. `drain_hook` and
`metrics_read` run inside the engines' containers.
"""

from controller.deployment.controller import DeploymentController
from controller.deployment.drain import DrainReader, GaugeSource, HttpGauges, MemberLoad
from controller.deployment.observers import DeploymentMetrics, NoMetrics, Recorder
from controller.deployment.ownership import Owner, Ownership, resolve_mode, who_owns
from controller.deployment.retirement import (
    DRAIN_SECONDS,
    HANDOFF_SECONDS,
    OVERALL_SECONDS,
    SETTLE_SECONDS,
    WITHDRAWAL_SECONDS,
    Evidence,
    Listing,
    Load,
    Look,
    Operation,
    Outcome,
    Presence,
    Step,
    step,
    take_up,
)
from controller.deployment.withdrawal import AllOf, EndpointSlices, RouterViews, Sighting, Withdrawal, router_urls

__all__ = [
    "DRAIN_SECONDS",
    "HANDOFF_SECONDS",
    "OVERALL_SECONDS",
    "SETTLE_SECONDS",
    "WITHDRAWAL_SECONDS",
    "AllOf",
    "DeploymentController",
    "DeploymentMetrics",
    "DrainReader",
    "EndpointSlices",
    "Evidence",
    "GaugeSource",
    "HttpGauges",
    "Listing",
    "Load",
    "Look",
    "MemberLoad",
    "NoMetrics",
    "Operation",
    "Outcome",
    "Owner",
    "Ownership",
    "Presence",
    "Recorder",
    "RouterViews",
    "Sighting",
    "Step",
    "Withdrawal",
    "resolve_mode",
    "router_urls",
    "step",
    "take_up",
    "who_owns",
]
