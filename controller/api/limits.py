"""Limits and kinds of members that several parts of the spec share."""

from __future__ import annotations

from controller.api.contract import ROLE_NAME_PATTERN
from controller.api.members import Member

# The operator's webhook admits ten roles; a little room, and still a bound for the cost of CEL rules.
MAX_ROLES = 16
# As long as autoscaling/v2 allows.
MAX_WINDOW_SECONDS = 3600


def object_name(description: str) -> Member:
    """The name of a Kubernetes object."""
    return Member(description, min_length=1, max_length=253, says="the name of an object, 1 to 253 characters")


def role_name(description: str) -> Member:
    """The name of a role."""
    return Member(
        description,
        min_length=1,
        max_length=63,
        pattern=ROLE_NAME_PATTERN,
        says="the name of a role: lower-case letters, digits and '-', 1 to 63 characters",
    )


def positive(description: str, at_most: int) -> Member:
    """A quantity above zero."""
    return Member(description, above=0, at_most=at_most)
