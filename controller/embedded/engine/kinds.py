"""What an engine server plays: its part in serving a request, and whose API and metrics it speaks."""

from __future__ import annotations

from enum import Enum


class EngineKind(Enum):
    """The part of a request that an engine does. The values are the role kinds of a ModelDeployment."""

    SERVER = "Server"  # all of it
    PREFILL = "Prefill"  # the prompt and the first token; holds the keys and values until the decode has pulled them
    DECODE = "Decode"  # pulls keys and values, then generates
    ENCODE = "Encode"  # images to embeddings, ahead of the prefill; no text


class EngineDialect(Enum):
    """Whose HTTP API and metric names an engine has."""

    VLLM = "vLLM"
    SGLANG = "SGLang"
