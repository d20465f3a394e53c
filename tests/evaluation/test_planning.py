"""What a dry run shows: the calls that would be made."""

import asyncio

import pytest

from spanscore.evaluation import Overrides


@pytest.mark.parametrize(("plan", "calls"), [("staged", 14), ("fused", 1)])
def test_a_dry_run_plans_every_call_that_may_be_made(
    make_engine, make_trace, scripted, plan, calls
):
    assert len(make_engine(scripted(), plan).plan(make_trace())) == calls


def test_a_dry_run_sends_nothing(make_engine, make_trace, scripted):
    judge = scripted()
    make_engine(judge).plan(make_trace())
    assert judge.asked == []


@pytest.mark.parametrize("plan", ["staged", "fused"])
def test_the_first_planned_prompt_is_the_one_that_is_sent(make_engine, make_trace, scripted, plan):
    judge = scripted()
    engine = make_engine(judge, plan, metrics={"task_completion": {}})
    planned = engine.plan(make_trace())
    asyncio.run(engine.evaluate_trace(make_trace()))
    assert (planned[0].prompt, planned[0].schema) == judge.asked[0][:2]


def test_a_later_stage_shows_that_it_holds_placeholders(make_engine, make_trace, scripted):
    planned = make_engine(scripted(), metrics={"plan_quality": {}}).plan(make_trace())
    assert [x.placeholders for x in planned] == [False, False, True]
    assert "(what the judge answers before)" in planned[2].prompt.question


def test_no_call_is_planned_for_the_rules(make_engine, make_trace):
    assert make_engine().plan(make_trace()) == []


def test_no_call_is_planned_for_what_is_settled_without(make_engine, make_trace, scripted):
    engine = make_engine(scripted(), metrics={"argument_correctness": {}})
    assert engine.plan(make_trace(tool_calls=())) == []


def test_a_dry_run_takes_overrides(make_engine, make_trace, scripted):
    planned = make_engine(scripted()).plan(
        make_trace(), Overrides(metrics=("confidence",), model="big")
    )
    assert [(x.metrics, x.models) for x in planned] == [(("confidence",), ("big",))]
