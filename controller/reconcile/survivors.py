"""A count falls from the top: whoever cannot serve below keeps the replicas above. Pure.

The contract removes the highest ordinals, whatever they do. While a lower one is still on its way (its Pod was
replaced, no router lists it yet), lowering the count would take a serving replica and leave one that serves nobody:
requests would meet fast 503s. So the count waits, unless those that serve below are enough for the load by themselves.
"""

from __future__ import annotations

from controller.reconcile.observe import RoleView


def survivors_block(view: RoleView, desired: int, needed: int | None) -> str:
    """Why the role must not fall to `desired` now; empty: it may. `needed`: what the load asks for, None: unknown.

    Replicas without an ordinal have no order that is known here, and are not judged."""
    ordinals = {member.replica: member.pod.ordinal for member in view.members if member.serving}
    if not ordinals or any(ordinal is None for ordinal in ordinals.values()):
        return ""
    serving = [ordinal for ordinal in ordinals.values() if ordinal is not None]
    kept = sum(ordinal < desired for ordinal in serving)
    if kept == len(serving) or kept >= desired or (needed is not None and kept >= max(1, needed)):
        return ""
    return (
        f"{len(serving) - kept} serving replicas would go and {desired - kept} of the {desired} that stay do not "
        "serve yet"
    )
