"""From a role's identity and latency targets to the capacity of one replica.

`resolve_role` answers for one role, `resolve_scaler` for all roles of a scaler together with its condition
`CapacityPriorResolved`. Both are pure: same inputs, same answer, no clock.

- Profile: exact identity; an unstated quantization takes the only one that the catalog has for the rest of the
identity.
- Workload: the one nearest to the observed input:output ratio (log distance), with hysteresis towards the one that
served
  before; before any mix is observed the one that served before, and with neither the one of lowest effective capacity,
  because total tokens/s differ fivefold between mixes and too high a capacity starves users.
- Point: `operating_point`, not beyond what the engine runs at once by its own flags. Seed: its throughput in the
  role's demand unit. Effective: seed × headroom.
- `workload: Observed` converts the point to the observed mix (`workload_mix`): demand is then counted in output
  equivalents, output + rho × uncached input, and capacity is 1/B(c), which does not move with the mix. Where the
  conversion is refused the measured point serves unchanged and the mismatch factor is reported all the same.
- Fingerprint: digest of everything that the number was computed from. When it changes, what was remembered under the
old
  number is void.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import msgspec

from catalog.identity import Identity, Role
from catalog.inference import RoleIdentity, Unidentified, without_secrets
from catalog.loading import CatalogFailure, CatalogResult, LoadedCatalog
from catalog.operating_point import LatencyTargets, NoPoint, OperatingPoint, choose_point
from catalog.prediction import ObservedMix, Prediction, best_concurrency, predict
from catalog.schema import Profile
from catalog.workload_mix import MixFit, MixRefusal
from controller.api import PointSelection, PriorReason, PriorWorkload
from controller.foundation import format_quantity

MEDIAN: Final = 50.0
# A condition message is read on one screen.
WORKLOADS_EXPLAINED: Final = 3
DEFAULT_HEADROOM: Final = 0.75
# Another workload takes over only when it is nearer by this much in log ratio (a fifth of the way between 1:1 and 4:1),
# so that a mix on the border does not flip the capacity at every reconcile.
HYSTERESIS: Final = 0.25


# The worst first: what concerns all roles before what concerns one.
_SEVERITY: Final = {
    reason: rank
    for rank, reason in enumerate(
        (
            PriorReason.CONFIG_MAP_NOT_FOUND,
            PriorReason.CATALOG_INVALID,
            PriorReason.ROLE_IDENTITY_UNRESOLVED,
            PriorReason.PROFILE_NOT_FOUND,
            PriorReason.NO_POINT_WITHIN_LATENCY_TARGET,
            PriorReason.CATALOG_RESOLVED,
        )
    )
}


class DemandUnit(StrEnum):
    """What a capacity counts, and so what demand must be counted in."""

    TOTAL = "TotalTokens"
    INPUT = "InputTokens"
    OUTPUT = "OutputTokens"
    OUTPUT_EQUIVALENT = "OutputEquivalentTokens"


_UNITS: Final = {Role.SERVER: DemandUnit.TOTAL, Role.PREFILL: DemandUnit.INPUT, Role.DECODE: DemandUnit.OUTPUT}


@dataclass(frozen=True, slots=True)
class RoleRequest:
    """What to resolve for one role. `previous_workload` is the label that served before (from status)."""

    name: str
    identity: RoleIdentity
    targets: LatencyTargets
    headroom: float = DEFAULT_HEADROOM
    mode: PriorWorkload = PriorWorkload.PROFILE
    observed: ObservedMix | None = None
    previous_workload: str | None = None


@dataclass(frozen=True, slots=True)
class MixReport:
    """How the observed mix changes the capacity at the operating point: `factor` = converted total ÷ measured total.
    `refusal` says why the conversion may not be used, None where it may."""

    factor: float
    sigma: float
    low: float
    rho: float
    refusal: MixRefusal | None


@dataclass(frozen=True, slots=True)
class ResolvedCapacity:
    """The capacity of one replica in `unit` tokens/s. `curve` holds (concurrency, tokens/s) of every measured point in
    the same unit, ascending; `rho` is set where the unit is output equivalents."""

    seed_tokens_per_second: float
    effective_tokens_per_second: float
    headroom: float
    unit: DemandUnit
    selection: PointSelection
    concurrency: int
    workload: str
    profile_digest: str
    fingerprint: str
    curve: tuple[tuple[int, float], ...]
    point: OperatingPoint
    rho: float | None = None


@dataclass(frozen=True, slots=True)
class RolePrior:
    """The outcome for one role. `message` holds no value of a variable. `identity` is the canonical text, with the
    profile's quantization where the role states none; empty where it is unresolved."""

    role: str
    reason: PriorReason
    message: str
    identity: str = ""
    declared: bool = False
    capacity: ResolvedCapacity | None = None
    mix: MixReport | None = None
    observed_workload: str = ""  # mean lengths of the observed mix, as in 900/310; empty where they are unknown


