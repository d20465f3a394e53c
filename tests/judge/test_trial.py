"""A model is tried when the server starts, again while it gives no answer, and in doubt."""

import asyncio
import logging

import pytest
from judge_harness import World, config_for
from scripted_server import DROPPED, ScriptedServer, answer, refusal

from spanscore.errors import JudgeTimeoutError, JudgeUnavailableError
from spanscore.judge import open_for_trial, trial
from spanscore.judge.port import Answer
from spanscore.judge.trial import FIRST_WAIT_S, LEAST_WAIT_S, LONGEST_WAIT_S, Trials, Verdict
from spanscore.model.score import JudgeUsage
from spanscore.telemetry import Meter, declared

WRONG_KEY = JudgeUnavailableError("m: wrong key", status=401)


class ScriptedJudge:
    """Gives its outcomes in order, the last one for ever: None is an answer, an error is raised."""

    def __init__(self, *outcomes):
        self._outcomes = list(outcomes)
        self.asked = []

    async def ask(self, prompt, schema, *, models=()):
        self.asked.append(models[0])
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if outcome is not None:
            raise outcome
        return Answer(Verdict(right=True), models[0], JudgeUsage(1))


def trials_of(judge, *, world=None, meter=None, models=("m",)):
    return Trials(models, lambda: judge, meter or Meter(), (world or World()).timing())


class EndsAfter(World):
    """A world whose sleepers are woken until they slept so often."""

    def __init__(self, sleeps):
        super().__init__()
        self._left = sleeps

    async def sleep(self, seconds):
        await super().sleep(seconds)
        self._left -= 1
        if self._left <= 0:
            raise asyncio.CancelledError


def run(judge, sleeps, **options):
    """Run trials of `judge` until they slept so often; returns them and how long they slept each
    time.
    """
    world = EndsAfter(sleeps)

    async def main():
        trials = trials_of(judge, world=world, **options)
        try:
            await trials.run()
        except asyncio.CancelledError:
            return trials

    return asyncio.run(main()), world.sleeps


def up(meter):
    return next(x.values for x in meter.collect() if x.metric is declared.JUDGE_UP)


def test_without_a_trial_at_the_start_nothing_is_asked_before_there_is_doubt():
    judge = ScriptedJudge(WRONG_KEY)

    async def main():
        trials = trials_of(judge)
        running = asyncio.create_task(trials.run(at_start=False))
        await asyncio.sleep(0)
        before = list(judge.asked)
        trials.doubt()
        await trials.settle()
        running.cancel()
        return before, trials.states["m"].status

    assert asyncio.run(main()) == ([], "fails")
    assert judge.asked == ["m"]


def test_a_model_that_gives_no_answer_is_one_line_of_level_error(caplog):
    run(ScriptedJudge(WRONG_KEY), 5)
    (line,) = caplog.records
    assert line.levelno == logging.ERROR
    assert "m: wrong key" in line.getMessage()
    assert "judge.api_key" in line.getMessage()


def test_another_reason_is_another_line(caplog):
    run(ScriptedJudge(WRONG_KEY, JudgeTimeoutError("m: no answer within 60 s")), 3)
    assert len(caplog.records) == 2


def test_that_it_answers_again_is_a_line_of_level_info(caplog):
    caplog.set_level(logging.INFO)
    run(ScriptedJudge(WRONG_KEY, WRONG_KEY, None), 3)
    assert caplog.messages[-1] == "m answers again, after 30 s"


def test_between_trials_of_what_fails_the_wait_doubles_to_a_bound():
    _, slept = run(ScriptedJudge(WRONG_KEY), 8)
    assert slept == [min(FIRST_WAIT_S * 2**x, LONGEST_WAIT_S) for x in range(8)]


