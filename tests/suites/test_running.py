"""Trials, cases and the whole: what passes, what fails, what cannot be told, and how sure that
is.
"""

import pytest

from spanscore import suites
from spanscore.errors import InputError
from spanscore.model.trace import ToolCall

RAIN = "It rains in Rome."


def weather(case="a", **keys):
    return {"id": case, "expected_answer": "sunny", **keys}


def trials_of(said, *answers, case="a"):
    return [said(n, answer=x, session_id=f"s{n}", case=case) for n, x in enumerate(answers, 1)]


def test_a_case_whose_answer_is_the_expected_one_passes(suite, said, run_of):
    assert run_of(suite("a"), trials_of(said, "Rome is sunny")).cases[0].status == "pass"


def test_a_case_with_another_answer_fails_and_says_why(suite, said, run_of):
    [result] = run_of(suite("a"), trials_of(said, RAIN)).cases
    assert result.status == "fail"
    assert result.reasons[0].startswith("trial 1: interaction 0: answer 0.00, below 0.7: ")


def test_all_trials_must_pass_unless_the_suite_asks_for_less(suite, said, run_of):
    traces = trials_of(said, "sunny", "sunny", RAIN)
    statuses = [
        run_of(suite("a", required_pass_rate=x), traces).cases[0].status for x in (1.0, 0.6)
    ]
    assert statuses == ["fail", "pass"]


def test_n_and_c_count_trials_and_not_turns(suite, said, run_of):
    turns = [
        {"input": "hi", "expected_answer": "sunny"},
        {"input": "and now?", "expected_answer": "sunny"},
    ]
    traces = [
        said(n, ("hi", "and now?")[n % 2], session_id=f"s{n // 2}", case="a") for n in range(6)
    ]
    [result] = run_of(suite({"id": "a", "turns": turns}), traces).cases
    assert (result.odds["n"], result.odds["c"]) == (3, 3)


def test_interactions_are_counted_only_where_that_is_asked_for_and_it_is_said(suite, said, run_of):
    turns = [
        {"input": "hi", "expected_answer": "sunny"},
        {"input": "and now?", "expected_answer": "sunny"},
    ]
    traces = [
        said(1, "hi", session_id="s", case="a"),
        said(2, "and now?", RAIN, session_id="s", case="a"),
    ]
    [result] = run_of(
        suite({"id": "a", "turns": turns}, agentic={"unit": "interaction"}), traces
    ).cases
    metadata = result.trials[0].evaluations[0].to_json()["metadata"]
    assert (metadata["unit"], metadata["n"], metadata["c"]) == ("interaction", 2, 1)
    assert "not independent trials" in metadata["note"]


def test_what_was_not_recorded_makes_an_error_and_no_failure(suite, said, run_of):
    [result] = run_of(suite("a"), trials_of(said, None)).cases
    assert (result.status, result.n, result.errors) == ("error", 0, 1)


def test_a_trial_without_the_calls_that_are_all_it_should_make_scores_nothing(suite, said, run_of):
    case = {"id": "a", "expected_tools": [{"tool_name": "get_weather"}]}
    run = run_of(suite(case, tools=["get_weather"]), [said(1, case="a")])
    assert (run.cases[0].status, run.cases[0].trials[0].score) == ("fail", 0.0)


def test_an_error_is_left_out_of_n_and_counted(suite, said, run_of):
    [result] = run_of(suite("a"), trials_of(said, "sunny", None, "sunny")).cases
    assert (result.status, result.odds["n"], result.odds["c"], result.errors) == ("error", 2, 2, 1)


def test_a_case_of_which_nothing_can_be_told_is_left_out_of_the_share_that_passes(
    suite, said, run_of
):
    traces = [said(1, case="a"), said(2, case="b", answer=None)]
    run = run_of(suite("a", "b"), traces)
    assert (run.cases_that_pass.value, run.cases_that_pass.n, run.case_pass_rate) == (1.0, 1, 0.5)


def test_an_error_does_not_hide_that_the_case_fails_whatever_it_was(suite, said, run_of):
    assert run_of(suite("a"), trials_of(said, RAIN, None)).cases[0].status == "fail"


