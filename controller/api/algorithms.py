"""The four ways to a replica count, and where the capacities come from: `spec.algorithm`."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from controller.api.contract import RoleKind
from controller.api.limits import MAX_ROLES, MAX_WINDOW_SECONDS, object_name, positive, role_name
from controller.api.members import ApiStruct, CelRule, Member

# A billion tokens a second from one replica is beyond any machine: what is above is a typing error.
MAX_TOKENS_PER_SECOND = 1_000_000_000
# An hour. Nobody waits longer for a token.
MAX_LATENCY_MILLISECONDS = 3_600_000

# Taken when planning, where no target is set and no prior needs one.
DEFAULT_TTFT_TARGET_MILLISECONDS = Decimal(500)
DEFAULT_ITL_TARGET_MILLISECONDS = Decimal(50)
DEFAULT_TREND_NOISE = Decimal("0.0005")
DEFAULT_HEADROOM = Decimal("0.75")


class AlgorithmType(StrEnum):
    """The four ways to a replica count."""

    PROPORTIONAL = "Proportional"
    TOKEN_THROUGHPUT = "TokenThroughput"  # noqa: S105 - not a password
    PREDICTIVE = "Predictive"
    ADAPTIVE = "Adaptive"


class ProportionalMetric(StrEnum):
    """What Proportional compares with its target."""

    RUNNING_REQUESTS = "RunningRequests"
    WAITING_REQUESTS = "WaitingRequests"
    QUEUE_DEPTH = "QueueDepth"  # running + waiting


class Trust(StrEnum):
    """How far the slope of a forecast is believed."""

    EARNED = "Earned"
    ALWAYS = "Always"


class Posture(StrEnum):
    """How much Adaptive pays to keep the latency targets."""

    ECONOMY = "Economy"
    STANDARD = "Standard"
    STRICT = "Strict"

    @property
    def quantile(self) -> Decimal:
        """The quantile of learned headroom that serves where the spec gives none."""
        return Decimal("0.98") if self is Posture.STRICT else Decimal("0.95")


class Correction(StrEnum):
    """In which direction Adaptive believes the measured capacity factor."""

    LOWER = "Lower"
    BOTH = "Both"
    OFF = "Off"


class PriorWorkload(StrEnum):
    """Whether a prior is taken at its own length mix or converted to the live one."""

    PROFILE = "Profile"
    OBSERVED = "Observed"


def _tokens_per_second(description: str) -> Member:
    return Member(description, above=0, at_most=MAX_TOKENS_PER_SECOND)


def _latency(description: str, later: str) -> Member:
    return Member(description, above=0, at_most=MAX_LATENCY_MILLISECONDS, later=later)


class RoleTarget(ApiStruct, frozen=True, kw_only=True):
    """What one Ready replica of a role should hold."""

    name: Annotated[str, role_name("Name of the role.")]
    target: Annotated[Decimal, positive("Requests per Ready replica.", 1_000_000)]


class Proportional(ApiStruct, frozen=True, kw_only=True):
    """Replicas in proportion to requests, as the HorizontalPodAutoscaler computes them."""

    metric: Annotated[ProportionalMetric, Member("What is compared with the targets. QueueDepth is running + waiting.")]
    tolerance: Annotated[Decimal, Member("Deadband around the target.", above=0, at_most=1)] = Decimal("0.1")
    role_targets: Annotated[
        tuple[RoleTarget, ...],
        Member("The target of each role.", min_items=1, max_items=MAX_ROLES, keys=("name",)),
    ]


class TokenThroughput(ApiStruct, frozen=True, kw_only=True):
    """Replicas in proportion to token rates: a slow window for the trend, a fast one for panic."""

    RULES: ClassVar = (
        CelRule(
            rule=(
                "!has(self.panicWindowSeconds) || !has(self.stableWindowSeconds) || "
                "self.panicWindowSeconds <= self.stableWindowSeconds"
            ),
            message="panicWindowSeconds must not be longer than stableWindowSeconds",
            field_path=".panicWindowSeconds",
        ),
    )

    target_tokens_per_second: Annotated[
        Decimal | None, _tokens_per_second("Prompt + generation tokens/s that one replica of a Server role serves.")
    ] = None
    prefill_target_tokens_per_second: Annotated[
        Decimal | None, _tokens_per_second("Prompt tokens/s that one Prefill replica serves.")
    ] = None
    decode_target_tokens_per_second: Annotated[
        Decimal | None, _tokens_per_second("Generation tokens/s that one Decode replica serves.")
    ] = None
    stable_window_seconds: Annotated[
        int, Member("Length of the stable window.", at_least=10, at_most=MAX_WINDOW_SECONDS)
    ] = 180
    panic_window_seconds: Annotated[
        int, Member("Length of the panic window.", at_least=10, at_most=MAX_WINDOW_SECONDS)
    ] = 60
    panic_threshold: Annotated[
        Decimal,
        Member(
            "Panic begins when the panic window asks for this many times the Ready and pending replicas.",
            at_least=1,
            at_most=100,
        ),
    ] = Decimal(2)
    ttft_target_milliseconds: Annotated[
        Decimal | None,
        _latency("Wanted p95 time to first token.", "500; with capacityPrior there is no default"),
    ] = None
    itl_target_milliseconds: Annotated[
        Decimal | None,
        _latency("Wanted p95 time between tokens.", "50; with capacityPrior there is no default"),
    ] = None


class Predictive(ApiStruct, frozen=True, kw_only=True):
    """TokenThroughput, with a forecast of the demand at the end of a start-up as a floor."""

    token_throughput: Annotated[
        TokenThroughput, Member("Capacities of the reactive part, its windows and the latency targets.")
    ] = msgspec.field(default_factory=TokenThroughput)
    horizon_seconds: Annotated[
        int | None,
        Member("How far ahead to forecast.", at_least=1, at_most=3600, later="the measured start-up + one interval"),
    ] = None
    min_points: Annotated[int, Member("Samples before the first forecast.", at_least=1, at_most=1000)] = 3
    q_level: Annotated[
        Decimal, Member("Process noise of the level, in replicas² a step.", at_least=0, at_most=1_000_000)
    ] = Decimal("0.02")
    q_trend: Annotated[
        Decimal | None,
        Member(
            "Process noise of the trend. Set together with trust Always it gives the bare filter: no damping, no skill "
            "weight, no caps.",
            at_least=0,
            at_most=1_000_000,
            later="0.0005",
        ),
    ] = None
    measurement_noise: Annotated[Decimal, positive("Variance of one measurement, in replicas².", 1_000_000)] = Decimal(
        1
    )
    trust: Annotated[
        Trust, Member("Earned: the slope counts as far as past forecasts beat plain means. Always: it counts in full.")
    ] = Trust.EARNED
    token_capacity_per_replica: Annotated[
        Decimal | None, _tokens_per_second("Tokens/s by which the forecast of a Server role is divided.")
    ] = None
    prefill_token_capacity_per_replica: Annotated[
        Decimal | None, _tokens_per_second("Tokens/s by which the forecast of the Prefill role is divided.")
    ] = None
    decode_token_capacity_per_replica: Annotated[
        Decimal | None, _tokens_per_second("Tokens/s by which the forecast of the Decode role is divided.")
    ] = None

    @property
    def effective_q_trend(self) -> Decimal:
        """The trend's process noise, the default where it is unset."""
        return DEFAULT_TREND_NOISE if self.q_trend is None else self.q_trend

    @property
    def bare_filter(self) -> bool:
        """The user asked for the literal filter, and set its slope explicitly."""
        return self.trust is Trust.ALWAYS and self.q_trend is not None


