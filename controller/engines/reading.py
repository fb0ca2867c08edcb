"""What one engine process reported at one moment, in one shape for every engine.

`None` means "not observed" and is never zero; `EngineReading.missing` says why, field by field. Counters are cumulative
since the start of the process and may start anew: a fall, another `counter_basis`, another `process_start_time_seconds`
or another container behind the target means that no increase may be computed. Histogram counts are cumulative in both
senses. All types are plain and frozen, because other rooms turn them into their own.
"""

from __future__ import annotations

import math
from enum import StrEnum
from itertools import pairwise

import msgspec


class Role(StrEnum):
    """What the process does for its model; the values are those of the deployment's roles."""

    SERVER = "Server"
    PREFILL = "Prefill"
    DECODE = "Decode"
    ENCODE = "Encode"


class SleepState(StrEnum):
    """Whether the weights are loaded; a sleeping engine has no capacity. The deepest state of any rank counts."""

    AWAKE = "Awake"
    ASLEEP = "Asleep"  # not awake, depth unknown
    WEIGHTS_OFFLOADED = "WeightsOffloaded"
    DISCARDED = "Discarded"


class Quality(StrEnum):
    """What a consumer must know about numbers that are right but not what they seem."""

    # The token counters move when a request finishes, so a rate over a short window is lumpy and late.
    FINISH_TIME_COUNTERS = "FinishTimeCounters"
    # The prompt counter moves when a request is scheduled and includes requests that are aborted before a first token.
    PROMPT_TOKENS_WHEN_SCHEDULED = "PromptTokensWhenScheduled"
    # The engine does not say how much came from its cache: `computed_prompt_tokens` is an upper bound.
    CACHED_TOKENS_UNKNOWN = "CachedTokensUnknown"
    # TTFT of a decode process begins when the request reaches it; only a router sees what the user waits.
    TTFT_EXCLUDES_PREFILL = "TTFTExcludesPrefill"
    # Ranks print different buckets; only the bounds common to all are left.
    BUCKETS_INTERSECTED = "BucketsIntersected"


class MissingReason(StrEnum):
    """Why one field of a reading is None although the body could be read."""

    ABSENT = "Absent"  # not in the body: unknown to this version, switched off, or not used yet
    NOT_FINITE = "NotFinite"
    NEGATIVE = "Negative"
    OUT_OF_RANGE = "OutOfRange"
    MALFORMED = "Malformed"  # a line of the family could not be read, so a sum would be short
    AMBIGUOUS = "Ambiguous"  # one series twice with different values
    INCOMPLETE = "Incomplete"  # a rank is missing, or a histogram has no end
    INCONSISTENT = "Inconsistent"  # bucket counts that fall, or a sum that cannot belong to the buckets
    NOT_THIS_ROLE = "NotThisRole"  # the engine prints it, but in this role it means something else


class Missing(msgspec.Struct, frozen=True):
    """Why a field is None; `detail` is one sentence for people."""

    field: str
    reason: MissingReason
    detail: str


class Histogram(msgspec.Struct, frozen=True):
    """Observations in seconds: `buckets` are (upper bound, how many at or below it), ascending, the last bound +Inf."""

    buckets: tuple[tuple[float, float], ...]
    sum: float | None
    count: float

    def bucket_of(self, seconds: float) -> tuple[float, float]:
        """The bounds (lower, upper] between which this histogram cannot tell where `seconds` lies.

        A comparison with `seconds` is exact only when it equals `upper`: observations of the bucket may lie on both
        sides otherwise. vLLM's TTFT grid has 0.5 s but not 2 s, SGLang's has 2 s but not 0.5 s.
        """
        bounds = [bound for bound, _ in self.buckets]
        for lower, upper in pairwise([0.0, *bounds]):
            if seconds <= upper:
                return lower, upper
        return bounds[-1], math.inf


class EngineReading(msgspec.Struct, frozen=True, kw_only=True):
    """One process, all its data-parallel ranks summed, only the series of the served model."""

    engine: str
    models: tuple[str, ...] = ()  # model names whose series were read; empty where the engine names none

    running_requests: float | None = None
    # Everything accepted and not running, whatever it waits for; on a decode process that includes requests whose
    # prefill is not finished.
    waiting_requests: float | None = None
    # Of the waiting: what the scheduler cannot even try yet (KV blocks on their way, a grammar being compiled, …).
    deferred_requests: float | None = None
    # Of the waiting: those whose KV blocks have not arrived from the prefill side.
    kv_waiting_requests: float | None = None
    # Prefill finished, KV blocks held until the decode side has fetched them: no load, but lost if the process ends.
    handover_requests: float | None = None
    # The engine's own queues behind the three sums above, in the engine's words.
    queues: tuple[tuple[str, float], ...] = ()

    # Counters. `computed` + `cached` = all prompt tokens; demand on prefill is `computed`.
    computed_prompt_tokens: float | None = None
    cached_prompt_tokens: float | None = None  # not computed here: prefix cache hits and KV blocks from elsewhere
    generation_tokens: float | None = None
    finished_requests: float | None = None  # whatever ended them; some engines do not count aborted ones
    # Which series the counters were read from.
    counter_basis: str = ""

    ttft: Histogram | None = None  # its count is the number of requests that got a first token
    itl: Histogram | None = None

    kv_cache_usage: float | None = None  # 0…1, the fullest rank
    process_start_time_seconds: float | None = None  # Unix time; no multi-process engine prints it
    sleep_state: SleepState | None = None

    quality: frozenset[Quality] = frozenset()
    missing: tuple[Missing, ...] = ()

    @property
    def in_flight_requests(self) -> float | None:
        """Everything that would be lost if the process ended now; None where running or waiting is not known."""
        if self.running_requests is None or self.waiting_requests is None:
            return None
        return self.running_requests + self.waiting_requests + (self.handover_requests or 0.0)

    def why_missing(self, field: str) -> Missing | None:
        """Why `field` is None, as far as the reader recorded it."""
        return next((missing for missing in self.missing if missing.field == field), None)
