"""What others gave, joined to turns that are read before or after it."""

from dataclasses import replace

import pytest

from spanscore.model.score import Annotation, Evaluation, Evaluator
from spanscore.model.trace import ModelCall, Session, Target
from spanscore.offline.recordings import GivenScores


def given(trace, span_id="", *, at_ns=5, value=1.0, author="ada"):
    return Evaluation(
        scope="trace",
        subject_id=trace.trace_ids[0],
        metric="helpful",
        outcome=Annotation(value),
        threshold=None,
        scale=None,
        evaluator=Evaluator("HUMAN", "human", "", source="human", author=author),
        target=Target(trace.trace_ids[0], span_id, 0, 0),
        session_id=None,
        evaluated_at_ns=at_ns,
        received_uid=f"{at_ns:016x}",
    )


@pytest.fixture
def scores():
    return GivenScores()


@pytest.fixture
def turns(make_trace):
    """Two turns of one trace and one session, each with a model call."""
    trace = make_trace(1, session_id="s")
    return [
        replace(trace, opening_span_id=x * 16, model_calls=(ModelCall(2 * x * 8),)) for x in "ab"
    ]


def test_one_that_is_read_before_its_trace_is_of_it(scores, make_trace):
    trace = make_trace(1)
    scores.add([given(trace)], [])
    scores.add([], [trace])
    assert [x.subject_id for x in scores.of(trace)] == [trace.id]


def test_one_that_is_read_after_its_trace_is_of_it(scores, make_trace):
    trace = make_trace(1)
    scores.add([], [trace])
    scores.add([given(trace)], [])
    assert [x.subject_id for x in scores.of(trace)] == [trace.id]


@pytest.mark.parametrize("is_first", [True, False])
def test_one_that_names_a_response_is_of_the_turn_that_has_it(scores, make_trace, is_first):
    trace = replace(make_trace(1), model_calls=(ModelCall("c" * 16, response_id="resp-1"),))
    score = replace(
        given(trace), subject_id="resp-1", target=Target("", "", 0, 0, response_id="resp-1")
    )
    scores.add([score] if is_first else [], [] if is_first else [trace])
    scores.add([] if is_first else [score], [trace] if is_first else [])
    assert ([x.subject_id for x in scores.of(trace)], scores.notices) == ([trace.id], [])


def test_of_several_turns_it_is_of_the_one_that_has_the_span(scores, turns):
    scores.add([given(turns[0], "b" * 16)], turns)
    assert [len(scores.of(x)) for x in turns] == [0, 1]


def test_what_is_of_a_whole_trace_with_several_turns_is_of_none_of_them(scores, turns):
    scores.add([given(turns[0])], turns)
    assert [scores.of(x) for x in (*turns, Session("s", tuple(turns)))] == [[], [], []]


def test_what_is_of_none_of_several_turns_is_said_and_shown_in_the_end(scores, turns):
    scores.add([given(turns[0])], turns)
    [notice] = scores.notices
    assert notice.startswith("1 external score (helpful) is of a trace with several turns")
    assert [x.subject_id for x in scores.not_shown] == [turns[0].trace_ids[0]]


def test_what_comes_after_its_turn_was_shown_is_shown_in_the_end(scores, make_trace):
    trace = make_trace(1)
    scores.add([given(trace, at_ns=1)], [trace])
    assert [x.evaluated_at_ns for x in scores.show(trace)] == [1]
    scores.add([given(trace, at_ns=2, author="bob")], [])
    assert [x.evaluated_at_ns for x in scores.not_shown] == [2]


def test_who_changes_their_mind_in_a_later_part_counts_once(scores, make_trace):
    trace = make_trace(1)
    scores.add([given(trace, at_ns=1, value=1.0)], [trace])
    scores.add([given(trace, at_ns=2, value=0.0)], [])
    assert [x.value for x in scores.of(trace)] == [0.0]


def test_what_is_of_no_trace_that_is_there_is_said(scores, make_trace):
    scores.add([given(make_trace(1)), given(make_trace(2), at_ns=6)], [])
    assert scores.notices == [
        "2 external scores (helpful) are of a trace or a response that is not in these files"
    ]