def test_a_turn_that_is_missing_makes_an_error_that_names_it(suite, said, run_of):
    turns = [
        {"input": "hi", "expected_answer": "sunny"},
        {"input": "and now?", "expected_answer": "sunny"},
    ]
    [result] = run_of(suite({"id": "a", "turns": turns}), trials_of(said, "sunny")).cases
    assert result.reasons == [
        "trial 1: turn 1 ('and now?') is not in the recording, which has 1 of 2 turns"
    ]


def test_turns_in_other_words_are_taken_by_their_number(suite, said, run_of):
    turns = [{"input": "Hello"}, {"input": "The weather?", "expected_answer": "sunny"}]
    traces = [
        said(1, "Good day", session_id="s", case="a"),
        said(2, "How is it?", session_id="s", case="a"),
    ]
    assert run_of(suite({"id": "a", "turns": turns}), traces).cases[0].status == "pass"


def test_a_case_with_an_input_is_the_turn_in_which_that_is_said(suite, said, run_of):
    traces = [
        said(1, "hi", "It is sunny", session_id="s", case="a"),
        said(2, "bye", "Bye.", session_id="s", case="a"),
    ]
    assert run_of(suite(weather(input="hi")), traces).cases[0].status == "pass"


def test_a_case_without_turns_is_the_whole_conversation(suite, said, run_of):
    calls = [(ToolCall(str(n), name, {}, "sunny"),) for n, name in enumerate(("look_up", "book"))]
    tools = [{"tool_name": "look_up"}, {"tool_name": "book"}]
    traces = [
        said(1, answer="A moment.", session_id="s", case="a", tool_calls=calls[0]),
        said(2, answer="It is sunny, and booked.", session_id="s", case="a", tool_calls=calls[1]),
    ]
    assert run_of(suite(weather(expected_tools=tools)), traces).cases[0].status == "pass"


def test_a_threshold_on_a_metric_decides_on_every_turn(suite, said, run_of):
    traces = trials_of(said, "Rome is sunny")
    assert run_of(suite(weather(), thresholds={"coherence": 0.0}), traces).cases[0].status == "pass"
    [result] = run_of(suite(weather(), thresholds={"coherence": 1.0}), traces).cases
    assert result.reasons[0].startswith("trial 1: coherence ")


def test_a_metric_that_is_only_named_decides_nothing(suite, said, run_of):
    [result] = run_of(suite(weather(), metrics=["coherence"]), trials_of(said, "sunny")).cases
    assert {x.metric for x in result.trials[0].evaluations} == {"agentic", "coherence"}


def test_a_session_metric_is_measured_on_the_trial(suite, said, run_of):
    [result] = run_of(
        suite(weather(), metrics=["agent_reliability"]), trials_of(said, "sunny")
    ).cases
    assert [x.metric for x in result.trials[0].evaluations] == ["agentic", "agent_reliability"]


def test_expected_outcomes_need_a_model_and_are_an_error_without(suite, said, run_of):
    [result] = run_of(
        suite({"id": "a", "expected_outcomes": ["The user is happy."]}), trials_of(said, "x")
    ).cases
    assert result.status == "error"


def test_a_verdict_in_the_recording_counts(suite, said, run_of):
    traces = [said(1, case="a", status="pass"), said(2, case="a", status="fail")]
    [result] = run_of(suite(weather()), traces).cases
    assert [x.status for x in result.trials] == ["pass", "fail"]


def test_two_cases_of_one_session_have_a_score_each_on_their_own_turn(suite, said, run_of):
    cases = suite(
        {"id": "a", "input": "hi", "expected_answer": "x"},
        {"id": "b", "input": "bye", "expected_answer": "x"},
    )
    run = run_of(cases, [said(1, "hi", session_id="s"), said(2, "bye", session_id="s")])
    assert [(x.scope, x.session_id) for x in run.evaluations] == [("trace", "s")] * 2
    assert len({x.subject_id for x in run.evaluations}) == 2


