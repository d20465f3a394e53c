"""`spanscore runs`: what its options ask for, and what it prints, against a real server."""

import json
from pathlib import Path

import grpc
import pytest

from spanscore.api.v1 import run_service_pb2 as pb
from spanscore.cli import main, runs as runs_command, server
from spanscore.cli.main import _parser
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all

METRIC = "check.errors_recovered"


@pytest.fixture
def runs(serving, capsys):
    """`runs(ACTION, OPTION…)`: the exit code, and what was printed."""

    def run(*words):
        code = main.main(["runs", words[0], "--server", serving.address, *words[1:]])
        return code, capsys.readouterr()

    return run


def created(runs, *options):
    code, printed = runs("create", "--metric", METRIC, "--json", *options)
    assert code == 0, printed.err
    return json.loads(printed.out.splitlines()[-1])


def asked(*words):
    return runs_command.wanted(_parser(["runs"]).parse_args(["runs", "create", *words]))


def test_options_are_the_run_that_is_asked_for():
    run = asked("--where", "label.x = fail", "--count", "9", "--max-usd", "2", "--metric", METRIC)

    assert (run.target.where, list(run.measure.metrics)) == ("label.x = fail", [METRIC])
    assert (run.target.sampling.count, run.budget.max_usd) == (9, 2.0)
    assert not run.target.HasField("filter")


