"""What the tests of calibration share: verdicts of a judge to vary, and files of labels."""

import pytest

from spanscore.calibration import Verdict

JUDGE = ("task_completion", "judge", "1", "gpt-4o", "abc", None, 0.5)


@pytest.fixture
def verdict():
    """A verdict on the trace of a number; any field can be given another value."""

    def make(number=1, value=1.0, **fields):
        given = {
            "judge": JUDGE,
            "trace_id": f"{number:032x}",
            "session_id": None,
            "is_session": False,
            "value": value,
            "scale": (0.0, 1.0),
            "passed": value >= 0.5,
            "span_id": "a" * 16,
        }
        return Verdict(**{**given, **fields})

    return make


@pytest.fixture
def written(tmp_path):
    """Writes text into a file of labels and gives its path."""

    def write(text, name="labels.jsonl"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write
