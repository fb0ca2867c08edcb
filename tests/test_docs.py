"""Generated pages are up to date."""

from hack import generate_metrics_docs


def test_the_metrics_page_lists_the_metrics_that_exist():
    assert generate_metrics_docs.PAGE.read_text() == generate_metrics_docs.render(), (
        "run python -m hack.generate_metrics_docs"
    )
