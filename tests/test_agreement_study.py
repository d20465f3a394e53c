"""The study of agreement without a judge: what needs none is held against the labels of each
corpus, and what needs one is said to be missing.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


def run_of(task, *, passed, question, answer):
    return {
        "task_id": task,
        "trial": 0,
        "reward": float(passed),
        "info": {"task": {"actions": []}},
        "traj": [
            {"role": "system", "content": "You book flights."},
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ],
    }


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """What is printed of two corpora: in the first passed runs answer in the question's words,
    in the second failed ones do.
    """
    folder = tmp_path_factory.mktemp("study")
    question, other = "When does my flight to Lisbon leave?", "Zebras."
    near = "Your flight to Lisbon does leave at nine."
    for name, takes_up in (("near", True), ("far", False)):
        runs = [
            run_of(
                task,
                passed=task < 6,
                question=question,
                answer=near if (task < 6) == takes_up else other,
            )
            for task in range(12)
        ]
        (folder / f"{name}.json").write_text(json.dumps(runs))
    command = [sys.executable, BENCH / "agreement.py", "--without-judge"]
    command += ["--embedding", '{"provider": "ngrams"}', folder / "near.json", folder / "far.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def rows(study, metric):
    return [x.split() for x in study.splitlines() if x.startswith(f"{metric} ")]


@pytest.mark.slow
def test_each_corpus_has_a_table(study):
    heads = [x for x in study.splitlines() if " trajectories of " in x]
    assert heads == [f"{x}: 12 trajectories of 12 tasks, 6 passed" for x in ("near", "far")]


@pytest.mark.slow
def test_a_score_without_a_threshold_has_an_area_and_no_verdicts(study):
    assert [(x[1:4], x[4]) for x in rows(study, "coherence")] == [
        (["12", "-", "-"], "1.00"),
        (["12", "-", "-"], "0.00"),
    ]


@pytest.mark.slow
def test_a_metric_whose_signals_need_a_judge_has_no_figures_and_says_why(study):
    assert [x[1:] for x in rows(study, "agent_consistency")] == [["0", *"-----"]] * 2
    said = [x for x in study.splitlines() if x.startswith("agent_consistency: ")]
    assert [x.partition(": No trace")[0] for x in said] == [
        "agent_consistency: 12 without a score, of which 12"
    ] * 2
    assert all("confidence is missing in 1 of 1 trace (no judge is configured)" in x for x in said)
