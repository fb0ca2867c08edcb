"""What the controller reports: the status of a ModelDeploymentScaler, complete in both directions.

Times are seconds since the Unix epoch; the ones a decision depends on keep their microseconds. Numbers are exact
decimals, because a JSON float loses digits and the schema refuses it: `status_number` makes one of a measured float.
"""

from __future__ import annotations

import math
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

import msgspec

from controller.api.conditions import Condition
from controller.api.limits import MAX_ROLES
from controller.api.members import ApiStruct, Member, MicroTime, Time

# Bounds of what is kept for a restart: 4 KiB per role with everything else.
MAX_HISTORY = 64
MAX_LEARNED_STATE = 3072
MAX_MEMORY = 4096
MAX_REASON = 512
# A third reversal stops writing, so more are never kept.
MAX_FOREIGN_REVERSALS = 3
# Of a resume annotation only so much is compared.
MAX_RESUME = 256


class CapacitySource(StrEnum):
    """Where a capacity comes from."""

    EXPLICIT = "Explicit"
    CATALOG = "Catalog"


class PointSelection(StrEnum):
    """How the operating point of a prior was chosen."""

    EXPLICIT_SATURATION = "ExplicitSaturation"  # the highest measured concurrency is within the targets
    BRACKETED = "Bracketed"
    LATENCY_NOT_TRANSFERABLE = "LatencyNotTransferable"


def _count(description: str) -> Member:
    return Member(description, at_least=0, at_most=2**31 - 1)


def _measured(description: str) -> Member:
    return Member(description, at_least=0)


def status_number(value: float | None, digits: int = 6) -> Decimal | None:
    """A measured number as status shows it: `digits` significant digits, None for None, NaN and infinities.

    Few digits keep the status from changing at every tick."""
    if value is None or not math.isfinite(value):
        return None
    return Decimal(f"{value:.{digits}g}")


class Summary(ApiStruct, frozen=True, kw_only=True):
    """One line for `kubectl get`."""

    ready: Annotated[str, Member("Ready replicas by role.", max_length=1024)] = ""
    desired: Annotated[
        str, Member("Recommended replicas by role; empty while nothing is decided.", max_length=1024)
    ] = ""
    limited_by: Annotated[
        str, Member("What limited the last decision, by role; empty while nothing is decided.", max_length=1024)
    ] = ""


class Binding(ApiStruct, frozen=True, kw_only=True):
    """The claim on the target, as this controller last knew it."""

    target_uid: Annotated[str, Member("UID of the bound ModelDeployment.", max_length=128)] = msgspec.field(
        name="targetUID"
    )
    term: Annotated[int, Member("Fencing term.", at_least=0, at_most=2**63 - 1)] = 0
    acquired_time: Annotated[Time | None, Member("When the binding was acquired.")] = None


class ObservedRole(ApiStruct, frozen=True, kw_only=True):
    """What the engines of a role reported. An absent number was not observed."""

    tokens_per_second: Annotated[Decimal | None, _measured("Demand that counts for the role, tokens/s.")] = None
    running_requests: Annotated[Decimal | None, _measured("Running requests.")] = None
    waiting_requests: Annotated[Decimal | None, _measured("Waiting requests.")] = None
    ttft_milliseconds: Annotated[Decimal | None, _measured("Windowed p95 time to first token.")] = None
    itl_milliseconds: Annotated[Decimal | None, _measured("Windowed p95 time between tokens.")] = None
    input_output_ratio: Annotated[Decimal | None, _measured("Prompt tokens per output token.")] = None
    coverage: Annotated[Decimal | None, Member("Freshly sampled members ÷ Ready members.", at_least=0, at_most=1)] = (
        None
    )


class OperatingPoint(ApiStruct, frozen=True, kw_only=True):
    """The measured point of a profile that serves as its capacity."""

    concurrency: Annotated[int, _count("Concurrent requests per replica.")]
    ttft_milliseconds: Annotated[Decimal | None, _measured("p95 time to first token at this point.")] = None
    itl_milliseconds: Annotated[Decimal | None, _measured("p95 time between tokens at this point.")] = None


