import asyncio

import pytest

from spanscore.errors import JudgeTimeoutError
from spanscore.judge.port import Ending, RemembersAnswers


class Hanging:
    def __init__(self):
        self.asked = asyncio.Event()

    async def ask(self, prompt, schema, *, models=()):
        self.asked.set()
        await asyncio.Event().wait()


class Answering:
    async def ask(self, prompt, schema, *, models=()):
        return "an answer"

    async def recall(self, questions, *, models=()):
        return ["kept"]

    async def remember(self, answers, model):
        pass


class TimedOut:
    async def ask(self, prompt, schema, *, models=()):
        raise TimeoutError("of the judge itself")


def asked(judge):
    return judge.ask(None, None)


def test_a_question_that_is_open_when_asking_ends_fails():
    async def check():
        judge, ending = Hanging(), Ending()
        asking = asyncio.create_task(asked(ending.of(judge)))
        await judge.asked.wait()
        ending.begin()
        with pytest.raises(JudgeTimeoutError, match="the process ended"):
            await asking

    asyncio.run(check())


def test_a_question_that_comes_after_the_end_fails_as_well():
    async def check():
        ending = Ending()
        ending.begin()
        with pytest.raises(JudgeTimeoutError):
            await asked(ending.of(Hanging()))

    asyncio.run(check())


def test_an_answer_that_waits_for_nobody_is_taken_after_the_end():
    async def check():
        ending = Ending()
        ending.begin()
        assert await asked(ending.of(Answering())) == "an answer"

    asyncio.run(check())


def test_a_time_out_of_the_judge_itself_stays_what_it_is():
    async def check():
        with pytest.raises(TimeoutError, match="of the judge itself"):
            await asked(Ending().of(TimedOut()))

    asyncio.run(check())


def test_what_went_unanswered_is_counted():
    async def check():
        ending = Ending()
        ending.begin()
        for _ in range(2):
            with pytest.raises(JudgeTimeoutError):
                await asked(ending.of(Hanging()))
        assert ending.unanswered == 2

    asyncio.run(check())


def test_a_judge_that_remembers_its_answers_still_does():
    async def check():
        judge = Ending().of(Answering())
        assert isinstance(judge, RemembersAnswers)
        assert await judge.recall([]) == ["kept"]

    asyncio.run(check())


def test_a_judge_that_remembers_nothing_is_taken_for_no_other():
    async def check():
        assert not isinstance(Ending().of(Hanging()), RemembersAnswers)

    asyncio.run(check())
