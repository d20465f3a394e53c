"""What spanscore exported reads back as what it measured, as far as it is exported."""

from dataclasses import replace

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2

from spanscore.export import events, spans, wording
from spanscore.model.score import (
    Evaluation,
    Evaluator,
    Failure,
    JudgeUsage,
    Result,
    Score,
    Skip,
    Tally,
)
from spanscore.model.span import Resource, Scope
from spanscore.model.trace import Target, Trial
from spanscore.otlp import codec
from spanscore.otlp.signal import ExportLogsServiceRequest
from spanscore.received_scores import read_own

END_NS = 1_700_000_000_189_000_000
TARGET = Target("0a" * 16, "0b" * 8, END_NS - 189_000_000, END_NS, {"service.name": "shop"})


def score(metric="task_completion", outcome=None, **facts):
    defaults = {
        "scope": "trace",
        "subject_id": "c" * 32,
        "metric": metric,
        "outcome": outcome or Score(0.83, "because", {"task": "buy"}),
        "threshold": 0.5,
        "scale": (0.0, 1.0),
        "evaluator": Evaluator("LLM", "judge", "1", "gpt-4o", "abcd"),
        "target": TARGET,
        "session_id": "s-1",
        "service_name": "shop",
        "usage": JudgeUsage(1, 200, 30, 0.01, 0),
        "evaluated_at_ns": END_NS + 13 * 10**9,
    }
    return Evaluation(**{**defaults, **facts})


def session_score(outcome=None, **facts):
    named = {
        "scope": "session",
        "subject_id": "s-1",
        "session_key": "s-1",
        "scale": (0.0, 100.0),
        "threshold": None,
    }
    return score("agentic", outcome or Score(71.0, "fine"), **{**named, **facts})


def without(spans, attribute):
    """As a spanscore exported them that did not write the attribute yet."""
    return [
        replace(x, attributes={key: y for key, y in x.attributes.items() if key != attribute})
        for x in spans
    ]


def as_spans(*evaluations, placement="child"):
    request = spans.request(evaluations, placement, 8192)
    return list(codec.spans(ExportTraceServiceRequest.FromString(request)))


def as_events(*evaluations):
    return list(
        codec.log_records(ExportLogsServiceRequest.FromString(events.request(evaluations, 8192)))
    )


def inline(*evaluations):
    """The agent's span with the scores on it."""
    message = trace_pb2.Span(
        trace_id=bytes.fromhex(TARGET.trace_id),
        span_id=bytes.fromhex(TARGET.span_id),
        start_time_unix_nano=TARGET.start_ns,
        end_time_unix_nano=TARGET.end_ns,
    )
    wording.annotate(message, evaluations)
    return codec.span(message, Resource(TARGET.resource), Scope("my.agent"))


def json_of(evaluation, *but):
    return {key: value for key, value in evaluation.to_json().items() if key not in but}


EXPORTED = [
    score(),
    score(outcome=Failure("JudgeTimeoutError", "no answer within 30 s")),
    score(threshold=None, evaluator=Evaluator("CODE", "loops", "2", embedding="model2vec")),
    score(revision=3, supersedes="d" * 16, label_before="fail", sampling=0.25, rule="failed"),
    score(trial=Trial("suite", "run-1", "case-1", "pass")),
    session_score(),
    session_score(outcome=Skip("confidence is missing", "no_signals")),
]


@pytest.mark.parametrize("one", EXPORTED)
@pytest.mark.parametrize("placement", ["child", "linked"])
def test_an_evaluation_span_reads_back_as_its_score(one, placement):
    [found] = read_own(as_spans(one, placement=placement))
    assert found.to_json() == one.to_json()


@pytest.mark.parametrize("one", EXPORTED)
def test_its_event_alone_reads_back_but_for_metadata_and_usage(one):
    [found] = read_own([], as_events(one))
    assert json_of(found, "metadata", "usage") == json_of(one, "metadata", "usage")


@pytest.mark.parametrize("one", EXPORTED)
def test_its_identity_and_what_it_takes_the_place_of_are_kept(one):
    for found in (*read_own(as_spans(one)), *read_own([], as_events(one))):
        assert found.uid == one.uid
        assert found.subject_id == one.subject_id
    assert read_own(as_spans(one))[0].supersedes == one.supersedes