class RoleCapacity(ApiStruct, frozen=True, kw_only=True):
    """What one replica of a role is taken to serve, and why."""

    source: Annotated[CapacitySource, Member("Explicit (a field of the spec) or Catalog (a prior).")]
    seed_tokens_per_second: Annotated[Decimal | None, _measured("Measured throughput at the operating point.")] = None
    effective_tokens_per_second: Annotated[Decimal | None, _measured("Seed × headroom: what is planned with.")] = None
    identity: Annotated[str, Member("Canonical identity of the role.", max_length=1024)] = ""
    declared: Annotated[bool, Member("The identity was declared by a person, not inferred.")] = False
    workload: Annotated[str, Member("Prompt/output tokens of the profile, as in 1024/256.", max_length=64)] = ""
    observed_workload: Annotated[
        str, Member("Mean prompt/output tokens of the live traffic; empty until enough was seen.", max_length=64)
    ] = ""
    profile_digest: Annotated[str, Member("Digest of the profile.", max_length=128)] = ""
    fingerprint: Annotated[
        str,
        Member(
            "Digest of all that the capacity rests on; when it changes, the role's memory is dropped.", max_length=128
        ),
    ] = ""
    operating_point: Annotated[OperatingPoint | None, Member("The point of the profile that serves.")] = None
    selection: Annotated[PointSelection | None, Member("How the point was chosen.")] = None
    mix_factor: Annotated[Decimal | None, _measured("Capacity at the live length mix ÷ capacity at the profile's.")] = (
        None
    )
    sigma: Annotated[Decimal | None, _measured("Uncertainty of the mix factor.")] = None
    measured_factor: Annotated[Decimal | None, _measured("Measured throughput ÷ the prior's (κ).")] = None


class AdaptiveState(ApiStruct, frozen=True, kw_only=True):
    """What Adaptive has learnt about a role."""

    headroom: Annotated[Decimal | None, _measured("Learned ratio of coming to present demand.")] = None
    peak: Annotated[Decimal | None, _measured("Highest demand remembered, in replicas.")] = None
    miss_factor: Annotated[Decimal | None, _measured("Raise for missed latency targets, 1 to 1.6.")] = None
    learned: Annotated[
        str, Member("Compact learned state; read by the controller only.", max_length=MAX_LEARNED_STATE)
    ] = ""


class StartupSeconds(ApiStruct, frozen=True, kw_only=True):
    """Measured time from the creation of a replica to Ready."""

    p50: Annotated[Decimal | None, _measured("Median.")] = None
    p90: Annotated[Decimal | None, _measured("90th percentile.")] = None


class HistoryEntry(ApiStruct, frozen=True, kw_only=True):
    """One recommendation that a stabilization window still needs."""

    time: Annotated[MicroTime, Member("When it was made.")]
    replicas: Annotated[int, _count("The recommended count.")]


class PanicState(ApiStruct, frozen=True, kw_only=True):
    """A panic that lasts."""

    since: Annotated[MicroTime, Member("Last time the threshold was crossed.")]
    floor: Annotated[int, _count("Below this count nothing goes while the panic lasts.")] = 0


class SettlingState(ApiStruct, frozen=True, kw_only=True):
    """Raises that wait to be admitted."""

    unadmitted_since: Annotated[MicroTime | None, Member("Since when a replica has had neither quota nor a node.")] = (
        None
    )
    pauses: Annotated[int, _count("Roll-backs in a row; each doubles the pause.")] = 0
    raise_not_before: Annotated[MicroTime | None, Member("Before this time the role is not raised.")] = None


class QuotaShortfall(ApiStruct, frozen=True, kw_only=True):
    """Replicas that were asked for and not admitted: neither quota nor a node."""

    asked: Annotated[int, _count("Replicas asked for.")] = 0
    granted: Annotated[int, _count("Replicas admitted.")] = 0
    missing: Annotated[int, _count("Replicas that wait; taken back after `pendingTimeoutSeconds`.")] = 0


class LoweringState(ApiStruct, frozen=True, kw_only=True):
    """Retirements that were aborted and whose replica was declared again: when the count may be lowered next."""

    aborts: Annotated[
        int, _count("Aborted retirements in a row; each doubles the pause, the third ends the trying.")
    ] = 0
    aborted_at: Annotated[MicroTime | None, Member("When the last one was aborted.")] = None
    not_before: Annotated[MicroTime | None, Member("Before this time the role is not lowered.")] = None
    raised_to: Annotated[int, _count("The count that keeps the replica.")] = 0
    retry_token: Annotated[str, Member("Token of the last order to retry that was seen.", max_length=256)] = ""


