"""What a status holds never outgrows its schema."""

from controller.api import RoleStatus
from controller.api.limits import MAX_ROLES
from controller.reconcile.report import summary_of


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
