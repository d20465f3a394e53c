"""What scores look like on the evaluated span itself."""

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spanscore.export.wording import annotate
from spanscore.model.score import Evaluator, Result, Tally


def annotated(make, evaluations, **already):
    span = Span(name="agent")
    for key, value in already.items():
        span.attributes.add(key=key.replace("__", ".")).value.string_value = value
    annotate(span, evaluations)
    return make.attributes(span)


def test_a_score_has_its_own_attributes(make):
    found = annotated(make, [make.score()])
    assert {key: value for key, value in found.items() if key.startswith("spanscore.")} == {
        "spanscore.task_completion.score": 0.83,
        "spanscore.task_completion.label": "pass",
        "spanscore.task_completion.reason": "because",
    }


def test_a_score_has_the_indexed_form_as_well(make):
    found = annotated(
        make, [make.score(), make.score("b", evaluator=Evaluator("CODE", "rules", "1"))]
    )
    assert {key: value for key, value in found.items() if key.startswith("evaluations.1.")} == {
        "evaluations.1.evaluation.name": "b",
        "evaluations.1.evaluation.score": 0.83,
        "evaluations.1.evaluation.label": "pass",
        "evaluations.1.evaluation.explanation": "because",
        "evaluations.1.evaluation.annotator_kind": "CODE",
        "evaluations.1.evaluation.identifier": "spanscore",
    }


def test_another_evaluators_places_are_kept(make):
    found = annotated(make, [make.score()], evaluations__3__evaluation__name="theirs")
    assert (found["evaluations.3.evaluation.name"], found["evaluations.4.evaluation.name"]) == (
        "theirs",
        "task_completion",
    )


def test_a_failed_evaluation_says_so_and_has_no_score(make):
    assert annotated(make, [make.failed()]) == {
        "spanscore.task_completion.error": "JudgeTimeoutError"
    }


def test_a_skipped_evaluation_writes_nothing(make):
    assert annotated(make, [make.skipped()]) == {}


def test_the_users_span_is_not_marked_as_emitted(make):
    assert "spanscore.emitted" not in annotated(make, [make.score()])


def test_a_value_has_four_digits(make):
    assert (
        annotated(make, [make.score(value=0.5050252531694168)])["spanscore.task_completion.score"]
        == 0.505
    )


def test_how_all_metrics_came_out_is_on_it_as_well(make):
    tally = Tally(
        (Result("task_completion", 0.1, "fail", 0.5), Result("coherence", 0.42, "pass", 0.17))
    )
    found = annotated(make, [make.score(value=0.1, tally=tally)])
    assert (found["spanscore.summary"], found["spanscore.verdict"]) == (
        "1 of 2 failed: task_completion",
        "fail",
    )
