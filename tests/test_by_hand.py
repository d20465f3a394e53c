"""Questions of a judge as files, and answers from files."""

import asyncio
import runpy
from pathlib import Path

import pytest
from pydantic import BaseModel

from spanscore.errors import JudgeUnavailableError
from spanscore.judge import Prompt
from spanscore.judge.cache import RecordedJudge

JUDGE = runpy.run_path(str(Path(__file__).parents[1] / "bench" / "by_hand.py"))["JudgeByHand"]
PROMPT = Prompt("You judge.", "User input: hello", "How well?")


class Verdict(BaseModel):
    reason: str
    score: float


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"recorded": "2026-11-22"}\n')
    return RecordedJudge(path)


def ask(judge):
    return asyncio.run(judge.ask(PROMPT, Verdict))


@pytest.fixture
def question(recorded, tmp_path):
    """The file of the one question that has no answer."""
    judge = JUDGE(recorded, None, "")
    for _ in range(2):
        with pytest.raises(JudgeUnavailableError):
            ask(judge)
    assert judge.write_questions(tmp_path / "asked") == 1
    [path] = (tmp_path / "asked").iterdir()
    return path


def test_a_question_without_an_answer_is_a_file_of_its_messages_and_schema(question):
    shown = [part.strip() for part in question.read_text().split("# ")[1:]]
    assert shown[:2] == [
        "System message\n\nYou judge.",
        "User message\n\nUser input: hello\n\nHow well?",
    ]
    assert '"required":["reason","score"]' in shown[2]


def test_an_answer_in_a_file_is_one_of_the_named_model(question, recorded):
    question.with_suffix(".json").write_text('{"reason": "It greets.", "score": 0.5}')
    judge = JUDGE(recorded, question.parent, "some-model")
    answer = ask(judge)
    assert (answer.value, answer.model) == (Verdict(reason="It greets.", score=0.5), "some-model")
    assert judge.write_questions(question.parent) == 0


def test_an_answer_that_does_not_fit_is_named_and_its_question_stays(question, recorded, capsys):
    wrong = question.with_suffix(".json")
    wrong.write_text('{"reason": "It greets.", "score": "high"}')
    judge = JUDGE(recorded, question.parent, "some-model")
    with pytest.raises(JudgeUnavailableError, match="does not fit its schema"):
        ask(judge)
    assert f"{wrong}: 1 validation error" in capsys.readouterr().err
    assert judge.write_questions(question.parent) == 1
