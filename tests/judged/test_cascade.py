"""A cheap model is asked first, and the better one where the first score lies in the metric's
band.
"""

import json

import pytest
from judged_harness import STAGES, engine_for, evaluate, recorded, spent
from obliging_model import ObligingModel
from pydantic import ValidationError
from scripted_server import ScriptedServer, refusal

from spanscore.config import Settings
from spanscore.evaluation import Overrides
from spanscore.judge.config import Cascade

ALONE = {"confidence": {}}
BAND = {"confidence": [0.4, 0.7]}


def judged(cheap, *, metrics=ALONE, unsure=BAND, overrides=None):
    """What comes of a cheap model that gives `cheap` before a better one that gives 0.9."""
    models = {"cheap": ObligingModel(score=cheap), "scripted": ObligingModel(score=0.9)}
    with ScriptedServer(
        lambda request: models.get(request["model"], models["scripted"])(request)
    ) as server:
        cascade = {"model": "openai/cheap", "unsure": unsure}
        found = evaluate(
            engine_for(server, "fused", metrics=metrics, cascade=cascade), recorded()[0], overrides
        )
        return found, [call["model"] for call in server.calls]


@pytest.mark.parametrize("score", [0.4, 0.5, 0.7])
def test_a_score_in_the_band_is_asked_of_the_better_model(score):
    found, asked = judged(score)

    assert (found["confidence"].value, asked) == (0.9, ["cheap", "scripted"])


@pytest.mark.parametrize("score", [0.0, 0.39, 0.71, 1.0])
def test_a_score_outside_of_the_band_stands(score):
    found, asked = judged(score)

    assert (found["confidence"].value, asked) == (score, ["cheap"])


def test_a_score_of_the_first_model_names_that_model():
    assert judged(0.2)[0]["confidence"].evaluator.model == "openai/cheap"


def test_an_escalated_score_names_both_models_in_the_order_in_which_they_were_asked():
    assert judged(0.5)[0]["confidence"].evaluator.model == "openai/cheap, openai/scripted"


def test_an_escalated_score_says_what_the_first_model_gave():
    assert judged(0.5)[0]["confidence"].outcome.metadata["cascade"] == {
        "escalated": True,
        "model": "openai/scripted",
        "first": {"model": "openai/cheap", "value": 0.5},
        "unsure": [0.4, 0.7],
    }


def test_a_score_of_the_first_model_says_that_it_stands():
    assert judged(0.2)[0]["confidence"].outcome.metadata["cascade"] == {
        "escalated": False,
        "model": "openai/cheap",
    }


def test_a_metric_without_a_band_is_asked_of_the_better_model_at_once():
    found, asked = judged(0.2, metrics={"confidence": {}, "tool_correctness": {}})

    assert sorted(asked) == ["cheap", "scripted"]
    assert found["tool_correctness"].value == 0.9
    assert "cascade" not in found["tool_correctness"].outcome.metadata


def test_only_the_metrics_in_doubt_are_asked_again():
    found, asked = judged(
        0.5, metrics=dict.fromkeys(STAGES), unsure={name: [0.6, 0.7] for name in STAGES} | BAND
    )

    assert [name for name, x in found.items() if "openai/scripted" in x.evaluator.model] == [
        "confidence"
    ]
    assert asked.count("scripted") == 1


def test_a_first_model_that_fails_is_a_doubt():
    model = ObligingModel(score=0.9)
    with ScriptedServer(
        lambda request: refusal(404) if request["model"] == "cheap" else model(request)
    ) as server:
        cascade = {"model": "openai/cheap", "unsure": BAND}
        found = evaluate(engine_for(server, metrics=ALONE, cascade=cascade), recorded()[0])

    assert found["confidence"].value == 0.9
    assert found["confidence"].outcome.metadata["cascade"]["first"]["value"] is None


def test_what_both_models_cost_is_on_the_score():
    found, asked = judged(0.5)

    assert spent(found).calls == len(asked) == 2


def test_a_run_that_names_a_model_asks_that_alone():
    _, asked = judged(0.5, overrides=Overrides(model="openai/other"))

    assert asked == ["other"]


def test_a_metric_with_a_model_of_its_own_asks_that_alone():
    _, asked = judged(0.5, metrics={"confidence": {"model": "openai/own"}})

    assert asked == ["own"]


def test_bands_are_read_from_the_file_that_calibrate_writes(tmp_path):
    file = tmp_path / "bands.json"
    file.write_text(json.dumps(BAND))

    assert Cascade(model="openai/cheap", unsure=str(file)).unsure == {"confidence": (0.4, 0.7)}


@pytest.mark.parametrize(
    "text", [None, "no JSON", '{"confidence": [0.7, 0.4]}', '{"confidence": 0.5}', "[]"]
)
def test_a_file_that_holds_no_bands_is_refused(tmp_path, text):
    file = tmp_path / "bands.json"
    if text is not None:
        file.write_text(text)

    with pytest.raises(ValidationError, match="unsure"):
        Cascade(model="openai/cheap", unsure=str(file))


def test_a_band_of_no_judged_metric_is_refused_with_the_nearest_name():
    judge = {
        "model": "openai/x",
        "cascade": {"model": "openai/cheap", "unsure": {"confidenze": [0.4, 0.7]}},
    }
    with pytest.raises(ValidationError, match=r"is no judged metric; .*confidence"):
        Settings(judge=judge)


def test_a_dry_run_plans_both_models():
    with ScriptedServer(ObligingModel()) as server:
        cascade = {"model": "openai/cheap", "unsure": BAND}
        planned = engine_for(server, "fused", metrics=ALONE, cascade=cascade).plan(recorded()[0])

    assert [x.models for x in planned] == [("openai/cheap",), ()]
