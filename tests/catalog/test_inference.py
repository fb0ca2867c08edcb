"""Identity of a role, fail-closed, and never a secret in a message."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from catalog.inference import Identified, IdentityProblem, Unidentified, infer_identity
from catalog.inputs import ArtifactInput, HardwareInput, Hub, RoleInput
from catalog.loading import CatalogFailure, load_text
from catalog.objects import role_input, role_inputs
from catalog.operating_point import LatencyTargets
from catalog.resolution import RoleRequest, resolve_scaler
from controller.api import InstanceType, ModelArtifact, ModelDeployment, decode_view
from controller.foundation import REDACTED, UsageError
from tests.catalog.builders import DATA

H200 = HardwareInput(
    "pool", accelerator_group="nvidia-h200", manufacturer="nvidia", product="NVIDIA H200", memory="141Gi"
)
ROLE = RoleInput(
    name="server",
    kind="Server",
    engine="vLLM",
    accelerators_per_pod=1,
    artifact=ArtifactInput("a", Hub.HUGGING_FACE, "openai/gpt-oss-120b"),
    hardware=H200,
)
CANONICAL = "Server/openai/gpt-oss-120b/unstated/vllm/nvidia-h200/gpus=1,tp=1,ep=1,pp=1,dp=1,ldp=1,cp=1"
DECLARED = CANONICAL.replace("unstated", "fp4")


def _with(**changes: Any) -> RoleInput:
    return replace(ROLE, **changes)


def test_a_managed_role_is_identified_without_annotations() -> None:
    found = infer_identity(ROLE)
    assert isinstance(found, Identified)
    assert (str(found.identity), found.declared) == (CANONICAL, False)


IDENTIFIED: dict[str, tuple[RoleInput, str]] = {
    "quantization by flag": (_with(extra_args=("--quantization", "fp8")), "/fp8/"),
    "quantization by SGLang's flag": (
        _with(engine="SGLang", extra_args=("--quantization=w8a8_int8",)),
        "/int8/sglang/",
    ),
    "quantization by the repository's name": (
        _with(artifact=ArtifactInput("a", Hub.HUGGING_FACE, "Qwen/Qwen3-8B-AWQ")),
        "Qwen/Qwen3-8B-AWQ/int4/",
    ),
    "an open flag is completed by the name": (
        _with(
            artifact=ArtifactInput("a", Hub.HUGGING_FACE, "RedHatAI/X-FP8-dynamic"),
            extra_args=("-q", "compressed-tensors"),
        ),
        "/fp8/",
    ),
    "a 16-bit repository quantized at load": (
        _with(artifact=ArtifactInput("a", Hub.HUGGING_FACE, "unsloth/X-BF16"), extra_args=("-q", "fp8")),
        "/fp8/",
    ),
    "no quantization is unstated": (_with(extra_args=("--quantization", "none")), "/unstated/"),
    "a ModelScope mirror": (
        _with(artifact=ArtifactInput("a", Hub.MODEL_SCOPE, "openai-mirror/gpt-oss-120b")),
        "/openai/gpt-oss-120b/",
    ),
    "a renamed ModelScope mirror": (
        _with(artifact=ArtifactInput("a", Hub.MODEL_SCOPE, "LLM-Research/Meta-Llama-3.3-70B-Instruct")),
        "/meta-llama/Llama-3.3-70B-Instruct/",
    ),
    "a replica of several Pods": (
        _with(accelerators_per_pod=8, size=2, extra_args=("-tp", "8", "-pp", "2")),
        "gpus=16,tp=8,ep=1,pp=2",
    ),
    "one local rank of an external data-parallel group": (
        _with(extra_args=("-dp", "4", "-dpl", "1", "--data-parallel-external-lb")),
        "gpus=1,tp=1,ep=1,pp=1,dp=4,ldp=1",
    ),
    "SGLang's attention data parallelism": (
        _with(engine="SGLang", accelerators_per_pod=8, extra_args=("--tp", "8", "--dp", "8", "--enable-dp-attention")),
        "gpus=8,tp=8,ep=1,pp=1,dp=8",
    ),
    "a Decode role": (_with(kind="Decode"), "Decode/openai/"),
}


@pytest.mark.parametrize(("role", "part"), IDENTIFIED.values(), ids=IDENTIFIED.keys())
def test_identified(role: RoleInput, part: str) -> None:
    found = infer_identity(role)
    assert isinstance(found, Identified), found
    assert part in str(found.identity)


REFUSED: dict[str, tuple[RoleInput, IdentityProblem, str]] = {
    "a take-over command": (_with(command=("sh", "-c", "vllm serve x")), IdentityProblem.TAKE_OVER_COMMAND, "command"),
    "a configuration file": (
        _with(extra_args=("--config", "x.yaml")),
        IdentityProblem.ARGUMENTS_UNREADABLE,
        "--config",
    ),
    "no artifact": (_with(artifact=None), IdentityProblem.MODEL_UNKNOWN, "model"),
    "an artifact on a volume": (_with(artifact=ArtifactInput("a", Hub.OTHER)), IdentityProblem.MODEL_UNKNOWN, "model"),
    "a repository that is a path": (
        _with(artifact=ArtifactInput("a", Hub.HUGGING_FACE, "/mnt/models/x")),
        IdentityProblem.MODEL_UNKNOWN,
        "model",
    ),
    "another type of the KV cache": (
        _with(extra_args=("--kv-cache-dtype", "fp8")),
        IdentityProblem.SETTING_UNSTATED,
        "--kv-cache-dtype",
    ),
    "SGLang without CUDA graphs": (
        _with(engine="SGLang", extra_args=("--disable-cuda-graph",)),
        IdentityProblem.SETTING_UNSTATED,
        "--disable-cuda-graph",
    ),
    "an unknown quantization": (
        _with(extra_args=("-q", "magic")),
        IdentityProblem.QUANTIZATION_UNKNOWN,
        "quantization",
    ),
    "a quantization that leaves the bits open": (
        _with(extra_args=("-q", "bitsandbytes")),
        IdentityProblem.QUANTIZATION_UNKNOWN,
        "quantization",
    ),
    "a loader that quantizes": (
        _with(extra_args=("--load-format", "gguf")),
        IdentityProblem.QUANTIZATION_UNKNOWN,
        "quantization",
    ),
    "a repository name that says two things": (
        _with(artifact=ArtifactInput("a", Hub.HUGGING_FACE, "x/y-nvfp4-fp8")),
        IdentityProblem.QUANTIZATION_UNKNOWN,
        "quantization",
    ),
    "flag against name": (
        _with(artifact=ArtifactInput("a", Hub.HUGGING_FACE, "x/y-AWQ"), extra_args=("-q", "fp8")),
        IdentityProblem.QUANTIZATION_CONTRADICTED,
        "quantization",
    ),
    "a sliced card": (_with(sliced=True), IdentityProblem.HARDWARE_OTHER_FORM, "hardware"),
    "a partition": (_with(partitioned_profile="3g.40gb"), IdentityProblem.HARDWARE_OTHER_FORM, "hardware"),
    "the NVL board": (
        _with(hardware=HardwareInput("pool", accelerator_group="nvidia-h200-nvl")),
        IdentityProblem.HARDWARE_OTHER_FORM,
        "hardware",
    ),
    "an unknown pool": (_with(hardware=None), IdentityProblem.HARDWARE_UNKNOWN, "hardware"),
    "no accelerator": (_with(accelerators_per_pod=0), IdentityProblem.ACCELERATORS_UNKNOWN, "resources.accelerator"),
    "degrees that leave accelerators idle": (_with(accelerators_per_pod=2), IdentityProblem.TOPOLOGY, "parallel"),
    "degrees beyond the accelerators": (_with(extra_args=("-tp", "2")), IdentityProblem.TOPOLOGY, "parallel"),
    "speculative decoding": (
        _with(extra_args=("--speculative-config", "{x}")),
        IdentityProblem.NOT_PLAIN,
        "--speculative-config",
    ),
    "an unknown role kind": (_with(kind="Encode"), IdentityProblem.ROLE_UNSUPPORTED, "role kind"),
    "an unknown engine": (_with(engine="TGI"), IdentityProblem.ENGINE_UNKNOWN, "engine"),
    "an engine that no deployment runs": (_with(engine="TensorRT-LLM"), IdentityProblem.ENGINE_UNKNOWN, "engine"),
    "a declaration that is none": (_with(declared="gpt-oss"), IdentityProblem.DECLARATION_INVALID, "declared identity"),
    "a declaration without quantization": (
        _with(declared=CANONICAL),
        IdentityProblem.DECLARATION_INVALID,
        "declared identity",
    ),
    "a declaration against a flag": (
        _with(declared=DECLARED, extra_args=("-q", "fp8")),
        IdentityProblem.DECLARATION_CONTRADICTED,
        "quantization",
    ),
    "a declaration against the hardware": (
        _with(declared=DECLARED.replace("h200", "h100")),
        IdentityProblem.DECLARATION_CONTRADICTED,
        "hardware",
    ),
    "a declaration against the model": (
        _with(declared=DECLARED.replace("120b", "20b")),
        IdentityProblem.DECLARATION_CONTRADICTED,
        "model",
    ),
    "a declaration against the accelerators of a take-over role": (
        _with(declared=DECLARED.replace("gpus=1,tp=1", "gpus=2,tp=2"), command=("vllm",)),
        IdentityProblem.DECLARATION_CONTRADICTED,
        "parallel.gpus",
    ),
    "a declaration for a sliced card": (
        _with(declared=DECLARED, sliced=True),
        IdentityProblem.HARDWARE_OTHER_FORM,
        "hardware",
    ),
}


@pytest.mark.parametrize(("role", "problem", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_refusal_names_role_field_wanted_and_found(role: RoleInput, problem: IdentityProblem, field: str) -> None:
    found = infer_identity(role)
    assert isinstance(found, Unidentified), found
    refusal = found.refusals[0]
    assert (refusal.role, refusal.problem, refusal.field) == ("server", problem, field)
    assert refusal.wanted
    assert refusal.found
    assert found.message.startswith(f"role server: {field}: wanted ")


DECLARABLE: dict[str, RoleInput] = {
    "a take-over command": _with(declared=DECLARED, command=("sh", "-c", "vllm serve")),
    "a configuration file": _with(declared=DECLARED, extra_args=("--config", "x.yaml")),
    "another type of the KV cache": _with(declared=DECLARED, extra_args=("--kv-cache-dtype", "fp8")),
    "an artifact on a volume": _with(declared=DECLARED, artifact=ArtifactInput("a", Hub.OTHER)),
    "an unstated quantization": _with(declared=DECLARED),
    "an unknown pool": _with(declared=DECLARED, hardware=None),
}


@pytest.mark.parametrize("role", DECLARABLE.values(), ids=DECLARABLE.keys())
def test_a_person_may_declare_what_cannot_be_read(role: RoleInput) -> None:
    found = infer_identity(role)
    assert isinstance(found, Identified), found
    assert (str(found.identity), found.declared) == (DECLARED, True)


def test_all_refusals_are_listed_each_once() -> None:
    found = infer_identity(_with(artifact=None, hardware=None, command=("vllm",)))
    assert isinstance(found, Unidentified)
    assert [refusal.problem for refusal in found.refusals] == [
        IdentityProblem.TAKE_OVER_COMMAND,
        IdentityProblem.MODEL_UNKNOWN,
        IdentityProblem.HARDWARE_UNKNOWN,
    ]


SECRET = "hunter2-Secret/Value"
LEAKS: dict[str, RoleInput] = {
    "as a quantization": _with(extra_args=("-q", "$(TOKEN)")),
    "as a degree": _with(extra_args=("-tp", "$(TOKEN)")),
    "inside a degree": _with(extra_args=("-tp=x$(TOKEN)y",)),
    "as an argument": _with(extra_args=("--$(TOKEN) value",)),
    "typed out in an argument": _with(extra_args=("-tp", SECRET)),
    "as the data-parallel variable": _with(env=(("VLLM_DP_SIZE", SECRET),)),
    "as the engine": _with(engine=SECRET),
    "as the role kind": _with(kind=SECRET),
    "as the repository": _with(artifact=ArtifactInput("a", Hub.HUGGING_FACE, f"/x/{SECRET}")),
    "as the accelerator": _with(hardware=HardwareInput("pool", accelerator_group=f"{SECRET}-gpu")),
    "as the declaration": _with(declared=f"Server/{SECRET}"),
    "as the partition": _with(partitioned_profile=SECRET),
}


@pytest.mark.parametrize("role", LEAKS.values(), ids=LEAKS.keys())
def test_a_planted_secret_never_reaches_a_message(role: RoleInput) -> None:
    planted = replace(role, env=(*role.env, ("TOKEN", SECRET)))
    found = infer_identity(planted)
    assert isinstance(found, Unidentified), found
    assert SECRET not in found.message
    assert SECRET not in repr(found)


def test_values_of_variables_are_not_in_the_representation_of_an_input_or_an_identity() -> None:
    role = _with(env=(("TOKEN", SECRET),))
    assert SECRET not in repr(role)
    assert SECRET not in repr(infer_identity(role))


_secrets = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=4, max_size=80)
_PLACES = ("-q", "-tp", "-dp", "--foo", "--load-format")


@example("role", "-q", "", "", False)
@given(_secrets, st.sampled_from(_PLACES), st.text(max_size=4), st.text(max_size=4), st.booleans())
def test_no_value_of_a_variable_reaches_a_message(secret: str, flag: str, before: str, after: str, typed: bool) -> None:
    middle = secret if typed else "$(S)"
    env = (("S", secret), ("VLLM_DP_SIZE", secret))
    artifact = ArtifactInput("a", Hub.HUGGING_FACE, f"/{before}{secret}")
    found = infer_identity(_with(extra_args=(flag, f"{before}{middle}{after}"), env=env, artifact=artifact))
    assert isinstance(found, Unidentified)
    # A word of the sentences themselves ("Server", "whole") is blanked as well; what stays never holds the secret,
    # unless the secret is a part of the marker that replaces it.
    assert secret not in found.message or secret in REDACTED


def test_documents_of_a_file_become_role_inputs() -> None:
    documents = list(yaml.safe_load_all((DATA / "qwen3-8b-deployment.yaml").read_text()))
    (role,) = role_inputs(documents)
    found = infer_identity(role)
    assert isinstance(found, Identified), found
    assert str(found.identity) == "Server/Qwen/Qwen3-8B/unstated/vllm/nvidia-h200/gpus=1,tp=1,ep=1,pp=1,dp=1,ldp=1,cp=1"


def _documents(**role: Any) -> list[dict[str, Any]]:
    documents = list(yaml.safe_load_all((DATA / "qwen3-8b-deployment.yaml").read_text()))
    documents[0]["spec"]["roles"][0] |= role
    return documents


DOCUMENTS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "slices": (_documents(resources={"accelerator": 1, "acceleratorSlicedMemoryPercentage": 50}), "slice or partition"),
    "a partition": (_documents(resources={"acceleratorPartitionedProfile": "3g.40gb"}), "3g.40gb"),
    "a fraction of an accelerator": (_documents(resources={"accelerator": "500m"}), "found none"),
    "a command": (_documents(command=["vllm"]), "take-over command"),
    "another pool": (_documents(instanceType="other"), "no InstanceType is known"),
}


@pytest.mark.parametrize(("documents", "part"), DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_documents_carry_what_forbids_a_match(documents: list[dict[str, Any]], part: str) -> None:
    found = infer_identity(role_inputs(documents)[0])
    assert isinstance(found, Unidentified), found
    assert part in found.message


def test_later_field_names_and_a_declaration_are_accepted() -> None:
    documents = _documents()
    role = documents[0]["spec"]["roles"][0]
    role["acceleratorType"] = role.pop("instanceType")
    documents[2]["kind"] = "AcceleratorType"
    documents[1]["spec"]["source"] = {"modelScope": {"repo": "Qwen/Qwen3-8B"}}
    annotation = "scaling.worker.gpustack.ai/identity.server"
    declared = "Server/Qwen/Qwen3-8B/bf16/vllm/nvidia-h200/gpus=1"
    documents[0]["metadata"]["annotations"] = {annotation: declared}
    found = infer_identity(role_inputs(documents)[0])
    assert isinstance(found, Identified), found
    assert found.declared


DAMAGED: dict[str, dict[str, Any]] = {
    "arguments that are no list": {"extraArgs": "-tp 4"},
    "a variable that is no object": {"env": ["A=B"]},
    "resources that are a word": {"resources": "one card"},
    "an accelerator count that is no quantity": {"resources": {"accelerator": "one"}},
}


@pytest.mark.parametrize("changes", DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_never_taken_for_absence(changes: dict[str, Any]) -> None:
    found = infer_identity(role_inputs(_documents(**changes))[0])
    assert isinstance(found, Unidentified), found


def test_objects_become_inputs_without_documents() -> None:
    documents = [json.dumps(document).encode() for document in _documents()]
    deployment, artifact = decode_view(ModelDeployment, documents[0]), decode_view(ModelArtifact, documents[1])
    pool = decode_view(InstanceType, documents[2])
    found = infer_identity(role_input(deployment, "server", artifact=artifact, instance_type=pool))
    assert isinstance(found, Identified), found
    missing = infer_identity(role_input(deployment, "server"))
    assert isinstance(missing, Unidentified)
    assert [refusal.field for refusal in missing.refusals] == ["model", "hardware"]
    with pytest.raises(KeyError):
        role_input(deployment, "decode")


@pytest.mark.parametrize("count", [0, 2])
def test_a_file_must_hold_one_deployment(count: int) -> None:
    with pytest.raises(UsageError, match=f"exactly one ModelDeployment, found {count}"):
        role_inputs([{"kind": "ModelDeployment"}] * count)


def test_a_catalog_that_quotes_a_variable_of_a_role_does_not_show_it() -> None:
    secret = "hf_planted9"
    broken = load_text(json.dumps({"kind": secret, f"x-{secret}": 1, "profiles": [{"hardware": f"a{secret}b"}]}), "c")
    assert isinstance(broken, CatalogFailure)
    assert secret in broken.message
    requests = [
        RoleRequest("a", Unidentified((), ()), LatencyTargets()),
        RoleRequest("b", Unidentified((), (secret,)), LatencyTargets()),
    ]
    priors = resolve_scaler(broken, requests)
    assert secret not in repr(priors)
    assert "kind: must be" in priors.message
    assert [role.role for role in priors.roles] == ["a", "b"]
