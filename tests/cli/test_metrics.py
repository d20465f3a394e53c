"""The metrics, listed and explained."""

import json
import re

import pytest

from spanscore import metrics
from spanscore.cli.main import main
from spanscore.evaluation.config import FAMILY


@pytest.fixture
def shown(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")

    def show(*words):
        assert main(["metrics", *words]) == 0
        return capsys.readouterr().out

    return show


def _default(metric):
    return "on" if metric.name in FAMILY else "off"


def test_every_metric_is_listed_with_its_summary(shown):
    text = " ".join(shown().split())
    assert [
        x.name
        for x in metrics.available().values()
        if f"{x.name} {_default(x)} {x.scope} " not in text
    ] == []
    assert all(x.summary in text for x in metrics.available().values())


def test_on_80_columns_questions_stand_below_the_names_and_nothing_is_cut(monkeypatch, shown):
    monkeypatch.setenv("COLUMNS", "80")
    text = shown()
    assert all(f"{name} " in text for name in metrics.available())
    assert "…" not in text


@pytest.mark.parametrize("name", metrics.available())
def test_a_metric_is_explained_with_every_option_and_its_default(shown, name):
    text = shown(name)
    threshold = metrics.available()[name]().threshold
    assert f"threshold: {'null' if threshold is None else format(threshold, 'g')}" in text


@pytest.mark.parametrize(
    "name", [x for x, kind in metrics.available().items() if issubclass(kind, metrics.Judged)]
)
def test_a_judged_metric_is_explained_with_every_prompt(shown, name):
    text = " ".join(shown(name).split())
    questions = [question for stage in metrics.available()[name].stages for question in stage]
    assert all(" ".join(question.text.split()) in text for question in questions)


def test_doctests_are_not_part_of_an_explanation(shown):
    assert ">>>" not in shown("coherence")


def test_an_unknown_metric_is_bad_input_with_the_nearest_name(capsys):
    assert main(["metrics", "coherance"]) == 2
    assert (
        capsys.readouterr().err
        == "spanscore: error: no metric 'coherance'; did you mean coherence?\n"
    )


def test_a_name_that_is_near_none_lists_them_all(capsys):
    main(["metrics", "xyz"])
    assert "; there are agent_consistency, " in capsys.readouterr().err


OWN = """
evaluation:
  rubric:
    criteria:
    - {id: kindness, display_name: Kindness, description: Was it kind, tier: delivery,
       weight: 0.5, type: binary, rubric: {5: it was, 0: it was not}}
"""


def test_the_criteria_are_listed_with_a_count_and_every_fact(shown):
    listed = json.loads(shown("--criteria", "--json"))
    assert listed["count"] == len(listed["criteria"]) == 9
    assert {tuple(x) for x in listed["criteria"]} == {
        (
            "id",
            "metric",
            "display_name",
            "description",
            "tier",
            "default_weight",
            "type",
            "rubric",
            "not_applicable",
            "in_defaults",
        )
    }


def test_the_criteria_are_listed_for_a_person_with_all_levels(shown):
    text = " ".join(shown("--criteria").split())
    levels = [level for metric in metrics.criteria().values() for level in metric.criterion.levels]
    assert [x for x in levels if " ".join(x.split()) not in text] == []
    assert "9 criteria;" in text


def test_the_list_of_criteria_says_when_each_does_not_apply(shown):
    text = " ".join(shown("--criteria").split())
    assert "- not applicable: no tool was called, and none was needed" in text


def test_criteria_of_a_configuration_are_listed_too(shown, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    listed = json.loads(shown("--criteria", "--json", "-c", str(path)))
    assert listed["count"] == 10
    assert listed["criteria"][-1]["rubric"] == {"5": "it was", "0": "it was not"}


@pytest.mark.parametrize(
    "words", [["--json"], ["coherence", "--criteria"], ["-c", "there-is-none.yaml"]]
)
def test_what_goes_with_criteria_only_is_bad_input_elsewhere(words, capsys):
    assert main(["metrics", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_metrics_of_a_configuration_are_listed_with_what_runs(shown, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(
        "evaluation: {criteria: {kind: {ask: 'Is it kind?'}}, metrics: {coherence: false}}"
    )
    found = shown("-c", str(path))
    assert re.findall(r"^(kind|coherence|confidence) +(on|off) ", found, re.MULTILINE) == [
        ("coherence", "off"),
        ("confidence", "on"),
        ("kind", "on"),
    ]


def test_a_metric_of_a_configuration_is_explained(shown, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("evaluation: {criteria: {kind: {ask: 'Is it kind?'}}}")
    assert "what the judge is asked" in shown("kind", "-c", str(path))


def test_rubric_as_a_metric_lists_its_criteria(capsys):
    assert main(["metrics", "rubric"]) == 0
    assert capsys.readouterr().out.rstrip().splitlines()[-1].startswith("9 criteria;")


def test_the_options_of_agentic_stand_in_a_suite(capsys):
    main(["metrics", "agentic"])
    assert "Options, under agentic in a suite\n" in capsys.readouterr().out


def test_agentic_is_explained_with_what_a_judge_is_asked_of_an_answer(shown):
    assert "Is the agent's answer the expected one?" in shown("agentic")


@pytest.mark.parametrize(
    "row",
    [
        "agentic off session judge, in suites Did",
        "coherence on trace embedding Does",
        "agent_reliability on session computed How",
        "confidence on trace judge Were",
        "rubric.overall off session judge How",
    ],
)
def test_what_a_metric_rests_on_is_listed(shown, row):
    assert row in " ".join(shown().split())
