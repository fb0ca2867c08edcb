"""What a ModelDeployment serves: its observed counts, its router, and the one removal that is in progress.

The types serve both directions: views of what another operator wrote, and, in standalone mode, what `render` writes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from controller.api.foreign import ConditionView
from controller.api.members import ApiStruct, Member


class RetirementState(StrEnum):
    """States of `status.retirement`; Completed is never seen stored."""

    ADMITTED = "Admitted"
    DISQUALIFIED = "Disqualified"
    WITHDRAWING = "Withdrawing"
    DRAINING = "Draining"
    DELETING = "Deleting"
    SETTLING = "Settling"
    ABORTED = "Aborted"
    COMPLETED = "Completed"


class Phase(StrEnum):
    """`status.phase`."""

    STARTING = "Starting"
    READY = "Ready"
    DEGRADED = "Degraded"
    DELETING = "Deleting"


class ServingState(StrEnum):
    """What is known of the router's view of a role."""

    CONFIRMED = "Confirmed"
    NOT_CONVERGED = "NotConverged"  # it differs from what is eligible
    UNKNOWN = "Unknown"  # the router cannot be asked
    NOT_CONFIGURED = "NotConfigured"  # there is none


class ServingEndpoints(ApiStruct, frozen=True, kw_only=True):
    """What the router knows of a role."""

    state: Annotated[str, Member("Confirmed, NotConverged, Unknown or NotConfigured.", max_length=32)] = ""
    value: Annotated[int | None, Member("Endpoints that serve; only with Confirmed.", at_least=0)] = None


class RoleEndpoints(ApiStruct, frozen=True, kw_only=True):
    """Endpoints of a role."""

    eligible: Annotated[int | None, Member("Qualified endpoints; absent: never observed.", at_least=0)] = None
    serving: Annotated[ServingEndpoints | None, Member("What the router knows.")] = None


class DeploymentRoleStatus(ApiStruct, frozen=True, kw_only=True):
    """Observed counts of a role; an absent count was not observed."""

    name: Annotated[str, Member("Name of the role.", min_length=1, max_length=63)] = ""
    kind: Annotated[str, Member("Kind of the role.", max_length=32)] = ""
    desired: Annotated[int | None, Member("Replicas asked for.", at_least=0)] = None
    ready: Annotated[int | None, Member("Ready replicas.", at_least=0)] = None
    quota_reserved: Annotated[int | None, Member("Replicas that hold quota.", at_least=0)] = None
    unmanaged: Annotated[bool, Member("The role took over its command line.")] = False
    assigned_flavors: Annotated[
        tuple[Annotated[str, Member(max_length=253)], ...] | None, Member("ResourceFlavors in use.", max_items=64)
    ] = None
    endpoints: Annotated[RoleEndpoints | None, Member("Endpoints of the role.")] = None


class RouterStatus(ApiStruct, frozen=True, kw_only=True):
    """The router as observed."""

    name: Annotated[str, Member("Name of the router.", max_length=64)] = ""
    endpoint: Annotated[str, Member("Where it answers.", max_length=512)] = ""


class ModelStatus(ApiStruct, frozen=True, kw_only=True):
    """The resolved model."""

    artifact: Annotated[str, Member("Name of the ModelArtifact.", max_length=253)] = ""
    revision: Annotated[str, Member("Resolved revision.", max_length=255)] = ""


class Retirement(ApiStruct, frozen=True, kw_only=True):
    """The one removal of a replica that is in progress, or was aborted."""

    role_name: Annotated[str, Member("Role of the replica.", max_length=63, required=True)] = ""
    replica_ordinal: Annotated[int, Member("Ordinal of the replica.", at_least=0, required=True)] = 0
    observed_generation: Annotated[int, Member("Generation that asked for it.", at_least=0, required=True)] = 0
    target_member_uids: Annotated[
        tuple[Annotated[str, Member(max_length=128)], ...] | None, Member("UIDs of the replica's Pods.", max_items=64)
    ] = msgspec.field(default=None, name="targetMemberUIDs")
    target_workload_uid: Annotated[str, Member("UID of the replica's Workload.", max_length=128, required=True)] = (
        msgspec.field(default="", name="targetWorkloadUID")
    )
    state: Annotated[
        str,
        Member(
            "Admitted, Disqualified, Withdrawing, Draining, Deleting, Settling, Aborted or Completed.",
            max_length=32,
            required=True,
        ),
    ] = ""
    reason: Annotated[str, Member("What it waits for, for people.", max_length=1024)] = ""
    started_at: Annotated[str | None, Member("When it started.", max_length=64)] = None
    deadline: Annotated[str | None, Member("When its overall budget ends.", max_length=64)] = None
    phase_started_at: Annotated[str | None, Member("When its phase started.", max_length=64)] = None
    last_consumed_retry_token: Annotated[str, Member("Token of the last retry order.", max_length=256)] = ""

    @property
    def aborted(self) -> bool:
        """It failed, and the replica was retained."""
        return self.state == RetirementState.ABORTED

    @property
    def running(self) -> bool:
        """It is under way: no count may be lowered meanwhile."""
        return bool(self.state) and self.state not in (RetirementState.ABORTED, RetirementState.COMPLETED)


class ModelDeploymentStatus(ApiStruct, frozen=True, kw_only=True):
    """What is served."""

    phase: Annotated[str, Member("Starting, Ready, Degraded or Deleting.", max_length=32)] = ""
    phase_message: Annotated[str, Member("Why, for people.", max_length=1024)] = ""
    conditions: Annotated[
        tuple[ConditionView, ...] | None, Member("What is true of the deployment.", max_items=32, keys=("type",))
    ] = None
    endpoint: Annotated[str, Member("Where requests go.", max_length=512)] = ""
    roles: Annotated[
        tuple[DeploymentRoleStatus, ...] | None, Member("Observed roles.", max_items=10, keys=("name",))
    ] = None
    role_summary: Annotated[str, Member("Ready replicas by kind, such as 1R2P2D.", max_length=64)] = ""
    router: Annotated[RouterStatus | None, Member("The router as observed.")] = None
    model: Annotated[ModelStatus | None, Member("The resolved model.")] = None
    retirement: Annotated[Retirement | None, Member("The removal that is in progress, or was aborted.")] = None
