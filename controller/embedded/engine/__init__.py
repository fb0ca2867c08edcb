"""Engine servers with vLLM's HTTP API and metric names, timed by the plant."""

from controller.embedded.engine.kinds import EngineDialect, EngineKind
from controller.embedded.engine.server import (
    DEFAULT_KV_CACHE_TOKENS,
    DEFAULT_MAX_MODEL_LEN,
    DEFAULT_PORT,
    DEFAULT_STARTUP_SECONDS,
    EngineConfig,
    EngineLoad,
    EngineServer,
    EngineState,
)

__all__ = [
    "DEFAULT_KV_CACHE_TOKENS",
    "DEFAULT_MAX_MODEL_LEN",
    "DEFAULT_PORT",
    "DEFAULT_STARTUP_SECONDS",
    "EngineConfig",
    "EngineDialect",
    "EngineKind",
    "EngineLoad",
    "EngineServer",
    "EngineState",
]
