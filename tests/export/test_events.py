"""What an evaluation event looks like, rule by rule."""

from spanscore.export import events
from spanscore.otlp.signal import ExportLogsServiceRequest


def only_record(evaluation):
    message = ExportLogsServiceRequest.FromString(events.request([evaluation], 8192))
    return message.resource_logs[0].scope_logs[0].log_records[0]


def test_its_name_is_in_the_field_and_in_the_attribute(make):
    record = only_record(make.score())
    assert (record.event_name, make.attributes(record)["event.name"]) == (
        "gen_ai.evaluation.result",
    ) * 2


def test_it_has_the_ids_of_the_evaluated_span(make):
    record = only_record(make.score())
    assert (record.trace_id, record.span_id) == (b"\x0a" * 16, b"\x0b" * 8)


def test_it_has_the_attributes_of_the_conventions(make):
    assert make.attributes(only_record(make.score())) == {
        "event.name": "gen_ai.evaluation.result",
        "gen_ai.evaluation.name": "task_completion",
        "gen_ai.evaluation.score.value": 0.83,
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.evaluation.explanation": "because",
        "gen_ai.evaluation.evaluator.version": "1+abcd",
        "log.record.uid": make.score().uid,
        "spanscore.emitted": True,
        "spanscore.scope": "trace",
        "spanscore.revision": 1,
        "spanscore.agent_trace_id": "c" * 32,
        "spanscore.session_id": "s-1",
        "spanscore.latency_s": 0.189,
        "spanscore.scale": [0.0, 1.0],
        "spanscore.threshold": 0.5,
        "spanscore.evaluator.kind": "LLM",
        "spanscore.evaluator.name": "judge",
        "spanscore.evaluator.version": "1",
        "spanscore.evaluator.model": "gpt-4o",
        "spanscore.evaluator.prompt_hash": "abcd",
    }


def test_it_says_with_what_chance_its_trace_was_drawn(make):
    assert make.attributes(only_record(make.score(sampling=0.25)))["spanscore.sampling"] == 0.25


def test_it_has_the_rule_that_decided(make):
    assert make.attributes(only_record(make.score(rule="failed")))["spanscore.rule"] == "failed"


def test_its_time_is_that_of_the_evaluation(make):
    assert only_record(make.score()).time_unix_nano == make.score().evaluated_at_ns


def test_a_target_that_is_one_model_call_is_named_by_its_response(make):
    record = only_record(make.score(target=make.target(response_id="resp-1")))
    assert make.attributes(record)["gen_ai.response.id"] == "resp-1"


def test_its_uid_is_the_id_of_the_evaluation_span(make):
    assert make.attributes(only_record(make.score()))["log.record.uid"] == make.score().uid


def test_a_score_is_told_as_info_whatever_it_is(make):
    record = only_record(make.score(value=0.0))
    assert (record.severity_number, record.severity_text) == (9, "INFO")


def test_its_body_is_the_summary(make):
    assert only_record(make.score()).body.string_value == "task_completion = 0.83 (pass)"


def test_it_comes_under_the_evaluated_spans_resource_and_our_scope(make):
    message = ExportLogsServiceRequest.FromString(events.request([make.score()], 8192))
    (group,) = message.resource_logs
    assert (make.attributes(group.resource)["service.name"], group.scope_logs[0].scope.name) == (
        "shop",
        "spanscore",
    )


def test_a_failed_evaluation_warns_and_has_no_score(make):
    record = only_record(make.failed())
    found = make.attributes(record)
    assert record.severity_number == 13
    assert (
        record.severity_text,
        found["error.type"],
        "gen_ai.evaluation.score.value" in found,
    ) == ("WARN", "JudgeTimeoutError", False)


def test_a_score_that_left_inline_still_has_its_event(make):
    assert only_record(make.score(inline=True)).event_name == "gen_ai.evaluation.result"


def test_a_skipped_evaluation_is_not_exported(make):
    assert events.request([make.skipped()], 100) == b""


def test_a_session_metric_that_rests_on_no_signal_has_an_event_without_a_score(make):
    found = make.attributes(only_record(make.groundless()))
    assert "gen_ai.evaluation.score.value" not in found
    assert found["spanscore.skip_cause"] == "no_signals"


def test_a_session_score_names_its_session(make):
    found = make.attributes(only_record(make.score(scope="session", subject_id="s-1")))
    assert (found["session.id"], found["gen_ai.conversation.id"]) == ("s-1", "s-1")


def test_without_an_evaluated_span_it_has_no_span_and_names_the_session(make):
    record = only_record(make.score(target=make.target(span_id="")))
    assert (record.span_id, make.attributes(record)["session.id"]) == (b"", "s-1")


def test_a_value_has_four_digits(make):
    found = make.attributes(only_record(make.score(value=0.5050252531694168)))
    assert found["gen_ai.evaluation.score.value"] == 0.505
