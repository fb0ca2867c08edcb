"""`mdscaler release NAME`: give a scaler's target and its finalizer back when no controller runs."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from controller.cli.leases import Standing, held_leases
from controller.cli.options import Output, OutputOption, package_version
from controller.foundation import OperationFailed, UsageError

if TYPE_CHECKING:
    from controller.kube import KubeClient
    from controller.reconcile.release import GivenBack

_FORCE = "--even-if-a-controller-runs"


def release(
    name: Annotated[str | None, typer.Argument(help="Name of the ModelDeploymentScaler.")] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Default: the context's; with --all: every namespace.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Every scaler, before the controller is taken away for good.")
    ] = False,
    kubeconfig: Annotated[str | None, typer.Option(help="Path of a kubeconfig.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    lease_name: Annotated[
        str, typer.Option(help="Name of the controller's Lease, by which a running one is known.")
    ] = "model-deployment-scaler",
    lease_namespace: Annotated[str | None, typer.Option(help="Its namespace. Default: all are looked at.")] = None,
    force: Annotated[
        bool,
        typer.Option(_FORCE, help="Go on though a controller holds its Lease. It will take what it wants back."),
    ] = False,
    output: OutputOption = Output.TEXT,
) -> int:
    """Do what a controller does when a scaler is deleted: remove the claim from its target, then the finalizer.

    Counts are not touched, and the term on the target stays. Where a controller runs, delete the scaler instead.
    """
    if (name is None) != all_:
        raise UsageError("give the name of a scaler, or --all for every one")
    asyncio.run(_run(name, namespace, all_, kubeconfig, context, lease_name, lease_namespace, force, output))
    return 0


async def _run(
    name: str | None,
    namespace: str | None,
    all_: bool,
    kubeconfig: str | None,
    context: str | None,
    lease_name: str,
    lease_namespace: str | None,
    force: bool,
    output: Output,
) -> None:
    from controller.api import FIELD_MANAGER  # noqa: PLC0415 - heavy
    from controller.kube import ApiError, Invalid, KubeClient, Outcome, load_connection  # noqa: PLC0415
    from controller.reconcile.release import release as give_back  # noqa: PLC0415

    connection = await load_connection(kubeconfig, context)
    client = KubeClient(
        connection, user_agent=f"mdscaler/{package_version()}", field_manager=FIELD_MANAGER, timeout_seconds=10
    )
    where = namespace or (None if all_ else connection.namespace)
    try:
        leader = "" if force else await _leader(client, lease_name, lease_namespace)
        if leader:
            await _require(client, name, where, leader)
            raise OperationFailed(
                f"a controller is running ({leader}): delete the scaler and it gives the target back by itself; to end "
                f"the controller first, scale its Deployment to 0; {_FORCE} goes on all the same"
            )
        given = await give_back(client, where, name)
    except ValueError as failure:
        raise UsageError(str(failure)) from None
    except Invalid as refusal:
        if refusal.outcome is Outcome.NOT_SENT:
            raise UsageError(refusal.message) from None
        raise OperationFailed(f"the API server refused: {refusal}") from None
    except ApiError as failure:
        raise OperationFailed(f"not everything was released ({connection.server}): {failure}; run it again") from None
    finally:
        await client.close()
    _print(given, name, where, output)


async def _require(client: KubeClient, name: str | None, namespace: str | None, leader: str) -> None:
    """Raises OperationFailed when there is no scaler of that name: then there is none to delete."""
    from controller.api import MODEL_DEPLOYMENT_SCALERS  # noqa: PLC0415
    from controller.kube import NotFound  # noqa: PLC0415

    if name is None:
        return
    try:
        await client.get(MODEL_DEPLOYMENT_SCALERS, name, namespace)
    except NotFound:
        raise OperationFailed(
            f"there is no ModelDeploymentScaler {name} in namespace {namespace}. A controller is running ({leader}): "
            f"what a scaler held that is gone, the next one takes over; {_FORCE} looks for it all the same"
        ) from None


async def _leader(client: KubeClient, name: str, namespace: str | None) -> str:
    """Who holds the Lease of a running controller; empty: nobody, as far as Leases tell."""
    for lease in await held_leases(client, name, namespace):
        if lease.standing is Standing.LASTS:
            # A killed controller gives no Lease back, and until it ends nobody can tell that from one that runs.
            ends = math.ceil(lease.ends_in_seconds)
            return f"{lease.holder} holds Lease {lease.key}; if it was killed, the Lease ends in {ends} s"
        if lease.standing is Standing.RENEWED:
            return f"{lease.holder} renews Lease {lease.key}"
    return ""


def _print(given: list[GivenBack], name: str | None, namespace: str | None, output: Output) -> None:
    if output is Output.JSON:
        released = [
            {
                "namespace": each.namespace,
                "scaler": each.name,
                "uid": each.uid or None,
                "targets": list(each.targets),
                "finalizer": each.finalizer,
                "gone": each.gone,
            }
            for each in given
        ]
        typer.echo(orjson.dumps({"released": released}).decode())
        return
    for each in given:
        typer.echo(f"{each.namespace}/{each.name}: {_said(each)}")
    if not given:
        what = "no scaler" if name is None else f"no ModelDeploymentScaler {name}"
        typer.echo(f"there is {what} in {namespace or 'any namespace'}, and nothing is bound to one: nothing to do")


def _said(each: GivenBack) -> str:
    words = [f"released ModelDeployment {target}" for target in each.targets]
    if each.finalizer:
        words.append("removed the finalizer")
    if each.gone:
        words.append("it was being deleted and is gone")
    if not each.uid:
        words.append("the scaler itself was gone")
    return ", ".join(words) if each.anything else "nothing to give back"
