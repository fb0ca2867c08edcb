"""Roles as a stage of the planner finds them."""

from __future__ import annotations

from dataclasses import dataclass

from controller.scaling import (
    Behavior,
    DecisionSpec,
    MetricsStatus,
    Pool,
    RatioSpec,
    RoleKind,
    RoleObservation,
    RoleSpec,
    TokenThroughput,
)
from controller.scaling.history import History
from controller.scaling.recommendation import Recommended
from controller.scaling.stages import (
    Context,
    Plans,
    RoleContext,
    RolePlan,
)
from controller.scaling.state import RoleState, ScaleEvent, Settling
from tests.scaling.world import T0

SETTLED = Settling()
KNOWN = History(known_since=T0 - 10_000.0, last=T0 - 15.0)


@dataclass
class Given:
    """One role as a stage finds it."""

    current: int = 4
    desired: int = 4
    floor: int = 0
    ceiling: int = 1000
    low: int = 1
    high: int = 20
    raw: int | None = 4
    recommended_high: int | None = None
    load: float | None = None
    follows: bool = False
    panicking: bool = False
    sampled: float | None = 10_000.0
    history: History = KNOWN
    events: tuple[ScaleEvent, ...] = ()
    settling: Settling = SETTLED
    unadmitted: int = 0
    starting: int = 0
    pool: str | None = None
    cost: float = 1.0
    bounded: bool = True
    status: MetricsStatus = MetricsStatus.SAMPLED


def world(
    roles: dict[str, Given],
    *,
    ratios: tuple[RatioSpec, ...] = (),
    behavior: Behavior | None = None,
    pools: tuple[Pool, ...] = (),
) -> tuple[Plans, Context]:
    specs, plans, contexts = [], {}, {}
    for name, role in roles.items():
        spec = RoleSpec(name=name, kind=RoleKind.SERVER, min_replicas=role.low, max_replicas=role.high)
        specs.append(spec)
        plans[name] = RolePlan(
            name=name,
            current=role.current,
            desired=role.desired,
            floor=role.floor,
            ceiling=role.ceiling,
            minimum=role.low if role.bounded else 0,
            maximum=role.high if role.bounded else 10**9,
        )
        contexts[name] = RoleContext(
            role=spec,
            observation=RoleObservation(
                name=name,
                current_replicas=role.current,
                ready_replicas=role.current,
                unadmitted_replicas=role.unadmitted,
                starting_replicas=role.starting,
                pool=role.pool,
                accelerators_per_replica=role.cost,
            ),
            state=RoleState(
                sampling_since=None if role.sampled is None else T0 - role.sampled,
                history=role.history,
                events=role.events,
                settling=role.settling,
            ),
            recommended=Recommended(
                raw=role.raw,
                high=role.recommended_high,
                load=role.load,
                reason="no member answered",
                panicking=role.panicking,
                follows_ratio=role.follows,
            ),
            status=role.status,
            stable_seconds=180.0,
        )
    spec = DecisionSpec(roles=tuple(specs), algorithm=TokenThroughput(), ratios=ratios, behavior=behavior or Behavior())
    return plans, Context(spec=spec, roles=contexts, pools=pools, now=T0)


def alone(stage, role: Given, **others: object) -> RolePlan:
    """The plan of one role after one stage."""
    plans, context = world({"a": role}, **others)  # type: ignore[arg-type]
    return stage(plans, context)["a"]


def waiting(seconds: float, **more: object) -> Settling:
    return Settling(unadmitted_since=T0 - seconds, **more)  # type: ignore[arg-type]
