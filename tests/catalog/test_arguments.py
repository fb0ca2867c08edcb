"""Reading argument lists as the engines read them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.arguments import ArgumentProblem
from catalog.engine_flags import EngineReading, read_engine
from catalog.identity import Engine
from catalog.inputs import RoleInput

VLLM, SGLANG = Engine.VLLM, Engine.SGLANG


def _read(engine: Engine, args: list[str], env: dict[str, str] | None = None) -> EngineReading | ArgumentProblem:
    role = RoleInput(
        name="r", kind="Server", engine=engine.value, extra_args=tuple(args), env=tuple((env or {}).items())
    )
    return read_engine(role, engine)


READ: dict[str, tuple[Engine, list[str], dict[str, str], dict[str, Any]]] = {
    "nothing declared is one of everything": (VLLM, [], {}, {"tp": 1, "ep": 1, "pp": 1, "dp": 1, "ldp": 1, "cp": 1}),
    "value after a space": (VLLM, ["--tensor-parallel-size", "4"], {}, {"tp": 4}),
    "value after an equals sign": (VLLM, ["--tensor-parallel-size=4"], {}, {"tp": 4}),
    "underscores for dashes": (VLLM, ["--tensor_parallel_size", "4"], {}, {"tp": 4}),
    "short spelling": (VLLM, ["-tp", "4"], {}, {"tp": 4}),
    "short spelling with an equals sign": (VLLM, ["-tp=4"], {}, {"tp": 4}),
    "one-letter abbreviation of a short spelling": (VLLM, ["-t", "4"], {}, {"tp": 4}),
    "unique prefix": (VLLM, ["--tensor-par", "4"], {}, {"tp": 4}),
    "unique prefix with an equals sign": (VLLM, ["--tensor-par=4"], {}, {"tp": 4}),
    "the last occurrence wins": (VLLM, ["-tp", "2", "--tensor-parallel-size=8"], {}, {"tp": 8}),
    "the whole name before its longer sibling": (
        VLLM,
        ["--data-parallel-size", "4", "-dpl", "2"],
        {},
        {"dp": 4, "ldp": 2},
    ),
    "an ambiguous prefix passes": (VLLM, ["--data-parallel-s", "4"], {}, {"dp": 1}),
    "an underscore inside a number is Python's": (VLLM, ["-tp", "1_6"], {}, {"tp": 16}),
    "reading stops at a bare double dash": (VLLM, ["--", "-tp", "4"], {}, {"tp": 1}),
    "unknown flags pass with their values": (VLLM, ["--max-model-len", "4096", "-tp", "2"], {}, {"tp": 2}),
    "a wiring flag's value is not taken for a flag": (VLLM, ["-dpa", "10.0.0.1", "-tp", "2"], {}, {"tp": 2}),
    "a glued one-letter flag": (VLLM, ["-n2", "-tp", "2"], {}, {"tp": 2}),
    "experts spread over all ranks": (VLLM, ["-tp", "2", "-dp", "4", "-ep"], {}, {"ep": 8}),
    "the switch is switched off again": (VLLM, ["-ep", "--no-enable-expert-parallel", "-tp", "2"], {}, {"ep": 1}),
    "a switch with a value passes unrecorded": (VLLM, ["--enable-expert-parallel=true", "-tp", "2"], {}, {"ep": 1}),
    "context parallel degrees multiply": (VLLM, ["-pcp", "2", "-dcp", "4"], {}, {"cp": 8}),
    "the variable counts where the command line leaves one": (VLLM, [], {"VLLM_DP_SIZE": "4"}, {"dp": 4}),
    "the command line comes before the variable": (VLLM, ["-dp", "2"], {"VLLM_DP_SIZE": "4"}, {"dp": 2}),
    "a malformed variable that does not count is no error": (VLLM, ["-dp", "2"], {"VLLM_DP_SIZE": "x"}, {"dp": 2}),
    "a reference is expanded from the role's variables": (VLLM, ["-tp", "$(TP)"], {"TP": "4"}, {"tp": 4}),
    "a doubled dollar sign is a dollar sign": (VLLM, ["--foo=$$(TP)", "-tp", "2"], {"TP": "4"}, {"tp": 2}),
    "a reference in an unknown flag's value is nobody's business": (
        VLLM,
        ["--host", "$(POD_IP)", "-tp", "2"],
        {},
        {"tp": 2},
    ),
    "SGLang's short spelling is a unique prefix": (SGLANG, ["--tp", "8"], {}, {"tp": 8}),
    "SGLang's own spelling": (
        SGLANG,
        ["--tp-size=8", "--dp-size", "8", "--enable-dp-attention"],
        {},
        {"tp": 8, "dp": 8},
    ),
    "SGLang takes a degree of experts": (SGLANG, ["--tp", "8", "--ep", "4"], {}, {"ep": 4}),
    "SGLang's all-to-all backend spreads experts over tp": (
        SGLANG,
        ["--tp", "8", "--moe-a2a-backend", "deepep"],
        {},
        {"ep": 8},
    ),
    "SGLang rewrites no underscores": (SGLANG, ["--tp_size", "8"], {}, {"tp": 1}),
}


@pytest.mark.parametrize(("engine", "args", "env", "degrees"), READ.values(), ids=READ.keys())
def test_degrees(engine: Engine, args: list[str], env: dict[str, str], degrees: dict[str, int]) -> None:
    reading = _read(engine, args, env)
    assert isinstance(reading, EngineReading), reading
    assert {name: getattr(reading, name) for name in degrees} == degrees


PROBLEMS: dict[str, tuple[Engine, list[str], dict[str, str], str]] = {
    "a degree without a value": (VLLM, ["-tp"], {}, "--tensor-parallel-size"),
    "a degree followed by another flag": (VLLM, ["-tp", "--foo"], {}, "--tensor-parallel-size"),
    "a degree that is no number": (VLLM, ["-tp", "two"], {}, "--tensor-parallel-size"),
    "a negative degree": (VLLM, ["-tp", "-1"], {}, "--tensor-parallel-size"),
    "a degree of zero": (VLLM, ["-tp=0"], {}, "--tensor-parallel-size"),
    "a degree beyond any machine": (VLLM, ["-tp", "99999999999999999999"], {}, "--tensor-parallel-size"),
    "a glued short spelling": (VLLM, ["-tp4"], {}, "--tensor-parallel-size"),
    "an abbreviation with an equals sign": (VLLM, ["-t=4"], {}, "--tensor-parallel-size"),
    "flag and value in one item": (VLLM, ["--quantization bitsandbytes"], {}, "arguments"),
    "a configuration file": (VLLM, ["--config", "/etc/vllm.yaml"], {}, "--config"),
    "SGLang's configuration file": (SGLANG, ["--config=/etc/sglang.yaml"], {}, "--config"),
    "data parallelism that is set from outside": (VLLM, ["-dp", "8", "-dpl", "0"], {}, "--data-parallel-size-local"),
    "a malformed variable that counts": (VLLM, [], {"VLLM_DP_SIZE": "many"}, "VLLM_DP_SIZE"),
    "a variable below one": (VLLM, [], {"VLLM_DP_SIZE": "0"}, "VLLM_DP_SIZE"),
    "a reference to nothing in a degree": (VLLM, ["-tp", "$(TP)"], {}, "--tensor-parallel-size"),
    "a reference to nothing that may be a flag": (VLLM, ["$(EXTRA)"], {}, "arguments"),
    "a degree that no profile can state": (SGLANG, ["--moe-dp-size", "2"], {}, "--moe-data-parallel-size"),
    "experts against the all-to-all backend": (
        SGLANG,
        ["--tp", "8", "--ep", "2", "--moe-a2a-backend", "deepep"],
        {},
        "--expert-parallel-size",
    ),
}


@pytest.mark.parametrize(("engine", "args", "env", "flag"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_what_cannot_be_read_names_the_flag(engine: Engine, args: list[str], env: dict[str, str], flag: str) -> None:
    problem = _read(engine, args, env)
    assert isinstance(problem, ArgumentProblem), problem
    assert problem.flag == flag


FORBIDDEN: dict[str, tuple[Engine, list[str]]] = {
    "vLLM speculation": (VLLM, ["--speculative-config", '{"method": "eagle3"}']),
    "vLLM speculation by prefix": (VLLM, ["--speculative", "{}x"]),
    "vLLM speculation, member by member": (VLLM, ["--speculative-config.method", "eagle3"]),
    "a member behind the short spelling": (VLLM, ["-sc.method=ngram"]),
    "the same with underscores and an equals sign": (VLLM, ["--speculative_config.num_speculative_tokens=3"]),
    "a member of an override": (VLLM, ["--hf-overrides.num_hidden_layers", "2"]),
    "vLLM speculation of early versions": (VLLM, ["--num-speculative-tokens", "3"]),
    "vLLM speculation in short": (VLLM, ["--spec-method=ngram"]),
    "a draft model and no algorithm": (SGLANG, ["--speculative-draft-model-path", "a/b"]),
    "SGLang speculation": (SGLANG, ["--speculative-algo", "EAGLE"]),
    "an override of the model's configuration": (VLLM, ["--hf-overrides", '{"num_hidden_layers": 2}']),
    "another model on the command line": (VLLM, ["--model", "a/b"]),
}


@pytest.mark.parametrize(("engine", "args"), FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_what_no_profile_measures_is_found(engine: Engine, args: list[str]) -> None:
    reading = _read(engine, args)
    assert isinstance(reading, EngineReading)
    assert reading.forbids is not None


UNSTATED: dict[str, tuple[Engine, list[str]]] = {
    "another type of the KV cache": (VLLM, ["--kv-cache-dtype", "fp8"]),
    "the same with underscores and an equals sign": (VLLM, ["--kv_cache_dtype=fp8_e4m3"]),
    "the same by prefix": (VLLM, ["--kv-cache-d", "fp8"]),
    "the same out of a variable": (VLLM, ["--kv-cache-dtype=$(A)"]),
    "no CUDA graphs": (VLLM, ["--enforce-eager"]),
    "no optimization, glued": (VLLM, ["-O0"]),
    "no optimization, apart": (VLLM, ["-O", "0"]),
    "no compilation": (VLLM, ["--compilation-config", "0"]),
    "no CUDA graphs in the compilation": (VLLM, ["-cc", '{"cudagraph_mode": "NONE", "mode": 3}']),
    "a member behind a short spelling": (VLLM, ["-cc.mode=0"]),
    "a member behind one letter": (VLLM, ["-O.mode", "0"]),
    "the same, member by member": (VLLM, ["--compilation-config.cudagraph_mode=NONE", "--compilation-config.mode=3"]),
    "weights on the host": (VLLM, ["--cpu-offload-gb", "4"]),
    "adapters": (VLLM, ["--enable-lora"]),
    "a KV cache on the host": (VLLM, ["--kv-offloading-size", "100"]),
    "SGLang's KV cache on the host": (SGLANG, ["--enable-hierarchical-cache"]),
    "32 bits": (VLLM, ["--dtype", "float32"]),
    "SGLang's KV cache": (SGLANG, ["--kv-cache-dtype=fp8_e5m2"]),
    "SGLang without CUDA graphs": (SGLANG, ["--disable-cuda-graph"]),
    "SGLang's adapters": (SGLANG, ["--lora-paths", "a=b", "c=d", "--tp", "1"]),
}


@pytest.mark.parametrize(("engine", "args"), UNSTATED.values(), ids=UNSTATED.keys())
def test_a_setting_that_no_identity_states_is_found(engine: Engine, args: list[str]) -> None:
    reading = _read(engine, args, {"A": "fp8"})
    assert isinstance(reading, EngineReading)
    assert reading.unstated is not None
    assert "declared identity" in reading.unstated.wanted


PLAIN: dict[str, tuple[Engine, list[str]]] = {
    "the default of the KV cache": (VLLM, ["--kv-cache-dtype", "auto"]),
    "a KV cache of 16 bits": (VLLM, ["--kv-cache-dtype=bfloat16"]),
    "the last occurrence wins": (VLLM, ["--kv-cache-dtype", "fp8", "--kv-cache-dtype", "auto"]),
    "CUDA graphs that are switched on again": (VLLM, ["--enforce-eager", "--no-enforce-eager"]),
    "full optimization": (VLLM, ["-O3"]),
    "a compilation with CUDA graphs": (
        VLLM,
        ["-cc", '{"cudagraph_mode": "FULL", "mode": 3, "cudagraph_capture_sizes": [1]}'],
    ),
    "no weights on the host": (VLLM, ["--cpu-offload-gb", "0"]),
    "adapters that are switched off": (VLLM, ["--no-enable-lora"]),
    "16 bits": (VLLM, ["--dtype", "bfloat16"]),
    "speculation after the end of the options": (VLLM, ["--", "--spec-method=ngram"]),
    "SGLang's algorithm of none": (SGLANG, ["--speculative-algorithm", "none"]),
    "sizes of batches and memory": (VLLM, ["--max-num-seqs", "64", "--gpu-memory-utilization=0.9"]),
    "an empty choice of torchao": (SGLANG, ["--torchao-config", ""]),
    "SGLang's padding of CUDA graphs": (SGLANG, ["--disable-cuda-graph-padding", "--mem-fraction-static=0.8"]),
}


@pytest.mark.parametrize(("engine", "args"), PLAIN.values(), ids=PLAIN.keys())
def test_a_setting_that_leaves_the_engine_plain_passes(engine: Engine, args: list[str]) -> None:
    reading = _read(engine, args)
    assert isinstance(reading, EngineReading)
    assert (reading.unstated, reading.forbids, reading.quantization) == (None, None, None)


@given(
    st.lists(st.text(max_size=12) | st.sampled_from(["-tp", "--config", "-dp=2", "$(A)", "--", "-q", "-1"]), max_size=8)
)
def test_any_list_is_read_or_refused(args: list[str]) -> None:
    for engine in (VLLM, SGLANG):
        assert isinstance(_read(engine, args, {"A": "x"}), EngineReading | ArgumentProblem)


@given(st.integers(1, 64), st.sampled_from(["--tensor-parallel-size", "--tensor_parallel_size", "-tp", "--tensor"]))
def test_a_degree_survives_every_spelling(degree: int, spelling: str) -> None:
    for args in ([spelling, str(degree)], [f"{spelling}={degree}"], ["--foo", "bar", spelling, str(degree), "--baz"]):
        reading = _read(VLLM, args)
        assert isinstance(reading, EngineReading)
        assert reading.tp == degree
