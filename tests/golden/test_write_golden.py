"""`--write-golden` writes what is rebuilt now and prints what is different from before."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture
def copies(tmp_path):
    """The golden tests with one dialect's first two cases: what they expect."""
    cases = sorted((HERE / "pydantic_ai").iterdir())[:2]
    for case in cases:
        shutil.copytree(case, tmp_path / "pydantic_ai" / case.name)
    for name in ("conftest.py", "test_golden.py"):
        shutil.copy(HERE / name, tmp_path)
    return [tmp_path / "pydantic_ai" / x.name / "expected.json" for x in cases]


def run(copies, *options):
    folder = copies[0].parents[2]
    command = [
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
        *("-c", ROOT / "pyproject.toml", "-o", f"pythonpath={ROOT / 'tests/recording'}"),
        *("--rootdir", folder, folder / "test_golden.py", "-k", "gives_its_agent_traces"),
    ]
    return subprocess.run([*command, *options], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_what_changed_is_written_and_printed_and_a_file_that_is_right_left_alone(copies):
    changed, right = copies
    expected, before = changed.read_text(), right.stat().st_mtime_ns
    traces = json.loads(expected)
    traces[0]["user_input"] = "what it was before"
    changed.write_text(json.dumps(traces, indent=1, ensure_ascii=False) + "\n")
    written = run(copies, "--write-golden")
    assert '-  "user_input": "what it was before",' in written.stdout
    assert "golden cases that changed: 1" in written.stdout
    assert written.returncode == 0
    assert changed.read_text() == expected
    assert right.stat().st_mtime_ns == before


@pytest.mark.slow
def test_without_the_switch_a_difference_fails_and_says_what_to_run(copies):
    copies[0].write_text("[]\n")
    result = run(copies)
    assert "1 failed, 1 passed" in result.stdout
    assert "--write-golden" in result.stdout
    assert copies[0].read_text() == "[]\n"
