"""What docs/stability.md promises stays: a recorded key, field or method that is gone, or another
one, breaks users.
"""

import importlib
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECORDS = sorted(Path(__file__).with_name("promised").glob("*.txt"))
ADVICE = (
    "this breaks what users wrote: keep it beside the new one, deprecated, as docs/stability.md"
    " says; where that is not possible, a line under Changed or Removed of CHANGELOG.md, and `make"
    " api`"
)


@pytest.fixture
def promised(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield importlib.import_module("promised")
    sys.modules.pop("promised")


@pytest.mark.parametrize("record", RECORDS, ids=lambda x: x.stem)
def test_what_is_recorded_is_still_there(record, promised):
    there = set(promised.RECORDS[record.name]())
    assert [x for x in record.read_text(encoding="utf-8").splitlines() if x not in there] == [], (
        ADVICE
    )


def test_everything_that_is_promised_has_a_record(promised):
    assert set(promised.RECORDS) == {x.name for x in RECORDS}


def test_the_entry_points_by_which_other_packages_add_theirs_stay():
    source = "".join(x.read_text(encoding="utf-8") for x in (ROOT / "src").rglob("*.py"))
    assert all(f'"{x}"' in source for x in ("spanscore.dialects", "spanscore.metrics"))


def test_the_entry_points_by_which_spanscore_is_found_stay():
    found = {(x.group, x.name) for x in metadata.distribution("spanscore").entry_points}
    assert {
        ("console_scripts", "spanscore"),
        ("opentelemetry_instrumentor", "spanscore"),
        ("pytest11", "spanscore"),
    } <= found


def test_a_key_that_is_gone_is_seen(promised, monkeypatch):
    monkeypatch.setattr(promised.AgentTrace, "to_json", lambda _: {"id": "x"})
    assert promised.agent_trace() == ["id: text"]
