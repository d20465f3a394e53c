"""Two runs compared: what is better, what is worse, what cannot be told, and what is a
regression.
"""

import json
import math

import pytest

from spanscore.cli.comparison import least_units
from spanscore.cli.main import main

JUDGE = {
    "kind": "LLM",
    "name": "judge",
    "version": "1",
    "model": "m",
    "prompt_hash": "0" * 16,
    "embedding": None,
}
CASES = 12
MANY = 40


def score(metric="coherence", value=0.5, *, scale=(0, 1), trace_id="t", label="pass", **fields):
    return {
        "scope": "trace",
        "status": "scored",
        "metric": metric,
        "value": value,
        "scale": list(scale),
        "label": label,
        "threshold": 0.5,
        "metadata": {},
        "trace_id": trace_id,
        "session_key": None,
        "evaluator": JUDGE,
        **fields,
    }


def case(name, *, passed=(True,), value=80.0, latency=1.0, metric=0.8, evaluator=None):
    trials = [
        {
            "session_id": None,
            "trace_ids": ["t"],
            "passed": x,
            "score": value,
            "latency_s": latency,
            "evaluations": [score(value=metric, evaluator=evaluator or JUDGE)],
        }
        for x in passed
    ]
    return {"id": name, "status": "pass" if all(passed) else "fail", "trials": trials}


def run_of(*cases):
    return {
        "schema": "spanscore.run/1",
        "suite": "s",
        "run_id": "r",
        "cases": list(cases),
        "overall": {},
    }


def cases(count=CASES, **fields):
    """`count` cases that vary a little, all with `fields`; a function is called with the case's
    number.
    """
    return [
        case(f"c{x}", **{k: v(x) if callable(v) else v for k, v in fields.items()})
        for x in range(count)
    ]


