"""What a person asks for: the spec of a ModelDeploymentScaler.

Quantities are exact decimals; every default that is always the same is the field's default. Defaults that depend on
something else (the posture, the measured start-up, whether a prior is asked for) stay None here and are named by the
`effective_…` properties, so that "unset" and "set to the default" can be told apart.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from controller.api.contract import MAX_REPLICAS, ROLE_NAME_PATTERN, RoleKind
from controller.api.members import ApiStruct, CelRule, Member

# The operator's webhook admits ten roles; a little room, and still a bound for the cost of CEL rules.
MAX_ROLES = 16
# A billion tokens a second from one replica is beyond any machine: what is above is a typing error.
MAX_TOKENS_PER_SECOND = 1_000_000_000
# An hour. Nobody waits longer for a token.
MAX_LATENCY_MILLISECONDS = 3_600_000
# As long as autoscaling/v2 allows.
MAX_WINDOW_SECONDS = 3600

# Taken when planning, where no target is set and no prior needs one.
DEFAULT_TTFT_TARGET_MILLISECONDS = Decimal(500)
DEFAULT_ITL_TARGET_MILLISECONDS = Decimal(50)
DEFAULT_TREND_NOISE = Decimal("0.0005")
DEFAULT_HEADROOM = Decimal("0.75")


class Mode(StrEnum):
    """Whether the target is written."""

    SHADOW = "Shadow"
    ACTIVE = "Active"


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


class PolicyType(StrEnum):
    """What the value of a scaling policy counts."""

    REPLICAS = "Replicas"
    PERCENT = "Percent"


class PolicySelect(StrEnum):
    """Which of several policies holds."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


def _object_name(description: str) -> Member:
    return Member(description, min_length=1, max_length=253, says="the name of an object, 1 to 253 characters")


def _role_name(description: str) -> Member:
    return Member(
        description,
        min_length=1,
        max_length=63,
        pattern=ROLE_NAME_PATTERN,
        says="the name of a role: lower-case letters, digits and '-', 1 to 63 characters",
    )


def _tokens_per_second(description: str) -> Member:
    return Member(description, above=0, at_most=MAX_TOKENS_PER_SECOND)


def _latency(description: str, later: str) -> Member:
    return Member(description, above=0, at_most=MAX_LATENCY_MILLISECONDS, later=later)


def _positive(description: str, at_most: int) -> Member:
    return Member(description, above=0, at_most=at_most)


class TargetRef(ApiStruct, frozen=True, kw_only=True):
    """The ModelDeployment to scale."""

    name: Annotated[
        str,
        Member(
            "Name of the ModelDeployment, in the scaler's namespace. It need not exist yet. Immutable.",
            min_length=1,
            max_length=253,
            says="the name of a ModelDeployment in this namespace, 1 to 253 characters",
            rules=(
                CelRule(
                    rule="self == oldSelf",
                    message="targetRef.name is immutable: delete this scaler and create one for the other target",
                ),
            ),
        ),
    ]


class Sampling(ApiStruct, frozen=True, kw_only=True):
    """How often engines are read, and how long a raise may stay unadmitted."""

    interval_seconds: Annotated[int, Member("Seconds between two samplings.", at_least=5, at_most=300)] = 15
    pending_timeout_seconds: Annotated[
        int,
        Member(
            "Seconds after which a raise that got neither quota nor a scheduled Pod is rolled back. "
            "Loading weights does not count.",
            at_least=60,
            at_most=1200,
        ),
    ] = 300


class RoleBounds(ApiStruct, frozen=True, kw_only=True):
    """Bounds of one role of the target."""

    RULES: ClassVar = (
        CelRule(
            rule="!has(self.minReplicas) || self.maxReplicas >= self.minReplicas",
            message="maxReplicas must be at least minReplicas",
            field_path=".maxReplicas",
        ),
    )

    name: Annotated[str, _role_name("Name of the role in the target.")]
    min_replicas: Annotated[int, Member("The fewest replicas.", at_least=1, at_most=MAX_REPLICAS)] = 1
    max_replicas: Annotated[int, Member("The most replicas.", at_least=1, at_most=MAX_REPLICAS)]