@dataclass(frozen=True, slots=True)
class ScalerPriors:
    """All roles of a scaler and the condition: resolved only when every role is; the worst role gives the reason."""

    resolved: bool
    reason: PriorReason
    message: str
    roles: tuple[RolePrior, ...]

    def role(self, name: str) -> RolePrior | None:
        """The outcome of one role."""
        return next((prior for prior in self.roles if prior.role == name), None)


def resolve_scaler(catalog: CatalogResult, requests: Iterable[RoleRequest]) -> ScalerPriors:
    """Resolve every role that needs a prior (not Encode, and none whose capacity is stated explicitly)."""
    if isinstance(catalog, CatalogFailure):
        reason = PriorReason(catalog.problem.value)
        # The message quotes the catalog, and whoever wrote that may have pasted a variable of a role into it.
        asked = list(requests)
        said = without_secrets(catalog.message, {secret for request in asked for secret in request.identity.secrets})
        return ScalerPriors(False, reason, said, tuple(RolePrior(request.name, reason, said) for request in asked))
    roles = tuple(resolve_role(catalog, request) for request in requests)
    if not roles:
        return ScalerPriors(True, PriorReason.CATALOG_RESOLVED, "no role needs a prior", roles)
    worst = min(roles, key=lambda prior: _SEVERITY[prior.reason])
    message = "; ".join(prior.message for prior in roles)
    return ScalerPriors(worst.reason is PriorReason.CATALOG_RESOLVED, worst.reason, message, roles)


def resolve_role(catalog: LoadedCatalog, request: RoleRequest) -> RolePrior:
    """Resolve one role against a usable catalog."""
    if isinstance(request.identity, Unidentified):
        return RolePrior(request.name, PriorReason.ROLE_IDENTITY_UNRESOLVED, request.identity.message)
    prior = _resolve(catalog, request, request.identity.identity, request.identity.declared)
    secrets = request.identity.secrets
    if not secrets:
        return prior
    return replace(
        prior,
        message=without_secrets(prior.message, secrets),
        identity=without_secrets(prior.identity, secrets),
    )


def _resolve(catalog: LoadedCatalog, request: RoleRequest, wanted: Identity, declared: bool) -> RolePrior:
    identity = _with_quantization(catalog, wanted)
    profiles = catalog.index.profiles(identity)
    if not profiles:
        message = f"role {request.name}: {_not_found(catalog, wanted)}"
        return RolePrior(request.name, PriorReason.PROFILE_NOT_FOUND, message, str(wanted), declared)
    missing = request.targets.needed_by(identity.role)
    if missing:
        message = f"role {request.name}: {' and '.join(missing)} must be set to choose an operating point"
        return RolePrior(request.name, PriorReason.NO_POINT_WITHIN_LATENCY_TARGET, message, str(identity), declared)
    profile, point = _choose(profiles, request)
    if isinstance(point, NoPoint):
        message = f"role {request.name}: {identity}: no point within the latency targets; {point.closest}"
        return RolePrior(request.name, PriorReason.NO_POINT_WITHIN_LATENCY_TARGET, message, str(identity), declared)
    observed = request.observed if request.observed is not None and request.observed.input_per_output > 0 else None
    fit = catalog.index.fit(profile) if observed is not None else None
    mix = _mix_report(fit, point, observed)
    capacity = _measured(catalog, request, profile, point)
    if isinstance(fit, MixFit) and observed is not None and request.mode is PriorWorkload.OBSERVED:
        capacity = _converted(request, capacity, fit, observed) or capacity
    return RolePrior(
        role=request.name,
        reason=PriorReason.CATALOG_RESOLVED,
        message=_resolved_message(request.name, identity, capacity, mix),
        identity=str(identity),
        declared=declared,
        capacity=capacity,
        mix=mix,
        observed_workload=_lengths(request.observed),
    )


