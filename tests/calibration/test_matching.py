"""Labels find the verdicts on the same things; several people's labels become one."""

from dataclasses import replace
from pathlib import Path

import pytest

from spanscore.calibration import Label, match
from spanscore.errors import InputError

FILE = Path("labels.jsonl")


def label(number, *, passes=True, annotator="", line=1, **fields):
    return named(f"{number:032x}", value=float(passes), annotator=annotator, line=line, **fields)


def named(subject, **fields):
    given = {
        "is_session": False,
        "metric": "task_completion",
        "value": 1.0,
        "annotator": "",
        "line": 1,
    }
    return Label(subject, **{**given, **fields})


def test_a_label_finds_the_verdict_on_its_trace(verdict):
    [found] = match(FILE, [label(2)], [verdict(1), verdict(2)], [])
    assert [x.verdict.trace_id for x in found.pairs] == [f"{2:032x}"]


def test_what_has_no_label_is_among_the_others(verdict):
    [found] = match(FILE, [label(2)], [verdict(1), verdict(2)], [])
    assert [x.trace_id for x in found.others] == [f"{1:032x}"]


def test_a_label_may_name_the_agent_trace_id(verdict):
    [found] = match(FILE, [label(7)], [verdict(1, aliases=(f"{7:032x}",))], [])
    assert (len(found.pairs), len(found.others)) == (1, 0)


def test_the_last_revision_counts(verdict):
    [found] = match(FILE, [label(1)], [verdict(1, 0.0), verdict(1, 1.0, revision=2)], [])
    assert [x.verdict.value for x in found.pairs] == [1.0]


def test_the_same_score_in_two_files_counts_once(verdict):
    [found] = match(FILE, [label(1)], [verdict(1), verdict(1), verdict(2), verdict(2)], [])
    assert (len(found.pairs), len(found.others)) == (1, 1)


def test_the_majority_of_annotators_is_the_label(verdict):
    said = [
        label(1, passes=x, annotator=name) for name, x in (("a", True), ("b", True), ("c", False))
    ]
    [found] = match(FILE, said, [verdict(1)], [])
    assert [x.passes for x in found.pairs] == [True]


def test_what_annotators_tie_on_is_counted_and_left_out(verdict):
    said = [label(1, annotator="a"), label(1, passes=False, annotator="b"), label(2)]
    [found] = match(FILE, said, [verdict(1), verdict(2)], [])
    assert (len(found.pairs), found.tied) == (1, 1)


def test_annotators_of_several_turns_are_paired_with_the_session_of_each(verdict):
    said = [label(number, annotator=name) for name in "ab" for number in (1, 2, 3)]
    scored = [verdict(number, session_id="s" if number < 3 else None) for number in (1, 2, 3)]
    [found] = match(FILE, said, scored, [])
    [(*_, clusters)] = found.annotator_pairs()
    assert clusters == ["s", "s", scored[2].trace_id]


def test_annotators_are_paired_by_what_both_labelled(verdict):
    said = [label(1, annotator="a"), label(2, annotator="a"), label(2, passes=False, annotator="b")]
    [found] = match(FILE, said, [verdict(1), verdict(2)], [])
    assert found.annotator_pairs() == [("a", "b", [True], [False], None)]


def test_a_grade_passes_from_the_metrics_threshold_on(verdict):
    said = [label(1, passes=0.5, is_grade=True), label(2, passes=0.4, is_grade=True)]
    [found] = match(FILE, said, [verdict(1), verdict(2)], [])
    assert [(x.label, x.passes) for x in found.pairs] == [(0.5, True), (0.4, False)]


def test_labels_of_what_was_skipped_are_counted(verdict):
    seen = [(f"{2:032x}", False, "task_completion")]
    [found] = match(FILE, [label(1), label(2)], [verdict(1)], seen)
    assert (len(found.pairs), found.unscored) == (1, 1)


def test_each_judge_is_measured_by_itself(verdict):
    other = replace(verdict(2), judge=("task_completion", "judge", "1", "gpt-4o", "xyz", None, 0.5))
    found = match(FILE, [label(1), label(2)], [verdict(1), other], [])
    assert [len(x.pairs) for x in found] == [1, 1]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            label(9, line=4),
            (
                ":4: there is no trace '00000000000000000000000000000009' with a score of"
                " task_completion"
            ),
        ),
        (named("s", is_session=True, line=2), ":2: there is no session 's' with a score"),
        (named("a", metric="coherance", line=3), ":3: there is no score of 'coherance'"),
    ],
)
def test_a_label_of_nothing_is_refused(verdict, said, why):
    with pytest.raises(InputError, match=why):
        match(FILE, [said], [verdict(1)], [])


def test_a_trace_of_several_turns_must_be_named_by_its_turn(verdict):
    with pytest.raises(
        InputError,
        match="scored 2 times: it holds several turns; name the turn by its agent trace id",
    ):
        match(FILE, [label(1)], [verdict(1), verdict(1, span_id="b" * 16)], [])


def test_one_thing_scored_by_two_judges_is_refused(verdict):
    other = replace(verdict(1), judge=("task_completion", "judge", "2", "gpt-4o", "abc", None, 0.5))
    with pytest.raises(InputError, match="by several judges"):
        match(FILE, [label(1)], [verdict(1), other], [])


def test_one_thing_scored_for_two_cases_is_refused(verdict):
    with pytest.raises(
        InputError, match="in several runs, or for several cases; give scores of which one is of it"
    ):
        match(FILE, [label(1)], [verdict(1, 1.0), verdict(1, 0.0)], [])


def test_a_grade_needs_a_threshold(verdict):
    unbound = replace(
        verdict(1), judge=("task_completion", "judge", "1", None, None, None, None), passed=None
    )
    with pytest.raises(InputError, match="no threshold that says which grades pass"):
        match(FILE, [label(1, passes=0.7, is_grade=True)], [unbound], [])