def test_options_go_before_the_file_of_a_run(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(
        "target: {filter: {user: ada}, sampling: {seed: 3}}\n"
        "measure: {model: small, options: {coherence: {threshold: 0.25}}}"
    )
    run = asked("--spec", str(file), "--service", "shop", "--model", "large", "--count", "2")

    assert (run.target.filter.user, run.target.filter.service) == ("ada", "shop")
    assert (run.target.sampling.seed, run.target.sampling.count) == (3, 2)
    assert run.measure.options["coherence"]["threshold"] == 0.25
    assert run.measure.model == "large"


WRONG = [
    (["--spec", "/nowhere"], "/nowhere: cannot be read"),
    (["--count", "-1"], "--count -1: give a number of at least 0"),
]


@pytest.mark.parametrize(("words", "why"), WRONG, ids=lambda x: str(x)[:40])
def test_an_option_that_is_wrong_is_named(words, why, runs):
    code, printed = runs("create", *words)
    assert (code, why in printed.err) == (2, True)


@pytest.mark.slow
def test_a_run_is_watched_to_its_end(runs):
    code, printed = runs("create", "--metric", METRIC, "--watch")
    assert code == 1
    assert "state         failed" in printed.out
    assert f"skipped       metric {METRIC}, cause not_applicable, count 5" in printed.out


def test_the_budget_of_a_run_is_shown_beside_what_it_has_spent(runs, tmp_path):
    file = tmp_path / "run.json"
    file.write_text('{"budget": {"max_tokens": 1000}}')
    _, printed = runs("create", "--metric", METRIC, "--max-usd", "2.5", "-f", str(file))
    assert "budget        max tokens 1,000, max usd 2.5\n" in printed.out


def test_a_run_that_was_made_is_listed(runs):
    run = created(runs, "--name", "nightly")
    _, printed = runs("list")
    assert run["name"].removeprefix("runs/") in printed.out
    assert "nightly" in printed.out


@pytest.mark.slow
def test_a_run_that_asked_no_judge_cost_nothing(runs):
    name = created(runs, "--count", "1")["name"].removeprefix("runs/")
    runs("watch", name)
    [line] = [x for x in runs("list")[1].out.splitlines() if x.startswith(name)]
    assert line.split()[-1] == "0.0000"


def test_a_dry_run_makes_none(runs):
    before = runs("list", "-n", "0", "--json")[1].out
    _, printed = runs("create", "--metric", METRIC, "--dry-run", "--count", "2")
    assert printed.out.startswith(
        "2 of 5 that the target names would be evaluated\nno judge would be asked"
    )
    assert len(runs("list", "-n", "0", "--json")[1].out.splitlines()) == len(before.splitlines())


def test_scores_of_a_run_are_listed_only_with_its_id(runs, serving, capsys, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(f"target: {{trace_ids: [{serving.ids[0]}]}}")
    run = created(runs, "-f", str(file))
    runs("watch", run["name"])
    listed = []
    for words in ([], ["--run", run["name"]]):
        assert (
            main.main(["scores", "--server", serving.address, "--skipped", "--json", *words]) == 0
        )
        listed.append([json.loads(x)["run"] for x in capsys.readouterr().out.splitlines()])
    assert listed == [[], [run["name"].removeprefix("runs/")]]


def test_a_state_that_only_a_newer_server_knows_is_shown_by_its_number():
    run = pb.Run(name="runs/a", state=99)
    assert server.word(run, "state") == "99"
    assert list(server.describe(run)) == ["name          runs/a", "state         99"]


@pytest.mark.slow
def test_a_deleted_run_is_gone(runs):
    run = created(runs)
    runs("watch", run["name"])
    assert runs("delete", run["name"], "--with-scores")[0] == 0
    code, printed = runs("get", run["name"])
    assert (code, "there is no run" in printed.err) == (2, True)


@pytest.mark.slow
def test_what_cannot_be_done_now_is_one_line(runs):
    run = created(runs)
    runs("watch", run["name"])
    code, printed = runs("resume", run["name"])
    assert (code, len(printed.err.splitlines())) == (2, 1)
    assert "is FAILED: only one that is PAUSED can be resumed" in printed.err


def test_without_a_server_it_says_what_to_do(capsys):
    assert main.main(["runs", "list", "--server", "127.0.0.1:1"]) == 1
    assert "is a server running there, and is this its api.endpoint?" in capsys.readouterr().err


class _Unavailable(grpc.RpcError):
    def code(self):
        return grpc.StatusCode.UNAVAILABLE


def _watching(*streams):
    """A server whose every WatchRun gives the states of one of `streams` before it is not
    available.
    """
    left = list(streams)

    def ask(_method, _request, *, is_stream):
        *states, ends = left.pop(0) if left else ["is down"]
        yield from states
        if ends != "ends":
            raise _Unavailable

    return ask


def test_a_run_is_watched_across_a_restart_of_the_server():
    ask = _watching([1, 2, "stops"], ["is down"], [2, 3, "ends"])
    assert list(runs_command._states(ask, None, sleep=lambda _: None)) == [1, 2, 2, 3]


@pytest.mark.parametrize(("streams", "waits"), [([], 0), ([[1, "stops"]], 30)])
def test_a_server_that_does_not_come_back_is_not_waited_for_for_ever(streams, waits):
    waited = []
    with pytest.raises(grpc.RpcError):
        list(runs_command._states(_watching(*streams), None, sleep=waited.append))
    assert len(waited) == waits


RECORDED = Path(__file__).parents[2] / "examples/recordings"


@pytest.fixture(scope="module")
def recorded():
    return rebuild_all(files.load([RECORDED]).spans)


@pytest.mark.slow
def test_the_traces_of_a_file_are_sent_and_evaluated(runs, recorded):
    code, printed = runs("create", "--metric", METRIC, "--file", str(RECORDED), "--watch", "--json")
    run = json.loads(printed.out.splitlines()[-1])

    assert code == 0, printed.err
    assert f"sent {len(recorded)} traces" in printed.err
    assert int(run["progress"]["done"]) == len(recorded)


@pytest.mark.slow
def test_the_sessions_of_a_file_are_evaluated(runs, recorded):
    code, printed = runs(
        "create",
        "--file",
        str(RECORDED),
        "--sessions",
        "--metric",
        "agent_reliability",
        "--watch",
        "--json",
    )
    run = json.loads(printed.out.splitlines()[-1])

    assert code == 0, printed.err
    assert int(run["progress"]["items"]) == len({x.session_id for x in recorded} - {None}) > 0


def test_the_same_file_twice_is_the_same_traces(runs):
    one, other = (created(runs, "--file", str(RECORDED))["target"]["trace_ids"] for _ in range(2))
    assert one == other


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--service", "shop"], "--file and filter of a target: give one"),
        (["--dry-run"], "`spanscore eval PATH --dry-run`"),
        (["--where", "failing = true"], "--file and where of a target: give one"),
    ],
)
def test_options_that_do_not_go_with_files_are_refused(words, why, runs):
    code, printed = runs("create", "--file", str(RECORDED), *words)
    assert (code, why in printed.err) == (2, True)


DELEGATED = Path(__file__).parents[1] / "golden" / "pydantic_ai" / "desk-a2a"
"""A recording in which an agent's tool asks another agent, whose turn is a trace of its own."""


@pytest.mark.slow
def test_the_configuration_says_which_traces_of_a_file_are_one_turn(runs, tmp_path):
    configuration = tmp_path / "spanscore.yaml"
    configuration.write_text("assemble:\n  stitch:\n    delegation:\n      enabled: false\n")
    joined = created(runs, "--file", str(DELEGATED))
    apart = created(runs, "--file", str(DELEGATED), "--config", str(configuration))
    assert len(apart["target"]["trace_ids"]) > len(joined["target"]["trace_ids"])


def test_a_configuration_without_a_file_is_refused(runs, tmp_path):
    code, printed = runs("create", "--config", str(tmp_path / "spanscore.yaml"))
    assert (code, "--config: goes with --file" in printed.err) == (2, True)


def test_a_file_without_traces_is_named(runs, tmp_path):
    code, printed = runs("create", "--file", str(tmp_path / "none.jsonl"))
    assert (code, "none.jsonl" in printed.err) == (2, True)