def _lengths(observed: ObservedMix | None) -> str:
    if observed is None or observed.mean_input_tokens is None or observed.mean_output_tokens is None:
        return ""
    return f"{observed.mean_input_tokens:.0f}/{observed.mean_output_tokens:.0f}"


def _with_quantization(catalog: LoadedCatalog, wanted: Identity) -> Identity:
    if wanted.quantization is not None:
        return wanted
    known = catalog.index.quantizations(wanted)
    return msgspec.structs.replace(wanted, quantization=known[0]) if len(known) == 1 else wanted


def _not_found(catalog: LoadedCatalog, wanted: Identity) -> str:
    known = catalog.index.quantizations(wanted) if wanted.quantization is None else ()
    if len(known) > 1:
        return (
            f"{wanted}: the quantization is not stated and {catalog.named} holds {' and '.join(known)} for it: "
            "state it with --quantization or declare the identity"
        )
    nearest = catalog.index.nearest(wanted)
    if nearest is None:
        return f"no profile for {wanted}: {catalog.named} holds no profile"
    found, differences = nearest
    return f"no profile for {wanted} in {catalog.named}; nearest is {found}, differing in {', '.join(differences)}"


def _choose(profiles: tuple[Profile, ...], request: RoleRequest) -> tuple[Profile, OperatingPoint | NoPoint]:
    """The profile whose workload serves, and its operating point."""
    most = _most_requests(request)
    serving = _serving_workload(profiles, request)
    if serving is not None:
        point = choose_point(serving, request.targets, most)
        if isinstance(point, NoPoint):
            point = NoPoint(f"under workload {serving.workload.label} {point.closest}")
        return serving, point
    chosen = [(profile, choose_point(profile, request.targets, most)) for profile in profiles]
    passing = [(profile, point) for profile, point in chosen if isinstance(point, OperatingPoint)]
    if passing:
        return min(passing, key=lambda pair: (pair[1].point.tokens_per_second(pair[0].role), pair[0].key))
    reasons = [
        f"under workload {profile.workload.label} {point.closest}"
        for profile, point in chosen
        if isinstance(point, NoPoint)
    ]
    more = f"; and {len(reasons) - WORKLOADS_EXPLAINED} more workloads" if len(reasons) > WORKLOADS_EXPLAINED else ""
    return profiles[0], NoPoint("; ".join(reasons[:WORKLOADS_EXPLAINED]) + more)


def _most_requests(request: RoleRequest) -> int | None:
    return None if isinstance(request.identity, Unidentified) else request.identity.most_requests


def _serving_workload(profiles: tuple[Profile, ...], request: RoleRequest) -> Profile | None:
    """The only workload, the nearest to the observed mix, or the one that served before; None where neither says."""
    if len(profiles) == 1:
        return profiles[0]
    previous = next((p for p in profiles if p.workload.label == request.previous_workload), None)
    observed = request.observed
    if observed is None or not observed.is_known:
        return previous

    def distance(profile: Profile) -> float:
        return abs(math.log(observed.input_per_output / profile.mix))

    nearest = min(profiles, key=lambda profile: (distance(profile), profile.key))
    if previous is not None and distance(previous) - distance(nearest) < HYSTERESIS:
        return previous
    return nearest


def _mix_report(
    fit: MixFit | MixRefusal | None, point: OperatingPoint, observed: ObservedMix | None
) -> MixReport | None:
    if not isinstance(fit, MixFit) or observed is None:
        return None
    found = predict(fit, point.point.concurrency, observed)
    if found is None:
        return None
    return MixReport(
        factor=found.total / point.point.total_tokens_per_second,
        sigma=found.sigma,
        low=found.low,
        rho=found.rho,
        refusal=found.refusal,
    )


