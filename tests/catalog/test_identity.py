"""Canonical identities: parsing, printing, topology."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.identity import (
    HARDWARE,
    Engine,
    Identity,
    IdentityError,
    Parallel,
    Quantization,
    Role,
    check_parallel,
    differing_fields,
    parse_identity,
)

CANONICAL = "Server/openai/gpt-oss-120b/fp4/vllm/nvidia-h200/gpus=1,tp=1,ep=1,pp=1,dp=1,ldp=1,cp=1"


def test_canonical_text_reads_back_as_written() -> None:
    assert str(parse_identity(CANONICAL)) == CANONICAL


def test_degrees_of_one_may_be_left_out_and_the_engine_may_have_any_case() -> None:
    assert str(parse_identity("Server/openai/gpt-oss-120b/fp4/vLLM/nvidia-h200/gpus=1,tp=1")) == CANONICAL


def test_equal_models_in_another_case_share_the_key_but_keep_their_spelling() -> None:
    other = parse_identity(CANONICAL.replace("openai/gpt-oss-120b", "OpenAI/GPT-OSS-120B"))
    assert other.key == parse_identity(CANONICAL).key
    assert other.model == "OpenAI/GPT-OSS-120B"


REFUSED = {
    "an unknown role": ("Encode/a/b/fp8/vllm/nvidia-h100/gpus=1", "unknown role 'Encode'"),
    "an unknown quantization": ("Server/a/b/mxfp4/vllm/nvidia-h100/gpus=1", "unknown quantization 'mxfp4'"),
    "an unknown engine": ("Server/a/b/fp8/llamacpp/nvidia-h100/gpus=1", "unknown engine 'llamacpp'"),
    "an unknown hardware": ("Server/a/b/fp8/vllm/nvidia-a100/gpus=1", "unknown hardware 'nvidia-a100'"),
    "an unknown degree": ("Server/a/b/fp8/vllm/nvidia-h100/gpus=1,sp=2", "unknown degree 'sp=2'"),
    "a degree given twice": ("Server/a/b/fp8/vllm/nvidia-h100/gpus=1,gpus=1", "given twice"),
    "a degree of zero": ("Server/a/b/fp8/vllm/nvidia-h100/gpus=0", "between 1 and"),
    "a degree with an underscore": ("Server/a/b/fp8/vllm/nvidia-h100/gpus=1_0", "whole number"),
    "a mount path for a model": ("Server/mnt/models/gpt/fp8/vllm/nvidia-h100/gpus=1", "mount path"),
    "too few parts": ("Server/a/b", "is not an identity"),
    "degrees that do not multiply out": ("Server/a/b/fp8/vllm/nvidia-h100/gpus=4,tp=2", "cannot multiply out"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_identity_is_refused_with_the_part_named(text: str, message: str) -> None:
    with pytest.raises(IdentityError, match=message):
        parse_identity(text)


TOPOLOGIES = {
    "vLLM tensor parallel": (Engine.VLLM, Parallel(gpus=8, tp=8), True),
    "vLLM tensor and pipeline parallel": (Engine.VLLM, Parallel(gpus=8, tp=4, pp=2), True),
    "vLLM data parallel with experts across it": (Engine.VLLM, Parallel(gpus=8, tp=1, dp=8, ep=8), True),
    "vLLM with one local rank per replica behind an external balancer": (
        Engine.VLLM,
        Parallel(gpus=1, dp=8, ldp=1),
        True,
    ),
    "vLLM prefill context parallel widens the world": (Engine.VLLM, Parallel(gpus=4, tp=2, cp=2), True),
    "vLLM decode context parallel reuses the ranks": (Engine.VLLM, Parallel(gpus=2, tp=2, cp=2), True),
    "vLLM never hides data parallelism inside tensor ranks": (Engine.VLLM, Parallel(gpus=8, tp=8, dp=8, ldp=8), False),
    "SGLang attention data parallelism inside the tensor ranks": (
        Engine.SGLANG,
        Parallel(gpus=8, tp=8, dp=8, ep=8),
        True,
    ),
    "SGLang data parallel replicas": (Engine.SGLANG, Parallel(gpus=8, tp=4, dp=2), True),
    "SGLang context parallel stays inside": (Engine.SGLANG, Parallel(gpus=16, tp=8, cp=2), False),
    "too few accelerators": (Engine.VLLM, Parallel(gpus=1, tp=2), False),
    "a local rank count that does not divide": (Engine.VLLM, Parallel(gpus=3, dp=8, ldp=3), False),
    "an expert degree beyond the ranks": (Engine.VLLM, Parallel(gpus=2, tp=2, ep=4), False),
}


@pytest.mark.parametrize(("engine", "parallel", "fits"), TOPOLOGIES.values(), ids=TOPOLOGIES.keys())
def test_topology_must_multiply_out(engine: Engine, parallel: Parallel, fits: bool) -> None:
    assert (check_parallel(engine, parallel) is None) is fits


def test_differences_are_named_with_both_sides() -> None:
    wanted = parse_identity("Server/openai/gpt-oss-120b/fp4/vllm/nvidia-h100/gpus=1")
    found = parse_identity("Server/openai/GPT-oss-120b/fp8/vllm/nvidia-h200/gpus=2,tp=2")
    assert differing_fields(wanted, found) == (
        "hardware nvidia-h100 (catalog: nvidia-h200)",
        "quantization fp4 (catalog: fp8)",
        "parallel.gpus 1 (catalog: 2)",
        "parallel.tp 1 (catalog: 2)",
    )


_identities = st.builds(
    lambda role, owner, name, quantization, engine, hardware, tp, pp: Identity(
        role=role,
        model=f"{owner}/{name}",
        quantization=quantization,
        engine=engine,
        hardware=hardware,
        parallel=Parallel(gpus=tp * pp, tp=tp, pp=pp),
    ),
    st.sampled_from(Role),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True),
    st.sampled_from(Quantization) | st.none(),
    st.sampled_from(Engine),
    st.sampled_from(HARDWARE),
    st.sampled_from((1, 2, 4, 8)),
    st.sampled_from((1, 2)),
)


@given(_identities)
def test_every_identity_survives_printing_and_parsing(identity: Identity) -> None:
    assert parse_identity(str(identity)) == identity


@pytest.mark.parametrize("model", ["deepsee\u212a-ai/R1", "Qwen/Q\uff57en3-8B", "Qwen/Qwen3-8B\u0661"])
def test_letters_that_look_like_a_repository_are_none(model: str) -> None:
    with pytest.raises(IdentityError, match="is not a model repository"):
        parse_identity(f"Server/{model}/bf16/vllm/nvidia-h200/gpus=1,tp=1")
