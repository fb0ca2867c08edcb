"""`bounds`: a person's minimum and maximum of each role. They hold without samples, without capacity, and over
everything."""

from __future__ import annotations

import msgspec

from controller.scaling.stages.plan import Context, Plans
from controller.scaling.types import Stage


def bounds(plans: Plans, context: Context) -> Plans:
    """Bring floor, ceiling and desired into [minReplicas, maxReplicas]; later stages cannot leave it."""
    bounded: Plans = {}
    for name, plan in plans.items():
        role = context.roles[name].role
        low, high = role.min_replicas, max(role.min_replicas, role.max_replicas)
        limited = msgspec.structs.replace(plan, minimum=low, maximum=high)
        reason = f"minReplicas is {low}" if plan.desired < low else f"maxReplicas is {high}"
        bounded[name] = limited.narrowed(Stage.BOUNDS, reason=reason)
    return bounded
