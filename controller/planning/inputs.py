"""From API objects to the first two arguments of `decide`: the spec with its effective defaults, and the capacities.

The API keeps exact decimals and "unset"; the decision core wants floats and no open questions. Every default that takes
effect only at planning is filled in here and nowhere else.
"""

from __future__ import annotations

import hashlib
from decimal import Decimal

from catalog import ResolvedCapacity, ScalerPriors
from controller import api, scaling
from controller.api import ModelDeployment, ScalerSpec
from controller.planning.priors import prior_of
from controller.scaling import Capacity, DecisionSpec


def decision_spec(spec: ScalerSpec, target: ModelDeployment) -> DecisionSpec:
    """The spec as `decide` takes it: the scaler's roles in their order, each with its kind in the target.

    Raises KeyError for a role that the target does not have; `validate_against_target` finds that first.
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


def capacities(spec: ScalerSpec, target: ModelDeployment, priors: ScalerPriors | None) -> Capacity:
    """What one replica of each role serves: the explicit field, else the resolved prior. A role for which nothing is
    known has no entry: it is held."""
    found: Capacity = {}
    for bounds in spec.roles:
        role = target.role(bounds.name)
        kind = role.known_kind if role is not None else None
        if kind is None:
            continue
        explicit = spec.algorithm.explicit_capacity(kind)
        prior = prior_of(priors, bounds.name)
        if explicit is not None:
            found[bounds.name] = _explicit(spec, kind, explicit)
        elif prior is not None and prior.capacity is not None:
            found[bounds.name] = _from_prior(spec, kind, prior.capacity)
    return found


def _explicit(spec: ScalerSpec, kind: str, number: Decimal) -> scaling.RoleCapacity:
    asked = spec.algorithm.capacity_prior
    forecast = spec.algorithm.explicit_forecast_capacity(kind)
    return scaling.RoleCapacity(
        effective_tokens_per_second=float(number),
        # An explicit field is what a person believes a replica does: the seed of Adaptive.
        seed_tokens_per_second=float(number),
        headroom=None if asked is None else float(asked.headroom),
        forecast_tokens_per_second=_float(forecast) if forecast != number else None,
        fingerprint=_fingerprint("explicit", kind, str(number), str(forecast)),
    )


def _from_prior(spec: ScalerSpec, kind: str, capacity: ResolvedCapacity) -> scaling.RoleCapacity:
    return scaling.RoleCapacity(
        effective_tokens_per_second=capacity.effective_tokens_per_second,
        seed_tokens_per_second=capacity.seed_tokens_per_second,
        headroom=capacity.headroom,
        forecast_tokens_per_second=_float(spec.algorithm.explicit_forecast_capacity(kind)),
        fingerprint=capacity.fingerprint,
        curve=tuple((float(concurrency), tokens) for concurrency, tokens in capacity.curve),
        prompt_token_weight=1.0 if capacity.rho is None else capacity.rho,
    )


def _algorithm(spec: ScalerSpec) -> scaling.Algorithm:
    match spec.algorithm.block:
        case api.Proportional() as block:
            return scaling.Proportional(
                metric=scaling.Metric(block.metric),
                role_targets={target.name: float(target.target) for target in block.role_targets},
                tolerance=float(block.tolerance),
            )
        case api.TokenThroughput() as block:
            return _token_throughput(spec, block)
        case api.Predictive() as block:
            return scaling.Predictive(
                token_throughput=_token_throughput(spec, block.token_throughput),
                horizon_seconds=None if block.horizon_seconds is None else float(block.horizon_seconds),
                min_points=block.min_points,
                q_level=float(block.q_level),
                q_trend=float(block.effective_q_trend),
                measurement_noise=float(block.measurement_noise),
                # A slope that nobody set has to earn its trust, whatever `trust` says.
                trust=scaling.Trust.ALWAYS if block.bare_filter else scaling.Trust.EARNED,
            )
        case api.Adaptive() as block:
            return scaling.Adaptive(
                ttft_target_milliseconds=_float(spec.algorithm.ttft_target_milliseconds),
                itl_target_milliseconds=_float(spec.algorithm.itl_target_milliseconds),
                posture=scaling.Posture(block.posture),
                quantile=_float(block.quantile),
                correction=scaling.Correction(block.correction),
            )
    raise ValueError(f"algorithm type {spec.algorithm.type} has no block")


def _token_throughput(spec: ScalerSpec, block: api.TokenThroughput) -> scaling.TokenThroughput:
    return scaling.TokenThroughput(
        stable_window_seconds=float(block.stable_window_seconds),
        panic_window_seconds=float(block.panic_window_seconds),
        panic_threshold=float(block.panic_threshold),
        ttft_target_milliseconds=_float(spec.algorithm.ttft_target_milliseconds),
        itl_target_milliseconds=_float(spec.algorithm.itl_target_milliseconds),
    )


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
