"""Metrics are named alike wherever a program names some."""

import pytest
from application import Application

import spanscore
from spanscore.config import parse
from spanscore.errors import ConfigError, InputError
from spanscore.sdk import in_process_settings


@pytest.fixture(autouse=True)
def brief():
    @spanscore.metric
    def brief(trace, *, most: int = 5) -> bool:
        return len(trace.final_output) <= most

    return brief


def evaluated(metrics, make_trace):
    report = spanscore.evaluate([make_trace()], metrics=metrics)
    return {x.metric: x.outcome.value for x in report.evaluations}


def tried(metrics, make_trace):
    found = spanscore.experiment(
        ["Hi"], lambda _: make_trace().final_output, metrics=metrics, progress=False
    )
    scores = [y for x in found.run.cases for trial in x.trials for y in trial.evaluations]
    return {x.metric: x.outcome.value for x in scores if x.metric == "brief"}


def instrumented(metrics, make_trace):
    application = Application.made()
    found = []
    instrumentation = application.instrument(metrics=metrics, on_scores=found.extend)
    application.turn(answer=make_trace().final_output)
    instrumentation.shutdown()
    return {x.metric: x.outcome.value for x in found}


@pytest.mark.slow
@pytest.mark.parametrize("scored", [evaluated, tried, instrumented])
@pytest.mark.parametrize(
    ("given", "value"),
    [
        (lambda _: "brief", 0.0),
        (lambda _: ["brief"], 0.0),
        (lambda brief: brief, 0.0),
        (lambda brief: (brief,), 0.0),
        (lambda _: {"brief": {"most": 1000}}, 1.0),
        (lambda _: {"brief": None}, 0.0),
    ],
    ids=["name", "names", "function", "functions", "options", "no-options"],
)
def test_a_metric_is_named_in_the_same_ways_everywhere(scored, brief, given, value, make_trace):
    assert scored(given(brief), make_trace) == {"brief": value}


@pytest.mark.parametrize("scored", [evaluated, tried, instrumented])
@pytest.mark.parametrize(
    ("metrics", "told"),
    [({"brief": {"mots": 1}}, "most"), (["breif"], "brief"), ([3], "3 is no metric")],
)
def test_what_is_no_metric_or_option_is_refused(scored, metrics, told, make_trace):
    with pytest.raises((InputError, ConfigError), match=told):
        scored(metrics, make_trace)


def narrowed(metrics, text=""):
    return in_process_settings.settings(metrics=metrics, config=parse(text)).evaluation


def test_the_rubric_may_be_named():
    assert narrowed(["rubric"]).rubric.chosen().keys() >= {"tool_routing"}


def test_one_criterion_of_the_rubric_may_be_named():
    assert list(narrowed(["rubric.task_completion"]).rubric.chosen()) == ["task_completion"]


def test_no_others_are_measured_than_those_that_are_named():
    found = narrowed(
        ["brief"], "evaluation: {rubric: {}, rules: [{name: all, metrics: {coherence: {}}}]}"
    )
    assert ([x.name for x in found.build()], found.rubric, [x.metrics for x in found.rules]) == (
        ["brief"],
        None,
        [{}],
    )
