"""What an evaluation span looks like, rule by rule."""

import json
from itertools import pairwise

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import spanscore
from spanscore.export import spans
from spanscore.model.score import Evaluator, JudgeUsage, Score


def decoded(*evaluations, placement="child", max_text_length=8192):
    return ExportTraceServiceRequest.FromString(
        spans.request(evaluations, placement, max_text_length)
    )


def only_span(evaluation, **settings):
    return decoded(evaluation, **settings).resource_spans[0].scope_spans[0].spans[0]


def facts(make, evaluation, **settings):
    return make.attributes(only_span(evaluation, **settings))


def test_the_name_begins_with_the_verdict(make):
    assert only_span(make.score()).name == "pass: task_completion"


@pytest.mark.parametrize(
    ("made", "name"),
    [("failed", "error: task_completion"), ("groundless", "no score: task_completion")],
)
def test_without_a_verdict_the_name_begins_with_what_there_is_instead(make, made, name):
    assert only_span(getattr(make, made)()).name == name


def test_without_a_label_the_name_says_that_there_is_a_score(make):
    assert only_span(make.score(threshold=None)).name == "score: task_completion"


@pytest.mark.parametrize(
    ("before", "name"),
    [
        ("fail", "pass: task_completion (revised, was fail)"),
        ("pass", "pass: task_completion (revised, was pass)"),
        (None, "pass: task_completion (revised)"),
    ],
)
def test_the_name_says_that_it_takes_the_place_of_another(make, before, name):
    assert only_span(make.score(revision=2, supersedes="d" * 16, label_before=before)).name == name


def test_a_metric_that_is_measured_first_at_a_later_revision_takes_no_place(make):
    assert only_span(make.score(revision=2)).name == "pass: task_completion"


def test_what_takes_the_place_of_a_verdict_is_exported_though_it_is_skipped(make):
    gone = make.skipped(revision=2, supersedes="d" * 16, label_before="fail")
    assert only_span(gone).name == "no score: task_completion (revised, was fail)"


def test_it_says_with_what_chance_its_trace_was_drawn_where_not_all_are(make):
    assert facts(make, make.score(sampling=0.25))["spanscore.sampling"] == 0.25
    assert "spanscore.sampling" not in facts(make, make.score())


def test_it_has_the_rule_that_decided_where_one_did(make):
    assert facts(make, make.score(rule="failed"))["spanscore.rule"] == "failed"
    assert "spanscore.rule" not in facts(make, make.score())


def test_it_is_internal(make):
    assert only_span(make.score()).kind == 1


def test_it_is_a_child_of_the_evaluated_span(make):
    span = only_span(make.score())
    assert (span.trace_id, span.parent_span_id) == (b"\x0a" * 16, b"\x0b" * 8)


def test_a_child_has_no_link(make):
    assert not only_span(make.score()).links


def test_its_id_is_the_evaluations_uid(make):
    assert only_span(make.score()).span_id.hex() == make.score().uid


@pytest.mark.parametrize(
    "other",
    [
        {"subject_id": "e" * 32},
        {"metric": "b"},
        {"revision": 2},
        {"evaluator": Evaluator("LLM", "judge", "2")},
    ],
)
def test_another_trace_metric_revision_or_evaluators_version_has_another_id(make, other):
    assert only_span(make.score(**other)).span_id != only_span(make.score()).span_id


@pytest.mark.parametrize(
    "same", [{"value": 0.1}, {"evaluated_at_ns": 7}, {"threshold": None}, {"session_id": "s-2"}]
)
def test_its_id_does_not_depend_on_what_was_found_or_when(make, same):
    assert only_span(make.score(**same)).span_id == only_span(make.score()).span_id


def test_it_lies_in_the_last_millisecond_of_the_evaluated_span(make):
    span = only_span(make.score())
    assert make.end_ns - 10**6 <= span.start_time_unix_nano < make.end_ns == span.end_time_unix_nano


def test_each_rank_starts_some_microseconds_after_the_one_before_it(make):
    starts = [only_span(make.score(rank=rank)).start_time_unix_nano for rank in range(20)]
    steps_us = [(later - earlier) / 1000 for earlier, later in pairwise(starts)]
    assert min(steps_us) > 3


