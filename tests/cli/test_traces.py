"""`spanscore traces`: the agent traces of a store, or in files, with their verdicts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spanscore.cli.main import main
from spanscore.model.score import Evaluation, Evaluator, Failure, Score, Skip
from spanscore.model.trace import AgentTrace, Target, ToolCall
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace

RECORDING = Path(__file__).parents[1] / "golden/pydantic_ai/desk/traces.pb.gz"


def _trace(number, **facts):
    target = Target(f"{number:032x}", "0b" * 8, 10**18, 10**18 + 1_500_000_000, {})
    named = {
        "trace_ids": (target.trace_id,),
        "opening_span_id": target.span_id,
        "root_span_id": target.span_id,
    }
    times = {"started_ns": target.start_ns, "ended_ns": target.end_ns}
    return AgentTrace(target=target, service_name="shop", **named, **times, **facts)


def _score(trace, metric, value):
    return Evaluation(
        scope="trace",
        subject_id=trace.id,
        metric=metric,
        outcome=Score(value, "because"),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("CODE", metric, "1"),
        target=trace.target,
        session_id=trace.session_id,
    )


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Run `traces` on a store with a trace that passes and a newer one that fails: exit code and
    output.
    """
    monkeypatch.setenv("COLUMNS", "100")
    store = Store.open(Config(url=f"sqlite:///{tmp_path}/spanscore.db"))
    good = _trace(1, user_input="Which one is open?", session_id="s-1")
    bad = _trace(2, user_input="Book \x1b[2J it", tool_calls=(ToolCall(None, "book"),))
    for trace, value in ((good, 0.9), (bad, 0.1)):
        store.commit(
            [StoredTrace(trace, 1, "")],
            [_score(trace, "coherence", value), _score(trace, "confidence", 0.8)],
        )
    store.close()

    def command(*words):
        code = main(["traces", "--store", f"{tmp_path}/spanscore.db", *words])
        return code, capsys.readouterr().out

    return command


def test_the_newest_comes_first_with_its_verdict_its_question_and_what_fails(run):
    code, out = run()
    lines = [line.strip() for line in out.splitlines()]
    assert code == 0
    assert lines[0].endswith(f"1 of 2 failing     1.5 s  trace {2:032x}  shop")
    assert lines[1:3] == [r"Book \x1b[2J it", "failing: coherence"]
    assert "2 pass" in lines[3]
    assert lines[3].endswith("session s-1")


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([Skip("no model")], "no verdict"),
        ([Failure("TimeoutError", "")], "1 of 1 failing"),
        ([Failure("TimeoutError", ""), Score(0.9, "")], "1 of 2 failing"),
        ([Skip("no model"), Score(0.9, "")], "1 pass"),
    ],
)
def test_only_what_passes_or_fails_counts_in_a_verdict(tmp_path, capsys, outcomes, verdict):
    store = Store.open(Config(url=f"sqlite:///{tmp_path}/spanscore.db"))
    trace = _trace(1)
    scores = [
        replace(_score(trace, f"m{number}", 1.0), outcome=outcome)
        for number, outcome in enumerate(outcomes)
    ]
    store.commit([StoredTrace(trace, 1, "")], scores)
    store.close()
    main(["traces", "--store", f"{tmp_path}/spanscore.db"])
    assert f"  {verdict} " in capsys.readouterr().out


def test_only_failing_traces_are_listed_where_they_are_asked_for(run):
    assert f"{1:032x}" not in run("--failing")[1]


def test_a_json_line_has_the_trace_in_few_words_and_its_scores(run):
    found = json.loads(run("--json", "--limit", "1")[1])
    assert (found["failing"], found["tool_calls"], found["session_id"]) == (["coherence"], 1, None)
    assert [x["metric"] for x in found["scores"]] == ["coherence", "confidence"]


@pytest.mark.parametrize("field", ["stored_ns", "started_ns"])
def test_traces_are_listed_in_the_order_that_is_asked_for(run, field):
    rising, falling = (
        [json.loads(x)["id"] for x in run("--json", "--order-by", x)[1].splitlines()]
        for x in (field, f"{field} desc")
    )
    assert rising == falling[::-1]
    assert falling == [json.loads(x)["id"] for x in run("--json")[1].splitlines()]


def test_an_order_that_there_is_not_is_refused_with_those_that_there_are(run, capsys):
    assert main(["traces", "--store", "nowhere.db", "--order-by", "cost"]) == 2
    assert "there is stored_ns, started_ns, latency, tokens, tool_errors" in capsys.readouterr().err


def test_a_trace_without_scores_says_why(run, tmp_path):
    store = Store.open(Config(url=f"sqlite:///{tmp_path}/spanscore.db"))
    store.commit([StoredTrace(_trace(3), 1, "")], [])
    store.close()
    line = run("--limit", "1")[1].splitlines()[1].strip()
    assert line.startswith("no score: nothing was measured when it was stored")
    assert json.loads(run("--limit", "1", "--json")[1])["unscored"] == line.partition(": ")[2]


def test_one_trace_is_listed_by_its_id(run):
    assert [x for x in run("--trace", f"{1:032X}")[1].splitlines() if "trace " in x] == [
        x for x in run()[1].splitlines() if f"{1:032x}" in x
    ]


def test_a_trace_that_is_not_there_is_an_error(run, capsys):
    assert run("--trace", "f" * 32)[0] == 2


def test_failing_traces_become_cases_of_a_suite_with_their_recordings(run, tmp_path, capsys):
    suite = tmp_path / "failed.yaml"
    code, out = run("--failing", "--suite", str(suite))
    assert (code, out.startswith("1 of 1 cases are new in ")) == (0, True)
    assert run("--failing", "--suite", str(suite))[1].startswith("0 of 1 cases are new")
    assert main(["test", str(suite), str(suite.with_suffix(".jsonl"))]) == 1
    assert "expected_answer is still to be filled in" in capsys.readouterr().out


def test_where_nothing_fails_no_suite_is_written(run, tmp_path):
    suite = tmp_path / "failed.yaml"
    found = run("--failing", "--service", "other", "--suite", str(suite))
    assert "nothing was written" in found[1]
    assert not suite.exists()


def test_a_servers_traces_become_cases(serving, tmp_path, capsys):
    suite = tmp_path / "failed.yaml"
    words = ["traces", "--server", serving.address, "--suite", str(suite)]
    assert main([*words, "--trace", serving.ids[0]]) == 0
    assert capsys.readouterr().out.startswith("1 of 1 cases are new")
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("4 of 5 cases are new")
