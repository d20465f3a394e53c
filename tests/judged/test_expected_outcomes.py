"""A suite's expected outcomes, which a model is asked about through litellm: what holds passes,
what does not fails.
"""

import json
from pathlib import Path

import pytest
from obliging_model import ObligingModel
from scripted_server import ScriptedServer

from spanscore.cli.main import main

RECORDING = str(Path(__file__).parents[2] / "examples" / "recordings" / "pydantic-ai")
SUITE = {
    "name": "travel",
    "cases": [
        {
            "id": "move",
            "input": "Move the booking to 20:00.",
            "expected_outcomes": ["the table is booked for 20:00", "the user was told so"],
        }
    ],
}


@pytest.fixture
def tested(monkeypatch, tmp_path, capsys):
    """Runs the suite with a model that says of each outcome whether it holds: the exit code and the
    case.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    (tmp_path / "suite.yaml").write_text(json.dumps(SUITE))

    def run(*, passed):
        said = [{"justification": "[turn 0]", "passed": passed}] * len(
            SUITE["cases"][0]["expected_outcomes"]
        )
        with ScriptedServer(ObligingModel(expected_outcomes=said)) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            monkeypatch.setenv("OPENAI_API_BASE", server.url)
            words = [
                "--model",
                "openai/gpt-4o-mini",
                "--no-cache",
                "--output",
                str(tmp_path / "run.json"),
            ]
            code = main(["test", str(tmp_path / "suite.yaml"), RECORDING, *words])
        capsys.readouterr()
        [case] = json.loads((tmp_path / "run.json").read_text())["cases"]
        return code, case

    return run


def test_outcomes_that_hold_pass_the_case(tested):
    code, case = tested(passed=True)
    assert (code, case["status"], case["reasons"]) == (0, "pass", []), case["reasons"]


def test_outcomes_that_do_not_hold_fail_the_case_and_are_named(tested):
    code, case = tested(passed=False)
    assert (code, case["status"]) == (1, "fail")
    assert "the table is booked for 20:00" in " ".join(case["reasons"])
