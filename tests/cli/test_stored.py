"""Commands that read files read a store and a running server too, and give the same of both."""

import json
from dataclasses import replace

import pytest
from report_turns import Opened, agent_trace, evaluation

from spanscore.cli import main
from spanscore.model.score import Annotation, Evaluator

_RUNS = ("a" * 32, "b" * 32)


def _scores(traces):
    """Each turn's score as it came, the first one failing; one of the session, one that a person
    gave, and those of two evaluation runs, of which the second is better.
    """
    for number, trace in enumerate(traces):
        yield evaluation(trace, value=0.0 if number == 0 else 1.0)
        for run, value in zip(_RUNS, (0.2, 0.9), strict=True):
            yield evaluation(trace, value=value, run=run)
    first = traces[0]
    of_session = {"scope": "session", "subject_id": first.session_key, "metric": "gave_up"}
    yield replace(evaluation(first, session_key=first.session_key), **of_session)


@pytest.fixture(scope="module")
def served(serving_with):
    """A server of eight turns, each in a session of its own."""
    answer = {"final_output": "7C, rain"}
    traces = [agent_trace(x, session_id=f"s{x}", **answer) for x in range(1, 9)]
    return serving_with(traces, list(_scores(traces)))


@pytest.fixture(params=["store", "server"])
def place(request, served):
    """The options that name the store, or the server."""
    address = served.store if request.param == "store" else served.address
    return [f"--{request.param}", address]


@pytest.fixture
def spanscore(place, tmp_path, monkeypatch, capsys):
    """Runs a command on the store or the server: exit code and what was printed."""
    monkeypatch.chdir(tmp_path)

    def spanscore(command, *words):
        code = main.main([command, *words, *place])
        return code, capsys.readouterr()

    return spanscore


def _report(tmp_path):
    return Opened((tmp_path / "report.html").read_bytes())


def test_a_report_has_stored_turns_with_their_steps_and_scores(spanscore, tmp_path):
    code, printed = spanscore("report")
    found = _report(tmp_path)
    assert (code, "scored now" in printed.err) == (0, False)
    assert [x["state"] for x in found.index["turns"]] == ["fail", *["pass"] * 7]
    assert found.detail(found.index["turns"][0])["steps"]
    assert [x["name"] for x in found.index["sessions"]] == ["s1"]
    assert found.index["name"] == "stored turns"


def test_a_report_has_only_the_turns_that_are_asked_for(spanscore, tmp_path):
    spanscore("report", "--failing")
    assert [x["state"] for x in _report(tmp_path).index["turns"]] == ["fail"]
    spanscore("report", "--session", "s3")
    index = _report(tmp_path).index
    assert [x["input"] for x in index["turns"]] == ["How warm is it in Oslo, question 3?"]
    assert index["name"] == "stored turns, session s3"


def test_a_report_sets_two_evaluation_runs_side_by_side(spanscore, tmp_path):
    one, other = (f"runs/{x}" for x in _RUNS)
    spanscore("report", other, "--baseline", one)
    index = _report(tmp_path).index
    assert {x["state"] for x in index["turns"]} == {"pass"}
    assert all("was" in x for x in index["turns"])
    assert index["comparison"]["verdict"] == "better"


def test_two_evaluation_runs_are_compared(spanscore):
    one, other = (f"runs/{x}" for x in _RUNS)
    code, printed = spanscore("compare", one, other, "--json")
    found = json.loads(printed.out)
    assert (code, found["verdict"], found["n"]) == (0, "better", 8)


def test_a_run_is_compared_with_the_scores_in_a_file(spanscore, tmp_path):
    _, printed = spanscore("scores", "--json", "--run", _RUNS[0], "-n", "0")
    (tmp_path / "before.jsonl").write_text(printed.out)
    code, printed = spanscore("compare", "before.jsonl", f"runs/{_RUNS[1]}")
    assert (code, "B against A: better" in printed.out) == (0, True)


def test_a_suite_is_held_against_stored_turns(spanscore, tmp_path):
    question = "How warm is it in Oslo, question 2?"
    expected = {"expected_tools": [{"tool_name": "weather"}], "tool_sequence_matters": False}
    case = {"id": "oslo", "input": question, **expected}
    (tmp_path / "suite.yaml").write_text(json.dumps({"name": "s", "cases": [case]}))
    code, printed = spanscore("test", "suite.yaml")
    assert (code, "1 case: 1 pass" in printed.out) == (0, True)


def test_stored_turns_are_scored_again_without_storing_it(spanscore):
    code, printed = spanscore("eval", "--metric", "check.answer_present", "--jsonl")
    scores = [json.loads(x) for x in printed.out.splitlines()]
    assert (code, {x["metric"] for x in scores}) == (0, {"check.answer_present"})
    assert len(scores) == 8
    _, printed = spanscore("scores", "--json", "--metric", "check.answer_present")
    assert printed.out == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["report", "scores.jsonl"], "scores.jsonl: give either files, or --store or --server"),
        (["report", "runs/1", "--since", "1h"], "--since: goes with --store or --server alone"),
        (["report", "--session", "none"], "stored turns, session none: no stored trace meets"),
        (["compare", "runs/none", "runs/none"], "runs/none: no score of such a run"),
    ],
)
def test_what_is_not_stored_or_does_not_go_together_is_said(spanscore, words, why):
    code, printed = spanscore(*words)
    assert (code, why in printed.err) == (2, True)


@pytest.mark.parametrize("command", ["traces", "scores"])
def test_lists_and_reports_lead_to_the_traces_in_the_readers_backend(
    spanscore, place, tmp_path, command
):
    config = tmp_path / "page.yaml"
    config.write_text("page: {trace_url: 'https://traces.example.com/{trace_id}'}")
    own = ["-c", str(config)] if place[0] == "--store" else []  # a server says it itself
    code, printed = spanscore(command, "-n", "1", *own)
    assert (code, "  https://traces.example.com/0000" in printed.out) == (0, True)
    spanscore("report", *own)
    assert _report(tmp_path).index["trace_url"] == "https://traces.example.com/{trace_id}"


def test_neither_files_nor_a_store_is_an_error(capsys):
    assert main.main(["report"]) == 2
    assert "name a store by --store or a running server by --server" in capsys.readouterr().err


def test_what_a_person_gave_to_a_stored_turn_is_in_the_report(serving_with, tmp_path, monkeypatch):
    trace = agent_trace(1)
    human = Evaluator("HUMAN", "review", "1", source="human", author="ada")
    given = evaluation(trace, "helpful", outcome=Annotation(1.0, "pass"))
    served = serving_with([trace], [evaluation(trace)])
    words = ["scores", "create", "--server", served.address, "--trace", trace.id]
    main.main([*words, "--metric", given.metric, "--label", "pass", "--author", human.author])
    monkeypatch.chdir(tmp_path)
    for place in (["--store", served.store], ["--server", served.address]):
        assert main.main(["report", *place]) == 0
        found = _report(tmp_path)
        scores = found.detail(found.index["turns"][0])["scores"]
        assert {(x["metric"], x.get("source")) for x in scores} >= {("helpful", "human")}
