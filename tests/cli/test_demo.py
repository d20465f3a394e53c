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
from spanscore.cli import demo, demo_server
from spanscore.cli.backend import from_environment
from spanscore.errors import SpanscoreError
from spanscore.otlp import files

_PORTS = demo_server.Ports(1, 2, 3, 4)


@pytest.fixture
def output():
    return Console(file=io.StringIO(), width=200)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The demo as a user runs it, without any key."""
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path_factory.mktemp("demo")), "COLUMNS": "80"}
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


def test_without_a_model_in_the_environment_the_rules_judge_and_that_is_said(output):
    assert demo._model({"OPENAI_API_KEY": "sk-1"}, output) == "rules"
    assert output.file.getvalue().startswith("Judge: built-in rules, no model ")


def test_a_model_with_a_key_judges(output):
    environ = {"SPANSCORE_JUDGE_MODEL": "openai/gpt-4o-mini", "OPENAI_API_KEY": "sk-1"}
    assert demo._model(environ, output) == "openai/gpt-4o-mini"


def test_a_model_without_any_key_does_not_judge_and_that_is_said(output):
    assert demo._model({"SPANSCORE_JUDGE_MODEL": "openai/gpt-4o-mini"}, output) == "rules"
    assert "no key for openai/gpt-4o-mini" in output.file.getvalue()


@pytest.mark.parametrize("endpoint", [None, "http://localhost:4317", "http://localhost:4318"])
def test_the_servers_configuration_can_be_used(tmp_path, endpoint):
    backend = from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint or ""})
    settings = demo_server.configuration(tmp_path, _PORTS, "rules", backend)
    assert config.parse(yaml.safe_dump(settings), environ={}).judge.model == "rules"


def test_free_ports_are_four_different_ones():
    ports = demo_server.Ports.free()
    assert len({ports.grpc, ports.http, ports.health, ports.control}) == 4


def test_a_server_that_does_not_start_says_where_to_look(tmp_path):
    settings = {"no_such_key": 1}
    with (
        pytest.raises(SpanscoreError, match=r"did not start: .*no_such_key.*server\.log"),
        demo_server.running(tmp_path, _PORTS, settings),
    ):
        pass


def test_the_demo_shows_the_scores_of_every_turn_and_session(done):
    assert done.returncode == 0, done.stderr
    assert [done.stdout.count(x) for x in ("\ntrace ", "\nsession ", "task_completion ")] == [4, 2, 4]


def test_the_demo_says_that_the_rules_judged(done):
    assert "Judge: built-in rules, no model (set SPANSCORE_JUDGE_MODEL and a key for one)" in done.stdout.splitlines()


def test_the_demos_output_is_plain_and_fits_80_columns(done):
    assert "\x1b" not in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 80 and "in the file" not in line] == []


def test_the_demos_scores_are_in_the_file_that_it_names(done):
    sent = files.load([_scores_file(done)])
    names = {span.attributes["gen_ai.evaluation.name"] for span in sent.spans}
    assert {"task_completion", "agent_reliability"} <= names


def test_the_demo_leaves_no_database_behind(done):
    assert list(_scores_file(done).parent.glob("*.db*")) == []
