"""Tool correctness on 120 real trajectories: what it says of an agent's calls, beside what the
benchmark rewarded.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from spanscore import pass_pow_k
from spanscore.metrics.expected import ExpectedCall, ToolWeights, UsedCall, measure_tools
from spanscore.model.trace import ToolCall
from spanscore.stats import unbiased_pass_pow_k

_FILE = Path(__file__).parent / "tau_bench" / "airline-gpt-4o-writes.jsonl"
ROWS = [json.loads(line) for line in _FILE.read_text(encoding="utf-8").splitlines()]
WEIGHTS = {"selection": 0.5, "parameters": 0.5, "sequence": 0, "utilisation": 0}
OTHER_REASONS = {(2, 1), (5, 1), (28, 0), (28, 1), (28, 2), (28, 3)}
"""Task and trial where the reward rests on what else was said or done, or on arguments that change
nothing.
"""


def correctness(row):
    expected = [ExpectedCall(**x) for x in row["expected"]]
    used = [UsedCall(x["name"], x["arguments"], n) for n, x in enumerate(row["calls"])]
    return measure_tools(
        expected,
        used,
        sequence_matters=False,
        results_used=True,
        weights=ToolWeights(**WEIGHTS),
        threshold=1.0,
    )


def test_the_calls_are_right_where_the_benchmark_rewarded_them():
    wrong = {
        (x["task_id"], x["trial"])
        for x in ROWS
        if (found := correctness(x)) and found.is_correct != (x["reward"] == 1)
    }
    assert wrong == OTHER_REASONS


def test_no_trial_without_a_call_was_rewarded():
    assert {x["reward"] for x in ROWS if correctness(x) is None} == {0.0}


@pytest.fixture(scope="module")
def tasks():
    """Rows by task, without the tasks whose reward has other reasons."""
    left_out = {task for task, _ in OTHER_REASONS}
    return {
        n: [x for x in ROWS if x["task_id"] == n] for n in {x["task_id"] for x in ROWS} - left_out
    }


def test_a_suite_comes_to_the_benchmarks_pass_pow_k(suite, said, run_of, tasks):
    cases = [
        {"id": str(n), "expected_tools": rows[0]["expected"], "tool_sequence_matters": False}
        for n, rows in tasks.items()
    ]
    traces = [
        said(
            row["task_id"] * 10 + row["trial"],
            case=str(row["task_id"]),
            tool_calls=tuple(
                ToolCall(str(n), x["name"], x["arguments"]) for n, x in enumerate(row["calls"])
            ),
        )
        for rows in tasks.values()
        for row in rows
    ]
    run = run_of(suite(*cases, trials=4, agentic={"tool_weights": WEIGHTS}), traces)
    passed = [sum(x["reward"] for x in rows) for rows in tasks.values()]
    assert [x.passed for x in run.cases] == passed
    estimate, _ = run.over_cases("pass_pow_k")
    assert estimate.value == pytest.approx(
        sum(unbiased_pass_pow_k(4, int(c), 4) for c in passed) / len(passed)
    )


def test_the_published_table_holds_for_the_plug_in_form_at_k_1():
    # tau-bench airline, gpt-4o, 50 tasks of 4 trials
    successes = Counter({0: 14, 1: 12, 2: 10, 3: 4, 4: 10})
    assert sum(pass_pow_k(4, c, 1) * tasks for c, tasks in successes.items()) / 50 == pytest.approx(
        0.42
    )
