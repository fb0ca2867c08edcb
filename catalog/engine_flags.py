"""What the flags and variables of a vLLM or SGLang role say about its identity.

Sources: model-deployment reference §7 and capacity-data §5.6. Degrees that are not declared are 1. Experts: vLLM's
`--enable-expert-parallel` is a switch and spreads them over tp × dp ranks; SGLang takes a degree, and an all-to-all
backend sets it to tp. `VLLM_DP_SIZE` counts only where the command line leaves data parallelism at 1 and sets no local
size of 0 (which means that it is set from outside).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from catalog.arguments import ArgumentProblem, Arguments, Flag, FlagKind, Value, expand, read_arguments
from catalog.engine_settings import changed_setting
from catalog.identity import MAX_DEGREE, Engine
from catalog.inputs import RoleInput

_SWITCH: Final = FlagKind.SWITCH

_VLLM: Final = (
    Flag("--tensor-parallel-size", ("--tensor-parallel-size", "-tp")),
    Flag("--pipeline-parallel-size", ("--pipeline-parallel-size", "-pp")),
    Flag("--data-parallel-size", ("--data-parallel-size", "-dp")),
    Flag("--data-parallel-size-local", ("--data-parallel-size-local", "-dpl")),
    Flag("--prefill-context-parallel-size", ("--prefill-context-parallel-size", "-pcp")),
    Flag("--decode-context-parallel-size", ("--decode-context-parallel-size", "-dcp")),
    Flag(
        "--enable-expert-parallel",
        ("--enable-expert-parallel", "-ep"),
        _SWITCH,
        ("--no-enable-expert-parallel",),
    ),
    # Wiring of several processes: read so that their values are not taken for something else.
    Flag("--nnodes", ("--nnodes", "-n")),
    Flag("--node-rank", ("--node-rank", "-r")),
    Flag("--master-addr", ("--master-addr",)),
    Flag("--master-port", ("--master-port",)),
    Flag("--data-parallel-rank", ("--data-parallel-rank", "-dpn")),
    Flag("--data-parallel-start-rank", ("--data-parallel-start-rank", "-dpr")),
    Flag("--data-parallel-address", ("--data-parallel-address", "-dpa")),
    Flag("--data-parallel-rpc-port", ("--data-parallel-rpc-port", "-dpp")),
    Flag("--data-parallel-backend", ("--data-parallel-backend", "-dpb")),
    Flag("--data-parallel-hybrid-lb", ("--data-parallel-hybrid-lb", "-dph"), _SWITCH),
    Flag("--data-parallel-external-lb", ("--data-parallel-external-lb", "-dpe"), _SWITCH),
    Flag("--data-parallel-multi-port-external-lb", ("--data-parallel-multi-port-external-lb", "-dpm"), _SWITCH),
    Flag("--quantization", ("--quantization", "-q")),
    Flag("--load-format", ("--load-format",)),
    Flag("--config", ("--config",)),
    Flag("--model", ("--model",)),
    Flag("--hf-overrides", ("--hf-overrides",)),
    # One flag with its old name, so that a prefix of them all is not ambiguous.
    Flag("--speculative-config", ("--speculative-config", "-sc", "--speculative-model")),
    Flag("--kv-cache-dtype", ("--kv-cache-dtype",)),
    Flag("--dtype", ("--dtype",)),
    Flag("--enforce-eager", ("--enforce-eager",), _SWITCH, ("--no-enforce-eager",)),
    Flag("--optimization-level", ("--optimization-level", "-O")),
    Flag("--compilation-config", ("--compilation-config", "-cc")),
    Flag("--cpu-offload-gb", ("--cpu-offload-gb",)),
    Flag("--kv-offloading-size", ("--kv-offloading-size",)),
    Flag("--enable-lora", ("--enable-lora",), _SWITCH, ("--no-enable-lora",)),
)

_SGLANG: Final = (
    Flag("--tensor-parallel-size", ("--tensor-parallel-size", "--tp-size")),
    Flag("--pipeline-parallel-size", ("--pipeline-parallel-size", "--pp-size")),
    Flag("--data-parallel-size", ("--data-parallel-size", "--dp-size")),
    Flag("--expert-parallel-size", ("--expert-parallel-size", "--ep-size", "--ep")),
    Flag("--decode-context-parallel-size", ("--decode-context-parallel-size", "--dcp-size")),
    Flag("--attention-context-parallel-size", ("--attention-context-parallel-size", "--attn-cp-size")),
    Flag("--moe-data-parallel-size", ("--moe-data-parallel-size", "--moe-dp-size")),
    Flag("--dwdp-size", ("--dwdp-size",)),
    Flag("--enable-dp-attention", ("--enable-dp-attention",), _SWITCH),
    Flag("--enable-prefill-cp", ("--enable-prefill-cp",), _SWITCH),
    Flag("--moe-a2a-backend", ("--moe-a2a-backend",)),
    Flag("--nnodes", ("--nnodes",)),
    Flag("--node-rank", ("--node-rank",)),
    Flag("--dist-init-addr", ("--dist-init-addr", "--nccl-init-addr")),
    Flag("--quantization", ("--quantization",)),
    Flag("--torchao-config", ("--torchao-config",)),
    Flag("--load-format", ("--load-format",)),
    Flag("--config", ("--config",)),
    Flag("--model-path", ("--model-path", "--model")),
    Flag("--json-model-override-args", ("--json-model-override-args",)),
    Flag("--speculative-algorithm", ("--speculative-algorithm", "--speculative-algo")),
    Flag("--kv-cache-dtype", ("--kv-cache-dtype",)),
    Flag("--dtype", ("--dtype",)),
    Flag("--disable-cuda-graph", ("--disable-cuda-graph",), _SWITCH),
    Flag("--cpu-offload-gb", ("--cpu-offload-gb",)),
    Flag("--enable-lora", ("--enable-lora",), _SWITCH),
    Flag("--enable-hierarchical-cache", ("--enable-hierarchical-cache",), _SWITCH),
    # Takes one or more adapters; with any of them, adapters are on.
    Flag("--lora-paths", ("--lora-paths",)),
)

_SPECULATIVE: Final = ("--speculative-config", "--speculative-algorithm")
_ABOUT_SPECULATION: Final = ("--speculative-", "--spec-", "--num-speculative-")
_MODELS: Final = ("--model", "--model-path")
_OVERRIDES: Final = ("--hf-overrides", "--json-model-override-args")
_LOAD_FORMATS_THAT_QUANTIZE: Final = ("bitsandbytes", "gguf")


@dataclass(frozen=True, slots=True)
class EngineReading:
    """Degrees without `gpus` (which the Pods say), the quantization flag, what forbids a match altogether, and the
    first setting that no identity states."""

    tp: int
    ep: int
    pp: int
    dp: int
    ldp: int
    cp: int
    quantization: Value | None
    forbids: ArgumentProblem | None
    unstated: ArgumentProblem | None


def read_engine(role: RoleInput, engine: Engine) -> EngineReading | ArgumentProblem:
    """The reading of a managed role's arguments; a problem where they cannot be read to the end."""
    flags, underscores = (_VLLM, True) if engine is Engine.VLLM else (_SGLANG, False)
    arguments = read_arguments(role.extra_args, role.env, flags, underscores=underscores)
    if isinstance(arguments, ArgumentProblem):
        return arguments
    if arguments.has("--config"):
        return ArgumentProblem("--config", "flags on the command line", "a configuration file that cannot be read")
    related = _speculative_flag(role, flags)
    degrees = _vllm_degrees(arguments, role) if engine is Engine.VLLM else _sglang_degrees(arguments)
    if isinstance(degrees, ArgumentProblem):
        return degrees
    return EngineReading(
        **degrees,
        quantization=_quantization(arguments),
        forbids=_forbidden(arguments) or related,
        unstated=_unstated(arguments),
    )


