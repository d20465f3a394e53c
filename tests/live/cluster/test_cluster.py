"""A few faults of those of `make chaos` lose nothing, score nothing twice and split no session."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.postgresql, pytest.mark.cluster]

RUN = Path(__file__).with_name("run.py")
WITHIN_S = 300


def run(*options):
    command = [sys.executable, RUN, "--faults=6", "--sessions=40", "--minutes=0.4", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("lost 0, twice 0, sessions split 0\n")


def test_replicas_lose_nothing_and_score_nothing_twice():
    run("--only=replicas", "--seed=4")


@pytest.mark.kafka
def test_kafka_loses_nothing_and_has_nothing_scored_twice():
    run("--only=kafka", "--seed=8")
