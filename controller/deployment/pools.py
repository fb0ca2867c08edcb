"""What a Pod asks of the cluster, from its role and the pool (InstanceType) that the role names. Pure.

A pool that is not known leaves out what only it could tell: the accelerator's resource name, cards' share of CPU and
memory, node labels. That is said in the status and by an event; whether the Pod can then work is the cluster's matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from controller.api import InstanceType, Role, quantity_of
from controller.foundation import format_quantity

# Manufacturer → the extended resource of whole cards, as the vendors' device plug-ins name them.
ACCELERATOR_RESOURCES: Final = {
    "amd": "amd.com/gpu",
    "ascend": "huawei.com/npu",
    "cambricon": "cambricon.com/mlu",
    "hygon": "hygon.com/dcu",
    "iluvatar": "iluvatar.com/gpu",
    "metax": "metax-tech.com/gpu",
    "mthreads": "mthreads.com/gpu",
    "nvidia": "nvidia.com/gpu",
    "thead": "alibabacloud.com/ppu",
}
# Set on nodes by whoever knows their cards; by hand:
# kubectl label node NODE acceleratable.feature.gpustack.ai/nvidia-h200=true
_ACCELERATOR_NODE_LABEL: Final = "acceleratable.feature.gpustack.ai/"


@dataclass(frozen=True, slots=True)
class Demand:
    """A Pod's part of the pool."""

    requests: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)


def demand_of(role: Role, pool: InstanceType | None) -> Demand:
    """What one Pod of the role asks for."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    cards = role.accelerators
    resource = accelerator_resource(pool)
    if resource and cards > 0:
        # An extended resource cannot be overcommitted: both must be given and be equal.
        requests[resource] = limits[resource] = format_quantity(cards)
    units = pool.spec.unit_resources if pool is not None else None
    own = role.resources
    for name, given, per_card in (
        ("cpu", own.cpu if own is not None else None, units.cpu if units is not None else None),
        ("memory", own.ram if own is not None else None, units.ram if units is not None else None),
    ):
        amount = quantity_of(given) if given is not None else _times(quantity_of(per_card), cards)
        if amount:
            requests[name] = format_quantity(amount)
    storage = quantity_of(own.local_storage) if own is not None else None
    if storage is None and pool is not None:
        storage = quantity_of(pool.spec.local_storage)
    if storage:
        requests["ephemeral-storage"] = format_quantity(storage)
    return Demand(requests, limits, _node_selector(pool, cards))


def accelerator_resource(pool: InstanceType | None) -> str:
    """The extended resource of the pool's cards; empty where that is not known."""
    if pool is None:
        return ""
    observed = pool.status.detail.manufacturer if pool.status.detail is not None else ""
    manufacturer = observed or pool.spec.accelerator_group.partition("-")[0]
    return ACCELERATOR_RESOURCES.get(manufacturer.lower(), "")


def _node_selector(pool: InstanceType | None, cards: Decimal) -> dict[str, str]:
    if pool is None:
        return {}
    selector = {}
    if pool.spec.os:
        selector["kubernetes.io/os"] = pool.spec.os
    if pool.spec.arch:
        selector["kubernetes.io/arch"] = pool.spec.arch
    if pool.spec.accelerator_group and cards > 0:
        selector[f"{_ACCELERATOR_NODE_LABEL}{pool.spec.accelerator_group}"] = "true"
    return selector


def _times(per_card: Decimal | None, cards: Decimal) -> Decimal | None:
    return None if per_card is None else per_card * cards