class PlannerStage(ApiStruct, frozen=True, kw_only=True):
    """What one stage of the planner did to a role in the last decision."""

    stage: Annotated[str, Member("Name of the stage.", min_length=1, max_length=64)]
    before: Annotated[int, _count("The count before it.")]
    after: Annotated[int, _count("The count after it.")]
    floor: Annotated[int | None, _count("Nothing later may go below.")] = None
    ceiling: Annotated[int | None, _count("Nothing later may go above.")] = None
    reason: Annotated[str, Member("Why, for people.", max_length=MAX_REASON)] = ""


class RoleStatus(ApiStruct, frozen=True, kw_only=True):
    """One role: counts, what was seen, what is remembered."""

    name: Annotated[str, Member("Name of the role.", min_length=1, max_length=63)]
    current_replicas: Annotated[int | None, _count("The count in the target's spec.")] = None
    ready_replicas: Annotated[int | None, _count("Ready replicas.")] = None
    pending_replicas: Annotated[int | None, _count("Replicas on their way: unadmitted + starting.")] = None
    unadmitted_replicas: Annotated[int | None, _count("Replicas without quota or a scheduled Pod.")] = None
    starting_replicas: Annotated[int | None, _count("Admitted replicas that are not Ready yet.")] = None
    retiring_replicas: Annotated[int | None, _count("Replicas on their way out.")] = None
    unlisted_replicas: Annotated[int | None, _count("Ready replicas that the router does not list yet.")] = None
    quota: Annotated[QuotaShortfall | None, Member("Present while replicas are not admitted.")] = None
    raw_recommended_replicas: Annotated[int | None, _count("What the algorithm asked for.")] = None
    recommended_replicas: Annotated[int | None, _count("What the planner made of it.")] = None
    limited_by: Annotated[str, Member("The planner stage that bound the decision.", max_length=64)] = ""
    reason: Annotated[str, Member("How the raw count came about, for people.", max_length=MAX_REASON)] = ""
    stages: Annotated[tuple[PlannerStage, ...], Member("From raw to recommended, in order.", max_items=16)] = ()
    next_change_time: Annotated[Time | None, Member("The earliest time at which the count can change.")] = None
    observed: Annotated[ObservedRole | None, Member("What the engines reported.")] = None
    capacity: Annotated[RoleCapacity | None, Member("What one replica is taken to serve.")] = None
    adaptive: Annotated[AdaptiveState | None, Member("What Adaptive has learnt.")] = None
    startup_seconds: Annotated[StartupSeconds | None, Member("Measured start-up.")] = None
    stabilization_history: Annotated[
        tuple[HistoryEntry, ...], Member("Recommendations that the windows still need.", max_items=MAX_HISTORY)
    ] = ()
    panic: Annotated[PanicState | None, Member("Present while a panic lasts.")] = None
    settling: Annotated[SettlingState | None, Member("Raises that wait to be admitted.")] = None
    lowering: Annotated[LoweringState | None, Member("Present after aborted retirements.")] = None
    memory: Annotated[
        str, Member("Compact memory of past decisions; read by the controller only.", max_length=MAX_MEMORY)
    ] = ""


class ForeignReversal(ApiStruct, frozen=True, kw_only=True):
    """Somebody else undid a count of ours."""

    time: Annotated[MicroTime, Member("When it was seen.")]


class ScalerStatus(ApiStruct, frozen=True, kw_only=True):
    """What a ModelDeploymentScaler does and why."""

    observed_generation: Annotated[int, Member("Generation of the spec that this status is about.", at_least=0)] = 0
    conditions: Annotated[
        tuple[Condition, ...], Member("What is true of the scaler.", max_items=16, keys=("type",))
    ] = ()
    summary: Annotated[Summary | None, Member("One line for kubectl get.")] = None
    binding: Annotated[Binding | None, Member("The claim on the target.")] = None
    last_sample_time: Annotated[Time | None, Member("When engines were last read.")] = None
    last_decision_time: Annotated[
        Time | None,
        Member("When the decision was made that this status tells of; a status without news is written once a minute."),
    ] = None
    roles: Annotated[
        tuple[RoleStatus, ...], Member("The roles of the target.", max_items=MAX_ROLES, keys=("name",))
    ] = ()
    foreign_reversals: Annotated[
        tuple[ForeignReversal, ...],
        Member("Recent foreign changes of our counts.", max_items=MAX_FOREIGN_REVERSALS),
    ] = ()
    resumed: Annotated[
        str, Member("The value of the resume annotation that was last acted upon.", max_length=MAX_RESUME)
    ] = ""

    def role(self, name: str) -> RoleStatus | None:
        """The status of a role, None where there is none yet."""
        return next((role for role in self.roles if role.name == name), None)
