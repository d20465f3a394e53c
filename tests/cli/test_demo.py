"""The demo: what it decides from the environment, and the whole of it once."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from spanscore import config
from spanscore.cli import demo, trace_files
from spanscore.cli.main import main
from spanscore.cli.one_run import from_environment
from spanscore.otlp import files


@pytest.fixture
def output():
    return Console(file=io.StringIO(), width=200)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The demo as a user runs it, without any key."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "TMPDIR": str(tmp_path_factory.mktemp("demo")),
        "COLUMNS": "80",
    }
    return subprocess.run(
        [sys.executable, "-m", "spanscore.cli.main", "demo"],
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=90,
        check=False,
    )


def _scores_file(done):
    return Path(re.search(r"in the file (.+)", done.stdout)[1])


def test_without_a_model_in_the_environment_recorded_answers_judge_and_that_is_said(output):
    judge = demo._judge({"OPENAI_API_KEY": "sk-1", "SPANSCORE_JUDGE_MODEL": ""}, output)
    assert judge == demo.recorded_judge()
    assert output.file.getvalue().startswith("Judge: recorded answers of ")


def test_a_model_with_a_key_judges(output):
    environ = {"SPANSCORE_JUDGE_MODEL": "openai/gpt-4o-mini", "OPENAI_API_KEY": "sk-1"}
    assert demo._judge(environ, output) == {"model": "openai/gpt-4o-mini"}


def test_a_model_on_a_server_of_ones_own_judges_without_a_key(output):
    environ = {
        "SPANSCORE_JUDGE_MODEL": "hosted_vllm/qwen",
        "HOSTED_VLLM_API_BASE": "http://127.0.0.1:1/v1",
    }
    assert demo._judge(environ, output) == {"model": "hosted_vllm/qwen"}


def test_a_model_without_any_key_is_not_asked_and_that_is_said(output):
    assert (
        demo._judge({"SPANSCORE_JUDGE_MODEL": "openai/gpt-4o-mini"}, output)
        == demo.recorded_judge()
    )
    assert "openai/gpt-4o-mini has no key here" in output.file.getvalue()


@pytest.mark.parametrize("endpoint", [None, "http://localhost:4317", "http://localhost:4318"])
def test_the_servers_configuration_can_be_used(tmp_path, endpoint):
    backend = from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint or ""})
    settings = demo.configuration(tmp_path, demo.recorded_judge(), backend)
    assert (
        config.parse(yaml.safe_dump(settings), environ={}).judge.recorded_answers.name
        == "pydantic-ai.answers"
    )


@pytest.mark.slow
def test_the_demo_shows_the_scores_of_every_turn_and_session(done):
    assert done.returncode == 0, done.stderr
    blocks = done.stdout.partition("\nSummary: ")[0]
    assert [blocks.count(x) for x in ("\ntrace ", "\nsession ", "\ntask_completion ")] == [4, 2, 4]


@pytest.mark.slow
def test_every_question_of_the_demo_has_a_recorded_answer(done):
    assert re.findall(r"\n(\S+) +- +failed", done.stdout) == []


@pytest.mark.slow
def test_the_demo_says_whose_answers_are_recorded_and_when(done):
    assert re.search(r"Judge: recorded answers of \S.*, given\s+on\s+\d{4}-\d\d-\d\d", done.stdout)


@pytest.mark.slow
def test_the_demo_closes_with_what_fails(done):
    summary = done.stdout.partition("\nSummary: ")[2]
    assert re.match(r"\d+ of \d+ scores pass\n  fail: ", summary)


def test_the_demos_output_is_plain_and_fits_80_columns(done):
    assert "\x1b" not in done.stdout
    paths = str(_scores_file(done).parent)
    assert [x for x in done.stdout.splitlines() if len(x) > 80 and paths not in x] == []


def test_the_demos_scores_are_in_the_file_that_it_names(done):
    sent = files.load([_scores_file(done)])
    names = {event.attributes["gen_ai.evaluation.name"] for event in sent.logs}
    assert {"task_completion", "coherence", "agent_reliability"} <= names
    assert {"spanscore: all 8 passed", "fail: task_completion"} <= {
        span.name for span in sent.spans
    }


def test_the_demo_leaves_no_database_behind(done):
    assert list(_scores_file(done).parent.glob("*.db*")) == []


@pytest.mark.slow
def test_the_demo_ends_with_three_ways_in_for_ones_own_agent(done):
    closing = done.stdout.partition("\nNext, your own agent")[2]
    assert [
        x in closing for x in ("spanscore.instrument(", "spanscore serve", "spanscore eval ")
    ] == [True] * 3


@pytest.mark.slow
def test_the_demo_names_the_spans_that_it_sent_in_a_file(done):
    sent = Path(re.search(r"spanscore eval (.+)", done.stdout)[1])
    ids = re.findall(r"^trace (\w+)$", done.stdout, re.MULTILINE)
    assert {x.trace_ids[0] for x in trace_files.agent_traces([sent])} == set(ids)


def test_a_folder_with_something_in_it_is_not_written_to(tmp_path, capsys):
    (tmp_path / "mine.txt").touch()
    assert main(["demo", "--keep", str(tmp_path)]) == 2
    assert "name a new folder" in capsys.readouterr().err


def test_without_what_a_server_needs_the_demo_names_the_extra_at_once(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "grpc_health", None)
    assert main(["demo"]) == 2
    assert capsys.readouterr().err == (
        "spanscore: error: this takes what a server needs: pip install 'spanscore[server]'\n"
    )
