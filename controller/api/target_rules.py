"""Rules that need the target: which roles it has, of which kinds, on which hardware, behind which engine limits.

`validate_against_target` is total: it returns findings and never raises. Called with None (the target does not exist
yet) it checks what holds for every target that could come; for a target that cannot be read it finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_DOWN, Decimal

from controller.api.algorithms import Algorithm, AlgorithmType, Proportional, ProportionalMetric, RoleTarget
from controller.api.contract import EngineName, RoleKind
from controller.api.deployment_spec import Role
from controller.api.model_deployment import ModelDeployment
from controller.api.scaler_spec import ScalerSpec
from controller.foundation import FieldError, format_quantity

_CAPACITY_MEMBERS = {
    RoleKind.SERVER: "targetTokensPerSecond",
    RoleKind.PREFILL: "prefillTargetTokensPerSecond",
    RoleKind.DECODE: "decodeTargetTokensPerSecond",
}
_CAPACITY_PATHS = {
    AlgorithmType.TOKEN_THROUGHPUT: "spec.algorithm.tokenThroughput",
    AlgorithmType.PREDICTIVE: "spec.algorithm.predictive.tokenThroughput",
    AlgorithmType.ADAPTIVE: "spec.algorithm.adaptive",
}
# Which latency bounds the operating point of which kind.
_NEEDS_TTFT = (RoleKind.SERVER, RoleKind.PREFILL)
_NEEDS_ITL = (RoleKind.SERVER, RoleKind.DECODE)


def validate_against_target(spec: ScalerSpec, target: ModelDeployment | None) -> list[FieldError]:
    """Findings of a valid spec against its target, sorted by path."""
    if target is None:
        findings = [*_unresolved(spec.algorithm)]
    elif target.unreadable:
        findings = []  # what cannot be read proves nothing
    else:
        findings = [*_roles(spec, target), *_proportional(spec, target), *_capacities(spec.algorithm, target)]
    return sorted(set(findings))


def engine_request_limit(role: Role, engine: str) -> int | None:
    """The most requests that one replica runs at once by its engine's own flags; None where that cannot be read.

    vLLM's `--max-num-seqs` holds per data-parallel rank, so it is multiplied by `--data-parallel-size`; any other way
    of spreading ranks is not read. A command line that the user took over is not read either.
    """
    known = next((name for name in EngineName if name.lower() == engine.lower()), None)
    if role.takes_over or known is None:
        return None
    arguments = role.extra_args or ()
    if known is EngineName.SGLANG:
        # Under attention data parallelism the flag is divided among the ranks: not read.
        spread = any(
            _names(argument, flag, 6) for flag in ("--dp-size", "--data-parallel-size") for argument in arguments
        )
        return None if spread else _last_value(arguments, "--max-running-requests", len("--max-r"))
    limit = _last_value(arguments, "--max-num-seqs", len("--max-num-s"))
    ranks = _ranks(role)
    return None if limit is None or ranks is None else limit * ranks


def _roles(spec: ScalerSpec, target: ModelDeployment) -> Iterator[FieldError]:
    name, declared = target.metadata.name, {role.name for role in target.roles}
    for index, bounds in enumerate(spec.roles):
        if bounds.name not in declared:
            has = ", ".join(sorted(declared)) or "none"
            yield FieldError(
                f"spec.roles[{index}].name",
                f'"{bounds.name}" is no role of ModelDeployment {name}, which has {has}: correct or remove it',
            )
    for role in target.roles:
        if spec.bounds(role.name) is None:
            yield FieldError(
                "spec.roles",
                f'has no bounds for role "{role.name}" of ModelDeployment {name}: '
                f"add {{name: {role.name}, maxReplicas: {max(role.replicas, 1)}}} with the most replicas you allow",
            )


def _proportional(spec: ScalerSpec, target: ModelDeployment) -> Iterator[FieldError]:
    block = spec.algorithm.block
    if not isinstance(block, Proportional):
        return
    path = "spec.algorithm.proportional.roleTargets"
    targets = {role_target.name: (index, role_target) for index, role_target in enumerate(block.role_targets)}
    related = {name for ratio in spec.ratios for name in (ratio.numerator_role, ratio.denominator_role)}
    for role in target.roles:
        found = targets.get(role.name)
        if found is not None:
            yield from _reachable(block, found[1], role, target, f"{path}[{found[0]}].target")
        elif role.kind != RoleKind.ENCODE:
            yield FieldError(path, f'has no target for role "{role.name}": add {{name: {role.name}, target: "…"}}')
        elif role.name not in related:
            yield FieldError(
                path,
                f'has no target for role "{role.name}", and no ratio relates it to another role: add one of the two',
            )


def _reachable(
    block: Proportional, role_target: RoleTarget, role: Role, target: ModelDeployment, path: str
) -> Iterator[FieldError]:
    """Running requests cannot exceed the engine's own limit, so a threshold at or above it is never crossed."""
    if block.metric is not ProportionalMetric.RUNNING_REQUESTS:
        return
    limit = engine_request_limit(role, target.spec.engine.name)
    threshold = role_target.target * (1 + block.tolerance)
    if limit is None or threshold < limit:
        return
    below = (limit / (1 + block.tolerance)).quantize(Decimal("0.1"), rounding=ROUND_DOWN)
    yield FieldError(
        path,
        f'role "{role.name}" would grow only above {format_quantity(threshold)} running requests per replica '
        f"(target {format_quantity(role_target.target)}, tolerance {format_quantity(block.tolerance)}), but its engine "
        f"runs at most {limit}: set a target below {format_quantity(below)}, or metric QueueDepth",
    )


