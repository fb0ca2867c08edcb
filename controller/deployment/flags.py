"""Reading the arguments that a person wrote for an engine, as far as replicas depend on them. Pure.

Only long flags and vLLM's short spellings of parallelism; `--flag value` and `--flag=value`, underscores as dashes for
vLLM, nothing after a bare `--`. The last one wins, as in the engines' own parsers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from controller.api import EngineName

# How the members of a replica find each other: whoever gives one of these has arranged it himself.
_WIRING = {
    EngineName.VLLM: (
        "--nnodes",
        "-n",
        "--node-rank",
        "-r",
        "--master-addr",
        "--master-port",
        "--headless",
        "--data-parallel-rank",
        "-dpn",
        "--data-parallel-start-rank",
        "-dpr",
        "--data-parallel-address",
        "-dpa",
        "--data-parallel-rpc-port",
        "-dpp",
        "--data-parallel-backend",
        "-dpb",
        "--data-parallel-hybrid-lb",
        "-dph",
        "--data-parallel-external-lb",
        "-dpe",
        "--distributed-executor-backend",
    ),
    EngineName.SGLANG: ("--nnodes", "--node-rank", "--dist-init-addr", "--nccl-init-addr"),
}
# With these every member answers requests by itself; without, only the leader does.
_EVERY_MEMBER_ANSWERS = {
    EngineName.VLLM: (
        "--data-parallel-external-lb",
        "-dpe",
        "--data-parallel-rank",
        "-dpn",
        "--data-parallel-hybrid-lb",
        "-dph",
    ),
    EngineName.SGLANG: (),
}
# One process a rank on ports of their own: nobody could tell from one port whether the Pod is idle.
_SEVERAL_PORTS = ("--data-parallel-multi-port-external-lb", "-dpm")


@dataclass(frozen=True, slots=True)
class Flags:
    """The extra arguments of one role."""

    engine: EngineName
    arguments: tuple[str, ...]

    @classmethod
    def of(cls, engine: EngineName, arguments: Sequence[str] | None) -> Flags:
        """Those before a bare `--`."""
        given = tuple(arguments or ())
        return cls(engine, given[: given.index("--")] if "--" in given else given)

    def has(self, names: Collection[str]) -> bool:
        """Whether one of these flags is given, or a member of it (`--kv-transfer-config.kv_role`)."""
        return any(self._name(argument) in names for argument in self.arguments)

    @property
    def wires_members(self) -> bool:
        """The person arranged how members find each other."""
        return self.has(_WIRING[self.engine])

    @property
    def every_member_answers(self) -> bool:
        """Each member serves requests and metrics on its own."""
        return self.has(_EVERY_MEMBER_ANSWERS[self.engine])

    @property
    def several_ports(self) -> bool:
        """A Pod answers on several ports."""
        return self.engine is EngineName.VLLM and self.has(_SEVERAL_PORTS)

    @property
    def moves_server(self) -> bool:
        """The server listens elsewhere than the role declares, or speaks no HTTP there (vLLM from 0.32 on)."""
        return self.has(("--host", "--port", "--uds", "--grpc"))

    @property
    def serves_tls(self) -> bool:
        """The server speaks https."""
        return self.has(("--ssl-certfile", "--ssl-keyfile"))

    @property
    def demands_client_certificate(self) -> bool:
        """A probe of the kubelet, which has no certificate, would be refused."""
        return self.has(("--ssl-cert-reqs",))

    def _name(self, argument: str) -> str:
        if not argument.startswith("-"):
            return ""
        name = argument.partition("=")[0]
        if name.startswith("--"):
            name = name.partition(".")[0]
            if self.engine is EngineName.VLLM:
                name = name.replace("_", "-")
        return name
