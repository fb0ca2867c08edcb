"""From API objects to the first two arguments of `decide`: the spec with its effective defaults, and the capacities.

The API keeps exact decimals and "unset"; the decision core wants floats and no open questions. Every default that takes
effect only at planning is filled in here and nowhere else.
"""

from __future__ import annotations

import hashlib
from decimal import Decimal

from controller import api, scaling
from controller.api import ModelDeployment, ScalerSpec
from controller.scaling import Capacity, DecisionSpec


class UnsupportedAlgorithm(ValueError):
    """The spec asks for an algorithm that this version does not have."""


def decision_spec(spec: ScalerSpec, target: ModelDeployment) -> DecisionSpec:
    """The spec as `decide` takes it: the scaler's roles in their order, each with its kind in the target.

    Raises KeyError for a role that the target does not have (`validate_against_target` finds that first), and
    UnsupportedAlgorithm.
    """
    roles = []
    for bounds in spec.roles:
        role = target.role(bounds.name)
        if role is None or role.known_kind is None:
            raise KeyError(bounds.name)
        roles.append(
            scaling.RoleSpec(
                name=bounds.name,
                kind=scaling.RoleKind(role.known_kind),
                min_replicas=bounds.min_replicas,
                max_replicas=bounds.max_replicas,
            )
        )
    return DecisionSpec(
        roles=tuple(roles),
        algorithm=_algorithm(spec),
        ratios=tuple(
            scaling.RatioSpec(
                numerator_role=ratio.numerator_role,
                denominator_role=ratio.denominator_role,
                target=_float(ratio.target),
                min=_float(ratio.min),
                max=_float(ratio.max),
            )
            for ratio in spec.ratios
        ),
        behavior=scaling.Behavior(
            scale_up=_direction(spec.behavior.scale_up), scale_down=_direction(spec.behavior.scale_down)
        ),
        sampling_interval_seconds=float(spec.sampling.interval_seconds),
        pending_timeout_seconds=float(spec.sampling.pending_timeout_seconds),
    )


def capacities(spec: ScalerSpec, target: ModelDeployment) -> Capacity:
    """What one replica of each role serves. A role for which nothing is known has no entry: it is held."""
    found: Capacity = {}
    for bounds in spec.roles:
        role = target.role(bounds.name)
        kind = role.known_kind if role is not None else None
        number = None if kind is None else spec.algorithm.explicit_capacity(kind)
        if number is not None:
            found[bounds.name] = scaling.RoleCapacity(
                effective_tokens_per_second=float(number), fingerprint=_fingerprint("explicit", str(kind), str(number))
            )
    return found


def _algorithm(spec: ScalerSpec) -> scaling.Algorithm:
    match spec.algorithm.block:
        case api.Proportional() as block:
            return scaling.Proportional(
                metric=scaling.Metric(block.metric),
                role_targets={target.name: float(target.target) for target in block.role_targets},
                tolerance=float(block.tolerance),
            )
        case api.TokenThroughput() as block:
            return scaling.TokenThroughput(
                stable_window_seconds=float(block.stable_window_seconds),
                panic_window_seconds=float(block.panic_window_seconds),
                panic_threshold=float(block.panic_threshold),
                ttft_target_milliseconds=_float(spec.algorithm.ttft_target_milliseconds),
                itl_target_milliseconds=_float(spec.algorithm.itl_target_milliseconds),
            )
        case _:
            raise UnsupportedAlgorithm(spec.algorithm.type)


def _direction(block: api.ScaleUp | api.ScaleDown) -> scaling.DirectionBehavior:
    return scaling.DirectionBehavior(
        stabilization_window_seconds=float(block.stabilization_window_seconds),
        max_step_replicas=block.max_step_replicas,
        policies=tuple(
            scaling.ScalingPolicy(
                type=scaling.PolicyType(policy.type), value=policy.value, period_seconds=float(policy.period_seconds)
            )
            for policy in block.policies
        ),
        select_policy=scaling.SelectPolicy(block.select_policy),
    )


def _fingerprint(*parts: str) -> str:
    return "sha256:" + hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _float(number: Decimal | None) -> float | None:
    return None if number is None else float(number)
