"""How many endpoints of a role requests can reach: what EndpointSlices and routers list of those that may be. Pure.

A Ready replica that nobody lists yet serves nobody, and a scaler that took it for supply would shrink too early; so the
status tells both: `eligible`, and `serving` as far as there is a router.

    NotConfigured   there is no router; EndpointSlices decide what is eligible, where the role's Service has any
    Unknown         a router does not say what it holds, or there is none yet
    NotConverged    routers hold different members
    Confirmed       they agree; `value` is how many of the eligible they hold, which may be fewer
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from controller.api import Pod, RoleEndpoints, ServingEndpoints, ServingState
from controller.deployment.kinds import SERVICE_NAME_LABEL, EndpointSlice
from controller.deployment.replicas import Replica

# Model time until the routers are asked again, which tell nothing by themselves: soon while a member is not in their
# view, now and then to hear of one that they have lost.
UNSETTLED_SECONDS: Final = 1.0
SETTLED_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class RouterView:
    """What one router holds: the UIDs of Pods that it would send a request to; None: it does not say."""

    uids: frozenset[str] | None


def eligible_members(replicas: Iterable[Replica], role: str) -> list[Pod]:
    """The Pods of a role that answer requests and may be sent some."""
    mine = (replica for replica in replicas if replica.role == role and not replica.leaving)
    return [pod for replica in mine for pod in replica.answering or replica.members if pod.eligible]


def role_endpoints(
    members: Sequence[Pod], *, router: bool, views: Sequence[RouterView], slices: Iterable[EndpointSlice], service: str
) -> RoleEndpoints:
    """The endpoints of a role. `members`: its eligible ones; `router`: there is one, or there should be; `slices`: of
    the deployment's Services; `service`: name of the role's own."""
    if not router:
        listed = _listed_by_slices(members, [each for each in slices if _service_of(each) == service])
        return RoleEndpoints(eligible=listed, serving=ServingEndpoints(state=ServingState.NOT_CONFIGURED))
    return RoleEndpoints(eligible=len(members), serving=_serving(members, views))


def settled(endpoints: RoleEndpoints) -> bool:
    """Everything eligible is in every router's view."""
    serving = endpoints.serving
    return serving is not None and serving.state == ServingState.CONFIRMED and serving.value == endpoints.eligible


def _serving(members: Sequence[Pod], views: Sequence[RouterView]) -> ServingEndpoints:
    wanted = {pod.metadata.uid for pod in members}
    held: list[set[str]] = []
    for view in views:
        if view.uids is None:
            return ServingEndpoints(state=ServingState.UNKNOWN)
        # A member that is on its way out may still be in view; it is nobody's supply.
        held.append(wanted & view.uids)
    if not held:
        return ServingEndpoints(state=ServingState.UNKNOWN)
    if any(each != held[0] for each in held):
        return ServingEndpoints(state=ServingState.NOT_CONVERGED)
    return ServingEndpoints(state=ServingState.CONFIRMED, value=len(held[0]))


def _listed_by_slices(members: Sequence[Pod], slices: Sequence[EndpointSlice]) -> int:
    """Without slices (nobody writes them here) the label is all there is to know."""
    if not slices:
        return len(members)
    listed = {uid for each in slices for uid in each.ready_pods}
    return sum(pod.metadata.uid in listed for pod in members)


def _service_of(endpoint_slice: EndpointSlice) -> str | None:
    return endpoint_slice.metadata.label(SERVICE_NAME_LABEL)
