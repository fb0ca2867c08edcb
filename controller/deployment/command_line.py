"""The command line of an engine, by engine, kind of role and place in its replica. Pure.

What a person gives as `extraArgs` comes last and wins; a flag that he gives himself is not given twice. Rendered:

    all          vllm serve MODEL --served-model-name --port
                 sglang.launch_server --model-path --served-model-name --host --port --enable-metrics
    Prefill,     vllm    --kv-transfer-config with NixlConnector
    Decode       sglang  --disaggregation-mode prefill|decode
    Encode       vllm    --mm-encoder-only --no-enable-prefix-caching
                 sglang  --encoder-only; the Prefill role gets --language-only --encoder-urls with the Encode Service
    size > 1     vllm    --nnodes --node-rank --master-addr, members after the first --headless
                 sglang  --nnodes --node-rank --dist-init-addr

vLLM's encoder-cache connector is not chosen here: it depends on storage or fabric that only a person knows, so
`--ec-transfer-config` belongs into `extraArgs` of the Encode and the Prefill role.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from controller.api import EngineName, Hub, ModelDeployment, Role, RoleKind
from controller.deployment.flags import Flags
from controller.deployment.names import leader_host, role_service
from controller.deployment.weights import Weights

# Where the members of an SGLang replica meet; any port that the engine does not use itself.
_RENDEZVOUS_PORT: Final = 20000

# A decode process fetches KV blocks straight from the prefill Pod, so the address that is handed on must be the Pod's.
_POD_IP: Final = "$(POD_IP)"

# What says, summed, how many requests an engine holds: what the hook at the end of a Pod waits for, in its terms.
_VLLM: Final = ("vllm:num_requests_running", "vllm:num_requests_waiting")
# Requests that wait for a grammar are in no other queue.
_SGLANG: Final = ("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:num_grammar_queue_reqs?")
_SGLANG_QUEUES: Final = {
    # Waiting for the handshake with the decode side (`prealloc` from 0.4.9 to 0.5.9), and computed with the blocks not
    # fetched yet.
    RoleKind.PREFILL: (
        "sglang:num_prefill_bootstrap_queue_reqs|sglang:num_prefill_prealloc_queue_reqs",
        "sglang:num_prefill_inflight_queue_reqs",
    ),
    # With requests whose prefill has not ended (sglang#21396): no work of this process yet, but accepted by it, and
    # lost with it. `host_receive` from 0.5.23 on.
    RoleKind.DECODE: (
        "sglang:num_decode_prealloc_queue_reqs",
        "sglang:num_decode_transfer_queue_reqs",
        "sglang:num_decode_host_receive_queue_reqs?",
    ),
}
# SGLang's encoder has no scheduler and prints none of the above. It counts what came in and what has ended
# (sglang#27564, in 0.5.23), each from its first time on. One that prints nothing of the kind, be it older or without a
# request so far, cannot be told from one at work by anything it shows: an open connection may be idle, and a closed one
# may have left an embedding to be fetched. It gets its whole grace, on purpose. So does one of which a request timed
# out inside: that never counts as ended.
_SGLANG_ENCODER: Final = ("sglang:encoder_requests_received_total", "-sglang:encoder_requests_total?")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What the container runs, and the environment that this needs."""

    command: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


def command_line(
    deployment: ModelDeployment, role: Role, weights: Weights, ordinal: int, member: int
) -> CommandLine | None:
    """The command line of one member; None for an engine that is not known."""
    engine = deployment.spec.engine.known
    if engine is None:
        return None
    if role.takes_over:
        return CommandLine(role.command or (), ())  # the whole of it, as the person wrote it
    flags = Flags.of(engine, role.extra_args)
    render = _vllm if engine is EngineName.VLLM else _sglang
    rendered = render(deployment, role, weights, flags, ordinal, member)
    return CommandLine(
        rendered.command,
        (*rendered.arguments, *(role.extra_args or ())),
        (*_hub(engine, weights), *rendered.environment),
    )


