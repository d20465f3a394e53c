"""The example of an agent without any framework runs with one command, without a key, and ends with
its scores.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AGENT = ROOT / "examples/handwritten/agent.py"


def run(*questions):
    return subprocess.run(
        [sys.executable, str(AGENT), *questions],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=100,
    )


@pytest.fixture(scope="module")
def shown():
    return run()


@pytest.mark.slow
def test_it_answers_its_questions(shown):
    assert "agent: I have refunded 59.90 USD for order 4821; it takes five days." in shown.stdout


@pytest.mark.slow
def test_it_ends_with_the_scores_of_each_turn(shown):
    rows = [
        x.split()[:3]
        for x in shown.stdout.splitlines()
        if x.startswith("check.arguments_match_schema")
    ]
    assert rows == [["check.arguments_match_schema", "1.00", "pass"]] * 2


@pytest.mark.slow
def test_it_complains_of_nothing(shown):
    assert shown.stderr == ""


@pytest.mark.slow
def test_it_answers_another_question():
    assert "You are booked on LH 454 to Rome." in run("Book me a flight to Rome").stdout
