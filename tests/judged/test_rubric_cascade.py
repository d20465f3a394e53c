"""A cheap model is asked the rubric first, and the better one where a score lies in its band."""

import asyncio

import pytest
from judge_harness import World, config_for
from judged_harness import recorded
from pydantic import ValidationError
from rubric_model import said
from scripted_server import ScriptedServer, refusal

from spanscore.config import Settings
from spanscore.embed import Config as EmbedConfig, open_embedder
from spanscore.evaluation import Config, Engine, Overrides
from spanscore.judge import ModelJudge
from spanscore.judge.litellm import LiteLLM
from spanscore.model.score import Failure
from spanscore.model.trace import Session

BAND = {"rubric.tool_routing": [2, 4]}
WITH_OWN = {
    "criteria": [
        {
            "id": "brand_voice",
            "display_name": "Brand voice",
            "description": "Is it warm?",
            "tier": "delivery",
            "weight": 1,
            "type": "binary",
            "rubric": {5: "It is.", 0: "It is not."},
        }
    ]
}


def scored(level):
    """A model that gives `tool_routing` this level; None: it refuses to answer."""
    if level is None:
        return lambda _: refusal(404)
    fault = {"justification": "x", "turns": [], "failure_code": "a_fault", "score": level}
    return lambda request: said(request, tool_routing=fault)


def engine_before(server, *, unsure=BAND, rubric=None, **judge):
    cascade = {"model": "openai/cheap", "unsure": unsure}
    config = config_for(server, cascade=cascade, **judge)
    return Engine(
        Config(default_metrics=False, rubric=rubric or {}),
        ModelJudge(config, LiteLLM(config), None, World().timing()),
        open_embedder(EmbedConfig()),
        judge_config=config,
    )


def judged(cheap, *, better=5, overrides=None, **settings):
    """What comes of a cheap model before a better one, and which models were asked in turn."""
    models = {"cheap": scored(cheap)}
    with ScriptedServer(
        lambda request: models.get(request["model"], scored(better))(request)
    ) as server:
        engine = engine_before(server, **settings)
        session = Session("s", tuple(recorded()))
        found = asyncio.run(engine.evaluate_rubric(session, overrides))
        return {x.metric: x for x in found}, [call["model"] for call in server.calls]


def cascade_on(evaluation):
    return evaluation.outcome.metadata["cascade"]


@pytest.mark.parametrize("level", [2, 3, 4])
def test_where_a_score_lies_in_its_band_all_are_asked_of_the_better_model(level):
    found, asked = judged(level)

    assert (found["rubric.tool_routing"].value, asked) == (5, ["cheap", "scripted"])
    assert {x.evaluator.model for x in found.values()} == {"openai/cheap, openai/scripted"}


@pytest.mark.parametrize("level", [1, 5])
def test_outside_of_the_band_the_first_models_scores_stand(level):
    found, asked = judged(level)

    assert (found["rubric.tool_routing"].value, asked) == (level, ["cheap"])
    assert {x.evaluator.model for x in found.values()} == {"openai/cheap"}
    assert cascade_on(found["rubric.overall"]) == {"escalated": False, "model": "openai/cheap"}


def test_the_overall_score_has_a_band_as_well():
    # the other criteria have 4, and with them the whole 77
    _, asked = judged(3, unsure={"rubric.overall": [76, 78]})

    assert asked == ["cheap", "scripted"]


def test_an_escalated_score_says_what_the_first_model_gave():
    assert cascade_on(judged(3)[0]["rubric.tool_routing"]) == {
        "escalated": True,
        "model": "openai/scripted",
        "first": {"model": "openai/cheap", "value": 3.0},
        "unsure": [2.0, 4.0],
    }


def test_a_score_without_a_band_names_none():
    assert "unsure" not in cascade_on(judged(3)[0]["rubric.response_delivery"])


def test_a_first_model_that_fails_is_a_doubt():
    found, _ = judged(None)

    assert found["rubric.tool_routing"].value == 5
    assert found["rubric.tool_routing"].evaluator.model == "openai/scripted"
    assert cascade_on(found["rubric.tool_routing"])["first"]["value"] is None


def test_a_better_model_that_fails_leaves_no_score():
    found, _ = judged(3, better=None)

    assert isinstance(found["rubric.tool_routing"].outcome, Failure)


def test_what_both_models_cost_is_on_the_scores():
    found, asked = judged(3)

    assert sum(x.usage.calls for x in found.values()) == len(asked) == 2


@pytest.mark.slow
def test_the_mean_of_the_first_models_samples_decides():
    found, asked = judged(3, samples=2)

    assert sorted(asked) == ["cheap", "cheap", "scripted", "scripted"]
    assert cascade_on(found["rubric.tool_routing"])["first"]["value"] == 3.0


@pytest.mark.parametrize(
    "settings",
    [
        {"unsure": {"confidence": [0.4, 0.7]}},
        {"rubric": {"metrics": [{"metric": "response_delivery"}]}},
    ],
)
def test_without_a_band_of_a_score_that_is_given_the_better_model_is_asked_at_once(settings):
    found, asked = judged(3, **settings)

    assert asked == ["scripted"]
    assert "cascade" not in found["rubric.overall"].outcome.metadata


def test_a_rubric_with_a_model_of_its_own_asks_that_alone():
    assert judged(3, rubric={"model": "openai/own"})[1] == ["own"]


def test_a_run_that_names_a_model_asks_that_alone():
    assert judged(3, overrides=Overrides(model="openai/other"))[1] == ["other"]


def test_a_dry_run_plans_both_models():
    with ScriptedServer(said) as server:
        planned = engine_before(server).plan(Session("s", tuple(recorded())))

    assert [x.models for x in planned] == [("openai/cheap",), ()]


@pytest.mark.parametrize("name", ["rubric.overall", "rubric.task_completion", "rubric.brand_voice"])
def test_a_band_of_any_score_of_the_rubric_is_taken(name):
    cascade = {"model": "openai/cheap", "unsure": {name: [2, 4]}}
    settings = Settings(
        judge={"model": "openai/x", "cascade": cascade}, evaluation={"rubric": WITH_OWN}
    )

    assert settings.judge.cascade.unsure == {name: (2, 4)}


def test_a_band_of_no_score_of_the_rubric_is_refused_with_the_nearest_name():
    cascade = {"model": "openai/cheap", "unsure": {"rubric.tool_rooting": [2, 4]}}
    with pytest.raises(ValidationError, match=r"is no judged metric; .*rubric\.tool_routing"):
        Settings(judge={"model": "openai/x", "cascade": cascade})