def in_flight_terms(engine: EngineName, kind: RoleKind | None) -> tuple[str, ...]:
    """What an engine holds, as the sum of these terms of `drain_hook`. A vLLM encoder is a server to its metrics."""
    if engine is EngineName.VLLM:
        return _VLLM
    if kind is RoleKind.ENCODE:
        return _SGLANG_ENCODER
    return (*_SGLANG, *(_SGLANG_QUEUES.get(kind, ()) if kind is not None else ()))


def answers(role: Role, engine: EngineName, member: int) -> bool:
    """Whether this member serves requests and metrics."""
    return member == 0 or Flags.of(engine, role.extra_args).every_member_answers


def _vllm(
    deployment: ModelDeployment, role: Role, weights: Weights, flags: Flags, ordinal: int, member: int
) -> CommandLine:
    arguments = ["serve", weights.model, "--served-model-name", deployment.spec.model.name]
    arguments += ["--port", str(role.serving_port)]
    environment: list[tuple[str, str]] = []
    if weights.revision and not flags.has(("--revision",)):
        arguments += ["--revision", weights.revision]
    kind = role.known_kind
    if kind in (RoleKind.PREFILL, RoleKind.DECODE):
        if not flags.has(("--kv-transfer-config",)):
            # The router decides who is which; NixlConnector itself does not look at kv_role.
            arguments += ["--kv-transfer-config", _json({"kv_connector": "NixlConnector", "kv_role": "kv_both"})]
        environment.append(("VLLM_NIXL_SIDE_CHANNEL_HOST", _POD_IP))
    if kind is RoleKind.ENCODE:
        arguments += ["--mm-encoder-only", "--no-enable-prefix-caching"]
    if role.size > 1 and not flags.wires_members:
        leader = leader_host(deployment.metadata.name, role, ordinal, deployment.metadata.namespace)
        arguments += ["--nnodes", str(role.size), "--node-rank", str(member), "--master-addr", leader]
        if member > 0:
            arguments.append("--headless")
    return CommandLine(("vllm",), tuple(arguments), tuple(environment))


def _sglang(
    deployment: ModelDeployment, role: Role, weights: Weights, flags: Flags, ordinal: int, member: int
) -> CommandLine:
    name, namespace = deployment.metadata.name, deployment.metadata.namespace
    arguments = ["--model-path", weights.model, "--served-model-name", deployment.spec.model.name]
    # By default it listens on loopback, and serves no metrics.
    arguments += ["--host", "0.0.0.0", "--port", str(role.serving_port), "--enable-metrics"]  # noqa: S104
    if weights.revision and not flags.has(("--revision",)):
        arguments += ["--revision", weights.revision]
    kind = role.known_kind
    if kind in (RoleKind.PREFILL, RoleKind.DECODE) and not flags.has(("--disaggregation-mode",)):
        arguments += ["--disaggregation-mode", str(kind).lower()]
    if kind is RoleKind.PREFILL and not flags.has(("--encoder-urls",)):
        encoders = [
            f"http://{role_service(name, other.name)}.{namespace}.svc:{other.serving_port}"
            for other in deployment.roles
            if other.known_kind is RoleKind.ENCODE
        ]
        if encoders:
            arguments += ["--language-only", "--encoder-urls", *encoders]
    if kind is RoleKind.ENCODE:
        arguments.append("--encoder-only")
    if role.size > 1 and not flags.wires_members:
        leader = leader_host(name, role, ordinal, namespace)
        arguments += ["--nnodes", str(role.size), "--node-rank", str(member)]
        arguments += ["--dist-init-addr", f"{leader}:{_RENDEZVOUS_PORT}"]
    return CommandLine(("python3", "-m", "sglang.launch_server"), tuple(arguments))


def _hub(engine: EngineName, weights: Weights) -> tuple[tuple[str, str], ...]:
    if weights.hub is not Hub.MODEL_SCOPE:
        return ()
    return ((("VLLM" if engine is EngineName.VLLM else "SGLANG") + "_USE_MODELSCOPE", "true"),)


def _json(value: dict[str, str]) -> str:
    return orjson.dumps(value).decode()
