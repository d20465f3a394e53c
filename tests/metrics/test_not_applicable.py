"""Metrics that a turn gives no occasion for: they have no score, and no judge is asked."""

import pytest

from spanscore.metrics import Judgement
from spanscore.metrics.trace.argument_correctness import ArgumentCorrectness
from spanscore.metrics.trace.plan_adherence import PlanAdherence
from spanscore.metrics.trace.plan_quality import PlanQuality
from spanscore.metrics.trace.tool_correctness import ToolCorrectness
from spanscore.model.trace import Tool

OF_PLANS = pytest.mark.parametrize("metric", [PlanAdherence(), PlanQuality()], ids=lambda x: x.name)


def test_without_a_call_there_are_no_arguments_to_judge(make_trace):
    assert ArgumentCorrectness().settle(make_trace(tool_calls=()), {}).cause == "not_applicable"


def test_without_a_tool_on_offer_there_is_no_choice_to_judge(make_trace):
    trace = make_trace(tool_calls=(), available_tools=())
    assert ToolCorrectness().settle(trace, {}).cause == "not_applicable"


def test_a_tool_on_offer_that_was_not_called_is_judged(make_trace):
    trace = make_trace(tool_calls=(), available_tools=(Tool("get_weather"),))
    assert ToolCorrectness().settle(trace, {}) is None


def test_where_the_tools_on_offer_were_not_recorded_a_turn_without_calls_is_judged(make_trace):
    assert ToolCorrectness().settle(make_trace(tool_calls=(), available_tools=None), {}) is None


def test_a_call_of_a_tool_that_is_not_on_offer_is_judged(make_trace):
    assert ToolCorrectness().settle(make_trace(available_tools=()), {}) is None


@OF_PLANS
@pytest.mark.parametrize("plan", [[], ["look up the order"]], ids=["no step", "one step"])
def test_fewer_than_two_steps_are_no_plan_to_judge(metric, make_trace, plan):
    assert metric.settle(make_trace(), {"task": "to know", "plan": plan}).cause == "not_applicable"


@OF_PLANS
def test_a_plan_of_two_steps_is_scored(metric, make_trace):
    answers = {"task": "to know", "plan": ["look it up", "report it"]}
    judgement = Judgement(reason="in order", score=0.9)
    assert metric.settle(make_trace(), {**answers, metric.name: judgement}).value == 0.9