def _measured(
    catalog: LoadedCatalog, request: RoleRequest, profile: Profile, point: OperatingPoint
) -> ResolvedCapacity:
    seed = point.point.tokens_per_second(profile.role)
    digest = catalog.index.digest(profile)
    unit = _UNITS[profile.role]
    return ResolvedCapacity(
        seed_tokens_per_second=seed,
        effective_tokens_per_second=seed * request.headroom,
        headroom=request.headroom,
        unit=unit,
        selection=point.selection,
        concurrency=point.point.concurrency,
        workload=profile.workload.label,
        profile_digest=digest,
        fingerprint=_fingerprint(
            profile.key, digest, point.point.concurrency, seed, request.headroom, *request.targets, unit.value
        ),
        curve=tuple([(p.concurrency, p.tokens_per_second(profile.role)) for p in profile.points]),
        point=point,
    )


def _converted(
    request: RoleRequest, capacity: ResolvedCapacity, fit: MixFit, observed: ObservedMix
) -> ResolvedCapacity | None:
    """The capacity in output equivalents, None where the conversion is refused."""
    targets, most = request.targets, _most_requests(request)
    # The highest concurrency that `best_concurrency` looks at.
    reachable = max((c for c in fit.grid if c <= min(fit.largest_common, most or fit.largest_common)), default=0)
    found: Prediction | None
    if targets.quantile > MEDIAN:
        found, selection = predict(fit, capacity.concurrency, observed), PointSelection.LATENCY_NOT_TRANSFERABLE
    else:
        ttft, itl = targets.ttft_milliseconds, targets.itl_milliseconds
        found = best_concurrency(
            fit,
            observed,
            ttft_seconds=None if ttft is None else ttft / 1000,
            tpot_seconds=None if itl is None else itl / 1000,
            most_requests=most,
        )
        saturated = found is not None and found.concurrency == reachable
        selection = PointSelection.EXPLICIT_SATURATION if saturated else PointSelection.BRACKETED
    if found is None or found.refusal is not None:
        return None
    seed = 1 / fit.b[fit.grid.index(found.concurrency)]
    return ResolvedCapacity(
        seed_tokens_per_second=seed,
        effective_tokens_per_second=seed * request.headroom,
        headroom=request.headroom,
        unit=DemandUnit.OUTPUT_EQUIVALENT,
        selection=selection,
        concurrency=found.concurrency,
        workload=capacity.workload,
        profile_digest=capacity.profile_digest,
        # Of the fit, not of the passing mix: a drifting mix must not void what was remembered.
        fingerprint=_fingerprint(
            capacity.profile_digest,
            fit.a,
            *fit.grid,
            *fit.b,
            found.concurrency,
            request.headroom,
            *targets,
            DemandUnit.OUTPUT_EQUIVALENT.value,
        ),
        curve=tuple([(concurrency, 1 / b) for concurrency, b in zip(fit.grid, fit.b, strict=True)]),
        point=capacity.point,
        rho=found.rho,
    )


def _fingerprint(*inputs: object) -> str:
    text = json.dumps(inputs, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _resolved_message(name: str, identity: Identity, capacity: ResolvedCapacity, mix: MixReport | None) -> str:
    unit = "output-equivalent tokens/s" if capacity.unit is DemandUnit.OUTPUT_EQUIVALENT else "tokens/s"
    message = (
        f"role {name}: {identity} {capacity.workload}: {_short(capacity.seed_tokens_per_second)} {unit} at concurrency "
        f"{capacity.concurrency} ({capacity.selection.value}) × {_short(capacity.headroom)} = "
        f"{format_quantity(round(capacity.effective_tokens_per_second, 2))}"
    )
    if mix is None:
        return message
    refused = f", not converted: {mix.refusal.value}" if mix.refusal is not None else ""
    return f"{message}; observed mix × {mix.factor:.2f} (sigma {mix.sigma:.2f}{refused})"


def _short(number: float) -> str:
    return format_quantity(round(number, 3))
