"""Standard output that is full, closed, or read by nobody: exit codes and what is said, for every
kind of command.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spanscore.cli.main import main

_ROOT = Path(__file__).parents[2]
_RECORDING = str(_ROOT / "examples" / "recordings" / "pydantic-ai")
_SUITE = str(_ROOT / "examples" / "suite" / "travel.yaml")
_COMMANDS = [
    ("eval", _RECORDING),
    ("eval", "--jsonl", _RECORDING),
    ("eval", "--dry-run", _RECORDING),
    ("inspect", _RECORDING),
    ("inspect", "--jsonl", _RECORDING),
    ("inspect", "--unread", _RECORDING),
    ("test", _SUITE, _RECORDING),
    ("test", "--schema"),
    ("best-of", _SUITE, f"a={_RECORDING}", f"b={_RECORDING}", "--dry-run"),
    ("metrics",),
    ("metrics", "coherence"),
    ("config", "schema"),
    ("calibrate", "--list"),
    ("doctor",),
]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """Whatever a command keeps, it keeps in a folder of the test."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def output(monkeypatch):
    """Put an open file in the place of standard output."""
    opened = []

    def put(file):
        stream = os.fdopen(file, "w", encoding="utf-8")
        opened.append(stream)
        monkeypatch.setattr(sys, "stdout", stream)

    yield put
    for stream in opened:
        stream.close()


@pytest.mark.slow
@pytest.mark.parametrize("words", _COMMANDS, ids=" ".join)
def test_where_nobody_reads_a_command_ends_as_others_do(words, output):
    reading, writing = os.pipe()
    os.close(reading)
    output(writing)
    assert main(words) == 141


@pytest.mark.slow
@pytest.mark.parametrize("words", _COMMANDS, ids=" ".join)
def test_a_full_disk_is_said_in_one_line(words, output, capsys, full_device):
    output(os.open(full_device, os.O_WRONLY))
    code = main(words)
    said = (
        "the output: cannot be written (No space left on device); make room, or write to another"
        " place"
    )
    assert (code, capsys.readouterr().err.splitlines()[-1]) == (74, f"spanscore: error: {said}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("metrics", "--help"), ("metrics",)], ids=" ".join
)
def test_a_process_whose_output_is_closed_says_nothing(words):
    done = subprocess.run(
        [
            "/bin/sh",
            "-c",
            'exec "$@" >&-',
            "sh",
            sys.executable,
            "-m",
            "spanscore.cli.main",
            *words,
        ],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", [("--help",), ("nonsense",)], ids=" ".join)
def test_python_does_not_complain_once_more_at_its_exit(words, full_device):
    with full_device.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "spanscore.cli.main", *words],
            stdout=full,
            stderr=full,
            check=False,
            timeout=60,
        )
    assert done.returncode == (74 if words == ("--help",) else 2)
