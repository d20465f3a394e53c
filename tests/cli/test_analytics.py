"""`spanscore analytics` prints what the API answers, of a store or of a server."""

import json
from dataclasses import replace

import pytest

from spanscore.api.v1 import analytics_service_pb2 as pb
from spanscore.cli import analytics, main
from spanscore.model.score import Annotation, Evaluation, Evaluator, Score, Skip
from spanscore.model.trace import AgentTrace, Target, ToolCall
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace

DAY_NS = 86_400 * 10**9


def _score(number, outcome, **facts):
    resource = {"service.name": 'shop "a"', "service.version": "1" if number < 5 else "2"}
    start_ns = DAY_NS * (20_000 + number)
    target = Target(f"{number:032x}", f"{number:016x}", start_ns, start_ns + 1, resource)
    trace = AgentTrace(
        trace_ids=(target.trace_id,),
        root_span_id=target.span_id,
        target=target,
        opening_span_id=target.span_id,
        started_ns=target.start_ns,
        ended_ns=target.end_ns,
        session_id=f"session {number // 2}",
        tool_calls=(ToolCall("c", "search" if number % 2 else "book", {}, ""),),
    )
    fields = {
        "scope": "trace",
        "subject_id": trace.id,
        "metric": "judged",
        "outcome": outcome,
        "threshold": 0.5,
        "scale": (0.0, 1.0),
        "evaluator": Evaluator("LLM", "judged", "1", model="judge-1"),
        "target": target,
        "session_id": trace.session_id,
        "service_name": 'shop "a"',
        "evaluated_at_ns": target.end_ns,
    }
    return trace, Evaluation(**{**fields, **facts})


@pytest.fixture
def file(tmp_path):
    """A store with ten turns of five sessions, one of which was skipped, and what a person gave."""
    path = tmp_path / "store.db"
    store = Store.open(Config(url=f"sqlite:///{path}"))
    made = [_score(n, Skip("spent", "budget") if n == 9 else Score(n / 10, "")) for n in range(10)]
    store.commit([StoredTrace(x, 1, "digest") for x, _ in made], [x for _, x in made])
    by = Evaluator("HUMAN", "review", "1", source="human", author="ada")
    given = {
        "subject_id": made[0][0].trace_ids[0],
        "metric": "helpful",
        "evaluator": by,
        "scale": None,
    }
    store.put_external(
        [_score(0, Annotation(1.0, None), threshold=None, received_uid="a" * 16, **given)[1]]
    )
    store.close()
    return str(path)


