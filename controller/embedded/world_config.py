"""What an embedded world is made of: its traffic, its roles and their engines, its objects, its timings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.embedded.contract import ROUTER_PORT
from controller.embedded.engine import DEFAULT_PORT, DEFAULT_STARTUP_SECONDS, EngineKind
from controller.plant import RequestTrace, ServiceTime


@dataclass(frozen=True, slots=True)
class WorldRole:
    """A role of the deployment and its engines. `service` has its slowdown already."""

    service: ServiceTime
    name: str = "server"
    kind: EngineKind = EngineKind.SERVER
    initial_replicas: int = 1
    max_num_seqs: int = 32
    flags: Mapping[str, int] = field(default_factory=dict)  # further ones of the engine, without the dashes
    grace_seconds: int | None = None  # of its Pods; None: the contract's default


@dataclass(frozen=True, slots=True)
class WorldConfig:
    """What a world is made of. `trace` and the roles' engines fit each other already (`plant.dimension`). One role of a
    kind."""

    trace: RequestTrace
    roles: Sequence[WorldRole]
    crds: Sequence[Mapping[str, Any]]
    objects: Sequence[Mapping[str, Any]] = ()  # applied last, in order: the scaler, catalogs, instance types
    namespace: str = "demo"
    deployment: str = "chat"
    model_name: str = "Qwen/Qwen3-8B"
    engine_version: str = "0.32.0"
    startup_seconds: float = DEFAULT_STARTUP_SECONDS
    frame_tokens: int = 32
    media_tokens: int = 0  # of every prompt, up to this many stand for an image
    # How long the router takes until it uses a new member, and until it drops one; how long it holds a request that it
    # has no member for (0: as most real routers, not at all).
    membership_delay_seconds: float = 0.0
    leave_delay_seconds: float = 0.0
    hold_seconds: float = 240.0
    patience_wall_seconds: float = 60.0  # for the first replicas, beyond their start-up: a controller has to start, too
    quota: int | None = None
    interval_seconds: float = 10.0
    api_host: str = "127.0.0.1"
    api_port: int = 0
    engine_port: int = DEFAULT_PORT
    router_port: int = ROUTER_PORT
