"""Means as commands print them: n, intervals, units."""

import dataclasses
import io

import pytest
from rich.console import Console

from spanscore.cli import score_summary
from spanscore.model.score import Evaluation, Evaluator, Failure, Score, Skip
from spanscore.model.trace import Target
from spanscore.offline import summary
from spanscore.offline.summary import RunSummary

TARGET = Target(trace_id="a" * 32, span_id="b" * 16, start_ns=0, end_ns=1, resource={})


def evaluation(number, outcome, *, metric="coherence", session_id=None, sampling=1.0):
    return Evaluation(
        scope="trace",
        subject_id=str(number),
        metric=metric,
        outcome=outcome,
        threshold=0.5,
        scale=(0, 1),
        evaluator=Evaluator("CODE", metric, "1"),
        target=dataclasses.replace(TARGET, trace_id=f"{number:032x}"),
        session_id=session_id,
        sampling=sampling,
    )


def printed(evaluations, *, width=150):
    output = Console(file=io.StringIO(), width=width)
    score_summary.print_means(output, RunSummary.of(evaluations))
    return [line.split() for line in output.file.getvalue().splitlines()]


def test_means_count_what_was_scored_and_what_was_not():
    rows = printed(
        [
            evaluation(1, Score(0.25, "")),
            evaluation(2, Score(0.75, "")),
            evaluation(3, Skip("no output")),
            evaluation(4, Failure("TimeoutError", "timeout"), metric="confidence"),
        ]
    )
    assert [rows[1][0], rows[1][1], rows[1][4], " ".join(rows[1][-6:])] == [
        "coherence",
        "0.50",
        "2",
        "1 of 2 passed; 1 skipped",
    ]
    assert rows[2] == ["confidence", "-", "-", "-", "1", "failed"]


def test_on_80_columns_intervals_and_counts_stand_below_each_other_and_nothing_is_cut():
    rows = printed(
        [
            evaluation(1, Score(0.25, ""), metric="conversation_completion"),
            evaluation(2, Score(0.75, ""), metric="conversation_completion"),
            evaluation(3, Skip("no output"), metric="conversation_completion"),
            evaluation(4, Failure("TimeoutError", "timeout"), metric="conversation_completion"),
        ],
        width=80,
    )
    assert [" ".join(row) for row in rows] == [
        "metric mean, 95 % n pass rate, 95 % traces or sessions",
        "conversation_completion 0.50 2 0.50 1 of 2 passed",
        f"{' '.join(rows[2][:4])} 1 skipped",
        "1 failed",
    ]


def test_a_name_that_80_columns_have_no_room_for_goes_on_in_the_next_line():
    rows = printed(
        [evaluation(1, Score(0.5, ""), metric="rubric.conversation_management")], width=80
    )
    assert "".join(row[0] for row in rows[1:]).startswith("rubric.conversation_management"[:20])
    assert not any("…" in word for row in rows for word in row)


def test_what_lacks_a_judge_in_every_trace_is_no_row_of_the_means():
    assert printed([evaluation(1, Skip("no judge", "no_judge"))]) == []


def mean_of(evaluations):
    [found] = summary.summaries(evaluations)
    return found.mean


def test_turns_of_a_session_are_one_unit():
    found = mean_of([evaluation(x, Score(0.5, ""), session_id="one") for x in range(4)])
    assert found.n == 1


def test_a_session_that_makes_the_intervals_wide_is_named_once():
    turns = [0] * 20 + [x // 2 for x in range(2, 42)]
    shown = printed(
        evaluation(n, Score(n % 4 / 4, ""), session_id=f"s{x}") for n, x in enumerate(turns)
    )
    assert shown[2:] == [["coherence:", "session", "s0", "has", "33.3", "%", "of", "the", "scores"]]


def test_a_mean_of_nothing_is_none():
    assert mean_of([evaluation(1, Skip("no output"))]) is None


def test_a_sampled_score_counts_by_the_inverse_of_its_chance():
    found = mean_of([evaluation(1, Score(1.0, "")), evaluation(2, Score(0.0, ""), sampling=0.25)])
    assert found.value == pytest.approx(0.2)
