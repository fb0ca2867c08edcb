"""What a status holds never outgrows its schema, and what it says is said at once."""

import pytest

from controller.api import Condition, ConditionStatus, RoleStatus, ScalerStatus
from controller.api.limits import MAX_ROLES
from controller.reconcile.report import changed, summary_of


def test_the_printer_columns_of_the_most_roles_with_the_longest_names_fit_the_schema():
    roles = [
        RoleStatus(
            name=f"{number:02d}{'x' * 61}", ready_replicas=1024, recommended_replicas=1024, limited_by="coverage"
        )
        for number in range(MAX_ROLES)
    ]
    summary = summary_of(roles)
    for column in (summary.ready, summary.desired, summary.limited_by):
        assert len(column) <= 1024


MESSAGES = [
    ("an age that grows is no news", "MetricsAvailable", "role a: StaleSamples (last sample 30 s ago)",
     "role a: StaleSamples (last sample 45 s ago)", False),
    ("nor is a rate", "ScalingLimited", "role a: step: 2,400 of 9,810.5 tokens/s", "role a: step: 980 of 12 tokens/s", False),
    ("another role is", "MetricsAvailable", "role a: StaleSamples (last sample 30 s ago)",
     "role a: StaleSamples (last sample 30 s ago); role b: StaleSamples (last sample 30 s ago)", True),
    ("so is another reason in the same words' place", "CapacityPriorResolved", "role a: model x is in no profile",
     "role a: annotation is no identity: junk", True),
    ("a number in a name is the name", "CapacityPriorResolved", "role a: vllm/h200/tp=4", "role a: vllm/h200/tp=8", True),
    ("and so is one of hardware", "CapacityPriorResolved", "role a: vllm/h200", "role a: vllm/h100", True),
    ("a count that somebody set is news", "ReplicasConflict", "kubectl changed a 2 → 3", "kubectl changed a 2 → 6", True),
    ("a term too", "Bound", "bound under term 4", "bound under term 5", True),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "before", "after", "news"), [c[1:] for c in MESSAGES], ids=[c[0] for c in MESSAGES])
def test_a_message_is_written_at_once_when_it_says_something_else(type_: str, before: str, after: str, news: bool):
    def status(message: str) -> ScalerStatus:
        condition = Condition(type=type_, status=ConditionStatus.FALSE, reason="Reason", message=message)
        return ScalerStatus(conditions=(condition,))

    assert changed(status(before), status(after)) is news
    assert not changed(status(before), status(before))
