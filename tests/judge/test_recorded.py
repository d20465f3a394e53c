"""Recorded answers: given again to the same question, whenever it is asked, and to no other."""

import asyncio
import json
from dataclasses import replace

import pytest
from pydantic import BaseModel

from spanscore.errors import ConfigError, JudgeUnavailableError
from spanscore.judge.cache import RecordedJudge, RecordingJudge, load
from spanscore.judge.marks import fence
from spanscore.judge.port import Answer, Prompt
from spanscore.model.score import JudgeUsage


class Verdict(BaseModel):
    reason: str
    score: float


class Model:
    """A judge that always says the same."""

    def __init__(self, name="some-model"):
        self.name = name

    async def ask(self, prompt, schema, *, models=()):
        return Answer(schema(reason="as asked", score=0.75), self.name, JudgeUsage(calls=1))


def _prompt(
    transcript="Started 2026-11-21 07:48:17 UTC, a Saturday\nUser input: hello",
    question="How well?",
):
    return Prompt("You judge.", fence(transcript), question)


def _ask(judge, prompt, schema=Verdict):
    return asyncio.run(judge.ask(prompt, schema))


@pytest.fixture
def recorded(tmp_path):
    """A file with the answer to one question."""
    recording = RecordingJudge(Model())
    _ask(recording, _prompt())
    path = tmp_path / "answers.jsonl"
    recording.recording("2026-11-22").write(path)
    return path


def test_the_same_question_has_the_recorded_answer_at_no_cost(recorded):
    answer = _ask(RecordedJudge(recorded), _prompt())
    assert answer == Answer(
        Verdict(reason="as asked", score=0.75), "some-model", JudgeUsage(cached=1)
    )


def test_the_same_turn_at_another_time_has_the_recorded_answer(recorded):
    later = _prompt("Started 2027-01-02 10:11:12 UTC, a Friday\nUser input: hello")
    assert _ask(RecordedJudge(recorded), later).value.score == 0.75


@pytest.mark.parametrize(
    "other",
    [
        _prompt("Started 2026-11-21 07:48:17 UTC, a Saturday\nUser input: goodbye"),
        _prompt(question="How badly?"),
    ],
    ids=["transcript", "question"],
)
def test_another_question_has_no_answer_and_the_error_says_what_to_do(recorded, other):
    with pytest.raises(
        JudgeUnavailableError, match=r"answers\.jsonl has no answer to this question.*record again"
    ):
        _ask(RecordedJudge(recorded), other)


def test_each_answer_names_the_model_that_gave_it(recorded):
    first, second = load(recorded), RecordingJudge(Model("other-model"))
    _ask(second, _prompt(question="How badly?"))
    added = second.recording("2026-11-23")
    replace(added, answers={**first.answers, **added.answers}).write(recorded)
    judge = RecordedJudge(recorded)
    questions = ("How well?", "How badly?")
    given = [_ask(judge, _prompt(question=x)).model for x in questions]
    assert given == ["some-model", "other-model"]
    assert load(recorded).model == "other-model, some-model"


def test_the_model_of_the_head_gave_what_names_no_other(recorded):
    header, line = (json.loads(x) for x in recorded.read_text().splitlines())
    header["model"] = line.pop("model")
    recorded.write_text(f"{json.dumps(header)}\n{json.dumps(line)}\n")
    assert _ask(RecordedJudge(recorded), _prompt()).model == "some-model"


def test_an_answer_in_another_form_is_no_answer(recorded):
    class Other(BaseModel):
        passed: bool

    with pytest.raises(JudgeUnavailableError, match="has no answer"):
        _ask(RecordedJudge(recorded), _prompt(), Other)


def test_a_recorded_answer_that_does_not_fit_its_form_is_named(recorded):
    header, line = recorded.read_text().splitlines()
    broken = json.dumps({**json.loads(line), "answer": {"reason": "?"}})
    recorded.write_text(f"{header}\n{broken}\n")
    with pytest.raises(JudgeUnavailableError, match=r"cannot be used: .*score"):
        _ask(RecordedJudge(recorded), _prompt())


@pytest.mark.parametrize(
    "content",
    ["", "no JSON", '{"model": "m"}', '{"model": "m", "recorded": "d"}\n{"key": 1}', "[]"],
)
def test_a_file_of_something_else_is_refused_by_name(tmp_path, content):
    path = tmp_path / "other.jsonl"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"other\.jsonl: no file of recorded answers"):
        RecordedJudge(path)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.jsonl: No such file"):
        RecordedJudge(tmp_path / "none.jsonl")


def test_a_recording_is_the_same_file_whatever_the_order_of_questions(tmp_path):
    written = []
    for questions in (["a", "b"], ["b", "a"]):
        recording = RecordingJudge(Model())
        for question in questions:
            _ask(recording, _prompt(question=question))
        path = tmp_path / f"{questions[0]}.jsonl"
        recording.recording("2026-11-22").write(path)
        written.append(path.read_text())
    assert written[0] == written[1]
