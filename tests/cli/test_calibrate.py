"""`spanscore calibrate`: labels beside scores, what is refused, and what later commands make of a calibration."""

import json
from pathlib import Path

import pytest

from spanscore import calibration
from spanscore.cli import aggregates
from spanscore.cli.main import main
from spanscore.config import default
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import Target
from spanscore.store import calibrations
from spanscore.store.config import Config

RECORDING = Path(__file__).parents[2] / "examples/recordings/pydantic-ai"


def evaluation(number, value, *, prompt_hash="ab" * 16):
    return Evaluation(
        scope="trace",
        subject_id=str(number),
        metric="task_completion",
        outcome=Score(value, ""),
        threshold=0.5,
        scale=(0, 1),
        evaluator=Evaluator("LLM", "task_completion", "1", "a-model", prompt_hash),
        target=Target(trace_id=f"{number:032x}", span_id="b" * 16, start_ns=0, end_ns=1, resource={}),
        session_id=None,
    )


# Of 60 traces people pass the even ones; the judge is wrong on every tenth.
SCORES = [evaluation(x, 0.9 if (x % 2 == 0) != (x % 10 == 3) else 0.2 + x / 1000) for x in range(60)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("scores.jsonl").write_text("".join(json.dumps(x.to_json()) + "\n" for x in SCORES))
    return tmp_path


def labelled(numbers, label=lambda x: "fail" if x % 2 else "pass", annotator="ada"):
    rows = [f"{x:032x},task_completion,{label(x)},{annotator}" for x in numbers]
    return "\n".join(["trace_id,metric,label,annotator", *rows]) + "\n"


@pytest.fixture
def calibrated(folder, capsys):
    def run(text, *words):
        Path("labels").write_text(text)
        code = main(["calibrate", "labels", "scores.jsonl", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_the_report_has_n_and_an_interval(calibrated):
    code, text, _ = calibrated(labelled(range(40)))
    row = next(x.split() for x in text.splitlines() if x.startswith("agreement"))
    assert (code, row) == (0, ["agreement", "0.90", "[0.77,", "0.97]", "40"])


def test_all_that_is_measured_is_in_the_json(calibrated):
    measures = json.loads(calibrated(labelled(range(40)), "--json")[1])["measures"]
    assert list(measures) == [
        "agreement",
        "Cohen's kappa",
        "sensitivity",
        "specificity",
        "precision",
        "AUC",
        "best threshold",
        "threshold of most agreement",
        "pass rate by people, labelled",
        "pass rate by the judge, all",
        "pass rate corrected, all",
        "pass rate prediction-powered, all",
    ]
    assert all(x["low"] <= x["value"] <= x["high"] for x in measures.values())


def test_labels_may_be_json_lines(calibrated):
    lines = [{"trace_id": f"{x:032x}", "metric": "task_completion", "label": x % 2 == 0} for x in range(12)]
    found = calibrated("".join(json.dumps(x) + "\n" for x in lines), "--json")[1]
    assert json.loads(found)["n"] == 12


def test_grades_pass_from_the_metrics_threshold(calibrated):
    found = json.loads(calibrated(labelled(range(20), lambda x: 0.1 if x % 2 else 0.8), "--json")[1])
    assert found["confusion"]["true_pass"] == 10


def test_annotators_are_held_against_each_other(calibrated):
    other = labelled(range(10), lambda x: "pass" if x < 6 else "fail", "ben").split("\n", 1)[1]
    found = json.loads(calibrated(labelled(range(30)) + other, "--json")[1])
    assert found["measures"]["agreement of ada and ben"]["n"] == 10
    assert (found["n"], found["tied"]) == (25, 5)


def test_one_class_is_a_reason_and_no_number(calibrated):
    code, text, _ = calibrated(labelled(range(0, 20, 2)))
    assert code == 0
    assert "cannot be told: no label says fail" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "labels: the file is empty"),
        ("trace_id,metric,label\n", "labels: a heading and no label"),
        ("trace_id,label\nab,1\n", "labels:1: no column metric"),
        ("trace_id,metric,label\nab,task_completion,perhaps\n", "labels:2: label 'perhaps' is neither"),
        ("trace_id,metric,label\n,task_completion,1\n", "labels:2: neither trace_id and session_id"),
        ("trace_id,metric,label\nab,task_completion,1\n", "labels:2: there is no trace 'ab' with a score"),
        ("trace_id,metric,label\nab,coherence,1\n", "labels:2: there is no score of 'coherence'"),
        ("trace_id,metric,label\nab,m,1\nab,m,0\n", "labels:3: m of ab: without annotator, it says 0, and 1 on line 2"),
        ('{"trace_id": \n', "labels:1: not JSON"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(calibrated, text, said):
    code, _, errors = calibrated(text)
    assert (code, errors.count("\n")) == (2, 1)
    assert f"spanscore: error: {said}" in errors


def kept(folder):
    return [
        calibration.Calibration.from_json(x) for x in calibrations.kept(Config(url=f"sqlite:///{folder}/spanscore.db"))
    ]


def test_a_calibration_is_kept_under_the_judge_with_its_prompt(calibrated, folder):
    calibrated(labelled(range(40)))
    [found] = kept(folder)
    judge = ("task_completion", "task_completion", "1", "a-model", "ab" * 16, None, 0.5)
    assert (found.judge, found.confusion.n) == (judge, 40)


def test_to_calibrate_again_replaces(calibrated, folder):
    calibrated(labelled(range(40)))
    calibrated(labelled(range(50)))
    assert [x.confusion.n for x in kept(folder)] == [50]


def test_nothing_is_kept_when_asked_not_to(calibrated, folder):
    calibrated(labelled(range(40)), "--no-store")
    assert list(folder.glob("*.db")) == []


def test_later_pass_rates_are_corrected(calibrated):
    calibrated(labelled(range(40)))
    [line] = aggregates.corrections(default(), SCORES)
    assert "corrected 0.50 [" in line
    assert line.endswith(", 40 labels)")


def test_another_prompt_is_not_corrected_and_said(calibrated):
    calibrated(labelled(range(40)))
    [line] = aggregates.corrections(default(), [evaluation(1, 0.9, prompt_hash="cd" * 16)])
    assert "not corrected: the calibration of " in line
    assert line.endswith(" is of another prompt")


def test_without_a_store_nothing_is_said_and_none_is_made(folder):
    assert aggregates.corrections(default(), SCORES) == []
    assert list(folder.glob("*.db")) == []


def test_recorded_traces_are_scored_by_the_metrics_that_the_labels_name(folder, capsys):
    assert main(["eval", str(RECORDING), "--metric", "confidence", "--jsonl"]) == 0
    ids = [json.loads(x)["trace_id"] for x in capsys.readouterr().out.splitlines()]
    rows = [f"{x},confidence,{'pass' if number else 'fail'}" for number, x in enumerate(ids)]
    Path("labels").write_text("\n".join(["trace_id,metric,label", *rows]))
    assert main(["calibrate", "labels", str(RECORDING), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == len(ids)
