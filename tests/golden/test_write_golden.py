"""`--write-golden` writes what is rebuilt now and prints what is different from before."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASE = "pydantic_ai"


@pytest.fixture
def copy(tmp_path):
    """The golden tests with one dialect's first case."""
    case = min((HERE / CASE).iterdir())
    shutil.copytree(case, tmp_path / CASE / case.name)
    for name in ("conftest.py", "test_golden.py"):
        shutil.copy(HERE / name, tmp_path)
    return tmp_path / CASE / case.name / "expected.json"


def run(copy, *options):
    folder = copy.parents[2]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-c",
        HERE.parents[1] / "pyproject.toml",
    ]
    chosen = [
        "--rootdir",
        folder,
        folder / "test_golden.py",
        "-k",
        "gives_its_agent_traces",
        *options,
    ]
    return subprocess.run([*command, *chosen], capture_output=True, text=True, check=False)


def test_the_difference_is_printed_and_the_next_run_passes(copy):
    expected = copy.read_text()
    traces = json.loads(expected)
    traces[0]["user_input"] = "what it was before"
    copy.write_text(json.dumps(traces, indent=1, ensure_ascii=False) + "\n")
    written = run(copy, "--write-golden")
    assert '-  "user_input": "what it was before",' in written.stdout
    assert "golden cases that changed: 1" in written.stdout
    assert copy.read_text() == expected
    assert run(copy).returncode == 0


def test_a_file_that_is_right_is_left_alone(copy):
    before = copy.stat().st_mtime_ns
    assert "golden cases that changed: 0" in run(copy, "--write-golden").stdout
    assert copy.stat().st_mtime_ns == before


def test_without_the_switch_a_difference_fails_and_says_what_to_run(copy):
    copy.write_text("[]\n")
    result = run(copy)
    assert result.returncode == 1
    assert "--write-golden" in result.stdout
