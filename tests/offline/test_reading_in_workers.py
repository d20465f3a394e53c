"""Files that worker processes read give what they give in one process."""

from pathlib import Path

import pytest
from recorded import GOLDEN, KINDS

from spanscore import dialects
from spanscore.dialects import SpanNames
from spanscore.errors import InputError
from spanscore.offline import recordings, windows
from spanscore.offline.recordings import Recordings
from spanscore.worker_processes import WorkerPool

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(2) as made:
        yield made


@pytest.fixture
def in_windows(monkeypatch):
    """Files of any size are read as large ones are, in many windows and batches."""
    monkeypatch.setattr(recordings, "_WHOLE_BYTES", 0)
    monkeypatch.setattr(windows, "_FIRST_BYTES", 2**16)
    monkeypatch.setattr(windows, "_MAX_BYTES", 2**18)
    monkeypatch.setattr(windows, "_BATCH_BYTES", 2**15)


def read(*paths, pool=None, **options):
    """The traces in their batches, what was said of them, and what others gave."""
    said = []
    found = Recordings(paths, warn=said.append, pool=pool, **options)
    return list(found.batches()), said, found.given.not_shown


@pytest.mark.slow
def test_recordings_in_their_order_with_what_is_said_of_them(in_windows, pool):
    batches, said, not_shown = read(*KINDS, pool=pool)
    assert (batches, said, not_shown) == read(*KINDS)
    assert len(batches) > 1
    assert any("nothing that was read" in x for x in said)
    assert not_shown


@pytest.mark.slow
def test_attributes_that_rules_read_come_with_the_traces(in_windows, pool):
    folder, options = (
        ROOT / "examples" / "recordings" / "pydantic-ai",
        {"attributes": ["gen_ai.request.model"]},
    )
    [*batches], _, _ = read(folder, pool=pool, **options)
    assert any(trace.attributes for batch in batches for trace in batch)
    assert (batches, [], []) == read(folder, **options)


@pytest.mark.slow
def test_names_of_spans_act_in_worker_processes(in_windows, pool):
    dialects.configure(SpanNames(utility_spans=("chat *",)))
    [*batches], _, _ = read(ROOT / "examples" / "recordings" / "pydantic-ai", pool=pool)
    calls = [call for batch in batches for trace in batch for call in trace.model_calls]
    assert calls
    assert all(x.utility for x in calls)


@pytest.mark.slow
def test_a_damaged_line_is_refused_by_its_place(in_windows, pool, tmp_path):
    file = tmp_path / "traces.jsonl"
    file.write_text('{"resourceSpans": []}\n{"resourceSpans": 5}')
    with pytest.raises(InputError, match=r"traces\.jsonl:2"):
        read(file, pool=pool)


@pytest.mark.slow
def test_of_documents_with_parts_of_open_traces_these_parts_are_kept_alone(
    in_windows, pool, monkeypatch
):
    whole = read(GOLDEN / "pydantic_ai")
    monkeypatch.setattr(windows, "_MAX_OPEN_BYTES", 0)
    assert read(GOLDEN / "pydantic_ai", pool=pool) == whole