def _capacities(algorithm: Algorithm, target: ModelDeployment) -> Iterator[FieldError]:
    path = _CAPACITY_PATHS.get(algorithm.type)
    if path is None:
        return
    from_prior: set[RoleKind] = set()
    for role in target.roles:
        kind = role.known_kind
        if kind is None or kind is RoleKind.ENCODE or algorithm.explicit_capacity(kind) is not None:
            continue
        if algorithm.capacity_prior is not None:
            from_prior.add(kind)
            continue
        yield FieldError(
            f"{path}.{_CAPACITY_MEMBERS[kind]}",
            f'is required: role "{role.name}" of kind {kind} needs the tokens/s that one replica serves; '
            "give it, or add spec.algorithm.capacityPrior to take it from a catalog",
        )
    yield from _latency_targets(algorithm, path, from_prior)
    yield from _hardware(algorithm, path, target)


def _latency_targets(algorithm: Algorithm, path: str, kinds: set[RoleKind]) -> Iterator[FieldError]:
    block = algorithm.capacities
    if block is None:
        return
    for member, value, needing in (
        ("ttftTargetMilliseconds", block.ttft_target_milliseconds, _NEEDS_TTFT),
        ("itlTargetMilliseconds", block.itl_target_milliseconds, _NEEDS_ITL),
    ):
        asking = [str(kind) for kind in needing if kind in kinds]
        if asking and value is None:
            yield FieldError(
                f"{path}.{member}",
                f"is required: capacityPrior needs it to find the operating point of {' and '.join(asking)} roles; "
                f"give the wanted p95 in milliseconds, or an explicit capacity",
            )


def _hardware(algorithm: Algorithm, path: str, target: ModelDeployment) -> Iterator[FieldError]:
    """One explicit number cannot be right for Server replicas of different strength."""
    if algorithm.capacity_prior is not None or algorithm.explicit_capacity(RoleKind.SERVER) is None:
        return
    servers = [role for role in target.roles if role.kind == RoleKind.SERVER]
    shapes = {(role.pool, role.size, role.accelerators) for role in servers}
    if len(shapes) > 1:
        listed = ", ".join(f"{role.name} on {_hardware_of(role)}" for role in servers)
        yield FieldError(
            f"{path}.{_CAPACITY_MEMBERS[RoleKind.SERVER]}",
            f"is one number for Server roles on differing hardware ({listed}): "
            "remove it and add spec.algorithm.capacityPrior, or give the roles equal hardware",
        )


def _hardware_of(role: Role) -> str:
    cards = format_quantity(role.accelerators * role.size)
    return f"{cards} × {role.pool or 'an unnamed instance type'}"


def _unresolved(algorithm: Algorithm) -> Iterator[FieldError]:
    """The kinds of roles are not known. Explicit capacities show which ones are meant; without any, both latencies."""
    path = _CAPACITY_PATHS.get(algorithm.type)
    if path is None:
        return
    explicit = {kind for kind in _CAPACITY_MEMBERS if algorithm.explicit_capacity(kind) is not None}
    if explicit & {RoleKind.PREFILL, RoleKind.DECODE}:
        missing = {RoleKind.PREFILL, RoleKind.DECODE} - explicit
    elif explicit:
        missing = set()
    else:
        missing = {RoleKind.SERVER}
    if algorithm.capacity_prior is not None:
        yield from _latency_targets(algorithm, path, missing)
    elif not explicit:
        yield FieldError(
            path,
            f"has no capacity: give {' or '.join(_CAPACITY_MEMBERS.values())}, or add spec.algorithm.capacityPrior",
        )


def _last_value(arguments: tuple[str, ...], flag: str, shortest: int) -> int | None:
    """The value that the engine's parser would take for a flag: the last one, `--flag v` or `--flag=v`, in full or as a
    prefix of at least `shortest` characters; None where it is absent or no number."""
    value: str | None = None
    for index, argument in enumerate(arguments):
        if argument == "--":
            break
        if _names(argument, flag, shortest):
            _, separator, attached = argument.partition("=")
            value = attached if separator else next(iter(arguments[index + 1 : index + 2]), None)
    if value is None or not value.isascii() or not value.isdecimal() or len(value) > 9:
        return None
    return int(value) or None


def _names(argument: str, flag: str, shortest: int) -> bool:
    """The argument gives this flag: in full or as a prefix of at least `shortest` characters, `_` for `-` allowed."""
    name = argument.partition("=")[0].replace("_", "-")
    return len(name) >= shortest and flag.startswith(name)


def _ranks(role: Role) -> int | None:
    """Data-parallel ranks of one vLLM replica, None where they cannot be read."""
    if any(variable.name == "VLLM_DP_SIZE" for variable in role.env or ()):
        return None
    arguments = role.extra_args or ()
    spread = [argument for argument in arguments if argument.replace("_", "-").startswith(("--data-parallel", "-dp"))]
    if not spread:
        return 1
    plain = all(argument.partition("=")[0].replace("_", "-") in ("--data-parallel-size", "-dp") for argument in spread)
    if not plain:
        return None
    # The short spelling is read as the long one.
    spelled = tuple("--data-parallel-size" if argument == "-dp" else argument for argument in arguments)
    return _last_value(spelled, "--data-parallel-size", len("--data-parallel-size"))
