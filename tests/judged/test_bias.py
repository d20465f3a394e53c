"""`spanscore calibrate --bias`: which verdicts of a judge flip with what should not matter."""

import json
from pathlib import Path

import pytest
from obliging_model import ObligingModel
from scripted_server import ScriptedServer

from spanscore.cli.main import main

RECORDING = str(Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai")
METRIC = "task_completion"
TRACES = 4
CHANGES = {"longer", "flattered", "reordered", "another model's name"}


@pytest.fixture
def biases(monkeypatch, capsys, tmp_path):
    """The flips by change of a judge that passes some texts, as JSON."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")

    def run(passes):
        def score(request):
            return 0.9 if passes(json.dumps(request["messages"])) else 0.1

        with ScriptedServer(ObligingModel(score=score)) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            monkeypatch.setenv("OPENAI_API_BASE", server.url)
            words = ["--bias", RECORDING, "--metric", METRIC, "--model", "openai/gpt-4o-mini"]
            assert main(["calibrate", *words, "--json"]) == 0
        found = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
        return {x["change"]: x for x in found}

    return run


def shares(found):
    return {name: x["share"] for name, x in found.items() if x["share"]}


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("In other words:", "longer"),
        ("of the highest quality", "flattered"),
        ("(gpt-5)", "another model's name"),
    ],
)
def test_a_judge_that_one_change_impresses_flips_with_that_alone(biases, word, change):
    found = biases(lambda text: word in text)

    assert found.keys() == CHANGES
    assert shares(found) == {change: 1.0}


def test_what_flips_is_less_the_placebos_with_limits_and_the_number_of_sessions(biases):
    beyond = biases(lambda text: "In other words:" in text)["longer"]["beyond_placebo"]

    assert (beyond["value"], beyond["n"]) == (1.0, 2)
    assert beyond["low"] < 1


def test_a_judge_that_flips_on_a_repeated_question_has_no_bias_beyond_the_placebo(biases):
    asked = iter([False] * TRACES + [True] * 1000)
    found = biases(lambda _text: next(asked))

    assert {x["beyond_placebo"]["value"] for x in found.values()} == {0.0}
