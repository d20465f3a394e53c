"""Expectations that recordings state themselves: they complete a case, or stand in place of a
suite.
"""

import pytest

from spanscore import suites
from spanscore.errors import InputError
from spanscore.model.trace import Expected, ExpectedTool, ToolCall

SUNNY = Expected(answer="sunny")


def statuses(run):
    return {x.case.id: x.status for x in run.cases}


@pytest.mark.parametrize(("answer", "status"), [("Rome is sunny", "pass"), ("no idea", "fail")])
def test_a_case_that_expects_nothing_is_held_to_what_its_recording_states(
    suite, said, run_of, answer, status
):
    found = run_of(suite({"id": "a", "input": "hi"}), [said(1, answer=answer, expected=SUNNY)])
    assert statuses(found) == {"a": status}


def test_what_the_case_expects_wins(suite, said, run_of):
    trace = said(1, case="a", expected=Expected(answer="It rains in Paris."))
    assert statuses(run_of(suite("a"), [trace])) == {"a": "pass"}


def test_expected_tools_are_held_against_the_calls(suite, said, run_of):
    stated = Expected(tools=(ExpectedTool("look_up", {"city": "Rome"}),))
    right = said(
        1, "one", expected=stated, tool_calls=(ToolCall("c", "look_up", {"city": "Rome"}, "sunny"),)
    )
    wrong = said(
        2,
        "two",
        expected=stated,
        tool_calls=(ToolCall("c", "look_up", {"city": "Paris"}, "sunny"),),
    )
    found = run_of(
        suite({"id": "right", "input": "one"}, {"id": "wrong", "input": "two"}), [right, wrong]
    )
    assert statuses(found) == {"right": "pass", "wrong": "fail"}


def test_each_turn_of_a_session_is_held_to_what_it_states(said, run_of):
    turns = [
        said(1, "one", session_id="s", expected=SUNNY),
        said(2, "two", "no idea", session_id="s", expected=SUNNY),
    ]
    [case] = run_of(suites.suite_of(turns), turns).cases
    assert (case.status, case.trials[0].conversation.assessed[0].is_correct) == ("fail", True)


def test_the_same_question_again_is_another_trial_of_one_case(said, run_of):
    turns = [said(x, "Weather?", session_id=f"s{x}", expected=SUNNY) for x in range(3)]
    turns.append(said(9, "weather? ", "no idea", session_id="s9", expected=SUNNY))
    [case] = run_of(suites.suite_of(turns), turns).cases
    assert (case.case.id, len(case.trials), case.passed) == ("Weather?", 4, 3)


def test_turns_of_no_session_are_known_by_the_question(said, run_of):
    turns = [said(1, "one", expected=SUNNY), said(2, "two", "no idea", expected=SUNNY)]
    assert statuses(run_of(suites.suite_of(turns), turns)) == {"one": "pass", "two": "fail"}


def test_a_turn_of_a_test_is_of_that_case_and_suite(said):
    trace = said(1, case="refund", suite="shop", expected=SUNNY)
    found = suites.suite_of([trace])
    assert (found.name, [x.id for x in found.cases]) == ("shop", ["refund"])


def test_two_cases_that_begin_alike_have_two_names(said):
    turns = [
        said(1, "hi", session_id="s", expected=SUNNY),
        said(2, "hi", session_id="t", expected=SUNNY),
        said(3, "bye", session_id="t"),
    ]
    assert [x.id for x in suites.suite_of(turns).cases] == ["hi", "hi (2)"]


def test_turns_that_state_nothing_are_no_case(said):
    turns = [said(1, "one", expected=SUNNY), said(2, "two")]
    assert [x.id for x in suites.suite_of(turns).cases] == ["one"]


def test_without_any_expectation_the_message_says_how_to_state_one(said):
    with pytest.raises(InputError, match=r"spanscore\.expect"):
        suites.suite_of([said(1)])


def test_traces_of_two_suites_are_refused(said):
    turns = [said(x, expected=SUNNY, case="a", suite=f"suite {x}") for x in (1, 2)]
    with pytest.raises(InputError, match="'suite 1' and 'suite 2'"):
        suites.suite_of(turns)


def test_an_expectation_that_was_cut_lets_no_trial_pass(said, run_of):
    turns = [said(1, "one", expected=None, damaged=("expected",))]
    [case] = run_of(suites.suite_of(turns), turns).cases
    assert (case.status, "cut or redacted" in case.reasons[0]) == ("error", True)
