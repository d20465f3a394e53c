"""The reader of labelled trajectories: each published format becomes sessions with calls, results
and the label.
"""

import json
import runpy
from pathlib import Path

import pytest

READ = runpy.run_path(str(Path(__file__).parents[1] / "bench" / "trajectories.py"))["read"]
INTERCODE = {
    "0": {
        "task_id": 4,
        "query": "Count the files",
        "turn_history": {"actions": ["ls", "ls | wc -l"], "observations": ["a b", "2"]},
        "summary": {"max_reward": 1},
    }
}
MINT = {
    "task": {"task_id": "7"},
    "state": {
        "history": [
            {"role": "user", "content": "How much is 2 + 2?"},
            {"role": "assistant", "content": "I compute. <execute>print(2+2)</execute>"},
            {"role": "user", "content": "Observation: 4"},
            {"role": "assistant", "content": "<solution>5</solution>"},
            {"role": "user", "content": "Your answer is wrong."},
        ],
        "success": False,
    },
}

WORKBENCH = {
    "task": "calendar-2",
    "cluster": "cancel my {n} meeting",
    "success": True,
    "system": "Today is Thursday.",
    "tools": [{"type": "function", "name": "calendar.delete", "parameters": {"type": "object"}}],
    "events": [
        ["user", "Cancel my first meeting"],
        ["thought", "It is number 7."],
        ["call", "c0", "calendar.delete", {"id": "7"}],
        ["result", "c0", "Deleted."],
        ["assistant", "It is cancelled."],
    ],
}


def of(path, text):
    path.write_text(text)
    [trajectory] = READ(path)
    [trace] = trajectory.session.traces
    return trajectory, [(x.name, x.arguments, x.result) for x in trace.tool_calls]


def test_an_episode_of_intercode_is_a_turn_of_executed_code(tmp_path):
    trajectory, calls = of(tmp_path / "intercode.json", json.dumps(INTERCODE))
    assert (trajectory.task, trajectory.passed, trajectory.session.traces[0].user_input) == (
        "4",
        True,
        "Count the files",
    )
    assert calls == [("execute", {"code": "ls"}, "a b"), ("execute", {"code": "ls | wc -l"}, 2)]


def test_a_state_of_mint_is_a_turn_of_executed_code_and_proposed_solutions(tmp_path):
    trajectory, calls = of(tmp_path / "mint.jsonl", json.dumps(MINT) + "\n")
    assert (trajectory.task, trajectory.passed) == ("7", False)
    assert calls == [
        ("execute", {"text": "print(2+2)"}, "Observation: 4"),
        ("propose_solution", {"text": "5"}, "Your answer is wrong."),
    ]


def test_a_run_of_workbench_is_a_turn_with_its_instructions_tools_and_calls(tmp_path):
    trajectory, calls = of(tmp_path / "workbench.jsonl", json.dumps(WORKBENCH) + "\n")
    [trace] = trajectory.session.traces
    assert (trajectory.task, trajectory.passed) == ("cancel my {n} meeting", True)
    assert calls == [("calendar.delete", {"id": "7"}, "Deleted.")]
    assert (trace.system_instructions, trace.final_output) == (
        "Today is Thursday.",
        "It is cancelled.",
    )
    assert [x.name for x in trace.available_tools] == ["calendar.delete"]


@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
def test_a_file_of_another_format_is_refused(tmp_path, name):
    (tmp_path / name).write_text('{"a": 1}')
    with pytest.raises(ValueError, match=r"bench/trajectories.py lists"):
        list(READ(tmp_path / name))