@pytest.fixture
def compared(tmp_path, capsys):
    """Compares two runs, given as objects, lists of scores or text; gives exit code, standard
    output and error.
    """

    def write(name, content):
        path = tmp_path / name
        if isinstance(content, list):
            content = "\n".join(map(json.dumps, content))
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def run(a, b, *options):
        code = main(["compare", write("a", a), write("b", b), *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def measured(compared):
    """The measures of a comparison by name."""

    def run(a, b, *options):
        return {
            x["measure"]: x for x in json.loads(compared(a, b, "--json", *options)[1])["measures"]
        }

    return run


BEFORE = run_of(*cases(value=lambda x: 70.0 + x % 3))


def test_two_like_runs_cannot_be_told_apart(compared):
    code, text, _ = compared(BEFORE, BEFORE)
    assert code == 0
    assert text.rstrip().endswith("B against A: cannot tell.")


def test_a_clear_gain_is_better(measured):
    after = run_of(*cases(MANY, value=lambda x: 90.0 + x % 4))
    assert measured(run_of(*cases(MANY, value=70.0)), after)["score"]["verdict"] == "better"


def test_a_clear_loss_is_worse_and_a_regression(compared):
    code, text, error = compared(BEFORE, run_of(*cases(value=lambda x: 50.0 + x % 4)))
    assert code == 1
    assert "REGRESSION" in text
    assert error.startswith("spanscore: regression: score lost ")


def test_too_few_pairs_cannot_tell_whatever_they_are(measured):
    few, fewer = run_of(*cases(3, value=90.0)), run_of(*cases(3, value=10.0))
    found = measured(few, fewer)["score"]
    assert found["verdict"] == "cannot tell"
    assert "too few" in found["note"]


def test_more_comparisons_need_more_pairs():
    assert [least_units(x) for x in (0.9, 0.95, 0.99)] == [5, 6, 8]


def test_the_intervals_allow_for_the_number_of_comparisons(compared):
    found = json.loads(compared(BEFORE, BEFORE, "--json")[1])
    assert found["comparisons"] == 4
    assert found["each_level"] == pytest.approx(1 - 0.05 / 4)
    assert found["measures"][0]["difference"]["level"] == pytest.approx(1 - 0.05 / 4)


@pytest.mark.parametrize(
    ("after", "measure"),
    [
        ({"passed": lambda x: (x > 0,)}, "pass rate"),
        ({"value": 64.0}, "score"),
        ({"metric": 0.74}, "coherence"),
        ({"latency": 1.21}, "latency"),
    ],
)
def test_the_gate_has_the_reference_limits(compared, after, measure):
    code, _, error = compared(
        run_of(*cases(value=70.0)), run_of(*cases(**{"value": 70.0, **after}))
    )
    assert code == 1
    assert f"regression: {measure} " in error


@pytest.mark.parametrize(
    "after",
    [{"value": 65.0}, {"metric": 0.75}, {"latency": 1.2}],
    ids=["5 points", "0.05 of 1", "a fifth"],
)
def test_what_is_just_within_a_limit_is_none(compared, after):
    assert compared(run_of(*cases(value=70.0)), run_of(*cases(**{"value": 70.0, **after})))[0] == 0


@pytest.mark.parametrize(
    ("after", "option"),
    [
        ({"passed": lambda x: (x > 0,)}, "--max-pass-rate-drop=0.1"),
        ({"value": 30.0}, "--max-score-drop=60"),
        ({"latency": 3.0}, "--max-latency-rise=2"),
    ],
)
def test_every_limit_can_be_moved(compared, after, option):
    assert (
        compared(run_of(*cases(value=70.0)), run_of(*cases(**{"value": 70.0, **after})), option)[0]
        == 0
    )


def test_a_drop_that_may_be_chance_is_none_where_only_the_certain_counts(compared):
    after = run_of(*cases(passed=lambda x: (x > 0,)))
    assert compared(run_of(*cases()), after, "--certain")[0] == 0


def test_a_certain_drop_is_a_regression_all_the_same(compared):
    after = run_of(*cases(passed=lambda x: (x > 9,)))
    assert compared(run_of(*cases()), after, "--certain")[0] == 1


def test_a_metric_of_another_scale_is_held_in_points_of_100(compared):
    def after(value):
        return [
            score("rubric.tool_routing", value, scale=(0, 5), trace_id=f"t{x}") for x in range(8)
        ]

    assert compared(after(4.0), after(3.8))[0] == 0
    assert compared(after(4.0), after(3.7))[0] == 1


def test_trials_of_a_case_are_one_pair(measured):
    many = run_of(*cases(passed=(True, False, True, True)))
    found = measured(many, many)["pass rate"]
    assert (found["n"], found["a"]["value"]) == (CASES, 0.75)


def test_a_case_says_what_became_of_it(compared):
    after = run_of(case("c0", passed=(False,), value=10.0), *cases()[1:])
    found = json.loads(compared(run_of(*cases()), after, "--json")[1])["cases"][0]
    assert (found["id"], found["status"], found["means"]["score"]) == (
        "c0",
        ["pass", "fail"],
        [80.0, 10.0],
    )


def test_a_case_whose_score_stayed_shows_what_changed(compared):
    after = run_of(case("c0", passed=(False,)), *cases()[1:])
    found = json.loads(compared(run_of(*cases()), after, "--json")[1])["cases"][0]
    assert found["measure"] == "pass rate"


def test_both_means_have_an_interval(measured):
    found = measured(BEFORE, BEFORE)["score"]
    assert all(x["low"] < x["value"] < x["high"] for x in (found["a"], found["b"]))


def test_a_narrow_terminal_shows_intervals_and_remarks_whole(compared, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = compared(BEFORE, run_of(*cases(value=lambda x: 50.0 + x % 4)))[1]
    assert "REGRESSION" in text
    assert "\u2026" not in text


def test_a_narrow_terminal_breaks_no_remark(compared, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    one, other = (
        [
            score(
                "rubric.parameter_extraction",
                x,
                scale=(0, 5),
                evaluator={**JUDGE, "model": model},
                latency_s=x,
            )
        ]
        for x, model in ((5.0, "m"), (1.0, "other"))
    )
    text = compared(one, other)[1]
    assert all(x in text for x in ("REGRESSION", "not comparable\n", "too few sessions\n"))


def test_a_case_of_few_trials_cannot_tell(compared):
    after = run_of(case("c0", passed=(False,) * 3, value=10.0), *cases()[1:])
    found = json.loads(compared(run_of(*cases(passed=(True,) * 3)), after, "--json")[1])["cases"][0]
    assert found["verdict"] == "cannot tell"


def test_cases_of_one_run_only_are_listed(compared):
    text = compared(run_of(*cases(), case("old")), run_of(*cases(), case("new")))[1]
    assert "only in A: old\n" in text
    assert "only in B: new\n" in text


@pytest.mark.parametrize("fact", ["model", "prompt_hash", "embedding", "version"])
def test_another_evaluator_is_said_loudly_and_tells_nothing(compared, fact):
    other = {**JUDGE, fact: "another"}
    after = run_of(*cases(metric=0.1, evaluator=other))
    code, text, error = compared(run_of(*cases()), after)
    assert (
        f"NOT COMPARABLE, scored differently: coherence: {fact} {JUDGE[fact]} in A, another in B"
        in error
    )
    assert "NOT COMPARABLE" in text
    assert code == 1


def test_what_was_scored_differently_has_no_verdict(measured):
    after = run_of(*cases(metric=lambda x: 0.1 + x / 100, evaluator={**JUDGE, "model": "another"}))
    assert measured(run_of(*cases()), after)["coherence"]["verdict"] == "cannot tell"


def test_scores_are_paired_by_their_trace(measured):
    found = measured(
        [score(trace_id="1"), score(trace_id="2")], [score(trace_id="2"), score(trace_id="3")]
    )
    assert found["coherence"]["n"] == 1


def test_a_text_with_line_separators_in_it_is_one_line(compared):
    scores = json.dumps(score(reason="a\u2028b\x85c"), ensure_ascii=False)
    assert compared(scores, scores)[0] == 0


def test_scores_of_sessions_are_paired_by_the_session(measured):
    one = [score(scope="session", session_key="s", trace_id="1")]
    other = [score(scope="session", session_key="s", trace_id="2")]
    assert measured(one, other)["coherence"]["n"] == 1


def test_scores_of_other_traces_are_paired_by_what_the_user_said(measured):
    one = [score(trace_id="1", metadata={"user_input": "Book  a flight"})]
    other = [score(trace_id="2", metadata={"user_input": "Book a flight"})]
    assert measured(one, other)["coherence"]["n"] == 1


def test_what_the_user_said_twice_pairs_nothing_and_is_listed(compared):
    metadata = {"metadata": {"user_input": "Hi"}}
    one = [score(trace_id="1", **metadata), score(trace_id="2", **metadata), score(trace_id="9")]
    found = json.loads(
        compared(one, [score(trace_id="3", **metadata), score(trace_id="9")], "--json")[1]
    )
    assert found["ambiguous"] == ["trace 1", "trace 2"]


def test_scores_of_traces_know_how_long_the_agent_worked(compared):
    one, other = (
        [score(trace_id="1", latency_s=x), score("confidence", trace_id="1", latency_s=x)]
        for x in (2.0, 3.0)
    )
    code, text, error = compared(one, other, "--json")
    found = {x["measure"]: x for x in json.loads(text)["measures"]}["latency"]
    assert (code, found["a"]["value"], found["b"]["value"], found["n"]) == (1, 2.0, 3.0, 1)
    assert "latency rose by 50.0% (at most 20.0%)" in error


def test_scores_of_sessions_have_no_latency(measured):
    one = [score(scope="session", session_key="s", latency_s=None)]
    assert "latency" not in measured(one, one)


def test_skipped_and_failed_scores_count_for_nothing(measured):
    one = [score(trace_id="1"), score("confidence", None, trace_id="1", status="skipped")]
    assert list(measured(one, one)) == ["pass rate", "coherence"]


def test_a_metric_of_one_run_alone_makes_nothing_pass_or_fail(measured):
    one = [score(trace_id="1"), score("confidence", 0.1, trace_id="1", label="fail")]
    found = measured(one, [score(trace_id="1")])["pass rate"]
    assert (found["a"]["value"], found["b"]["value"]) == (1.0, 1.0)


def test_a_label_of_the_metrics_own_passes_by_the_threshold(measured):
    one = [score("rubric.tool_routing", 4, scale=(0, 5), label="good", threshold=3)]
    assert measured(one, one)["pass rate"]["a"]["value"] == 1.0


@pytest.mark.parametrize(
    ("a", "b", "problem"),
    [
        ("", BEFORE, "a: the file is empty"),
        ("no json", BEFORE, "a:1: neither a run of a suite nor a score"),
        (BEFORE, [score()], "give two of a kind"),
        ({"schema": "spanscore.run/9"}, BEFORE, "a: its schema is 'spanscore.run/9'"),
        ({"schema": "spanscore.run/1"}, BEFORE, "'cases' is missing"),
        (run_of(), BEFORE, "no case that anything was recorded for"),
        (run_of(case("x")), run_of(case("y")), "no case is in both"),
        (run_of(case("x"), case("x")), BEFORE, "case 'x' is there twice"),
        ([score(trace_id="1")], [score(trace_id="2")], "no case is in both"),
        ([score(value="much")], [score()], "'much' is no number"),
        ([score(value=1.5)], [score()], "1.5 is not within 0 and 1"),
        ([score(value=True)], [score()], "True is no number"),
        ([score(value="0.8")], [score()], "'0.8' is no number"),
        ([score(value=math.nan)], [score()], "nan is no number"),
        ([score(scale=(0, math.inf))], [score()], "inf is no number"),
        ([score(threshold="0.5", label=None)], [score()], "'0.5' is no number"),
        (
            run_of({**case("x"), "trials": [{**case("x")["trials"][0], "passed": "no"}]}),
            BEFORE,
            "'no' is neither true",
        ),
        (run_of(case("x", value=101)), BEFORE, "101 is not within 0 and 100"),
        ([{"metric": "x", "scope": "trace"}], [score()], "has no 'trace_id'"),
    ],
)
def test_bad_input_is_told_in_one_line(compared, a, b, problem):
    code, _, error = compared(a, b)
    assert code == 2
    assert problem in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("option", ["--max-score-drop=-1", "--max-latency-rise=nan"])
def test_a_limit_that_cannot_be_is_bad_input(compared, option):
    code, _, error = compared(BEFORE, BEFORE, option)
    assert code == 2
    assert option.split("=")[0] in error


def test_a_file_that_is_not_there_is_bad_input(capsys):
    assert main(["compare", "there-is-none", "there-is-none"]) == 2
    assert "there-is-none: No such file or directory" in capsys.readouterr().err


def test_what_a_file_holds_cannot_steer_a_terminal(compared):
    evil = run_of(case("\x1b[2J"), *cases())
    assert "\x1b" not in compared(evil, run_of(case("\x1b[2J", value=1.0), *cases()))[1]


def test_a_latency_that_rose_from_nothing_is_said_in_words(compared):
    _, _, error = compared(run_of(*cases(latency=0.0)), run_of(*cases(latency=0.1)))
    assert "latency rose from 0 (at most 20.0%)" in error


TURNS = 5


def turns_of(session, value, *, count=TURNS, **fields):
    """The scores of a session's turns, all alike."""
    label = "pass" if value >= 0.5 else "fail"
    return [
        score(value=value, label=label, trace_id=f"{session}-{x}", session_key=session, **fields)
        for x in range(count)
    ]


def sessions(*values, **fields):
    return [
        x for number, value in enumerate(values) for x in turns_of(f"s{number}", value, **fields)
    ]


ALIKE = sessions(*[0.8] * 10)


def test_the_turns_of_a_session_are_one_unit_of_each_measure(measured):
    found = measured(ALIKE, ALIKE)
    assert {(x["n"], x["pairs"]) for x in found.values()} == {(10, 50)}


@pytest.mark.parametrize("measure", ["pass rate", "coherence"])
def test_sessions_whose_turns_all_fell_are_few_however_many_turns_they_have(measured, measure):
    after = sessions(*[0.8] * 7, *[0.2] * 3)
    assert measured(ALIKE, after)[measure]["verdict"] == "cannot tell"


def test_as_many_traces_of_no_session_can_be_told(measured):
    before, after = (
        [{**x, "session_key": None} for x in run]
        for run in (ALIKE, sessions(*[0.8] * 7, *[0.2] * 3))
    )
    assert measured(before, after)["pass rate"]["verdict"] == "worse"


def test_latencies_of_one_session_are_one_unit(measured):
    before, after = (sessions(*[0.8] * 10, latency_s=x) for x in (1.0, 2.0))
    assert measured(before, after)["latency"]["difference"]["n"] == 10


def test_both_means_count_sessions(measured):
    found = measured(ALIKE, ALIKE)["coherence"]
    assert (found["a"]["n"], found["b"]["n"]) == (10, 10)


def test_a_mean_over_turns_stays_one_over_turns(measured):
    uneven = [*turns_of("long", 1.0, count=9), *turns_of("short", 0.0, count=1)]
    assert measured(uneven, uneven)["coherence"]["a"]["value"] == pytest.approx(0.9)


def test_a_session_that_the_other_run_split_in_two_is_still_one(measured):
    said = [{"metadata": {"user_input": f"Question {x}"}} for x in range(4)]
    before = [score(trace_id=f"a{x}", session_key="whole", **said[x]) for x in range(4)]
    after = [score(trace_id=f"b{x}", session_key=f"part{x % 2}", **said[x]) for x in range(4)]
    assert measured(before, after)["coherence"]["n"] == 1


def test_sessions_of_two_runs_that_happen_to_be_called_alike_are_not_joined(measured):
    said = [{"metadata": {"user_input": f"Question {x}"}} for x in range(2)]
    before = [score(trace_id=f"a{x}", session_key=f"s{x}", **said[x]) for x in range(2)]
    after = [score(trace_id=f"b{x}", session_key=f"s{1 - x}", **said[x]) for x in range(2)]
    assert measured(before, after)["coherence"]["n"] == 2


def test_a_sessions_own_score_is_of_the_same_unit_as_its_turns(measured):
    run = [
        *ALIKE,
        *(score("agent_reliability", scope="session", session_key=f"s{x}") for x in range(10)),
    ]
    assert measured(run, run)["pass rate"]["n"] == 10


def test_cases_that_were_recorded_in_one_session_are_one_unit(measured):
    together = cases()
    for x in together:
        x["trials"][0]["session_id"] = "one"
    assert measured(run_of(*together), run_of(*together))["score"]["n"] == 1


def test_the_output_says_how_many_sessions_and_turns_there_are(compared, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")  # a narrow table breaks its rows
    text = " ".join(compared(ALIKE, ALIKE)[1].split())
    assert "Both runs have 10 sessions with 50 turns." in text
    assert "10 of 50 cannot tell" in text


def test_json_says_how_many_sessions_and_turns_there_are(compared):
    found = json.loads(compared(ALIKE, ALIKE, "--json")[1])
    assert (found["unit"], found["n"], found["turns"]) == ("session", 10, 50)


def test_cases_with_sessions_of_their_own_are_counted_as_cases(compared):
    assert f"Both runs have {CASES} cases.\n" in compared(BEFORE, BEFORE)[1]


def test_too_few_sessions_are_said_to_be_too_few(measured):
    few = sessions(*[0.8] * 3, count=20)
    assert measured(few, few)["coherence"]["note"] == "too few sessions"


@pytest.mark.parametrize("columns", [80, 100])
def test_a_narrow_terminal_shows_the_counts_of_sessions_and_turns_whole(
    compared, monkeypatch, columns
):
    monkeypatch.setenv("COLUMNS", str(columns))
    few = sessions(0.8, 0.7, 0.9, latency_s=12.25)
    lines = compared(few, few)[1].splitlines()
    heading, *rows = lines[next(x for x, line in enumerate(lines) if line.startswith("measure")) :]
    assert "too few sessions" in rows[1]
    assert "n of pairs" in heading
    assert max(map(len, lines)) <= columns


def test_scores_of_spans_that_sum_traces_up_lack_the_scale_and_that_is_said(tmp_path, capsys):
    path = tmp_path / "scores.jsonl"
    path.write_text(json.dumps({**score(), "scale": None}))
    assert main(["compare", str(path), str(path)]) != 0
    assert "coherence has no scale" in capsys.readouterr().err
