"""What is scraped and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from controller.engines.reading import EngineReading, Role
from controller.engines.refusal import Reason


@dataclass(frozen=True, slots=True)
class Target:
    """One engine process. `host` is an IP address (v6 without brackets), never a name: nothing is resolved here, so a
    connection can only go to the address that the caller took from its own sources.

    `key` is stable and unique (Pod UID, and port where a Pod has several processes). `engine` is a hint for bodies with
    series of several engines. `served_model_names` are the names whose series count: the model and its adapters; empty
    where the process serves one model. Raises ValueError naming the field.
    """

    key: str
    host: str
    port: int
    path: str = "/metrics"
    scheme: str = "http"
    engine: str | None = None
    served_model_names: tuple[str, ...] = ()
    role: Role | None = None

    def __post_init__(self) -> None:
        try:
            address = ip_address(self.host)
        except ValueError:
            raise ValueError(f"host: must be an IP address, found {self.host[:80]!r}") from None
        if address.version == 6 and address.scope_id is not None:
            raise ValueError(f"host: must be an IP address without a zone, found {self.host[:80]!r}")
        if not 1 <= self.port <= 65_535:
            raise ValueError(f"port: must be 1 to 65535, found {self.port}")
        if self.scheme not in ("http", "https"):
            raise ValueError(f"scheme: must be http or https, found {self.scheme[:20]!r}")
        if not self.path.startswith("/") or not self.path.isprintable():
            raise ValueError(f"path: must start with a slash, found {self.path[:80]!r}")

    @property
    def authority(self) -> str:
        """`host:port`, IPv6 bracketed."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a target gave no reading; `message` is one sentence without anything secret in it."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class ScrapeResult:
    """What came of one target: a reading or a failure, never both.

    `started_at`: model time at which its first request was sent (or, where none was, when its turn would have been).
    `answered_at`: model time at which the answer that was read began to arrive, which is when the numbers were true: a
    busy engine may take seconds to answer, so rates are computed between these. `duration_seconds`: wall time.
    """

    target: Target
    reading: EngineReading | None
    failure: Failure | None
    started_at: float
    answered_at: float | None
    duration_seconds: float
