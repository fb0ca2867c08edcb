"""What a person asks for: the spec of a ModelDeploymentScaler.

Quantities are exact decimals; every default that is always the same is the field's default. Defaults that depend on
something else (the posture, the measured start-up, whether a prior is asked for) stay None here and are named by
properties, so that "unset" and "set to the default" can be told apart.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from controller.api.algorithms import Algorithm
from controller.api.behavior import Behavior
from controller.api.contract import MAX_REPLICAS
from controller.api.limits import MAX_ROLES, positive, role_name
from controller.api.members import ApiStruct, CelRule, Member


class Mode(StrEnum):
    """Whether the target is written."""

    SHADOW = "Shadow"
    ACTIVE = "Active"


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

    name: Annotated[str, role_name("Name of the role in the target.")]
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

    numerator_role: Annotated[str, role_name("Role whose count is divided.")]
    denominator_role: Annotated[str, role_name("Role by whose count it is divided.")]
    target: Annotated[
        Decimal | None,
        positive(
            "Preferred ratio: breaks ties, decides who gets scarce quota, adds no replica by itself.", MAX_REPLICAS
        ),
    ] = None
    min: Annotated[Decimal | None, positive("Lower end of the hard band.", MAX_REPLICAS)] = None
    max: Annotated[Decimal | None, positive("Upper end of the hard band.", MAX_REPLICAS)] = None


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