def _speculative_flag(role: RoleInput, flags: tuple[Flag, ...]) -> ArgumentProblem | None:
    """Any flag about speculation that the table does not hold: versions differ in how many ways there are to ask for
    it (`--num-speculative-tokens`, `--spec-method`, `--speculative-draft-model-path`); none is given for nothing."""
    known = {spelling for flag in flags for spelling in flag.spellings}
    for value, _ in expand(role.extra_args, role.env):
        if value.text == "--":
            break
        name = value.text.partition("=")[0].partition(".")[0].replace("_", "-")
        if name.startswith(_ABOUT_SPECULATION) and name not in known:
            # Never the token itself: it may have come out of a variable.
            about = next(prefix for prefix in _ABOUT_SPECULATION if name.startswith(prefix))
            return ArgumentProblem(f"{about}…", "plain decoding, as in every profile", "speculative decoding")
    return None


def _forbidden(arguments: Arguments) -> ArgumentProblem | None:
    for name in _SPECULATIVE:
        value = arguments.text(name)
        if value is not None and value.lower() not in ("none", "null", ""):
            return ArgumentProblem(name, "plain decoding, as in every profile", "speculative decoding")
    for name in _MODELS:
        if arguments.has(name):
            return ArgumentProblem(name, "the model of spec.model.artifactRef", "another model on the command line")
    for name in _OVERRIDES:
        value = arguments.text(name)
        if value is not None and value.replace(" ", "") not in ("{}", ""):
            return ArgumentProblem(name, "the model as its repository has it", "an override of its configuration")
    return None