class Adaptive(ApiStruct, frozen=True, kw_only=True):
    """Learns its headroom and its capacity: nothing to guess, no slope. Recommended."""

    target_tokens_per_second: Annotated[
        Decimal | None, _tokens_per_second("Prompt + generation tokens/s that one replica of a Server role serves.")
    ] = None
    prefill_target_tokens_per_second: Annotated[
        Decimal | None, _tokens_per_second("Prompt tokens/s that one Prefill replica serves.")
    ] = None
    decode_target_tokens_per_second: Annotated[
        Decimal | None, _tokens_per_second("Generation tokens/s that one Decode replica serves.")
    ] = None
    ttft_target_milliseconds: Annotated[
        Decimal | None,
        _latency("Wanted p95 time to first token.", "500; with capacityPrior there is no default"),
    ] = None
    itl_target_milliseconds: Annotated[
        Decimal | None,
        _latency("Wanted p95 time between tokens.", "50; with capacityPrior there is no default"),
    ] = None
    posture: Annotated[Posture, Member("How much headroom is paid for: Economy, Standard or Strict.")] = (
        Posture.STANDARD
    )
    quantile: Annotated[
        Decimal | None,
        Member("Quantile of the learned headroom.", above=0, below=1, later="by posture: 0.95, Strict 0.98"),
    ] = None
    correction: Annotated[
        Correction,
        Member(
            "Whether the measured capacity factor corrects the prior: Lower only where a replica does less than its "
            "prior says, Both also where it does more."
        ),
    ] = Correction.LOWER

    @property
    def effective_quantile(self) -> Decimal:
        """The quantile of learned headroom, by posture where it is unset."""
        return self.posture.quantile if self.quantile is None else self.quantile


class CatalogRef(ApiStruct, frozen=True, kw_only=True):
    """A ConfigMap that holds a catalog of capacity priors under the key `catalog.yaml`."""

    name: Annotated[str, object_name("Name of the ConfigMap, in the scaler's namespace.")]


