"""The identity of one replica's speed: role, model, quantization, engine, hardware and parallel degrees.

Two replicas with the same identity are taken to be equally fast; a profile serves a role only when every part agrees.
Canonical text: `Server/openai/gpt-oss-120b/fp4/vllm/nvidia-h200/gpus=1,tp=1,ep=1,pp=1,dp=1,ldp=1,cp=1`. On input,
degrees of 1 may be left out and the engine may be written in any case. Model names compare without case (the hubs
redirect case variants to one repository), and are shown as they were written.

`ldp` is vLLM's local data-parallel size, `cp` the product of the context-parallel degrees.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec


class Role(StrEnum):
    """The role kinds that have a token capacity. Encode has none and never resolves a prior."""

    SERVER = "Server"
    PREFILL = "Prefill"
    DECODE = "Decode"


class Quantization(StrEnum):
    """Bits of the weights as the public measurement world groups them (mxfp4, nvfp4 → fp4; awq, gptq, w4a16 → int4)."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    FP4 = "fp4"
    INT8 = "int8"
    INT4 = "int4"


class Engine(StrEnum):
    """Engines whose measurements can be told apart. A ModelDeployment runs the first two; the others are measured by
    public benchmarks and can only be a near miss."""

    VLLM = "vLLM"
    SGLANG = "SGLang"
    TENSORRT_LLM = "TensorRT-LLM"
    ATOM = "ATOM"

    @property
    def token(self) -> str:
        """The lower-case spelling inside a canonical identity."""
        return self.value.lower()


# Hardware families that a prior may name (reference: what public results are measured on).
HARDWARE: Final = (
    "nvidia-h100",
    "nvidia-h200",
    "nvidia-b200",
    "nvidia-b300",
    "nvidia-gb200",
    "nvidia-gb300",
    "amd-mi300x",
    "amd-mi325x",
    "amd-mi355x",
)
UNSTATED: Final = "unstated"
# Order of the degrees in the canonical text.
DEGREES: Final = ("gpus", "tp", "ep", "pp", "dp", "ldp", "cp")
# A replica of a thousand accelerators is already beyond any published system; larger numbers are typing errors.
MAX_DEGREE: Final = 65_536

_ENGINE_BY_TOKEN: Final = {engine.token: engine for engine in Engine} | {
    "trt": Engine.TENSORRT_LLM,
    "trtllm": Engine.TENSORRT_LLM,
    "trt-llm": Engine.TENSORRT_LLM,
    "tensorrtllm": Engine.TENSORRT_LLM,
}
# ASCII, as the hubs have it: letters that look alike, or fold into each other, name other repositories.
_MODEL = re.compile(r"[A-Za-z0-9][\w.+-]*(/[A-Za-z0-9][\w.+-]*)?", re.ASCII)
_LONGEST_MODEL = 256  # the limit of ModelArtifact's repository field


class IdentityError(ValueError):
    """A text that is no identity, or an identity that contradicts itself. The message names the part and the way
    out."""


class Parallel(msgspec.Struct, frozen=True, kw_only=True):
    """Parallel degrees of one replica; `gpus` counts all accelerators it occupies."""

    gpus: int = 1
    tp: int = 1
    ep: int = 1
    pp: int = 1
    dp: int = 1
    ldp: int = 1
    cp: int = 1

    def __str__(self) -> str:
        return f"gpus={self.gpus},tp={self.tp},ep={self.ep},pp={self.pp},dp={self.dp},ldp={self.ldp},cp={self.cp}"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """See the module. `quantization` is None where a deployment does not state it; a profile always states it."""

    role: Role
    model: str
    quantization: Quantization | None
    engine: Engine
    hardware: str
    parallel: Parallel

    def __str__(self) -> str:
        quantization = self.quantization.value if self.quantization else UNSTATED
        return f"{self.role.value}/{self.model}/{quantization}/{self.engine.token}/{self.hardware}/{self.parallel}"

    @property
    def key(self) -> str:
        """The text that equal identities share: the canonical text with the model in lower case."""
        quantization = self.quantization.value if self.quantization else UNSTATED
        return (
            f"{self.role.value}/{self.model.lower()}/{quantization}/{self.engine.token}/{self.hardware}/{self.parallel}"
        )


def parse_engine(text: str) -> Engine:
    """The engine of a name in any case, with the short forms that benchmarks use (`trt`). Raises IdentityError."""
    engine = _ENGINE_BY_TOKEN.get(text.strip().lower())
    if engine is None:
        raise IdentityError(f"unknown engine {text!r}: one of {', '.join(e.value for e in Engine)}")
    return engine


def check_model(name: str) -> str:
    """The name itself when it can be a model repository. Raises IdentityError for mount paths and empty names."""
    if not name or len(name) > _LONGEST_MODEL:
        raise IdentityError(f"a model name has 1 to {_LONGEST_MODEL} characters")
    if not _MODEL.fullmatch(name):
        raise IdentityError(f"{name!r} is not a model repository such as Qwen/Qwen3-8B (a mount path is not trusted)")
    return name