def _unstated(arguments: Arguments) -> ArgumentProblem | None:
    for name, value in arguments.values.items():
        changed = changed_setting(name, value.text)
        if changed is not None:
            return ArgumentProblem(
                name, f"{changed.wanted}, as in measurements, or a declared identity measured with it", changed.what
            )
    return None


def _quantization(arguments: Arguments) -> Value | None:
    found = arguments.values.get("--quantization")
    if found is not None and found.text.strip().lower() in ("", "none", "null"):
        found = None
    if found is None:
        load_format = arguments.values.get("--load-format")
        if load_format is not None and load_format.text.strip().lower() in _LOAD_FORMATS_THAT_QUANTIZE:
            return load_format
        found = arguments.values.get("--torchao-config")
        return found if found is not None and found.text.strip() else None
    return found


def _vllm_degrees(arguments: Arguments, role: RoleInput) -> dict[str, int] | ArgumentProblem:
    read: dict[str, int] = {}
    for key, name, smallest in (
        ("tp", "--tensor-parallel-size", 1),
        ("pp", "--pipeline-parallel-size", 1),
        ("dp", "--data-parallel-size", 1),
        ("ldp", "--data-parallel-size-local", 0),
        ("pcp", "--prefill-context-parallel-size", 1),
        ("dcp", "--decode-context-parallel-size", 1),
    ):
        number = _degree(arguments, name, smallest)
        if isinstance(number, ArgumentProblem):
            return number
        read[key] = number
    local_is_outside = arguments.has("--data-parallel-size-local") and read["ldp"] == 0
    if local_is_outside:
        return ArgumentProblem("--data-parallel-size-local", "a local size of 1 or more", "0: set from outside")
    if read["dp"] <= 1:
        from_environment = _environment_degree(role)
        if isinstance(from_environment, ArgumentProblem):
            return from_environment
        read["dp"] = from_environment or read["dp"]
    expert = read["tp"] * read["dp"] if arguments.has("--enable-expert-parallel") else 1
    return {
        "tp": read["tp"],
        "ep": expert,
        "pp": read["pp"],
        "dp": read["dp"],
        "ldp": read["ldp"],
        "cp": read["pcp"] * read["dcp"],
    }


def _environment_degree(role: RoleInput) -> int | ArgumentProblem | None:
    values = [value for name, value in role.env if name == "VLLM_DP_SIZE"]
    if not values:
        return None
    number = _integer(values[-1])
    if number is None or not 1 <= number <= MAX_DEGREE:
        return ArgumentProblem("VLLM_DP_SIZE", f"a whole number from 1 to {MAX_DEGREE}", "something else")
    return number


def _sglang_degrees(arguments: Arguments) -> dict[str, int] | ArgumentProblem:
    read: dict[str, int] = {}
    for key, name in (
        ("tp", "--tensor-parallel-size"),
        ("pp", "--pipeline-parallel-size"),
        ("dp", "--data-parallel-size"),
        ("ep", "--expert-parallel-size"),
        ("dcp", "--decode-context-parallel-size"),
        ("acp", "--attention-context-parallel-size"),
        ("moe_dp", "--moe-data-parallel-size"),
        ("dwdp", "--dwdp-size"),
    ):
        number = _degree(arguments, name, 1)
        if isinstance(number, ArgumentProblem):
            return number
        read[key] = number
    for key, name in (("moe_dp", "--moe-data-parallel-size"), ("dwdp", "--dwdp-size")):
        if read[key] > 1:
            return ArgumentProblem(name, "1: no profile can state this degree", str(read[key]))
    backend = (arguments.text("--moe-a2a-backend") or "none").lower()
    if backend != "none":
        if arguments.has("--expert-parallel-size") and read["ep"] != read["tp"]:
            return ArgumentProblem(
                "--expert-parallel-size", f"the tensor-parallel degree {read['tp']}", str(read["ep"])
            )
        read["ep"] = read["tp"]
    return {
        "tp": read["tp"],
        "ep": read["ep"],
        "pp": read["pp"],
        "dp": read["dp"],
        "ldp": 1,
        "cp": read["dcp"] * read["acp"],
    }


def _degree(arguments: Arguments, name: str, smallest: int) -> int | ArgumentProblem:
    value = arguments.values.get(name)
    if value is None:
        return 1
    number = _integer(value.text)
    if number is None or not smallest <= number <= MAX_DEGREE:
        return ArgumentProblem(name, f"a whole number from {smallest} to {MAX_DEGREE}", value.shown)
    return number


def _integer(text: str) -> int | None:
    # The engines parse with int(): 1_0 is ten there too.
    if len(text) > 16:
        return None
    try:
        return int(text)
    except ValueError:
        return None
