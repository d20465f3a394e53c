"""Commands keep a judge's answers between runs: nothing is asked twice unless that is wanted."""

import os
import stat
from pathlib import Path

import pytest
import yaml
from obliging_model import ObligingModel
from scripted_server import ScriptedServer

from spanscore.cli.main import main

_ROOT = Path(__file__).parents[2]
RECORDING = str(_ROOT / "examples" / "recordings" / "pydantic-ai")
MODEL = "openai/gpt-4o-mini"


@pytest.fixture
def model():
    with ScriptedServer(ObligingModel()) as server:
        yield server


@pytest.fixture
def run(model, monkeypatch, capsys, tmp_path):
    """Run a command on the recording; gives how many calls it made, its exit code and its standard
    output.
    """
    monkeypatch.setenv("COLUMNS", "160")

    def ran(command, *words, **cache):
        judge = {"model": MODEL, "api_base": model.url, "api_key": "none", "cache": cache}
        (tmp_path / "spanscore.yaml").write_text(yaml.safe_dump({"judge": judge}))
        before = len(model.calls)
        code = main([*command, "-c", str(tmp_path / "spanscore.yaml"), *words])
        return len(model.calls) - before, code, capsys.readouterr().out

    return ran


EVAL = ("eval", RECORDING)
SUITE = ("test", str(_ROOT / "examples" / "suite" / "travel.yaml"), RECORDING)


@pytest.mark.slow
def test_a_second_run_asks_nothing(run):
    first, second = run(EVAL), run(EVAL)

    assert (first[0] > 0, second[0], " 0 calls," in second[2]) == (True, 0, True)


@pytest.mark.slow
def test_the_scores_of_the_second_run_are_those_of_the_first(run):
    def scores(out):
        return [line for line in out.splitlines() if not line.startswith("Judged by")]

    assert scores(run(EVAL)[2]) == scores(run(EVAL)[2])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["option", "configuration"])
def test_answers_are_asked_for_anew_where_that_is_wanted(run, how):
    first = run(EVAL)
    again = run(EVAL, "--no-cache") if how == "option" else run(EVAL, between_runs=False)

    assert again[0] == first[0]


@pytest.mark.slow
def test_without_the_file_one_run_still_asks_nothing_twice(run):
    assert run(EVAL, "--no-cache")[0] == run(EVAL)[0]


@pytest.mark.slow
def test_the_file_can_be_named(run, tmp_path):
    file = tmp_path / "mine.db"
    run(EVAL, path=str(file))

    assert (stat.S_IMODE(file.stat().st_mode) if os.name == "posix" else 0o600) == 0o600


@pytest.mark.slow
def test_another_file_knows_nothing_of_the_first(run, tmp_path):
    first = run(EVAL, path=str(tmp_path / "one.db"))

    assert run(EVAL, path=str(tmp_path / "two.db"))[0] == first[0]


@pytest.mark.slow
def test_what_eval_asked_is_not_asked_by_another_metric_selection(run):
    run(EVAL, "--metric", "tool_correctness")

    assert run(EVAL, "--metric", "tool_correctness")[0] == 0


def test_no_file_is_made_where_nobody_is_asked(tmp_path, capsys):
    config = tmp_path / "spanscore.yaml"
    config.write_text(f"judge: {{cache: {{path: {tmp_path / 'mine.db'}}}}}")
    main(["eval", RECORDING, "-c", str(config)])
    capsys.readouterr()

    assert not (tmp_path / "mine.db").exists()


@pytest.mark.slow
def test_a_suite_asks_nothing_in_its_second_run(run):
    first, second = run(SUITE), run(SUITE)

    assert (first[0] > 0, second[0]) == (True, 0)