def test_a_sessions_scores_start_after_those_of_the_trace(make):
    last = only_span(make.score(rank=100)).start_time_unix_nano
    assert only_span(make.score(scope="session", rank=0)).start_time_unix_nano > last


def test_a_later_revision_starts_before_what_it_supersedes(make):
    earlier = only_span(make.score(rank=0)).start_time_unix_nano
    assert only_span(make.score(rank=100, revision=2)).start_time_unix_nano < earlier


@pytest.mark.parametrize("revision", [1, 2, 500])
@pytest.mark.parametrize("rank", [0, 9, 10_000])
@pytest.mark.parametrize("length_ns", [1, 130, 1000, 10**6, 10**9])
def test_whatever_its_place_it_is_inside_the_evaluated_span(make, length_ns, rank, revision):
    target = make.target(end_ns=make.start_ns + length_ns)
    start_ns, end_ns = spans.times(target, "session", revision, rank)
    assert target.start_ns <= start_ns < end_ns == target.end_ns


def test_it_does_not_begin_before_a_short_span(make):
    start_ns, end_ns = spans.times(make.target(end_ns=make.start_ns + 10))
    assert (start_ns, end_ns) == (make.start_ns, make.start_ns + 10)


def test_under_a_span_of_no_length_it_is_a_microsecond_long(make):
    assert spans.times(make.target(end_ns=make.start_ns)) == (make.start_ns, make.start_ns + 1000)


def test_under_a_span_that_ends_before_it_starts_it_is_a_microsecond_long(make):
    assert spans.times(make.target(end_ns=0)) == (make.start_ns, make.start_ns + 1000)


LAST_NS = 2**64 - 1


@pytest.mark.parametrize(
    ("start_ns", "end_ns"), [(0, 0), (LAST_NS, LAST_NS), (LAST_NS, 0), (LAST_NS - 5, LAST_NS)]
)
def test_at_the_ends_of_time_it_still_has_a_length_and_can_be_encoded(make, start_ns, end_ns):
    span = only_span(make.score(target=make.target(start_ns=start_ns, end_ns=end_ns)))
    assert span.start_time_unix_nano < span.end_time_unix_nano


@pytest.mark.parametrize("length_ns", [1, 999_999, 10**6, 10**6 + 1, 10**12])
def test_it_is_inside_the_evaluated_span_however_long_that_is(make, length_ns):
    target = make.target(end_ns=make.start_ns + length_ns)
    start_ns, end_ns = spans.times(target)
    assert target.start_ns <= start_ns < end_ns == target.end_ns


def test_its_times_are_those_of_the_evaluated_span_and_not_of_the_evaluation(make):
    late = make.score(evaluated_at_ns=make.end_ns + 10**15)
    assert only_span(late).end_time_unix_nano == make.end_ns


def test_the_true_time_of_the_evaluation_is_an_attribute(make):
    assert facts(make, make.score(evaluated_at_ns=10**9 + 5000))["spanscore.evaluated_at"] == (
        "1970-01-01T00:00:01.000005+00:00"
    )


@pytest.mark.parametrize("value", [0.0, 0.49, 0.5, 1.0])
def test_the_status_is_unset_whatever_the_score(make, value):
    assert not only_span(make.score(value=value)).HasField("status")


def test_the_status_is_unset_whatever_the_label(make):
    assert not only_span(make.score(outcome=Score(0.0, "", label="error"))).HasField("status")


def test_the_status_is_unset_when_the_evaluation_failed(make):
    assert not only_span(make.failed()).HasField("status")


def test_it_comes_under_the_evaluated_spans_resource(make):
    message = decoded(make.score())
    assert make.attributes(message.resource_spans[0].resource) == {
        "service.name": "shop",
        "host.name": "h1",
    }


def test_resources_with_the_same_contents_are_one(make):
    scores = [
        make.score(target=make.target(resource={"service.name": name})) for name in ("a", "b", "a")
    ]
    message = decoded(*scores)
    assert [len(x.scope_spans[0].spans) for x in message.resource_spans] == [2, 1]


def test_the_scope_is_spanscore_with_its_version(make):
    scope = decoded(make.score()).resource_spans[0].scope_spans[0].scope
    assert (scope.name, scope.version) == ("spanscore", spanscore.__version__)


