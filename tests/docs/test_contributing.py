"""The example of a metric in CONTRIBUTING.md is one."""

import re
import sys
from pathlib import Path

import programs
import pytest

from spanscore.testing import agent_trace, check_metric, measure, tool_call

ROOT = Path(__file__).parents[2]
EXAMPLE = re.search(
    r"```python\n# \S+\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL
)[1]


@pytest.fixture
def metric(tmp_path, monkeypatch):
    (tmp_path / "calls_per_answer.py").write_text(EXAMPLE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import calls_per_answer

    yield calls_per_answer.CallsPerAnswer
    sys.modules.pop("calls_per_answer")


def test_it_keeps_the_contract_of_all_metrics(metric):
    check_metric(metric())


def test_it_measures(metric):
    calls = [tool_call("weather_lookup") for _ in range(6)]
    assert measure(
        metric(), agent_trace(tool_calls=calls, final_output="24 degrees")
    ).value == pytest.approx(0.5)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md", "README.md"])
def test_the_files_that_it_names_are_there(page):
    text = (ROOT / page).read_text()
    targets = [x for x in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in x]
    paths = re.findall(r"`((?:src|tests|bench|docs)/[\w/.-]+)`", text)
    assert [x for x in [*targets, *paths] if not (ROOT / x).exists()] == []


def test_the_targets_of_make_that_it_names_are_there():
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made |= {f"test-{x}" for x in programs.NEEDED}
    named = set(re.findall(r"`make ([a-z]+(?:-[a-z]+)*)", (ROOT / "CONTRIBUTING.md").read_text()))
    assert named <= made