def test_what_answers_is_tried_again_only_in_doubt():
    judge = ScriptedJudge(None)

    async def main():
        trials = trials_of(judge)
        running = asyncio.create_task(trials.run())
        for _ in range(20):
            await asyncio.sleep(0)
        asked = [len(judge.asked)]
        trials.doubt()
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        return [*asked, len(judge.asked)]

    assert asyncio.run(main()) == [1, 2]


def test_doubt_costs_a_trial_a_minute_at_most():
    class Doubting(ScriptedJudge):
        async def ask(self, prompt, schema, *, models=()):
            found = await super().ask(prompt, schema, models=models)
            doubts[0]()
            return found

    doubts, judge, world = [], Doubting(None), EndsAfter(4)

    async def main():
        trials = trials_of(judge, world=world)
        doubts.append(trials.doubt)
        await asyncio.gather(trials.run(), return_exceptions=True)

    asyncio.run(main())
    assert world.sleeps == [LEAST_WAIT_S] * 4


@pytest.mark.parametrize(("outcome", "value"), [(None, 1.0), (WRONG_KEY, 0.0)])
def test_the_meter_shows_whether_a_model_answers(outcome, value):
    meter = Meter()
    asyncio.run(trials_of(ScriptedJudge(outcome), meter=meter).try_all())
    assert up(meter) == {("m",): value}


def test_before_the_first_trial_the_meter_shows_nothing():
    meter = Meter()
    trials_of(ScriptedJudge(None), meter=meter)
    assert up(meter) == {}


def test_what_fails_is_told_with_what_to_do():
    trials = trials_of(ScriptedJudge(WRONG_KEY))
    asyncio.run(trials.try_all())
    assert trials.trouble == "the judge gives no answers: m: wrong key"
    assert trials.states["m"].to_json()["fix"].startswith("give a valid key")


def test_a_list_of_models_may_answer_as_long_as_one_of_them_does():
    trials = trials_of(ScriptedJudge(WRONG_KEY, None), models=("m", "n"))
    asyncio.run(trials.try_all())
    assert [trials.may_answer(x) for x in (["m"], ["m", "n"], ["n"], [])] == [
        False,
        True,
        True,
        False,
    ]


def test_an_error_of_any_kind_stops_nothing():
    trials = trials_of(ScriptedJudge(ZeroDivisionError()))
    asyncio.run(trials.try_all())
    assert trials.states["m"].reason == "ZeroDivisionError"


def tried(*script, **settings):
    """The reason and the advice that a trial before a server with this script ends with."""
    with ScriptedServer(*script) as server:
        config = config_for(server, timeout="2s", **settings)
        found = Trials(config.models, lambda: open_for_trial(config), Meter(), World().timing())
        asyncio.run(found.try_all())
        return found.states[config.model], server


def test_a_model_that_answers_is_asked_once():
    state, server = tried(answer({"right": True}))
    assert (state.status, len(server.calls)) == ("answers", 1)


@pytest.mark.parametrize(
    ("reply", "fix"),
    [
        (refusal(401, "Incorrect API key provided"), "give a valid key"),
        (refusal(403, "not allowed"), "give a valid key"),
        (refusal(404, "The model does not exist"), "see the model's name"),
        (DROPPED, "see judge.model, judge.api_base"),
    ],
)
def test_a_refusal_is_told_with_what_to_do(reply, fix):
    state, _ = tried(reply, max_retries=0)
    assert (state.status, state.fix[: len(fix)]) == ("fails", fix)


def test_without_a_key_the_advice_is_to_give_one():
    state, server = tried(answer({"right": True}), api_key=None)
    assert (state.fix, server.calls) == (trial.advice(WRONG_KEY), [])


def test_a_model_without_a_provider_fails_without_a_call():
    state, server = tried(answer({"right": True}), model="nonsense")
    assert (state.status, server.calls) == ("fails", [])


def test_an_answer_that_does_not_fit_is_no_answer():
    state, _ = tried(answer("I cannot say."))
    assert state.status == "fails"
