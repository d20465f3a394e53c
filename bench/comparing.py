"""The rates of a benchmark with the sources of an earlier commit and with today's, each run in a
process of its own.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROUNDS = 5
"""Of which the best counts: whatever else the machine does only makes one slower."""

PROJECT = Path(__file__).parents[1]


def compare(benchmark: Sequence[str], commit: str, traces: int, unit: str) -> Mapping[str, float]:
    """Print the best rates of both, and give how many times the earlier ones today's are.

    `benchmark` is a program with its arguments. It takes --traces and --json too, and prints its
    rates by what they are of.
    """
    command = ["git", "-C", PROJECT, "archive", commit, "src"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        sys.exit(
            f"{Path(benchmark[0]).name}: no sources of {commit}: {archive.stderr.decode().strip()}"
        )
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as sources:
            sources.extractall(folder, filter="data")
        trees = Path(folder) / "src", PROJECT / "src"
        found = [[_rates_of(benchmark, tree, traces) for tree in trees] for _ in range(ROUNDS)]
    ratios: dict[str, float] = {}
    print(f"{unit:<40}{commit[:12]:>12}{'now':>12}")
    for what in found[0][0]:
        before, now = (max(each[at][what] for each in found) for at in range(len(trees)))
        ratios[what] = now / before
        print(f"{what:<40}{before:>12,.0f}{now:>12,.0f}{ratios[what]:>8.2f}")
    return ratios


def _rates_of(benchmark: Sequence[str], tree: Path, traces: int) -> Mapping[str, float]:
    command = [sys.executable, *benchmark, "--json", "--traces", str(traces)]
    ran = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(tree)}, stdout=subprocess.PIPE, check=True
    )
    rates: Mapping[str, float] = json.loads(ran.stdout)
    return rates
