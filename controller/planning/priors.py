"""Capacity priors of a scaler: which roles ask for one, and what the catalog answers. Pure.

Resolved once per reconcile; the same resolution serves the decision, the binding and the status. A role whose
capacity is given explicitly asks for nothing, and Encode has no token capacity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import catalog
from catalog import CatalogResult, LatencyTargets, RolePrior, RoleRequest, ScalerPriors
from controller.api import InstanceType, ModelArtifact, ModelDeployment, Node, RoleKind, ScalerSpec, ScalerStatus
from controller.planning.mix import RoleMix


@dataclass(frozen=True, slots=True)
class PriorSources:
    """What a resolution reads: the catalog (or why there is none), the model's artifact, and of each role its pool
    and, where that does not say its hardware, its nodes. What is absent does not exist or is not known: the role's
    identity is then unresolved, never guessed."""

    catalog: CatalogResult
    artifact: ModelArtifact | None = None
    pools: Mapping[str, InstanceType] = field(default_factory=dict)
    nodes: Mapping[str, Sequence[Node]] = field(default_factory=dict)


def roles_that_ask(spec: ScalerSpec, target: ModelDeployment) -> list[str]:
    """The roles whose capacity is to come from a prior, in spec order."""
    if spec.algorithm.capacity_prior is None:
        return []
    kinds = {bounds.name: role.known_kind for bounds in spec.roles if (role := target.role(bounds.name)) is not None}
    return [
        name
        for name, kind in kinds.items()
        if kind is not None and kind is not RoleKind.ENCODE and spec.algorithm.explicit_capacity(kind) is None
    ]


def resolve_priors(
    spec: ScalerSpec,
    target: ModelDeployment,
    sources: PriorSources,
    status: ScalerStatus,
    mixes: Mapping[str, RoleMix],
) -> ScalerPriors | None:
    """The outcome for every role that needs a prior; None when none is asked for.

    `status` is the last one written: of several measured workloads the one that served before goes on serving until
    another mix is observed. `mixes` are the roles' observed length mixes.
    """
    prior = spec.algorithm.capacity_prior
    if prior is None:
        return None
    requests = []
    for name in roles_that_ask(spec, target):
        known = status.role(name)
        requests.append(
            RoleRequest(
                name=name,
                identity=catalog.infer_identity(
                    catalog.role_input(
                        target,
                        name,
                        artifact=sources.artifact,
                        instance_type=sources.pools.get(name),
                        nodes=sources.nodes.get(name, ()),
                    )
                ),
                targets=LatencyTargets(
                    _float(spec.algorithm.ttft_target_milliseconds), _float(spec.algorithm.itl_target_milliseconds)
                ),
                headroom=float(prior.headroom),
                mode=prior.workload,
                observed=mixes[name].published if name in mixes else None,
                previous_workload=known.capacity.workload or None
                if known is not None and known.capacity is not None
                else None,
            )
        )
    return catalog.resolve_scaler(sources.catalog, requests)


def prior_of(priors: ScalerPriors | None, role: str) -> RolePrior | None:
    """The outcome of one role, None where it asked for nothing."""
    return None if priors is None else priors.role(role)


def _float(number: object) -> float | None:
    return None if number is None else float(str(number))