@pytest.fixture
def unequal(tmp_path):
    """A store with 240 turns of shop in 40 sessions, of 1 to 8 turns but for one of 68, and 20 of
    bank, of which few were drawn.
    """
    path = tmp_path / "unequal.db"
    store = Store.open(Config(url=f"sqlite:///{path}"))
    sessions = [s for s in range(40) for _ in range(68 if s == 7 else 1 + s % 8)]
    facts = [("shop", s, 1.0) for s in sessions] + [("bank", 100 + n // 2, 0.02) for n in range(20)]
    made = []
    for n, (service, session, sampling) in enumerate(facts):
        trace, score = _score(n, Score(float(n % 13 > 0), ""))
        name = str(session)
        target = replace(trace.target, resource={"service.name": service})
        trace = replace(trace, target=target, session_id=name, service_name=service)
        given = {"session_id": name, "service_name": service, "sampling": sampling}
        made.append((trace, replace(score, target=target, subject_id=trace.id, **given)))
    store.commit([StoredTrace(x, 1, "digest") for x, _ in made], [x for _, x in made])
    store.close()
    return str(path)


def run(capsys, file, *words):
    code = main.main(["analytics", *words, "--store", file])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def objects(capsys, file, *words):
    code, out, _ = run(capsys, file, *words, "--json")
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def test_a_summary_is_a_table_with_notes(capsys, file):
    code, out, _ = run(capsys, file, "summary", "--by", "version")
    assert code == 0
    first, second, *_ = [line.split() for line in out.splitlines() if line.startswith("judged  ")]
    assert first[:5] == ["judged", "spanscore", "1", "5", "3"]
    assert second[:5] == ["judged", "spanscore", "2", "4", "3"]
    assert "judged, missing: 1 skipped, budget" in out
    assert "helpful, mean: all scores are of one session" in out


def test_the_same_scores_have_one_interval_however_they_are_selected(capsys, unequal):
    [of_group] = [
        x
        for x in objects(capsys, unequal, "summary", "--by", "service")
        if x["groups"] == [{"name": "service", "value": "shop"}]
    ]
    [selected] = objects(capsys, unequal, "summary", "--where", "service = shop")
    assert selected["mean"]["scores"] == "240"
    assert (of_group["mean"], of_group["pass_rate"]) == (selected["mean"], selected["pass_rate"])


def test_a_session_that_makes_an_interval_wide_is_named(capsys, unequal):
    _, out, _ = run(capsys, unequal, "summary", "--by", "service")
    notes = [x for x in out.splitlines() if " has " in x]
    assert notes == ["judged, mean: session 7 has 28.3 % of the scores"]


def test_a_filter_names_scores(capsys, file):
    where = 'service = "shop \\"a\\"" AND tool:search AND source = spanscore'
    [found] = objects(capsys, file, "summary", "--where", where)
    assert (found["metric"], found["scores"]) == ("judged", "4")
    assert objects(capsys, file, "summary", "--where", "service = shop OR service = bank") == []
    where = "(metric = helpful OR metric = other) AND scope = TRACE"
    [found] = objects(capsys, file, "summary", "--where", where)
    assert found["source"] == "human"


def test_a_trend_has_a_row_for_each_time(capsys, file):
    code, out, _ = run(
        capsys,
        file,
        "trend",
        "--where",
        "metric = judged",
        "--time-zone",
        "Europe/Berlin",
        "--unit",
        "month",
    )
    assert code == 0
    assert "from (Europe/Berlin)" in out
    assert "2024-10-01 00:00" in out


def test_a_note_of_a_trend_names_its_times(capsys, file):
    _, out, _ = run(capsys, file, "trend", "--where", "metric = judged", "--unit", "day")
    assert "judged, missing: 1 skipped, budget (2024-10-13 00:00)" in out
    assert ", 2024-10-06 00:00 and 6 more)" in out  # each day but the last has one session alone


def test_a_distribution_has_bins_and_quantiles(capsys, file):
    code, out, _ = run(
        capsys,
        file,
        "distribution",
        "--where",
        "metric = judged",
        "--bins",
        "2",
        "--quantile",
        "0.5",
    )
    assert code == 0
    assert "0 to 0.5" in out
    assert "quantile 0.5" in out


@pytest.mark.slow
def test_two_versions_and_two_periods_are_compared(capsys, file):
    [versions] = objects(
        capsys,
        file,
        "compare",
        "--where",
        "metric = judged",
        "--before",
        "version = 1",
        "--after",
        "version = 2",
    )
    [periods] = objects(capsys, file, "compare", "--where", "metric = judged", "--at", "2024-10-09")
    assert versions["mean_difference"] == periods["mean_difference"]
    assert versions["mean_difference"]["value"] == pytest.approx(0.65 - 0.2)
    code, out, _ = run(
        capsys,
        file,
        "compare",
        "--where",
        "metric = judged",
        "--before",
        "version = 1",
        "--after",
        "version = 2",
    )
    assert code == 0
    assert "5 > 4" in out


def test_the_worst_session_is_first(capsys, file):
    code, out, _ = run(capsys, file, "sessions", "--where", "metric = judged", "-n", "2")
    assert code == 0
    assert [line.split("  ")[0] for line in out.splitlines()[1:]] == ["session 0", "session 1"]


def test_a_history_lists_every_score(capsys, file):
    code, out, _ = run(capsys, file, "history", "helpful", "--trace", f"{0:032x}")
    assert code == 0
    assert "ada" in out


def test_a_pass_rate_without_an_interval_says_why(capsys):
    rate = pb.ScoreFigure(value=1.0, note="of one session alone")
    analytics.print_summaries(
        [pb.ScoreSummary(metric="judged", scores=3, least_sampling=1, pass_rate=rate)]
    )
    assert "judged, pass rate: of one session alone" in capsys.readouterr().out


def test_a_distribution_says_why_a_quantile_has_no_interval(capsys, file):
    words = ("distribution", "--where", "metric = helpful", "--quantile", "0.5")
    [found] = objects(capsys, file, *words)
    _, out, _ = run(capsys, file, *words)
    assert f"quantile 0.5: {found['quantiles'][0]['value']['note']}" in out


def test_a_history_says_why_a_score_has_no_value(capsys, file):
    _, out, _ = run(capsys, file, "history", "judged", "--trace", f"{9:032x}")
    assert "skipped, budget" in out


def test_no_such_scores_are_said(capsys, file):
    assert run(capsys, file, "summary", "--where", "metric = other") == (0, "no such scores\n", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["compare"],
            (
                "give --at TIME to compare what was before with what came after, or --before and"
                " --after"
            ),
        ),
        (["compare", "--at", "soon"], "--at soon: give a duration such as 24h"),
        (["summary", "--until", "soon"], "--until soon: give a duration such as 24h"),
        (["summary", "--by", "colour"], "group_by: there is no group 'colour'"),
        (["trend", "--time-zone", "Nowhere"], "time_zone: 'Nowhere' is no time zone"),
        (["distribution", "--bins", "0"], "--bins 0: give a number of at least 1"),
        (["sessions", "-n", "0"], "--limit 0: give a number from 1 to 1000"),
        (["history", "judged", "--trace", "x"], "trace_id: 'x' is no id"),
        (["history", "other", "--session", "x"], "'other' has no score of 'x'"),
        (["summary", "--token-file", "x"], "--token-file and --ca-file: go with --server"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(capsys, file, words, problem):
    code, out, err = run(capsys, file, *words)
    assert (code, out) == (2, "")
    assert problem in err


def test_a_store_that_is_not_there_is_said(capsys, tmp_path):
    code, _, err = run(capsys, str(tmp_path / "none.db"), "summary")
    assert code == 2
    assert "no store there" in err
