"""`mdscaler explain NAME`: why is this scaler at N? From its status and its events, in words."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from controller.api import (
    EVENTS,
    MODEL_DEPLOYMENT_SCALERS,
    ActiveReason,
    ConditionStatus,
    ConditionType,
    MdsView,
    RoleStatus,
    ScalerStatus,
    find_condition,
    render,
)
from controller.cli.leases import HeldLease, Standing, held_leases
from controller.cli.options import Output, OutputOption, package_version
from controller.foundation import OperationFailed, UsageError, format_time, parse_time, wall_now

if TYPE_CHECKING:
    from controller.kube import KubeClient

_EVENTS_SHOWN = 5
# The time of a decision is written a minute late at most: FIGURES_INTERVAL_SECONDS of the room that reports.
_REPORTED_WITHIN_SECONDS = 60.0
_MISSED_INTERVALS = 3
_NOBODY_LOOKS = "does a running controller serve this namespace (its --namespace, its logs)?"
# Controllers that share a Lease take turns, whatever namespaces they serve.
_ONE_LEASE_EACH = "if it serves other namespaces only, the controller of this one needs a --lease-name of its own"
# A controller that takes part in no election, or in another one, is not known by this Lease.
_UNLESS = "unless a controller runs under another --lease-name or with --no-leader-elect, none does; start one"
# Reasons of ScalingActive with which nothing is decided at all; with the others counts are planned, or held.
_NOT_DECIDING = (ActiveReason.SUSPENDED, ActiveReason.INVALID_SPEC, ActiveReason.TARGET_UNSUPPORTED)
# Conditions whose "True" is bad news; of the others "False" is.
_BAD_WHEN_TRUE = ("ScalingLimited", "ReplicasConflict", "RetirementBlocked")


@dataclass(frozen=True, slots=True)
class _Found:
    status: ScalerStatus
    note: str
    target: str
    mode: str
    interval_seconds: float | None  # None: the spec cannot be read
    suspended: bool
    events: list[dict[str, Any]]
    lease_name: str = ""
    leases: tuple[HeldLease, ...] | None = None  # None: they could not be read

    @property
    def seen(self) -> bool:
        """Whether any controller ever looked at the scaler."""
        return bool(self.status.conditions) or self.status.last_decision_time is not None

    @property
    def idle(self) -> str:
        """Why nothing is decided now; empty: as far as the status tells, something is."""
        if self.suspended:
            return str(ActiveReason.SUSPENDED)
        active = find_condition(self.status.conditions, ConditionType.SCALING_ACTIVE)
        return active.reason if active is not None and active.reason in _NOT_DECIDING else ""

    @property
    def overdue(self) -> bool:
        """Whether a decision should have been reported since the last one."""
        decided, interval = self.status.last_decision_time, self.interval_seconds
        if decided is None or interval is None or self.idle:
            return False
        return wall_now() - decided > _REPORTED_WITHIN_SECONDS + _MISSED_INTERVALS * interval

    @property
    def nobody_runs(self) -> str:
        """Why no controller works for any scaler, as far as Leases tell; empty where one does, or they do not tell."""
        if self.leases is None or any(lease.standing is not Standing.OVER for lease in self.leases):
            return ""
        if not self.leases:
            return f"Nobody holds a Lease {self.lease_name}: {_UNLESS}"
        return f"{_ran_out(self.leases)}: that controller is gone; start one"

    @property
    def nobody_looks(self) -> str:
        """What to look at where no controller seems to work for the scaler."""
        if self.nobody_runs:
            return self.nobody_runs
        if self.leases is None:
            return _NOBODY_LOOKS
        live = [lease for lease in self.leases if lease.standing is not Standing.OVER]
        over = [lease for lease in self.leases if lease.standing is Standing.OVER]
        held = ", ".join(f"Lease {lease.key} is held by {lease.holder}" for lease in live)
        gone = f". {_ran_out(over)}: that controller is gone" if over else ""
        return f"{_NOBODY_LOOKS} {held}: {_ONE_LEASE_EACH}{gone}"


def explain(
    name: Annotated[str, typer.Argument(help="Name of the ModelDeploymentScaler.")],
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Default: the context's.")] = None,
    kubeconfig: Annotated[str | None, typer.Option(help="Path of a kubeconfig.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    lease_name: Annotated[
        str, typer.Option(help="Name of the controller's Lease, by which a running one is known.")
    ] = "model-deployment-scaler",
    output: OutputOption = Output.TEXT,
) -> int:
    """Say why a scaler recommends its counts: the chain from raw to recommended, what bound, what comes next."""
    found = asyncio.run(_read(name, namespace, kubeconfig, context, lease_name))
    if output is Output.JSON:
        answer = {
            "scaler": name,
            "target": found.target,
            "mode": found.mode,
            "deciding": found.seen and not found.idle,
            "status": render(found.status),
            "leases": None if found.leases is None else [_lease(lease) for lease in found.leases],
            "note": found.note,
            "events": [{key: event[key] for key in ("time", "type", "reason", "note")} for event in found.events],
        }
        typer.echo(orjson.dumps(answer).decode())
    else:
        typer.echo("\n".join(_tell(name, found)))
    return 0


async def _read(
    name: str, namespace: str | None, kubeconfig: str | None, context: str | None, lease_name: str
) -> _Found:
    from controller.kube import ApiError, KubeClient, NotFound, load_connection  # noqa: PLC0415 - heavy

    connection = await load_connection(kubeconfig, context)
    client = KubeClient(connection, user_agent=f"mdscaler/{package_version()}", timeout_seconds=10)
    where = namespace or connection.namespace
    try:
        scaler = await client.get(MODEL_DEPLOYMENT_SCALERS, name, where, type_=MdsView)
        events = (await client.list(EVENTS, where)).items
        return replace(_found(scaler, events), lease_name=lease_name, leases=await _leases(client, lease_name))
    except NotFound:
        raise OperationFailed(f"there is no ModelDeploymentScaler {name} in namespace {where}") from None
    except ValueError as failure:
        raise UsageError(str(failure)) from None
    except ApiError as failure:
        raise OperationFailed(f"cannot read the scaler from {connection.server}: {failure}") from None
    finally:
        await client.close()


def _found(scaler: MdsView, events: Sequence[dict[str, Any]]) -> _Found:
    status, note = scaler.parse_status()
    spec, findings = scaler.parse_spec()
    if spec is None:
        note = "; ".join([f"the spec is invalid: {'; '.join(map(str, findings))}", *([note] if note else [])])
    own = [_event(event) for event in events if (event.get("regarding") or {}).get("uid") == scaler.metadata.uid]
    return _Found(
        status=status,
        note=note,
        target=_raw(scaler, "targetRef", "name") if spec is None else spec.target_ref.name,
        mode=_raw(scaler, "mode") if spec is None else str(spec.mode),
        interval_seconds=None if spec is None else float(spec.sampling.interval_seconds),
        suspended=spec is not None and spec.suspend,
        events=sorted(own, key=lambda event: str(event["time"]), reverse=True)[:_EVENTS_SHOWN],
    )


async def _leases(client: KubeClient, name: str) -> tuple[HeldLease, ...] | None:
    """The held Leases of this name in all namespaces; None where they may not be read."""
    from controller.kube import ApiError  # noqa: PLC0415 - heavy

    try:
        return tuple(await held_leases(client, name, None))
    except ApiError:
        return None


def _ran_out(leases: Sequence[HeldLease]) -> str:
    return ", ".join(
        f"Lease {lease.key} of {lease.holder} ran out"
        + (f" {_span(-lease.ends_in_seconds)} ago" if isfinite(lease.ends_in_seconds) else "")
        for lease in leases
    )


def _raw(scaler: MdsView, *path: str) -> str:
    """A text in a spec that is not valid as a whole; `?` where there is none."""
    found: object = None
    with contextlib.suppress(orjson.JSONDecodeError):
        found = orjson.loads(bytes(scaler.spec))
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) and found else "?"


def _event(event: dict[str, Any]) -> dict[str, Any]:
    series = event.get("series") or {}
    return {
        "time": series.get("lastObservedTime") or event.get("eventTime") or "",
        "type": event.get("type", ""),
        "reason": event.get("reason", ""),
        "note": event.get("note", ""),
    }


def _lease(lease: HeldLease) -> dict[str, str]:
    return {"name": lease.key, "holder": lease.holder, "standing": lease.standing.value}


def _tell(name: str, found: _Found) -> list[str]:
    status = found.status
    lines = [f"ModelDeploymentScaler {name} → ModelDeployment {found.target} ({found.mode})"]
    if found.note:
        lines.append(f"  {found.note}")
    lines.append(f"  {_tell_last_decision(found)}")
    if found.seen and not found.overdue and found.nobody_runs:
        lines.append(f"  {found.nobody_runs}")
    for role in status.roles:
        lines += _tell_role(role, past=bool(found.idle))
    if not found.seen:
        return lines
    lines += ["", "conditions"]
    for condition in status.conditions:
        bad = (condition.status is ConditionStatus.TRUE) == (condition.type in _BAD_WHEN_TRUE)
        lines.append(
            f"  {'!' if bad else ' '} {condition.type}={condition.status} {condition.reason}: {condition.message}"
        )
    if found.events:
        lines += ["", "events, newest first"]
        lines += [
            f"  {_ago(event['time'])} {event['type']} {event['reason']}: {event['note']}" for event in found.events
        ]
    return lines


def _tell_last_decision(found: _Found) -> str:
    if not found.seen:
        return f"no controller has looked at it: {found.nobody_looks}"
    idle = f"not deciding now ({found.idle})" if found.idle else ""
    decided = found.status.last_decision_time
    if decided is None:
        return "; ".join(filter(None, ("no decision yet", idle)))
    age = wall_now() - decided
    # A controller may run by a clock that is ahead of this one, as the demo's does.
    # Decisions without news are not written one by one: this is the one that the status tells of.
    told = "last reported decision " + (f"{_span(age)} ago" if age >= 0.0 else f"at {format_time(decided)}")
    if idle:
        return f"{told}, {idle}"
    if found.overdue:
        due = f"one is due every {found.interval_seconds:g} s and reported within a minute"
        return f"{told}, though {due}: {found.nobody_looks}"
    return told


def _tell_role(role: RoleStatus, *, past: bool) -> list[str]:
    """`past`: nothing is decided now, so what is stored is history, and nothing comes next."""
    raw = (
        "nothing (no samples, or no capacity)"
        if role.raw_recommended_replicas is None
        else role.raw_recommended_replicas
    )
    lines = [
        "",
        f"role {role.name}{' at the last decision' if past else ''}: declared {_count(role.current_replicas)}, "
        f"ready {_count(role.ready_replicas)}, recommended {_count(role.recommended_replicas)}",
        f"  raw: {raw}{' – ' + role.reason if role.reason else ''}",
    ]
    for stage in role.stages:
        if stage.before == stage.after and not stage.reason:
            continue
        bounds = ", ".join(
            f"{word} {value}"
            for word, value in (("floor", stage.floor), ("ceiling", stage.ceiling))
            if value is not None
        )
        change = f"{stage.before} → {stage.after}" if stage.before != stage.after else f"stays {stage.after}"
        details = ": ".join(part for part in (bounds, stage.reason) if part)
        lines.append(f"  {stage.stage}: {change}{f' ({details})' if details else ''}")
    lines.append(f"  limited by: {role.limited_by or 'nothing'}")
    if role.next_change_time is not None and not past:
        lines.append(f"  earliest change by itself: {format_time(role.next_change_time)}")
    if role.capacity is not None:
        capacity = role.capacity
        source = f"{capacity.source}{f', {capacity.identity} {capacity.workload}' if capacity.identity else ''}"
        lines.append(f"  capacity: {_rate(capacity.effective_tokens_per_second)} tokens/s per replica ({source})")
    return lines


def _ago(time: str) -> str:
    try:
        return f"{_span(wall_now() - parse_time(time))} ago"
    except ValueError:
        return time or "?"


def _span(seconds: float) -> str:
    """A time in the unit that a person would use."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"


def _count(value: int | None) -> str:
    """What was not observed is not zero."""
    return "?" if value is None else str(value)


def _rate(value: Decimal | None) -> str:
    """Whole tokens, or three digits of what is less than a hundred: more is noise."""
    if value is None:
        return "?"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