def test_the_summary_says_it_all(make):
    assert facts(make, make.score())["evaluation.summary"] == "task_completion = 0.83 (pass)"


@pytest.mark.parametrize("scope", ["trace", "session"])
def test_the_summary_is_the_first_attribute_as_they_come_and_by_name(make, scope):
    full = make.score(
        scope=scope,
        revision=2,
        supersedes="d" * 16,
        evaluator=Evaluator("LLM", "a", "1", "m", "h", "e"),
    )
    keys = [x.key for x in only_span(full).attributes]
    assert keys[0] == min(keys) == "evaluation.summary"


def test_of_a_failed_evaluation_only_the_error_sorts_before_the_summary(make):
    keys = [x.key for x in only_span(make.failed()).attributes]
    assert (keys[0], sorted(keys)[:2]) == (
        "evaluation.summary",
        ["error.type", "evaluation.summary"],
    )


def test_it_has_the_attributes_of_the_conventions(make):
    found = facts(make, make.score())
    assert {key: value for key, value in found.items() if key.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "evaluation",
        "gen_ai.evaluation.name": "task_completion",
        "gen_ai.evaluation.score.value": 0.83,
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.evaluation.explanation": "because",
        "gen_ai.evaluation.evaluator.version": "1+abcd",
    }


def test_openinference_knows_it_as_an_evaluator(make):
    assert facts(make, make.score())["openinference.span.kind"] == "EVALUATOR"


def test_the_output_is_summary_and_reason(make):
    found = facts(make, make.score())
    assert (found["output.value"], found["output.mime_type"]) == (
        "task_completion = 0.83 (pass)\nbecause",
        "text/plain",
    )


def test_it_says_who_measured_and_what_it_rests_on(make):
    found = facts(make, make.score(revision=2, supersedes="d" * 16))
    assert {key: value for key, value in found.items() if key.startswith("spanscore.")} == {
        "spanscore.emitted": True,
        "spanscore.scope": "trace",
        "spanscore.agent_trace_id": "c" * 32,
        "spanscore.session_id": "s-1",
        "spanscore.latency_s": 0.189,
        "spanscore.scale": [0.0, 1.0],
        "spanscore.threshold": 0.5,
        "spanscore.metadata": '{"task":"buy"}',
        "spanscore.revision": 2,
        "spanscore.supersedes": "d" * 16,
        "spanscore.evaluated_at": "2023-11-14T22:13:33.189000+00:00",
        "spanscore.evaluator.kind": "LLM",
        "spanscore.evaluator.name": "judge",
        "spanscore.evaluator.version": "1",
        "spanscore.evaluator.model": "gpt-4o",
        "spanscore.evaluator.prompt_hash": "abcd",
        "spanscore.judge.calls": 1,
        "spanscore.judge.input_tokens": 200,
        "spanscore.judge.output_tokens": 30,
        "spanscore.judge.cost_usd": 0.01,
        "spanscore.judge.cached": 0,
    }


def test_nothing_looks_like_tokens_or_a_model_of_the_users(make):
    refused = (
        "gen_ai.usage.",
        "llm.",
        "gen_ai.request.",
        "gen_ai.response.",
        "gen_ai.provider.",
        "gen_ai.system",
    )
    judged = make.score(
        target=make.target(response_id="r-1"), evaluator=Evaluator("LLM", "a", "1", "m", "h", "e")
    )
    assert not [key for key in facts(make, judged) if key.startswith(refused)]


def test_what_asking_the_judge_took_is_left_out_where_it_was_not_asked(make):
    found = facts(make, make.score(usage=JudgeUsage()))
    assert not [key for key in found if key.startswith("spanscore.judge.")]


def test_a_skipped_evaluation_is_not_exported(make):
    assert spans.request([make.skipped()], "child", 100) == b""


def test_a_session_metric_that_rests_on_no_signal_is_said_to_be_skipped_and_why(make):
    found = facts(make, make.groundless())
    assert "gen_ai.evaluation.score.value" not in found
    assert found["spanscore.skip_cause"] == "no_signals"
    assert found["gen_ai.evaluation.explanation"] == "confidence is missing in 1 of 1 trace"
    assert found["evaluation.summary"] == "task_completion skipped: no_signals"


