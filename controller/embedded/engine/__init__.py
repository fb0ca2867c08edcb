"""Engine servers with the HTTP API and the metric names of vLLM or SGLang, timed by the plant."""

from controller.embedded.engine.config import (
    DEFAULT_KV_CACHE_TOKENS,
    DEFAULT_MAX_MODEL_LEN,
    DEFAULT_PORT,
    DEFAULT_STARTUP_SECONDS,
    EngineConfig,
    EngineLoad,
    EngineState,
)
from controller.embedded.engine.kinds import EngineDialect, EngineKind
from controller.embedded.engine.server import EngineServer

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
