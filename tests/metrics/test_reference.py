from pathlib import Path

from spanscore.metrics._reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_reference_page_is_fresh():
    assert PAGE.read_text() == reference(), "run: make docs"