def test_a_score_that_left_inline_has_no_span(make):
    assert spans.request([make.score(inline=True)], "child", 100) == b""


def test_a_failed_evaluation_has_its_errors_type_and_no_score(make):
    found = facts(make, make.failed())
    assert (
        found["error.type"],
        found["output.value"],
        "gen_ai.evaluation.score.value" in found,
    ) == ("JudgeTimeoutError", "task_completion failed: JudgeTimeoutError\nno answer", False)


def test_a_session_score_names_its_session(make):
    found = facts(make, make.score(scope="session", subject_id="s-1"))
    assert (found["session.id"], found["gen_ai.conversation.id"], found["spanscore.scope"]) == (
        "s-1",
        "s-1",
        "session",
    )


def test_a_trace_score_leaves_the_session_to_its_trace(make):
    assert "session.id" not in facts(make, make.score())


def test_without_an_evaluated_span_it_has_no_parent(make):
    span = only_span(make.score(target=make.target(span_id="")))
    assert (span.trace_id, span.parent_span_id) == (b"\x0a" * 16, b"")


def test_without_an_evaluated_span_it_has_no_link(make):
    assert not only_span(make.score(target=make.target(span_id="")), placement="linked").links


def test_without_an_evaluated_span_a_trace_score_names_its_session(make):
    found = facts(make, make.score(target=make.target(span_id="")))
    assert (found["session.id"], found["gen_ai.conversation.id"]) == ("s-1", "s-1")


def test_linked_it_is_in_a_trace_of_its_own(make):
    span = only_span(make.score(), placement="linked")
    assert (len(span.trace_id), span.trace_id != b"\x0a" * 16, span.parent_span_id) == (
        16,
        True,
        b"",
    )


def test_linked_it_has_a_link_to_the_evaluated_span(make):
    (link,) = only_span(make.score(), placement="linked").links
    assert (link.trace_id, link.span_id) == (b"\x0a" * 16, b"\x0b" * 8)


def test_linked_it_lies_at_the_same_times(make):
    linked, child = only_span(make.score(), placement="linked"), only_span(make.score())
    assert (linked.start_time_unix_nano, linked.end_time_unix_nano) == (
        child.start_time_unix_nano,
        child.end_time_unix_nano,
    )


def test_two_linked_scores_have_traces_of_their_own(make):
    found = [only_span(make.score(metric), placement="linked").trace_id for metric in ("a", "b")]
    assert found[0] != found[1]


def test_linked_it_has_the_same_ids_when_it_is_sent_again(make):
    first, again = (only_span(make.score(), placement="linked") for _ in range(2))
    assert (first.trace_id, first.span_id) == (again.trace_id, again.span_id)


def test_a_long_reason_is_cut_and_says_so(make):
    found = facts(make, make.score(outcome=Score(1.0, "x" * 1000)), max_text_length=100)
    assert (
        len(found["gen_ai.evaluation.explanation"]),
        found["gen_ai.evaluation.explanation"][-5:],
    ) == (100, "[cut]")


def test_long_metadata_is_shortened_and_still_json(make):
    score = Score(1.0, "", {"verdicts": [{"reason": "x" * 300}] * 100, "task": "buy"})
    found = facts(make, make.score(outcome=score), max_text_length=8192)
    assert len(json.loads(found["spanscore.metadata"])["verdicts"]) == 20


def test_metadata_that_stays_too_long_names_its_keys(make):
    score = Score(1.0, "", {"verdicts": [{"reason": "x" * 300}] * 100, "task": "buy"})
    found = facts(make, make.score(outcome=score), max_text_length=100)
    assert found["spanscore.metadata"] == '{"cut":["verdicts","task"]}'


def test_metadata_nested_without_end_is_shortened(make):
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert "spanscore.metadata" in facts(make, make.score(outcome=Score(1.0, "", {"deep": deep})))


def test_lone_surrogates_are_replaced(make):
    found = facts(make, make.score(outcome=Score(1.0, "a\ud800b")))
    assert found["gen_ai.evaluation.explanation"] == "a\ufffdb"
