"""What a Pod becomes: an engine with the flags that engine servers know, or a container that only runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.embedded.containers import EngineRuntime, SilentContainer, engine_config
from controller.embedded.engine import EngineConfig, EngineDialect, EngineKind, EngineServer, EngineState
from controller.embedded.loopback import LoopbackAddresses
from controller.embedded.pods import AssignedPod, read_pod
from controller.foundation import Clock, ManualClock
from tests.embedded.conftest import SERVICE
from tests.embedded.pods import pod

BASE = EngineConfig("base", SERVICE, max_num_seqs=32)


def assigned(*arguments: str, kind: str = "server", port: int | None = 8000) -> AssignedPod:
    made = pod()
    made["metadata"]["uid"] = "p-1"
    return replace(read_pod(made), command_line=("vllm", "serve", "x", *arguments), kind=kind, port=port)


@pytest.mark.parametrize(
    ("arguments", "seqs", "warned"),
    [
        pytest.param((), 32, False, id="without flags the base holds"),
        pytest.param(("--max-num-seqs", "8", "--tensor-parallel-size=2"), 8, False, id="a known flag is obeyed"),
        pytest.param(("--max-num-seqs", "many"), 32, True, id="a word for a number is ignored"),
        pytest.param(("--max-num-seqs", "0"), 32, True, id="no slots is ignored"),
        pytest.param(("--max-num-seqs",), 32, True, id="a flag without its value is ignored"),
    ],
)
def test_an_engine_is_configured_by_its_pod(
    arguments: tuple[str, ...], seqs: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    config = engine_config(BASE, assigned("--served-model-name", "served", *arguments))
    assert (config.model_name, config.max_num_seqs, config.max_model_len) == ("served", seqs, BASE.max_model_len)
    assert bool(caplog.records) is warned


def test_the_command_line_tells_the_engine_and_its_flags() -> None:
    line = (
        "python3",
        "-m",
        "sglang.launch_server",
        "--served-model-name",
        "m",
        "--max-running-requests=5",
        "--dp",
        "9",
    )
    pod = replace(assigned(kind="prefill"), command_line=(*line, "--dp-size", "2"))
    config = engine_config(BASE, pod)
    assert (config.dialect, config.kind, config.data_parallel) == (EngineDialect.SGLANG, EngineKind.PREFILL, 2)
    assert (config.max_num_seqs, config.model_name) == (5, "m")


def test_the_kind_of_role_decides_what_hardware_an_engine_has() -> None:
    other = replace(BASE, max_num_batched_tokens=123)
    made = EngineRuntime(ManualClock(), {EngineKind.SERVER: BASE, EngineKind.PREFILL: other})(
        assigned(kind="prefill"), lambda: None
    )
    assert isinstance(made, EngineServer)
    assert made.config.max_num_batched_tokens == 123


@pytest.mark.parametrize(
    ("subject", "warned"),
    [
        pytest.param(assigned(port=None), False, id="a follower has no server"),
        pytest.param(
            assigned(kind="unheard-of"), True, id="a kind that nobody knows has none either, and that is said"
        ),
    ],
)
async def test_other_containers_only_run(
    subject: AssignedPod, warned: bool, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    made = EngineRuntime(clock, {EngineKind.SERVER: BASE})(subject, lambda: None)
    assert isinstance(made, SilentContainer)
    assert bool(caplog.records) is warned
    await made.start(LoopbackAddresses(), 8000)
    assert made.host
    assert made.state is EngineState.SERVING
    await made.crash()
    assert made.restart_count == 1
    await made.stop()
    assert made.state is EngineState.STOPPED
