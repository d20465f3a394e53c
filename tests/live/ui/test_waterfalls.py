"""Scores in the waterfalls of real tracing backends that know nothing of scores, behind a real
collector.
"""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.ui
@pytest.mark.timeout(900)
@pytest.mark.parametrize("tool", ["jaeger", "zipkin"])
def test_what_its_page_in_docs_says_holds(tool):
    checked = subprocess.run(
        [sys.executable, HERE / "run.py", tool, "--check"], check=False, text=True
    )
    assert checked.returncode == 0