def test_a_conversation_that_is_its_session_is_scored_as_that(suite, said, run_of):
    [found] = run_of(
        suite({"id": "a", "session_id": "s", "expected_answer": "x"}), [said(1, session_id="s")]
    ).evaluations
    assert (found.scope, found.subject_id) == ("session", "s")


def test_scores_say_of_which_test_they_are_and_how_it_ended(suite, said, run_of):
    run = run_of(suite("a"), [said(1, case="a", run="nightly")])
    [evaluation] = run.evaluations
    origin = evaluation.trial
    assert (origin.suite, origin.run, origin.case, origin.status) == (
        "weather",
        "nightly",
        "a",
        "pass",
    )


def test_what_has_no_run_id_gets_that_of_the_run(suite, said, run_of):
    run = run_of(suite("a"), [said(1, case="a")])
    assert run.evaluations[0].trial.run == run.run_id


def test_a_score_in_another_run_is_another_evaluation(suite, said, run_of):
    uids = {run_of(suite("a"), [said(1, case="a")]).evaluations[0].uid for _ in range(2)}
    assert len(uids) == 2


def test_a_score_in_the_run_that_was_recorded_stays_the_same_evaluation(suite, said, run_of):
    uids = {
        run_of(suite("a"), [said(1, case="a", run="nightly")]).evaluations[0].uid for _ in range(2)
    }
    assert len(uids) == 1


def test_k_is_as_many_as_trials_are_wanted(suite, said, run_of):
    [result] = run_of(suite("a", trials=2), trials_of(said, "sunny", RAIN)).cases
    assert result.odds["k"] == 2


def test_over_cases_the_unbiased_form_is_taken_where_there_are_k_trials(suite, said, run_of):
    traces = [*trials_of(said, "sunny", RAIN), *trials_of(said, "sunny", "sunny", case="b")]
    run = run_of(suite("a", "b", k=2), traces)
    assert [run.over_cases(x)[0].value for x in ("pass_at_k", "pass_pow_k")] == [1.0, 0.5]
    assert run.over_cases("pass_at_k")[1] == "unbiased"


def test_cases_that_were_recorded_in_one_session_are_one_unit(suite, said, run_of):
    run = run_of(
        suite("a", "b"), [said(x, case=case, session_id="s") for x, case in ((1, "a"), (2, "b"))]
    )
    found = [run.cases_that_pass, run.pass_rate, run.over_cases("pass_at_k")[0], run.mean_score]
    assert [x.n for x in found] == [1, 1, 1, 1]


def test_cases_with_sessions_of_their_own_are_a_unit_each(suite, said, run_of):
    run = run_of(
        suite("a", "b"), [said(x, case=case, session_id=case) for x, case in ((1, "a"), (2, "b"))]
    )
    found = [run.cases_that_pass, run.pass_rate, run.over_cases("pass_at_k")[0], run.mean_score]
    assert [x.n for x in found] == [2, 2, 2, 2]


@pytest.mark.parametrize("statistics", ["frequentist", "bayesian"])
def test_over_cases_of_fewer_trials_than_k_the_suites_statistics_hold(
    suite, said, run_of, statistics
):
    run = run_of(
        suite("a", k=3, agentic={"statistics": statistics}), trials_of(said, "sunny", RAIN)
    )
    assert run.over_cases("pass_at_k")[1] == statistics


@pytest.mark.parametrize(("statistics", "limits"), [("frequentist", None), ("bayesian", float)])
def test_intervals_are_there_in_the_bayesian_mode_alone(suite, said, run_of, statistics, limits):
    [result] = run_of(
        suite("a", agentic={"statistics": statistics, "k": 2}), trials_of(said, "sunny", RAIN)
    ).cases
    found = {type(result.odds[x]) for x in ("pass_at_k_ci_low", "pass_pow_k_ci_high")}
    assert found == {type(None) if limits is None else limits}


def test_every_aggregate_in_the_run_file_has_n_and_an_interval(suite, said, run_of):
    overall = suites.to_json(run_of(suite("a"), trials_of(said, "sunny", RAIN)))["overall"]
    aggregates = [
        overall[x] for x in ("case_pass_rate", "pass_rate", "pass_at_k", "pass_pow_k", "mean_score")
    ]
    assert all(x["n"] >= 1 and x["low"] <= x["value"] <= x["high"] for x in aggregates)


