"""Values that other programs wrote: None where they are absent or unreadable, never an exception and never a zero."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from controller.api.members import ApiStruct, Member
from controller.foundation import parse_quantity, parse_time


def seconds_of(time: str | None) -> float | None:
    """A foreign timestamp in seconds since the epoch, None where it is absent or unreadable."""
    if not time:
        return None
    try:
        return parse_time(time)
    except ValueError:
        return None


def quantity_of(value: str | int | None) -> Decimal | None:
    """A foreign quantity, None where it is absent or unreadable."""
    if value is None:
        return None
    try:
        return parse_quantity(value)
    except ValueError:
        return None


class ConditionView(ApiStruct, frozen=True, kw_only=True):
    """A condition of an object that another program writes."""

    type: Annotated[str, Member("Type of the condition.", min_length=1, max_length=316)] = ""
    status: Annotated[str, Member("True, False or Unknown.", max_length=16)] = ""
    reason: Annotated[str, Member("Why, in one CamelCase word.", max_length=1024)] = ""
    message: Annotated[str, Member("Details, for people.", max_length=32768)] = ""
    last_transition_time: Annotated[str | None, Member("When the status last changed.", max_length=64)] = None
    observed_generation: Annotated[int | None, Member("Generation that this was observed for.", at_least=0)] = None

    @property
    def since(self) -> float | None:
        """The transition time in seconds since the epoch, None where it is absent or unreadable."""
        return seconds_of(self.last_transition_time)
