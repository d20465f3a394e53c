"""The one span that sums up all scores of a trace, and of which scores there are spans beside
it.
"""

from typing import get_args

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spanscore.export import events, spans
from spanscore.export.wording import annotate
from spanscore.model.score import Result, Skip, SkipCause, Tally

PASSED = [
    Result("tool_correctness", 1.0, "pass", 0.5),
    Result("coherence", 0.42123456, "pass", 0.17),
]
FAILED = Result("task_completion", 0.1, "fail", 0.5)
BROKEN = Result("confidence", problem="JudgeTimeoutError")


def sent(*evaluations, which="all"):
    request = ExportTraceServiceRequest.FromString(spans.request(evaluations, "child", 8192, which))
    return [x for group in request.resource_spans for x in group.scope_spans[0].spans]


def summary(make, *results, scope="trace", **facts):
    tally = Tally(results, **facts)
    return sent(make.score(scope=scope, tally=tally), which="summary")[0]


@pytest.mark.parametrize(
    ("results", "name"),
    [
        ([FAILED, *PASSED], "spanscore: 1 of 3 failed"),
        (PASSED, "spanscore: all 2 passed"),
        ([FAILED, BROKEN], "spanscore: 1 of 1 failed, 1 error"),
        ([BROKEN, BROKEN], "spanscore: 2 errors"),
    ],
)
def test_its_name_counts_what_failed(make, results, name):
    assert summary(make, *results).name == name


def test_that_of_a_session_says_so(make):
    assert summary(make, FAILED, scope="session").name == "spanscore session: 1 of 1 failed"


def test_one_that_takes_the_place_of_another_says_what_was_there(make):
    found = summary(make, *PASSED, supersedes="d" * 16, label_before="fail")
    assert found.name == "spanscore: all 2 passed (revised, was fail)"


def test_it_is_under_the_evaluated_span_and_starts_before_all_scores(make):
    tally, first = sent(make.score(rank=0, tally=Tally((FAILED,))))
    assert (tally.parent_span_id, tally.trace_id) == (first.parent_span_id, first.trace_id)
    assert tally.start_time_unix_nano < first.start_time_unix_nano


def test_what_adds_to_a_revision_starts_before_it_and_after_the_next(make):
    first = sent(make.score(rank=0, tally=Tally((FAILED,))))
    added = Tally((FAILED,), supersedes="d" * 16, label_before="fail", same_revision=True)
    later = sent(make.score(metric="loop_detection", rank=0, tally=added))
    revised = sent(make.score(rank=0, revision=2, tally=Tally((FAILED,), supersedes="e" * 16)))
    session = sent(make.score(scope="session", revision=2, tally=Tally((FAILED,))))
    starts = [x.start_time_unix_nano for x in (*revised, *later, *first)]
    assert starts == sorted(set(starts))
    assert not {x.start_time_unix_nano for x in session} & set(starts)


def test_its_id_is_its_own_and_stays_the_same(make):
    one = make.score(tally=Tally((FAILED,)))
    assert {x.span_id.hex() for x in sent(one, one)} == {one.uid, one.tally_uid}


def test_it_lists_every_score_in_one_click(make):
    found = make.attributes(summary(make, FAILED, BROKEN, *PASSED))
    assert found["output.value"].splitlines() == [
        "1 of 3 failed, 1 error: task_completion",
        "task_completion = 0.10 (fail)",
        "confidence failed: JudgeTimeoutError",
        "tool_correctness = 1.00 (pass)",
        "coherence = 0.42 (pass)",
    ]


def test_every_score_can_be_searched_for_on_it(make):
    found = make.attributes(summary(make, FAILED, *PASSED))
    assert {
        x: found[x] for x in found if x.endswith((".score", ".label", "verdict", "failed"))
    } == {
        "spanscore.verdict": "fail",
        "spanscore.failed": ["task_completion"],
        "spanscore.task_completion.score": 0.1,
        "spanscore.task_completion.label": "fail",
        "spanscore.tool_correctness.score": 1.0,
        "spanscore.tool_correctness.label": "pass",
        "spanscore.coherence.score": 0.4212,
        "spanscore.coherence.label": "pass",
    }


def test_it_is_no_score_to_who_adds_scores_up(make):
    assert not [
        x for x in make.attributes(summary(make, FAILED)) if x.startswith("gen_ai.evaluation.")
    ]


def test_it_is_marked_as_spanscores_own_and_has_no_status(make):
    found = summary(make, FAILED)
    assert make.attributes(found)["spanscore.emitted"] is True
    assert not found.HasField("status")


def mixed(make):
    """A trace's scores: one that failed, one that passed, one without a verdict, one that could not
    be measured.
    """
    return [
        make.score("a", 0.1, tally=Tally((FAILED,))),
        make.score("b", 0.9, rank=2),
        make.score("c", 0.9, threshold=None, rank=3),
        make.failed(metric="d", rank=1),
    ]


@pytest.mark.parametrize(
    ("which", "names"),
    [
        ("all", ["spanscore: 1 of 1 failed", "fail: a", "pass: b", "score: c", "error: d"]),
        ("failing", ["spanscore: 1 of 1 failed", "fail: a", "error: d"]),
        ("summary", ["spanscore: 1 of 1 failed"]),
    ],
)
def test_the_setting_says_of_which_scores_there_are_spans(make, which, names):
    assert [x.name for x in sent(*mixed(make), which=which)] == names


def test_with_failing_a_pass_that_takes_the_place_of_a_fail_is_there(make):
    now = make.score(revision=2, supersedes="d" * 16, label_before="fail")
    assert [x.name for x in sent(now, which="failing")] == [
        "pass: task_completion (revised, was fail)"
    ]


def test_what_left_on_the_span_itself_has_no_summary_beside_it(make):
    assert not sent(make.score(inline=True, tally=Tally((FAILED,))))


@pytest.mark.parametrize("cause", sorted(set(get_args(SkipCause)) - {"no_signals"}))
def test_what_has_no_score_leaves_in_no_form(make, cause):
    skipped = make.score(outcome=Skip("there is no plan", cause))
    user_span = Span(name="agent")
    annotate(user_span, [skipped])
    left = (
        spans.request([skipped], "child", 100),
        events.request([skipped], 100),
        events.histogram_request([skipped], 1, 2),
    )
    assert (*left, len(user_span.attributes)) == (b"", b"", b"", 0)
    assert not skipped.is_shown


def test_what_is_no_news_has_no_span_of_its_own(make):
    score = make.score(tally=Tally(tuple(PASSED), is_news=False, same_revision=True))
    assert sent(score) == sent(make.score())
    assert not spans.has_any(score, "summary")