def test_where_the_recording_says_how_it_came_out_the_rubric_is_not_asked(suite, said, run_of):
    [result] = run_of(suite({"id": "a"}), [said(1, case="a", status="pass")]).cases
    assert (result.status, result.trials[0].evaluations) == ("pass", ())


def test_a_trial_without_a_score_is_named_in_the_run_file_all_the_same(suite, said, run_of):
    content = suites.to_json(
        run_of(suite({"id": "a"}), [said(1, case="a", run="r7", status="fail")])
    )
    assert content["cases"][0]["trials"][0]["test"] == {
        "test.suite.name": "weather",
        "test.suite.run.id": "r7",
        "test.case.id": "a",
        "test.case.result.status": "fail",
    }


def test_what_the_rubric_cannot_sum_up_is_no_score(suite, said, run_of):
    [result] = run_of(
        suite({"id": "a", "expected_outcomes": ["All is well."]}), [said(1, case="a")]
    ).cases
    assert result.trials[0].score is None


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"trials": 3}, "case 'a': the suite wants 3 trials and the recordings hold 2"),
        (
            {"k": 3, "agentic": {"statistics": "unbiased"}},
            r"case 'a': k is 3 and n \(recorded trials\) is 2; the unbiased form is for k up to n",
        ),
        (
            {"k": 2, "agentic": {"statistics": "unbiased", "unit": "interaction"}},
            (
                r"case 'a': k is 2 and n \(interactions of its conversation\) is 1; the unbiased"
                r" form is for k up to n"
            ),
        ),
    ],
)
def test_too_few_trials_are_refused_before_anything_is_scored(suite, said, run_of, keys, told):
    with pytest.raises(InputError, match=told):
        run_of(suite("a", **keys), trials_of(said, "sunny", "sunny"))


def test_a_session_of_a_list_that_nothing_is_recorded_in_is_refused(suite, said, run_of):
    cases = suite({"id": "a", "session_id": ["s", "t"], "expected_answer": "sunny"})
    with pytest.raises(
        InputError,
        match="case 'a': nothing is recorded in the session 't'; leave it out of its list",
    ):
        run_of(cases, [said(1, session_id="s")])


def test_what_several_trials_failed_by_is_told_once(suite, said, run_of):
    [result] = run_of(suite("a"), trials_of(said, RAIN, RAIN, "sunny", RAIN)).cases
    [told] = result.reasons
    assert told.startswith("trials 1-2, 4: interaction 0: answer 0.00, below 0.7: ")


def test_a_tool_that_nobody_offers_or_calls_is_refused_with_the_nearest(suite, said, run_of):
    cases = suite({"id": "a", "expected_tools": [{"tool_name": "get_wether"}]})
    with pytest.raises(
        InputError, match="case 'a': no recording offers or calls a tool 'get_wether'; did you mean"
    ):
        run_of(cases, [said(1, case="a")])


def test_a_tool_that_the_suite_declares_may_be_expected(suite, said, run_of):
    cases = suite(
        {"id": "a", "expected_tools": [{"tool_name": "get_wether"}]}, tools=["get_wether"]
    )
    assert run_of(cases, [said(1, case="a")]).cases[0].status == "fail"


def test_a_case_that_nothing_matches_is_refused(suite, said, run_of):
    with pytest.raises(InputError, match="case 'b': nothing recorded matches it"):
        run_of(suite("a", "b"), [said(1, case="a")])


def test_a_case_that_is_recorded_for_another_suite_is_told_so(suite, said, run_of):
    with pytest.raises(
        InputError, match=r"it is recorded with test\.suite\.name 'traffic', which is not"
    ):
        run_of(suite("a"), [said(1, case="a", suite="traffic")])


def test_a_case_that_nothing_matches_can_be_left_out(suite, said, run_of):
    run = run_of(suite("a", "b"), [said(1, case="a")], skip_unmatched=True)
    assert [x.status for x in run.cases] == ["pass", "unmatched"]
