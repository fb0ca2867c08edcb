"""Why a measurement is not imported. Every row that a tool wrote either becomes a point or is refused by one of these.

A refusal names the file, the row, the rule and what was found, so that a summary can count by rule and show an example.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from controller.foundation import printable


class Rule(StrEnum):
    """The rules, in the order in which they are checked (what contradicts itself before what does not apply)."""

    UNREADABLE = "Unreadable"
    NOT_THIS_FORMAT = "NotThisFormat"
    EMPTY = "Empty"
    NOT_A_POINT = "NotAPoint"
    MALFORMED = "Malformed"
    MISSING_VALUE = "MissingValue"
    NOTHING_COMPLETED = "NothingCompleted"
    FAILURE_RATE = "FailureRate"
    NOT_POSITIVE = "NotPositive"
    NOT_FINITE = "NotFinite"
    UNITS = "Units"
    TOKEN_SUM = "TokenSum"  # noqa: S105 - a token of text, not a secret
    TOKEN_RATIO = "TokenRatio"  # noqa: S105 - a token of text, not a secret
    DECREASING_QUANTILES = "DecreasingQuantiles"
    SKEWED_MEDIAN = "SkewedMedian"
    TAIL_QUANTILE_MISSING = "TailQuantileMissing"
    CONCURRENCY_UNKNOWN = "ConcurrencyUnknown"
    CONCURRENCY_NOT_WHOLE = "ConcurrencyNotWhole"
    OVERLOADED = "Overloaded"
    LITTLES_LAW = "LittlesLaw"
    END_TO_END = "EndToEnd"
    COLD_TAIL = "ColdTail"
    LENGTH_MISMATCH = "LengthMismatch"
    DISAGGREGATED = "Disaggregated"
    SPECULATIVE = "Speculative"
    ENGINE_SETTING = "EngineSetting"
    CACHE_HITS = "CacheHits"
    AGENTIC = "Agentic"
    UNKNOWN_ENGINE = "UnknownEngine"
    UNKNOWN_HARDWARE = "UnknownHardware"
    UNKNOWN_MODEL = "UnknownModel"
    UNKNOWN_PRECISION = "UnknownPrecision"
    TOPOLOGY = "Topology"
    IDENTITY_MISSING = "IdentityMissing"
    IDENTITY_CONTRADICTED = "IdentityContradicted"
    DUPLICATE = "Duplicate"
    RETIRED = "Retired"


MEANING: Final[dict[Rule, str]] = {
    Rule.UNREADABLE: "the file cannot be read or is not valid JSON, CSV or YAML",
    Rule.NOT_THIS_FORMAT: "the file is readable but not what --from says",
    Rule.EMPTY: "the file holds no measurement",
    Rule.NOT_A_POINT: "a summary over several loads, a warm-up, a search trace or single requests: no operating point",
    Rule.MALFORMED: "a value has a shape that this format does not have",
    Rule.MISSING_VALUE: "a needed value is absent (absent is unknown, never zero)",
    Rule.NOTHING_COMPLETED: "no request completed",
    Rule.FAILURE_RATE: "more than 5 % of the requests failed",
    Rule.NOT_POSITIVE: "a throughput, latency or concurrency is zero or negative",
    Rule.NOT_FINITE: "a value is NaN or infinite",
    Rule.UNITS: "the unit of the latencies cannot be told",
    Rule.TOKEN_SUM: "input and output tokens/s do not add up to the total",
    Rule.TOKEN_RATIO: "total ÷ output tokens/s differs by more than 3 % from 1 + input ÷ output length",
    Rule.DECREASING_QUANTILES: "a higher quantile is below a lower one",
    Rule.SKEWED_MEDIAN: "the median is more than five times the mean",
    Rule.TAIL_QUANTILE_MISSING: "only medians were measured: no latency target at a tail quantile can be checked",
    Rule.CONCURRENCY_UNKNOWN: "the number of requests in flight is not recorded",
    Rule.CONCURRENCY_NOT_WHOLE: "an open-loop run kept no whole number of requests in flight",
    Rule.OVERLOADED: "an open-loop run served less than it was sent: its queue grew and no steady state exists",
    Rule.LITTLES_LAW: "throughput × latency does not give the concurrency (Little's law)",
    Rule.END_TO_END: "first-token plus per-token times do not give the end-to-end latency",
    Rule.COLD_TAIL: "kernels were compiled during the run: largest TTFT over 10 s and over 50 × the median",
    Rule.LENGTH_MISMATCH: "requests were much shorter or longer than the stated lengths",
    Rule.DISAGGREGATED: "several prefill and decode workers measured as one: no single replica",
    Rule.SPECULATIVE: "speculative decoding: another speed than the plain identity",
    Rule.ENGINE_SETTING: "the engine had a setting that changes its speed and that no identity states",
    Rule.CACHE_HITS: "prompts may have hit the prefix cache: only all-miss runs transfer",
    Rule.AGENTIC: "an agentic trace with shared prefixes and no fixed lengths",
    Rule.UNKNOWN_ENGINE: "an engine that the catalog does not know",
    Rule.UNKNOWN_HARDWARE: "a hardware that the catalog does not know",
    Rule.UNKNOWN_MODEL: "the model is a mount path or a short name that no table resolves",
    Rule.UNKNOWN_PRECISION: "a precision that the catalog does not know",
    Rule.TOPOLOGY: "the parallel degrees cannot multiply out to the number of accelerators",
    Rule.IDENTITY_MISSING: "the file does not say what was measured: give --identity",
    Rule.IDENTITY_CONTRADICTED: "the file contradicts --identity",
    Rule.DUPLICATE: "the same concurrency of the same run once more",
    Rule.RETIRED: "a tombstone retires this measurement",
}


class Refusal(msgspec.Struct, frozen=True):
    """One row, or one whole file, that was not imported. `row` is empty for a file that holds one measurement."""

    file: str
    row: str
    rule: Rule
    detail: str
    whole_file: bool = False

    def __str__(self) -> str:
        where = f"{self.file} {self.row}" if self.row else self.file
        return f"{where}: {self.rule.value}: {self.detail}"


class Refused(Exception):
    """Raised inside an importer for the row at hand; becomes a Refusal at the row's border."""

    def __init__(self, rule: Rule, detail: str) -> None:
        super().__init__(detail)
        self.rule = rule
        self.detail = printable(detail)