def check_parallel(engine: Engine, parallel: Parallel) -> str | None:
    """Why the degrees cannot multiply out to `gpus`, or None when they can.

    World size per replica (capacity-data reference §5.6): vLLM tp × pp × dp × prefill context parallel, where decode
    context parallel reuses the tensor-parallel ranks and an external balancer leaves only the local dp in a replica;
    SGLang and TensorRT-LLM run attention data parallelism inside the tensor-parallel ranks when it divides them.
    """
    for name in DEGREES:
        value = getattr(parallel, name)
        if not 1 <= value <= MAX_DEGREE:
            return f"{name} must be between 1 and {MAX_DEGREE}, found {value}"
    if parallel.dp % parallel.ldp:
        return f"ldp={parallel.ldp} must divide dp={parallel.dp}"
    if (parallel.tp * parallel.dp * parallel.cp) % parallel.ep:
        return f"ep={parallel.ep} must divide tp × dp × cp = {parallel.tp * parallel.dp * parallel.cp}"
    worlds = _worlds(engine, parallel)
    if parallel.gpus in worlds:
        return None
    choices = " or ".join(str(world) for world in sorted(worlds))
    return (
        f"the degrees cannot multiply out: tp={parallel.tp}, pp={parallel.pp}, dp={parallel.dp}, ldp={parallel.ldp}, "
        f"cp={parallel.cp} occupy {choices} accelerators, gpus says {parallel.gpus}"
    )


def _worlds(engine: Engine, parallel: Parallel) -> set[int]:
    data = {parallel.dp, parallel.ldp}
    if engine is not Engine.VLLM and parallel.tp % parallel.dp == 0:
        data.add(1)
    # SGLang's attention context parallelism lives inside the tensor-parallel ranks.
    context = {1} if engine is Engine.SGLANG else {k for k in range(1, parallel.cp + 1) if parallel.cp % k == 0}
    return {parallel.tp * parallel.pp * d * k for d in data for k in context}


def parse_parallel(text: str) -> Parallel:
    """`gpus=1,tp=1` → Parallel; degrees that are left out are 1. Raises IdentityError."""
    degrees: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, separator, value = part.partition("=")
        if not separator or name not in DEGREES:
            raise IdentityError(f"unknown degree {part!r}: write {', '.join(f'{d}=1' for d in DEGREES)}")
        if name in degrees:
            raise IdentityError(f"degree {name} is given twice")
        if not value.isascii() or not value.isdigit() or len(value) > len(str(MAX_DEGREE)):
            raise IdentityError(f"degree {name} must be a whole number from 1 to {MAX_DEGREE}, found {value!r}")
        degrees[name] = int(value)
    return Parallel(**degrees)


def parse_identity(text: str) -> Identity:
    """The identity that a canonical (or abbreviated) text names. Raises IdentityError naming the part that is wrong."""
    parts = text.strip().split("/")
    if len(parts) >= 5 and parts[-1] in HARDWARE:
        raise IdentityError(f"{text!r} does not say the degrees: end it with /gpus=1,tp=1, or what the replica has")
    if len(parts) < 6:
        raise IdentityError(
            f"{text!r} is not an identity: write Role/owner/model/quantization/engine/hardware/gpus=1,tp=1"
        )
    role_text, *model_parts = parts[:-4]
    quantization_text, engine_text, hardware, parallel_text = parts[-4:]
    try:
        role = Role(role_text)
    except ValueError:
        raise IdentityError(f"unknown role {role_text!r}: one of {', '.join(r.value for r in Role)}") from None
    quantization = None if quantization_text == UNSTATED else parse_quantization(quantization_text)
    engine = parse_engine(engine_text)
    if hardware not in HARDWARE:
        raise IdentityError(f"unknown hardware {hardware!r}: one of {', '.join(HARDWARE)}")
    parallel = parse_parallel(parallel_text)
    problem = check_parallel(engine, parallel)
    if problem:
        raise IdentityError(problem)
    return Identity(
        role=role,
        model=check_model("/".join(model_parts)),
        quantization=quantization,
        engine=engine,
        hardware=hardware,
        parallel=parallel,
    )


def parse_quantization(text: str) -> Quantization:
    """The canonical quantization of that exact name. Raises IdentityError; tools' spellings are the importers'
    business."""
    try:
        return Quantization(text)
    except ValueError:
        raise IdentityError(f"unknown quantization {text!r}: one of {', '.join(Quantization)}") from None


def differing_fields(wanted: Identity, found: Identity) -> tuple[str, ...]:
    """The parts that differ, most telling first, as `hardware nvidia-h100 (catalog: nvidia-h200)`. An unstated wanted
    quantization differs from nothing."""
    pairs: list[tuple[str, str, str]] = [
        ("role", wanted.role.value, found.role.value),
        ("model.name", wanted.model, found.model),
        ("engine", wanted.engine.value, found.engine.value),
        ("hardware", wanted.hardware, found.hardware),
    ]
    if wanted.quantization is not None and found.quantization is not None:
        pairs.append(("quantization", wanted.quantization.value, found.quantization.value))
    pairs += [(f"parallel.{d}", str(getattr(wanted.parallel, d)), str(getattr(found.parallel, d))) for d in DEGREES]
    return tuple(
        f"{name} {want} (catalog: {got})"
        for name, want, got in pairs
        if want != got and not (name == "model.name" and want.lower() == got.lower())
    )
