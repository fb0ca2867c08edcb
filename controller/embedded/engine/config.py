"""What an engine server is made of, and the states of its life."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.embedded.engine.kinds import EngineDialect, EngineKind
from controller.plant import BatchLimits, ServiceTime

DEFAULT_PORT = 8000  # the contract's serving port
# Measured from the creation of a Pod to its readiness for vLLM on an H200 with cached weights (scaling benchmark).
DEFAULT_STARTUP_SECONDS = 76.0
# Qwen3-8B on an H200: 110 GB of cache at 144 KiB a token.
DEFAULT_KV_CACHE_TOKENS = 736_000
DEFAULT_MAX_MODEL_LEN = 40_960
KV_BYTES_PER_TOKEN = 144 * 1024
# One 200 Gbit/s network card per GPU, as in the usual H200 node.
DEFAULT_KV_TRANSFER_TOKENS_PER_SECOND = 25e9 / KV_BYTES_PER_TOKEN

# How long a prefill process holds blocks for a decode process that does not show itself: vLLM's NixlConnector 0.32
# (`kv_lease_duration`, and what a heartbeat adds), SGLang's SGLANG_DISAGGREGATION_WAITING_TIMEOUT.
_HOLD_SECONDS = {EngineDialect.VLLM: 30.0, EngineDialect.SGLANG: 300.0}


class EngineState(Enum):
    """Where an engine server is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"  # the model loads
    SERVING = "serving"
    HUNG = "hung"
    DOWN = "down"  # crashed, not yet restarted


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What an engine is. `service` carries its slowdown already; token frames hold up to `frame_tokens`.

    Limits and `kv_cache_tokens` are those of one of `data_parallel` ranks, as the flags of the engines are. A prefill
    process holds blocks for `hold_seconds` of model time (None: as the engine does by default), and for no less than
    `hold_wall_seconds` of wall time: a fast clock does not make sockets faster.
    """

    model_name: str
    service: ServiceTime
    max_num_seqs: int = 32
    max_num_batched_tokens: int = 8192
    max_model_len: int = DEFAULT_MAX_MODEL_LEN
    kv_cache_tokens: int = DEFAULT_KV_CACHE_TOKENS
    startup_seconds: float = DEFAULT_STARTUP_SECONDS
    frame_tokens: int = 32
    kind: EngineKind = EngineKind.SERVER
    dialect: EngineDialect = EngineDialect.VLLM
    data_parallel: int = 1
    kv_transfer_tokens_per_second: float = DEFAULT_KV_TRANSFER_TOKENS_PER_SECOND
    hold_seconds: float | None = None
    hold_wall_seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.data_parallel < 1:
            raise ValueError(f"data_parallel: must be at least 1, got {self.data_parallel}")
        if self.kv_transfer_tokens_per_second <= 0:
            raise ValueError("kv_transfer_tokens_per_second: must be above 0")

    @property
    def limits(self) -> BatchLimits:
        """The limits of the batch of one rank."""
        return BatchLimits(self.max_num_seqs, self.max_num_batched_tokens, self.kv_cache_tokens, self.frame_tokens)

    @property
    def held_seconds(self) -> float:
        """How long blocks are held for a decode process that does not show itself, in model time."""
        return _HOLD_SECONDS[self.dialect] if self.hold_seconds is None else self.hold_seconds


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """In-flight requests of an engine at one moment. `held`: answered prompts whose blocks wait for a decode process;
    `waiting` has everything that is neither running nor held."""

    running: int
    waiting: int
    held: int = 0