def test_a_score_in_several_forms_is_there_once_and_in_the_fullest():
    one = score()
    [found] = read_own([*as_spans(one), inline(one)], as_events(one))
    assert found.to_json() == one.to_json()


def test_of_several_revisions_the_newest_counts():
    first, second = (
        score(),
        score(outcome=Score(0.1, "no"), revision=2, evaluated_at_ns=END_NS + 20 * 10**9),
    )
    assert [x.value for x in read_own(as_spans(second, first))] == [0.1]


def test_all_revisions_are_there_for_whoever_asks():
    found = read_own(as_spans(score(), score(revision=2)), superseded=True)
    assert [x.revision for x in found] == [1, 2]


def test_two_turns_of_one_trace_keep_their_scores():
    one, other = score(), score(subject_id="d" * 32)
    assert len(read_own(as_spans(one, other))) == 2


def test_runs_of_a_suite_keep_their_scores():
    runs = [score(trial=Trial("suite", run, "case")) for run in ("run-1", "run-2")]
    assert len(read_own(as_spans(*runs))) == 2


def test_scores_on_the_agents_own_span_are_read():
    one = score("check.arguments_grounded", Score(0.83, "because"))
    [found] = read_own([inline(one)])
    assert (found.metric, found.value, found.label, found.reason) == (
        one.metric,
        0.83,
        "pass",
        "because",
    )
    assert (found.target.span_id, found.latency_s) == (TARGET.span_id, one.latency_s)


def test_a_failure_on_the_agents_own_span_is_read():
    [found] = read_own([inline(score(outcome=Failure("JudgeTimeoutError", "no answer")))])
    assert (found.status, found.outcome.type) == ("failed", "JudgeTimeoutError")


def test_what_has_no_span_of_its_own_is_read_from_the_summary():
    passing, failing = (
        Result("coherence", 0.9, "pass", 0.5),
        Result("task_completion", 0.2, "fail", 0.5),
    )
    one = replace(score(outcome=Score(0.2, "no")), tally=Tally((failing, passing)))
    found = {x.metric: (x.value, x.label, x.subject_id, x.reason) for x in read_own(as_spans(one))}
    assert found == {
        "task_completion": (0.2, "fail", one.subject_id, "no"),
        "coherence": (0.9, "pass", one.subject_id, ""),
    }


def test_what_has_no_time_has_no_latency():
    older = without(as_spans(score()), "spanscore.latency_s")
    assert read_own(older)[0].latency_s is None


def test_an_agents_span_in_the_same_file_has_the_times():
    older = without(as_spans(score()), "spanscore.latency_s")
    target = replace(inline(), attributes={})
    assert read_own([*older, target])[0].latency_s == score().latency_s


def test_the_session_is_that_of_the_namespace():
    target = replace(TARGET, resource={"service.namespace": "shop"})
    [found] = read_own(as_spans(session_score(target=target)))
    assert found.session_key == found.subject_id == "55084ed27e27e5f8:s-1"


def test_what_others_emitted_is_not_ours():
    theirs = [
        replace(x, scope=Scope("deepeval")) for x in without(as_spans(score()), "spanscore.emitted")
    ]
    assert read_own(theirs) == []


@pytest.mark.parametrize(
    "broken",
    [
        {"gen_ai.evaluation.score.value": "0.5"},
        {"spanscore.scale": [1]},
        {"spanscore.scale": ["a", None]},
        {"spanscore.metadata": "[1"},
        {"spanscore.revision": "2"},
        {"spanscore.evaluated_at": "yesterday"},
        {"spanscore.evaluated_at": "9999-99-99T00:00:00Z"},
        {"spanscore.threshold": float("nan")},
        {"spanscore.threshold": 10**400},
        {"spanscore.latency_s": -1.0},
        {"spanscore.judge.calls": -1},
        {"session.id": 5},
    ],
)
def test_a_broken_attribute_is_as_if_it_were_not_there(broken):
    [span] = as_spans(score())
    [found] = read_own([replace(span, attributes={**span.attributes, **broken})])
    assert found.metric == "task_completion"
