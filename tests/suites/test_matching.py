"""Recorded traces find their cases, and the turns of one conversation each other."""

import pytest

from spanscore.errors import InputError
from spanscore.suites.matches import match

TALK = {
    "id": "talk",
    "turns": [{"input": "Hello"}, {"input": "How are you?", "expected_answer": "fine"}],
}


def trials(matched, case):
    return [
        [x.started_ns for x in recording.traces] for recording in matched.recordings.get(case, ())
    ]


def test_a_case_id_comes_before_a_session_and_an_input(suite, said):
    cases = suite({"id": "a", "session_id": "s"}, {"id": "b", "turns": [{"input": "hi"}]}, "c")
    matched = match(cases, [said(1, "hi", session_id="s", case="c")])
    assert list(matched.recordings) == ["c"]


def test_a_session_comes_before_an_input(suite, said):
    cases = suite({"id": "a", "session_id": "s"}, {"id": "b", "turns": [{"input": "hi"}]})
    assert list(match(cases, [said(1, "hi", session_id="s")]).recordings) == ["a"]


def test_an_input_matches_whatever_its_case_and_white_space(suite, said):
    cases = suite({"id": "b", "turns": [{"input": "What is the Weather?"}]})
    assert trials(match(cases, [said(1, " what is\n the weather? ")]), "b") == [[1]]


def test_an_input_on_the_case_is_a_conversation_of_one_turn(suite, said):
    cases = suite({"id": "b", "input": "hi", "expected_answer": "x"})
    traces = [
        said(1, "hi", session_id="s"),
        said(2, "bye", session_id="s"),
        said(3, "Hi", session_id="s"),
    ]
    assert trials(match(cases, traces), "b") == [[1], [3]]


def test_attributes_select_by_the_resource_unless_spans_are_there(suite, said):
    cases = suite({"id": "a", "attributes": {"build": 7, "beta": True}})
    trace = said(1)
    assert match(cases, [trace]).unmatched == [cases.cases[0]]
    found = match(cases, [trace], lambda _: [{"build": "7"}, {"beta": True}])
    assert trials(found, "a") == [[1]]


def test_different_sessions_of_one_case_are_trials(suite, said):
    traces = [
        said(1, session_id="s", case="a"),
        said(2, session_id="t", case="a"),
        said(3, session_id="s", case="a"),
    ]
    assert trials(match(suite("a"), traces), "a") == [[1, 3], [2]]


def test_each_session_of_a_list_is_a_trial(suite, said):
    cases = suite({"id": "a", "session_id": ["s", "t"]})
    traces = [said(1, session_id="s"), said(2, session_id="t"), said(3, session_id="u")]
    assert trials(match(cases, traces), "a") == [[1], [2]]


def test_runs_that_use_the_same_session_id_are_trials(suite, said):
    traces = [
        said(1, session_id="s", case="a", run="r1"),
        said(2, session_id="s", case="a", run="r2"),
    ]
    assert [x.run for x in match(suite("a"), traces).recordings["a"]] == ["r1", "r2"]


def test_a_conversation_that_comes_again_in_one_session_is_two_trials(suite, said):
    words = ["Hello", "How are you?", "Hello", "How are you?"]
    traces = [said(n, text, session_id="s") for n, text in enumerate(words, 1)]
    assert trials(match(suite(TALK), traces), "talk") == [[1, 2], [3, 4]]


def test_turns_without_a_session_are_told_apart_by_what_is_said(suite, said):
    words = ["Hello", "How are you?", "Hello", "How are you?"]
    traces = [said(n, text, case="talk") for n, text in enumerate(words, 1)]
    assert trials(match(suite(TALK), traces), "talk") == [[1, 2], [3, 4]]


def test_turns_without_a_session_that_cannot_be_told_apart_are_an_error(suite, said):
    traces = [said(n, "something", case="talk") for n in (1, 2, 3)]
    with pytest.raises(
        InputError,
        match=r"3 traces without a session, and the case has 2 turns; record session\.id",
    ):
        match(suite(TALK), traces)


def test_a_case_id_on_one_turn_holds_for_its_session(suite, said):
    traces = [said(1, session_id="s", case="a"), said(2, session_id="s")]
    assert trials(match(suite("a"), traces), "a") == [[1, 2]]


def test_a_conversation_in_the_middle_of_a_session_is_found(suite, said):
    words = ["Book a table", "Hello", "How are you?", "Bye"]
    traces = [said(n, text, session_id="s") for n, text in enumerate(words, 1)]
    assert trials(match(suite(TALK), traces), "talk") == [[2, 3]]


def test_the_case_of_which_more_turns_match_is_meant(suite, said):
    short = {"id": "short", "turns": [{"input": "Hello"}]}
    traces = [said(1, "Hello", session_id="s"), said(2, "How are you?", session_id="s")]
    assert list(match(suite(short, TALK), traces).recordings) == ["talk"]


def test_a_trace_of_two_cases_is_an_error_that_names_both(suite, said):
    cases = suite({"id": "a", "turns": [{"input": "hi"}]}, {"id": "b", "turns": [{"input": "HI"}]})
    with pytest.raises(InputError, match="of cases 'a' and 'b' by the user's input"):
        match(cases, [said(1, "hi")])


def test_a_session_of_two_cases_is_an_error_that_names_both(suite, said):
    cases = suite({"id": "a", "session_id": "s"}, {"id": "b", "session_id": "s"})
    with pytest.raises(InputError, match="of cases 'a' and 'b' by the session 's'"):
        match(cases, [said(1, session_id="s")])


def test_another_suites_traces_are_left_alone(suite, said):
    cases = suite("a")
    assert match(cases, [said(1, case="a", suite="billing")]).unmatched == [cases.cases[0]]


def test_a_case_that_nothing_matches_says_what_was_sought_and_what_is_near(suite, said):
    cases = suite({"id": "refund", "session_id": "s", "turns": [{"input": "My money!"}]})
    told = match(cases, [said(1, case="refnd")]).in_words(cases.cases[0])
    assert (
        told
        == "case 'refund': nothing recorded matches it; sought was test.case.id 'refund', then the"
        " session 's', then the input 'My money!'; there is test.case.id 'refnd', is it that?"
    )
