"""`eval` with worker processes prints and writes what it does with one process."""

import os
import re
import signal
from pathlib import Path

import pytest

from spanscore.cli import measurement
from spanscore.cli.main import main
from spanscore.offline import recordings, scoring, windows

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "examples" / "recordings"

PLUGIN = """
import os, pathlib, signal
import spanscore

@spanscore.metric
def length(trace) -> float:
    flag = pathlib.Path({flag!r})
    if os.getpid() != {own} and not flag.exists():
        {once}
        os.kill(os.getpid(), signal.SIGKILL)
    return 1.0
"""


@pytest.fixture
def evaluated(monkeypatch, capsys, tmp_path):
    """Run `eval` on recordings as on large files: exit code, what was printed and said, and the
    file of `--output`.
    """
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(recordings, "_WHOLE_BYTES", 0)
    monkeypatch.setattr(windows, "_FIRST_BYTES", 2**16)
    monkeypatch.setattr(windows, "_MAX_BYTES", 2**17)
    monkeypatch.setattr(windows, "_BATCH_BYTES", 2**15)
    monkeypatch.setattr(scoring, "_OF_WORKER", 3)

    def run(workers, *words, path=RECORDINGS):
        file = tmp_path / f"scores-{workers}.jsonl"
        code = main(["eval", str(path), "--workers", str(workers), "--output", str(file), *words])
        captured = capsys.readouterr()
        return code, _timeless(captured.out), captured.err, _timeless(file.read_text())

    return run


@pytest.fixture
def plugin(tmp_path):
    """A configuration with a metric of one's own, which kills each worker process that measures
    it.
    """

    def write(*, once):
        flag = str(tmp_path / "killed")
        text = PLUGIN.format(flag=flag, own=os.getpid(), once="flag.touch()" if once else "pass")
        (tmp_path / "own.py").write_text(text)
        file = tmp_path / "spanscore.yaml"
        file.write_text("evaluation: {plugins: [./own.py], metrics: {length: {}}}")
        return str(file)

    return write


def _timeless(text):
    return re.sub(r'"evaluated_at_ns":\d+', "", text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--jsonl"],
        ["--failing"],
        ["--metric", "agent_reliability", "--fail-under", "agent_reliability=0.99"],
    ],
    ids=" ".join,
)
def test_two_processes_print_and_write_what_one_does(evaluated, words):
    assert evaluated(2, *words) == evaluated(1, *words)


@pytest.mark.slow
def test_embeddings_that_are_computed_are_the_same_in_worker_processes(evaluated, tmp_path):
    file = tmp_path / "ngrams.yaml"
    file.write_text("embedding: {provider: ngrams}")
    assert evaluated(2, "-c", str(file)) == evaluated(1, "-c", str(file))


@pytest.mark.slow
def test_scores_that_others_gave_stand_with_their_traces(evaluated):
    path = ROOT / "tests" / "golden" / "semconv" / "shop-spanscore-sdk"
    found = evaluated(2, "--jsonl", path=path)
    assert found == evaluated(1, "--jsonl", path=path)
    assert '"source":"human"' in found[1]


@pytest.mark.slow
def test_a_metric_of_ones_own_that_kills_a_worker_process_once_costs_no_score(evaluated, plugin):
    config = plugin(once=True)
    assert evaluated(2, "-c", config) == evaluated(1, "-c", config)


@pytest.mark.slow
def test_what_kills_each_worker_process_is_named_with_its_traces(evaluated, plugin, capsys):
    config = plugin(once=False)
    assert main(["eval", str(RECORDINGS), "--workers", "2", "-c", config]) == 1
    said = capsys.readouterr().err
    assert re.search(
        r"killed by signal 9 while it worked on the scores of traces [0-9a-f]{32}", said
    )
    assert "use fewer workers" in said


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_scored_and_the_exit_code_is_that_of_one_process(
    evaluated, monkeypatch
):
    whole = evaluated(1, "--jsonl")[1].splitlines()
    shown = []

    def interrupted_once(display, found):
        if not shown:
            os.kill(os.getpid(), signal.SIGINT)
        shown.append(found)

    monkeypatch.setattr(measurement.Display, "print", interrupted_once)
    code, _, said, written = evaluated(2, "--jsonl")
    assert code == 130
    assert "interrupted: these are the scores that were finished" in said
    assert written.splitlines() == whole[: len(written.splitlines())]
    assert written


def test_a_number_of_workers_that_is_none_is_refused(capsys):
    assert main(["eval", str(RECORDINGS), "--workers", "0"]) == 2
    assert "--workers: '0' is no number of processes; write 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize("workers", ["257", "40000"])
def test_more_workers_than_threads_can_serve_are_refused(capsys, workers):
    assert main(["eval", str(RECORDINGS), "--workers", workers]) == 2
    assert "is too many processes; write 256 or less" in capsys.readouterr().err
