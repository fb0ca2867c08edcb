"""Rules over several members of a spec, as far as the object alone can show them.

The spec comes from an exact reading, so every member that was refused is None, whatever its type says; a rule speaks
only where all that it needs is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from controller.api.algorithms import Algorithm, AlgorithmType, Proportional, TokenThroughput
from controller.api.ratios import Band, contradiction, fits
from controller.api.scaler_spec import Ratio, ScalerSpec
from controller.foundation import FieldError, format_quantity

_BLOCKS = {
    AlgorithmType.PROPORTIONAL: ("proportional", "proportional"),
    AlgorithmType.TOKEN_THROUGHPUT: ("tokenThroughput", "token_throughput"),
    AlgorithmType.PREDICTIVE: ("predictive", "predictive"),
    AlgorithmType.ADAPTIVE: ("adaptive", "adaptive"),
}


def spec_findings(spec: ScalerSpec, refused: frozenset[str]) -> list[FieldError]:
    """Findings of every rule, unsorted. `refused` are the paths that the reading has already complained about: what is
    None there was given, only badly."""
    names = _declared(spec)
    findings = [*_roles(spec), *_ratios(spec, names, refused)]
    if _known(spec.algorithm):
        findings += _algorithm(spec.algorithm, names, refused)
    return findings


def _known(*values: object) -> bool:
    return all(value is not None for value in values)


def _declared(spec: ScalerSpec) -> frozenset[str] | None:
    """Names of the declared roles, None where not all of them are known."""
    if not _known(spec.roles) or not all(_known(role) and _known(role.name) for role in spec.roles):
        return None
    return frozenset(role.name for role in spec.roles)


def _roles(spec: ScalerSpec) -> Iterator[FieldError]:
    seen: dict[str, int] = {}
    for index, role in enumerate(spec.roles if _known(spec.roles) else ()):
        if not _known(role):
            continue
        path = f"spec.roles[{index}]"
        if _known(role.name):
            if role.name in seen:
                yield FieldError(
                    f"{path}.name", f'"{role.name}" is already declared by roles[{seen[role.name]}]: keep one of them'
                )
            seen.setdefault(role.name, index)
        if _known(role.min_replicas, role.max_replicas) and role.max_replicas < role.min_replicas:
            yield FieldError(
                f"{path}.maxReplicas", f"must be at least minReplicas ({role.min_replicas}), found {role.max_replicas}"
            )


def _ratios(spec: ScalerSpec, names: frozenset[str] | None, refused: frozenset[str]) -> Iterator[FieldError]:
    pairs: dict[frozenset[str], int] = {}
    bands: list[Band] = []
    bounds = _bounds(spec)
    for index, ratio in enumerate(spec.ratios if _known(spec.ratios) else ()):
        if not _known(ratio):
            continue
        path = f"spec.ratios[{index}]"
        findings = [*_one_ratio(ratio, path, names, refused)]
        top, bottom = ratio.numerator_role, ratio.denominator_role
        if _known(top, bottom) and top != bottom:
            pair = frozenset((top, bottom))
            if pair in pairs:
                findings.append(
                    FieldError(
                        path, f"{top} and {bottom} are already related by ratios[{pairs[pair]}]: keep one of them"
                    )
                )
            pairs.setdefault(pair, index)
        yield from findings
        band = _band(index, ratio)
        if band is None:
            continue
        if top in bounds and bottom in bounds and not fits(band, bounds[top], bounds[bottom]):
            yield FieldError(
                path,
                f"no counts within the bounds of {top} ({_span(bounds[top])}) and {bottom} ({_span(bounds[bottom])}) "
                f"have a ratio {_limits(ratio)}: widen the bounds or the band",
            )
        else:
            bands.append(band)
    found = contradiction(bands, bounds)
    if found is not None:
        claims = ", ".join(found.claims)
        yield FieldError(
            f"spec.ratios[{found.indices[-1]}]" if found.indices else "spec.ratios",
            f"contradicts the rest: {claims} cannot hold together; change one of these bands",
        )


def _one_ratio(ratio: Ratio, path: str, names: frozenset[str] | None, refused: frozenset[str]) -> Iterator[FieldError]:
    for member, name in (("numeratorRole", ratio.numerator_role), ("denominatorRole", ratio.denominator_role)):
        if names is not None and _known(name) and name not in names:
            yield FieldError(f"{path}.{member}", _undeclared(name, names))
    if _known(ratio.numerator_role) and ratio.numerator_role == ratio.denominator_role:
        yield FieldError(
            f"{path}.denominatorRole", f'must differ from numeratorRole, found "{ratio.denominator_role}" twice'
        )
    low, high, target = ratio.min, ratio.max, ratio.target
    if low is not None and high is not None and low > high:
        yield FieldError(
            f"{path}.min", f"must not be above max ({format_quantity(high)}), found {format_quantity(low)}"
        )
    elif target is not None and ((low is not None and target < low) or (high is not None and target > high)):
        yield FieldError(f"{path}.target", f"must be a ratio {_limits(ratio)}, found {format_quantity(target)}")
    given = any(f"{path}.{member}" in refused for member in ("target", "min", "max"))
    if target is None and low is None and high is None and not given:
        yield FieldError(path, "says nothing: give target (a preference), min or max (a hard band)")


def _band(index: int, ratio: Ratio) -> Band | None:
    """The hard band of a ratio that makes sense by itself, None otherwise."""
    low, high = ratio.min, ratio.max
    if not _known(ratio.numerator_role, ratio.denominator_role) or ratio.numerator_role == ratio.denominator_role:
        return None
    if (low is None and high is None) or (low is not None and high is not None and low > high):
        return None
    return Band(
        index,
        ratio.numerator_role,
        ratio.denominator_role,
        None if low is None else Fraction(low),
        None if high is None else Fraction(high),
    )


def _bounds(spec: ScalerSpec) -> dict[str, range]:
    """The counts allowed for each role whose bounds are known and make sense."""
    bounds: dict[str, range] = {}
    for role in spec.roles if _known(spec.roles) else ():
        if _known(role) and _known(role.name, role.min_replicas, role.max_replicas):
            allowed = range(role.min_replicas, role.max_replicas + 1)
            if len(allowed) > 0:
                bounds.setdefault(role.name, allowed)
    return bounds


def _algorithm(algorithm: Algorithm, names: frozenset[str] | None, refused: frozenset[str]) -> Iterator[FieldError]:
    path = "spec.algorithm"
    if _known(algorithm.type):
        for type_, (json_name, name) in _BLOCKS.items():
            block = getattr(algorithm, name)
            if type_ is algorithm.type and block is None and f"{path}.{json_name}" not in refused:
                yield FieldError(f"{path}.{json_name}", _missing(type_))
            elif type_ is not algorithm.type and block is not None:
                yield FieldError(
                    f"{path}.{json_name}",
                    f"belongs to type {type_}, but type is {algorithm.type}: remove this block or change the type",
                )
    if algorithm.proportional is not None:
        yield from _role_targets(algorithm.proportional, f"{path}.proportional", names)
    if algorithm.token_throughput is not None:
        yield from _windows(algorithm.token_throughput, f"{path}.tokenThroughput")
    if algorithm.predictive is not None and _known(algorithm.predictive.token_throughput):
        yield from _windows(algorithm.predictive.token_throughput, f"{path}.predictive.tokenThroughput")


def _missing(type_: AlgorithmType) -> str:
    may_be_empty = " (it may be empty: {})" if type_ is AlgorithmType.ADAPTIVE else ""
    return f"is required with type {type_}{may_be_empty}"


def _role_targets(proportional: Proportional, path: str, names: frozenset[str] | None) -> Iterator[FieldError]:
    seen: dict[str, int] = {}
    for index, target in enumerate(proportional.role_targets if _known(proportional.role_targets) else ()):
        if not _known(target) or not _known(target.name):
            continue
        where = f"{path}.roleTargets[{index}].name"
        if names is not None and target.name not in names:
            yield FieldError(where, _undeclared(target.name, names))
        if target.name in seen:
            yield FieldError(
                where, f'"{target.name}" already has a target in roleTargets[{seen[target.name]}]: keep one of them'
            )
        seen.setdefault(target.name, index)


def _windows(block: TokenThroughput, path: str) -> Iterator[FieldError]:
    stable, panic = block.stable_window_seconds, block.panic_window_seconds
    if _known(stable, panic) and panic > stable:
        yield FieldError(
            f"{path}.panicWindowSeconds", f"must not be longer than stableWindowSeconds ({stable}), found {panic}"
        )


def _undeclared(name: str, names: Iterable[str]) -> str:
    return (
        f'"{name}" is not declared in spec.roles, which has {", ".join(sorted(names))}: declare it or correct the name'
    )


def _span(allowed: range) -> str:
    return f"{allowed.start}–{allowed.stop - 1}"


def _limits(ratio: Ratio) -> str:
    if ratio.min is not None and ratio.max is not None:
        return f"from {format_quantity(ratio.min)} to {format_quantity(ratio.max)}"
    if ratio.min is not None:
        return f"of at least {format_quantity(ratio.min)}"
    return f"of at most {format_quantity(ratio.max)}" if ratio.max is not None else "of any size"