class Ratio(ApiStruct, frozen=True, kw_only=True):
    """A relation between the counts of two roles, numerator ÷ denominator."""

    RULES: ClassVar = (
        CelRule(
            rule="self.numeratorRole != self.denominatorRole",
            message="numeratorRole and denominatorRole must differ",
            field_path=".denominatorRole",
        ),
        CelRule(
            rule="has(self.target) || has(self.min) || has(self.max)",
            message="a ratio needs target (a preference), min or max (a hard band)",
        ),
    )

    numerator_role: Annotated[str, _role_name("Role whose count is divided.")]
    denominator_role: Annotated[str, _role_name("Role by whose count it is divided.")]
    target: Annotated[
        Decimal | None,
        _positive(
            "Preferred ratio: breaks ties, decides who gets scarce quota, adds no replica by itself.", MAX_REPLICAS
        ),
    ] = None
    min: Annotated[Decimal | None, _positive("Lower end of the hard band.", MAX_REPLICAS)] = None
    max: Annotated[Decimal | None, _positive("Upper end of the hard band.", MAX_REPLICAS)] = None


class RoleTarget(ApiStruct, frozen=True, kw_only=True):
    """What one Ready replica of a role should hold."""

    name: Annotated[str, _role_name("Name of the role.")]
    target: Annotated[Decimal, _positive("Requests per Ready replica.", 1_000_000)]


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
    measurement_noise: Annotated[Decimal, _positive("Variance of one measurement, in replicas².", 1_000_000)] = Decimal(
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

    name: Annotated[str, _object_name("Name of the ConfigMap, in the scaler's namespace.")]


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


class ScalingPolicy(ApiStruct, frozen=True, kw_only=True):
    """How much a role may change within a period."""

    type: Annotated[PolicyType, Member("Replicas: a count. Percent: of the count at the start of the period.")]
    value: Annotated[int, Member("Replicas, or percent.", at_least=1, at_most=100_000)]
    period_seconds: Annotated[int, Member("Length of the period.", at_least=1, at_most=1800)]


class ScaleUp(ApiStruct, frozen=True, kw_only=True):
    """How fast a role may grow."""

    stabilization_window_seconds: Annotated[
        int, Member("Growth waits until recommended this long.", at_least=0, at_most=MAX_WINDOW_SECONDS)
    ] = 0
    max_step_replicas: Annotated[
        int | None, Member("The most replicas added in one step.", at_least=1, at_most=MAX_REPLICAS)
    ] = None
    policies: Annotated[tuple[ScalingPolicy, ...], Member("Limits per period.", max_items=8)] = ()
    select_policy: Annotated[
        PolicySelect, Member("Which policy holds: Max the most permissive, Min the strictest, Disabled: no growth.")
    ] = PolicySelect.MAX


class ScaleDown(ApiStruct, frozen=True, kw_only=True):
    """How fast a role may shrink."""

    stabilization_window_seconds: Annotated[
        int,
        Member("A shrink goes no lower than any recommendation this recent.", at_least=0, at_most=MAX_WINDOW_SECONDS),
    ] = 300
    max_step_replicas: Annotated[
        int | None, Member("The most replicas removed in one step.", at_least=1, at_most=MAX_REPLICAS)
    ] = None
    policies: Annotated[tuple[ScalingPolicy, ...], Member("Limits per period.", max_items=8)] = ()
    select_policy: Annotated[
        PolicySelect, Member("Which policy holds: Max the most permissive, Min the strictest, Disabled: no shrinking.")
    ] = PolicySelect.MAX


class Behavior(ApiStruct, frozen=True, kw_only=True):
    """How fast counts may change."""

    scale_up: Annotated[ScaleUp, Member("How fast a role may grow.")] = msgspec.field(default_factory=ScaleUp)
    scale_down: Annotated[ScaleDown, Member("How fast a role may shrink.")] = msgspec.field(default_factory=ScaleDown)


class ScalerSpec(ApiStruct, frozen=True, kw_only=True):
    """What a ModelDeploymentScaler shall do."""

    target_ref: Annotated[TargetRef, Member("The ModelDeployment to scale.")]
    mode: Annotated[Mode, Member("Shadow reports only; Active also writes the target.")] = Mode.SHADOW
    suspend: Annotated[bool, Member("True stops planning and releases the binding.")] = False
    sampling: Annotated[Sampling, Member("How often engines are read.")] = msgspec.field(default_factory=Sampling)
    roles: Annotated[
        tuple[RoleBounds, ...],
        Member("Bounds for every role of the target.", min_items=1, max_items=MAX_ROLES, keys=("name",)),
    ]
    ratios: Annotated[
        tuple[Ratio, ...],
        Member(
            "Relations between the counts of two roles.", max_items=MAX_ROLES, keys=("numeratorRole", "denominatorRole")
        ),
    ] = ()
    algorithm: Annotated[Algorithm, Member("How a replica count is found.")]
    behavior: Annotated[Behavior, Member("How fast counts may change.")] = msgspec.field(default_factory=Behavior)

    def bounds(self, role: str) -> RoleBounds | None:
        """The bounds of a role, None where it is not declared."""
        return next((bounds for bounds in self.roles if bounds.name == role), None)
