"""The capacity-prior catalog as typed values. Everything here is frozen; `validation` builds it from a document.

A profile is one replica measured at several concurrencies under one workload; a point is one concurrency. Throughputs
are tokens per second of the whole replica, never per accelerator. Latencies are milliseconds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from catalog.identity import Engine, Identity, Parallel, Quantization, Role
from catalog.quantiles import Quantiles

API_VERSION: Final = "worker.gpustack.ai/v1alpha1"
KIND: Final = "ModelDeploymentScalerCapacityPriorCatalog"
# The key of a catalog inside a ConfigMap's data.
CONFIG_MAP_KEY: Final = "catalog.yaml"


class CacheBehavior(StrEnum):
    """How prompts met the prefix cache. Only all-miss measurements transfer: a cached prompt token costs almost
    nothing, so a run with hits says nothing about the replica's speed without its hit ratio."""

    ALL_MISSES = "AllMisses"


class Basis(StrEnum):
    """Where the numbers come from. An estimate never joins a measured curve and never displaces one."""

    MEASURED = "Measured"
    ESTIMATED = "Estimated"


class PointFlag(StrEnum):
    """What a reader of a point must know."""

    # The largest TTFT quantile is over 10 s and over 50 times the median: kernels were compiled during the run.
    COLD_TAIL = "ColdTail"
    # `itlMilliseconds` are gaps between chunks of several tokens; `tpotMilliseconds` is the time per token.
    CHUNKED_ITL = "ChunkedITL"


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt and answer lengths. `input_tokens`/`output_tokens` are what the run asked for; the means are what it got
    (InferenceX samples 0.8…1.0 of the nominal length, so its mean is 0.9 of it)."""

    input_tokens: int
    output_tokens: int
    cache_behavior: CacheBehavior = CacheBehavior.ALL_MISSES
    mean_input_tokens: float | None = None
    mean_output_tokens: float | None = None

    @property
    def label(self) -> str:
        """`8192/1024`: how status and messages name a workload."""
        return f"{self.input_tokens}/{self.output_tokens}"

    @property
    def lengths(self) -> tuple[float, float]:
        """The lengths that requests really had, as far as known."""
        return self.mean_input_tokens or self.input_tokens, self.mean_output_tokens or self.output_tokens


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One concurrency of a sweep. `run` and `date` are set where they differ from the profile's source."""

    concurrency: int
    total_tokens_per_second: float
    output_tokens_per_second: float
    ttft: Quantiles = ()
    itl: Quantiles = ()
    tpot: Quantiles = ()
    requests: int | None = None
    flags: tuple[PointFlag, ...] = ()
    run: str | None = None
    date: str | None = None

    @property
    def per_token(self) -> Quantiles:
        """The latencies that an ITL target is compared with: gaps between tokens where the run streamed one token at a
        time, else the time per output token of each request."""
        return self.tpot if not self.itl or PointFlag.CHUNKED_ITL in self.flags else self.itl

    @property
    def per_token_name(self) -> str:
        """`ITL` or `TPOT`: which of the two `per_token` is."""
        return "TPOT" if not self.itl or PointFlag.CHUNKED_ITL in self.flags else "ITL"

    def tokens_per_second(self, role: Role) -> float:
        """Throughput in the role's own demand unit: Server total, Prefill input, Decode output."""
        if role is Role.SERVER:
            return self.total_tokens_per_second
        if role is Role.DECODE:
            return self.output_tokens_per_second
        return self.total_tokens_per_second - self.output_tokens_per_second


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Provenance. `digests` lists the single-run profiles that a merged one was made from or chosen over."""

    tool: str | None = None
    version: str | None = None
    image: str | None = None
    run: str | None = None
    date: str | None = None
    basis: Basis = Basis.MEASURED
    recipe_fingerprint: str | None = None
    stream_interval: int | None = None
    notes: str | None = None
    digests: tuple[str, ...] = ()


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One identity under one workload. `points` ascend by concurrency, at least one."""

    role: Role
    model: str
    quantization: Quantization
    engine: Engine
    hardware: str
    parallel: Parallel
    workload: Workload
    points: tuple[Point, ...]
    source: Source = Source()
    revision: str | None = None
    tokenizer: str | None = None
    engine_version: str | None = None

    @property
    def identity(self) -> Identity:
        """What the profile is a measurement of."""
        return Identity(
            role=self.role,
            model=self.model,
            quantization=self.quantization,
            engine=self.engine,
            hardware=self.hardware,
            parallel=self.parallel,
        )

    @property
    def key(self) -> str:
        """Identity and workload: what must be unique in a catalog."""
        return f"{self.identity.key}@{self.workload.label}"

    @property
    def family(self) -> tuple[str | None, ...]:
        """Tool, its version, image and engine version: what one curve may not mix."""
        return self.source.tool, self.source.version, self.source.image, self.engine_version

    @property
    def mix(self) -> float:
        """Input tokens per output token, above zero: from the measured totals (never from the nominal lengths), except
        where a Decode profile counts no prompts."""
        ratios = sorted(p.total_tokens_per_second / p.output_tokens_per_second - 1 for p in self.points)
        middle = len(ratios) // 2
        measured = ratios[middle] if len(ratios) % 2 else (ratios[middle - 1] + ratios[middle]) / 2
        return measured if measured > 0 else self.workload.lengths[0] / self.workload.lengths[1]


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """A retired profile. An import or merge drops every candidate with this digest, and every candidate of this key
    when the key names a run (`…@8192/1024#20667906037`), so that a re-import cannot bring it back."""

    key: str
    digest: str
    date: str
    reason: str


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """A validated catalog: profiles ascend by key, tombstones by (key, digest)."""

    name: str
    profiles: tuple[Profile, ...] = ()
    retired: tuple[Tombstone, ...] = ()
