"""The quick way for plain tool calls tells what their sources in order tell."""

from pathlib import Path

import pytest

from spanscore.otlp import files
from spanscore.rebuild import rebuild_all
from spanscore.turns.calls import call_facts

GOLDEN = Path(__file__).parent.parent / "golden"
CASES = [x for x in sorted(GOLDEN.iterdir()) if x.is_dir()]


@pytest.mark.slow
@pytest.mark.parametrize("dialect", CASES, ids=lambda x: x.name)
def test_the_quick_way_tells_what_the_sources_tell(dialect, monkeypatch):
    telemetry = [files.load(sorted(case.glob("*.pb.gz"))) for case in sorted(dialect.iterdir())]
    quick = [rebuild_all(x.spans, x.logs) for x in telemetry]
    monkeypatch.setattr(call_facts, "_plain_call", lambda _: None)
    assert [rebuild_all(x.spans, x.logs) for x in telemetry] == quick
