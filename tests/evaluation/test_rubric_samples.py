"""The rubric, asked several times of one session."""

import asyncio
from dataclasses import replace

import pytest
from rubric_judge import RubricJudge

from spanscore.errors import JudgeRefusedError
from spanscore.model.score import Failure, Skip
from spanscore.model.trace import Session


class Undecided:
    """A judge that answers each sample as another judge does."""

    def __init__(self, *judges):
        self.judges = judges
        self.samples = []

    async def ask(self, prompt, schema, *, models=()):
        self.samples.append(prompt.sample)
        return await self.judges[prompt.sample].ask(prompt, schema, models=models)


@pytest.fixture
def scores(make_engine, make_trace):
    """The evaluations of the rubric by criterion, asked of each of `judges` once."""
    session = Session(
        "s", tuple(make_trace(x, session_id="s", system_instructions="Be brief.") for x in (1, 2))
    )

    def run(*judges, rubric=None, **case):
        judge = Undecided(*judges)
        engine = make_engine(
            judge, rubric=rubric or {}, metrics={}, judge_settings={"samples": len(judges)}
        )
        found = asyncio.run(engine.evaluate_rubric(session, None, **case))
        # they are asked side by side, in any order
        assert sorted(judge.samples) == list(range(len(judges)))
        return {x.metric.removeprefix("rubric."): x for x in found}

    return run


def test_a_criterion_is_the_mean_of_its_samples(scores):
    found = scores(
        RubricJudge(tool_routing=2), RubricJudge(tool_routing=3), RubricJudge(tool_routing=5)
    )
    assert found["tool_routing"].value == pytest.approx(10 / 3, abs=1e-4)


def test_its_spread_is_on_it(scores):
    found = scores(RubricJudge(tool_routing=2), RubricJudge(tool_routing=5))
    assert found["tool_routing"].outcome.metadata["samples"]["values"] == [2.0, 5.0]


def test_its_label_is_that_of_the_level_nearest_to_the_mean(scores):
    found = scores(*[RubricJudge(tool_routing=x) for x in (1, 5, 5)])
    alone = scores(RubricJudge(tool_routing=4))
    assert found["tool_routing"].label == alone["tool_routing"].label


def test_a_binary_criterion_passes_by_its_mean(scores):
    judges = [RubricJudge(task_completion=x) for x in (5, 5, 0)]
    found = scores(*judges, rubric={"metrics": [{"metric": "task_completion", "weight": 1}]})[
        "task_completion"
    ]
    assert (found.label, found.outcome.metadata["passed"]) == ("pass", True)


def test_the_whole_passes_by_its_mean(scores):
    # 60, 80 and 100 of 100, of which 75 passes
    judges = [RubricJudge(tool_routing=x) for x in (3, 4, 5)]
    found = scores(*judges, rubric={"metrics": [{"metric": "tool_routing"}]})["overall"]
    assert (found.value, found.label) == (80.0, "pass")


def test_most_samples_decide_on_expected_outcomes(scores):
    judges = [RubricJudge(outcomes=[x]) for x in (True, False, False)]
    assert scores(*judges, expected_outcomes=["The order is cancelled."])["overall"].label == "fail"


def test_all_samples_are_paid_for(scores):
    found = scores(RubricJudge(), RubricJudge(), RubricJudge())
    assert sum(x.usage.calls for x in found.values()) == 3


def test_one_sample_that_fails_costs_no_score(scores):
    found = scores(RubricJudge(), RubricJudge(error=ValueError("no answer")), RubricJudge())
    assert found["tool_routing"].outcome.metadata["samples"]["without_score"] == 1


def test_where_most_samples_fail_there_is_no_score(scores):
    found = scores(RubricJudge(), *[RubricJudge(error=ValueError("no answer")) for _ in range(2)])
    assert isinstance(found["tool_routing"].outcome, Failure)


def test_a_criterion_that_most_samples_find_not_applicable_is_skipped(scores):
    idle = RubricJudge(tool_routing="not_applicable")
    assert isinstance(scores(idle, idle, RubricJudge())["tool_routing"].outcome, Skip)


class Named(RubricJudge):
    """A rubric judge whose answers are those of a model."""

    def __init__(self, model, **scores):
        super().__init__(**scores)
        self.model = model

    async def ask(self, prompt, schema, *, models=()):
        return replace(await super().ask(prompt, schema, models=models), model=self.model)


def test_a_mean_names_the_models_of_all_samples(scores):
    found = scores(Named("small"), Named("large"), Named("small"))
    assert {x.evaluator.model for x in found.values()} == {"small, large"}


def test_a_sample_that_failed_names_no_model(scores):
    found = scores(Named("small"), RubricJudge(error=JudgeRefusedError("no")))
    assert {x.evaluator.model for x in found.values()} == {"small"}
