"""Reports of a few values, opened."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from report_turns import Opened

from spanscore import report


@pytest.fixture
def opened():
    """Makes a report of turns and scores, and reads its data."""

    def opened(traces=(), scores=(), *, comparison=None, baseline=None, **options):
        facts = {
            name: options.pop(name)
            for name in ("name", "cases", "figures", "notes")
            if name in options
        }
        results = report.Results(**{"name": "a run", **facts}, traces=traces, scores=scores)
        return Opened(
            b"".join(report.page(results, comparison=comparison, baseline=baseline, **options))
        )

    return opened