class CapacityPrior(ApiStruct, frozen=True, kw_only=True):
    """Take the capacities that are not given explicitly from measured profiles."""

    catalog_ref: Annotated[CatalogRef | None, Member("Catalog to search.", later="the embedded catalog")] = None
    headroom: Annotated[
        Decimal, Member("Share of the measured throughput that is planned with.", above=0, at_most=1)
    ] = DEFAULT_HEADROOM
    workload: Annotated[
        PriorWorkload, Member("Profile: as measured. Observed: converted to the live mix of prompt and output lengths.")
    ] = PriorWorkload.PROFILE


class Algorithm(ApiStruct, frozen=True, kw_only=True):
    """How a replica count is found: a type, and the block of that name."""

    RULES: ClassVar = tuple(
        CelRule(
            rule=f"has(self.{block}) == (self.type == '{type_}')",
            message=f"the block {block} must be given with type {type_}, and only with it",
            field_path=f".{block}",
        )
        for type_, block in (
            ("Proportional", "proportional"),
            ("TokenThroughput", "tokenThroughput"),
            ("Predictive", "predictive"),
            ("Adaptive", "adaptive"),
        )
    )

    type: Annotated[AlgorithmType, Member("The algorithm; exactly the block of its name must be present.")]
    proportional: Annotated[Proportional | None, Member("Parameters of Proportional.")] = None
    token_throughput: Annotated[TokenThroughput | None, Member("Parameters of TokenThroughput.")] = None
    predictive: Annotated[Predictive | None, Member("Parameters of Predictive.")] = None
    adaptive: Annotated[Adaptive | None, Member("Parameters of Adaptive; may be empty.")] = None
    capacity_prior: Annotated[
        CapacityPrior | None,
        Member("Ask for capacities from a catalog of measured profiles; may be empty. An explicit capacity wins."),
    ] = None

    @property
    def block(self) -> Proportional | TokenThroughput | Predictive | Adaptive | None:
        """The block of the algorithm's own type."""
        blocks = {
            AlgorithmType.PROPORTIONAL: self.proportional,
            AlgorithmType.TOKEN_THROUGHPUT: self.token_throughput,
            AlgorithmType.PREDICTIVE: self.predictive,
            AlgorithmType.ADAPTIVE: self.adaptive,
        }
        return blocks[self.type]

    @property
    def capacities(self) -> TokenThroughput | Adaptive | None:
        """The block that holds capacities and latency targets; None for Proportional."""
        block = self.block
        if isinstance(block, Predictive):
            return block.token_throughput
        return block if isinstance(block, TokenThroughput | Adaptive) else None

    @property
    def ttft_target_milliseconds(self) -> Decimal | None:
        """The wanted p95 time to first token; without a prior there is a default, with one only what was given."""
        return self._latency("ttft_target_milliseconds", DEFAULT_TTFT_TARGET_MILLISECONDS)

    @property
    def itl_target_milliseconds(self) -> Decimal | None:
        """The wanted p95 time between tokens; without a prior there is a default, with one only what was given."""
        return self._latency("itl_target_milliseconds", DEFAULT_ITL_TARGET_MILLISECONDS)

    def _latency(self, name: str, default: Decimal) -> Decimal | None:
        block = self.capacities
        given = getattr(block, name, None)
        if block is None or self.capacity_prior is not None or given is not None:
            return given if isinstance(given, Decimal) else None
        return default

    def explicit_capacity(self, kind: str) -> Decimal | None:
        """The explicit capacity of a role of this kind for the reactive part, tokens/s; None where it is not given.

        Under Predictive the forecast's capacity serves where the reactive one is absent."""
        block = self.block
        forecast = _of_kind(block, _FORECAST_FIELDS, kind) if isinstance(block, Predictive) else None
        reactive = _of_kind(self.capacities, _CAPACITY_FIELDS, kind)
        return forecast if reactive is None else reactive

    def explicit_forecast_capacity(self, kind: str) -> Decimal | None:
        """The explicit capacity by which a forecast is divided, tokens/s; the reactive one where it is absent."""
        block = self.block
        forecast = _of_kind(block, _FORECAST_FIELDS, kind) if isinstance(block, Predictive) else None
        return self.explicit_capacity(kind) if forecast is None else forecast


# The field that holds the capacity of each kind of role; Encode has no token capacity.
_CAPACITY_FIELDS = {
    RoleKind.SERVER: "target_tokens_per_second",
    RoleKind.PREFILL: "prefill_target_tokens_per_second",
    RoleKind.DECODE: "decode_target_tokens_per_second",
}
_FORECAST_FIELDS = {
    RoleKind.SERVER: "token_capacity_per_replica",
    RoleKind.PREFILL: "prefill_token_capacity_per_replica",
    RoleKind.DECODE: "decode_token_capacity_per_replica",
}


def _of_kind(block: object, fields: dict[RoleKind, str], kind: str) -> Decimal | None:
    name = next((name for known, name in fields.items() if known == kind), None)
    value = getattr(block, name, None) if name else None
    return value if isinstance(value, Decimal) else None
