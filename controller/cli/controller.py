"""`mdscaler controller`: the autoscaler itself."""

from __future__ import annotations

import asyncio
import math
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.options import package_version
from controller.foundation import UsageError, describe
from controller.foundation.settings import (
    DEFAULT_WORKERS,
    ClockSettings,
    ControllerSettings,
    DeploymentsMode,
    LeaderElectionSettings,
)
from controller.operations import LEVELS, LogFormat, configure_logging, parse_bind_address

# No time of this program is longer; NaN and infinity are none.
_DAY = 86_400.0
# RFC 1123, as the API server checks names.
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

_CONNECTION = "Connection"
_ELECTION = "Leader election"
# Apart, because the two names of --leader-elect would take the place of the others in 80 columns.
_LEASE = "Lease"
_ENDPOINTS = "Endpoints"
_OPERATION = "Operation"


def controller(
    kubeconfig: Annotated[
        str | None,
        typer.Option(
            help="Path of a kubeconfig. Default: $KUBECONFIG, then the Pod's service account, then ~/.kube/config.",
            rich_help_panel=_CONNECTION,
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(help="Context of the kubeconfig. Default: its current one.", rich_help_panel=_CONNECTION),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Namespace to serve; give it again for more. Default: all.",
            rich_help_panel=_CONNECTION,
        ),
    ] = None,
    leader_elect: Annotated[
        bool,
        typer.Option(
            help="Take part in leader election, so that only one of several replicas writes.", rich_help_panel=_ELECTION
        ),
    ] = True,
    lease_name: Annotated[
        str, typer.Option(help="Name of the Lease.", rich_help_panel=_LEASE)
    ] = "model-deployment-scaler",
    lease_namespace: Annotated[
        str | None,
        typer.Option(help="Namespace of the Lease. Default: $POD_NAMESPACE, else `default`.", rich_help_panel=_LEASE),
    ] = None,
    lease_duration: Annotated[
        float,
        typer.Option(
            min=1.0,
            max=_DAY,
            help="Seconds that others wait before they take an unrenewed Lease.",
            rich_help_panel=_LEASE,
        ),
    ] = 15.0,
    renew_deadline: Annotated[
        float,
        typer.Option(
            min=0.1, max=_DAY, help="Seconds without a renewal after which the leader stops.", rich_help_panel=_LEASE
        ),
    ] = 10.0,
    retry_period: Annotated[
        float,
        typer.Option(min=0.1, max=_DAY, help="Seconds between two tries to acquire or renew.", rich_help_panel=_LEASE),
    ] = 2.0,
    metrics_bind_address: Annotated[
        str, typer.Option(help="Where /metrics listens: HOST:PORT, :PORT, or 0 for off.", rich_help_panel=_ENDPOINTS)
    ] = ":8080",
    health_bind_address: Annotated[
        str,
        typer.Option(
            help="Where /healthz and /readyz listen: HOST:PORT, :PORT, or 0 for off.", rich_help_panel=_ENDPOINTS
        ),
    ] = ":8081",
    deployments: Annotated[
        DeploymentsMode,
        typer.Option(
            help="Who turns ModelDeployments into Pods: this controller (managed), another operator (external), or "
            "this controller where their CRD carries its label (auto).",
            rich_help_panel=_OPERATION,
        ),
    ] = DeploymentsMode.AUTO,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            max=1024,
            help="Scalers reconciled at the same time, and as many ModelDeployments where they are managed.",
            rich_help_panel=_OPERATION,
        ),
    ] = DEFAULT_WORKERS,
    scrape_timeout: Annotated[
        float,
        typer.Option(
            min=0.1, max=_DAY, help="Seconds an engine has to answer with its metrics.", rich_help_panel=_OPERATION
        ),
    ] = 5.0,
    record: Annotated[
        Path | None,
        typer.Option(
            help="Directory for decision records, which `mdscaler decide` replays.", rich_help_panel=_OPERATION
        ),
    ] = None,
    grace_period: Annotated[
        float,
        typer.Option(
            min=0.0, max=_DAY, help="Seconds an orderly stop may take after SIGTERM.", rich_help_panel=_OPERATION
        ),
    ] = 25.0,
    log_format: Annotated[
        LogFormat, typer.Option(case_sensitive=False, help="How log lines look.", rich_help_panel=_OPERATION)
    ] = LogFormat.JSON,
    log_level: Annotated[str, typer.Option(help=f"One of {', '.join(LEVELS)}.", rich_help_panel=_OPERATION)] = "info",
    clock_epoch: Annotated[float, typer.Option(hidden=True)] = 0.0,
    clock_factor: Annotated[float, typer.Option(hidden=True)] = 1.0,
) -> int:
    """Run the autoscaler: watch ModelDeploymentScalers, sample their engines, decide, and write the targets of
    Active ones. Where ModelDeployments are managed, also run their replicas, and remove them without losing a request.

    SIGTERM stops it in order within the grace period; a second signal stops it at once. Exit status 1 when
    leadership or a watch is lost: the Deployment starts it again.
    """
    if log_level not in LEVELS:
        raise UsageError(f"--log-level: {log_level!r} is not one of {', '.join(LEVELS)}")
    if not 0.0 < clock_factor < math.inf or not math.isfinite(clock_epoch):
        raise UsageError("--clock-factor must be a positive number, and --clock-epoch a time")
    lease_namespace = lease_namespace or os.environ.get("POD_NAMESPACE") or "default"
    for each in namespace or ():
        _check_name("--namespace", each, _LABEL, 63)
    _check_name("--lease-namespace", lease_namespace, _LABEL, 63)
    _check_name("--lease-name", lease_name, _SUBDOMAIN, 253)
    # Heavy, and only this command pays for it.
    from controller.kube import new_identity  # noqa: PLC0415
    from controller.wiring import run_controller  # noqa: PLC0415

    election = LeaderElectionSettings(
        name=lease_name,
        namespace=lease_namespace,
        lease_duration_seconds=lease_duration,
        renew_deadline_seconds=renew_deadline,
        retry_period_seconds=retry_period,
    )
    settings = ControllerSettings(
        identity=new_identity(os.environ.get("POD_NAME")),
        kubeconfig=kubeconfig,
        context=context,
        namespaces=tuple(dict.fromkeys(namespace or ())),
        leader_election=election if leader_elect else None,
        metrics_address=parse_bind_address(metrics_bind_address, "--metrics-bind-address"),
        health_address=parse_bind_address(health_bind_address, "--health-bind-address"),
        deployments=deployments,
        workers=workers,
        record_directory=record,
        clock=ClockSettings(clock_epoch, clock_factor),
        grace_seconds=grace_period,
        scrape_timeout_seconds=scrape_timeout,
    )
    configure_logging(log_format, log_level)

    return asyncio.run(run_controller(settings, package_version()))


def _check_name(option: str, name: str, pattern: re.Pattern[str], longest: int) -> None:
    """Raises UsageError for what can be no name: the API server would refuse every request, or be asked for another
    path."""
    if len(name) > longest or pattern.fullmatch(name) is None:
        raise UsageError(
            f"{option}: {describe(name)} is no name: write lower-case letters, digits and '-', at most {longest}"
        )
