"""Each example runs with one command, without a key, and ends with the scores of what its agent
did.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
CACHE = Path(
    os.environ.get("SPANSCORE_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "spanscore")
)
"""The user's own cache, read before a test has one of its own."""

NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/agent.*"))
FRAMEWORKS = {"langgraph", "openai_agents", "openai_loop", "pydantic_ai", "vercel_ai"}
PASSED = ("check.arguments_match_schema", "check.arguments_grounded")

pytestmark = [pytest.mark.examples, pytest.mark.timeout(900)]


def run(name, *question):
    """What an example prints, on both of its outputs."""
    environment = os.environ | {"COLUMNS": "200", "SPANSCORE_CACHE": str(CACHE.expanduser())}
    words = [sys.executable, str(EXAMPLES / "run.py"), name, *question]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == 3:
        pytest.skip(f"{name}: what it needs cannot be installed here: {done.stderr[-500:]}")
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_every_framework_has_an_example():
    assert set(NAMES) >= FRAMEWORKS


@pytest.mark.parametrize("name", sorted(FRAMEWORKS))
def test_an_example_ends_with_its_scores(name):
    told = run(name)

    assert "I have refunded 59.90 USD for order SO-4821" in told
    assert [
        x for x in PASSED if not any(x in line and "pass" in line for line in told.splitlines())
    ] == []


@pytest.mark.parametrize("name", sorted(FRAMEWORKS))
def test_an_example_takes_another_question(name):
    assert "I looked up your order SO-77" in run(name, "Where is my order SO-77?")


@pytest.mark.parametrize("name", sorted(set(NAMES) - FRAMEWORKS))
def test_another_example_runs_too(name):
    assert "check." in run(name)
