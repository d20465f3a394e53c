"""What got no answer is asked again once it may get one: only that, as the next revision, and its
session after it.
"""

import asyncio
import logging
from dataclasses import replace
from typing import ClassVar

import pytest

from spanscore.evaluation.config import AskAgain
from spanscore.judge.config import Config as JudgeConfig
from spanscore.judge.trial import Trials
from spanscore.model.score import Evaluation, Evaluator, Failure, Score, Skip
from spanscore.model.trace import AgentTrace, Target
from spanscore.scoring import FIRST_WAIT_NS, Scoring
from spanscore.serving.judge_retries import ConfiguredMetrics, Rescoring
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace
from spanscore.telemetry import Meter

DAY_NS = JudgeConfig().budget.window_ns
NO_JUDGE = Failure("JudgeUnavailableError", "m: wrong key")
NO_BUDGET = Skip("the judge's budget is spent", cause="budget")
NO_VECTOR = Failure("EmbeddingError", "no vector")
NO_SENSE = Failure("JudgeAnswerError", "no valid answer")
GOOD = Score(0.9, "well done")
JUDGED = ConfiguredMetrics(frozenset({"a", "b", "loop_detection"}), {"a": ("m",), "b": ("m",)})


class FakeEngine:
    """Gives each metric the outcome that `outcomes` has for it."""

    looks_back = uses_external_scores = False
    ranking: ClassVar = {}

    def __init__(self):
        self.outcomes = {}
        self.asked = []

    async def evaluate_trace(self, trace, overrides, *, revision, earlier, before=()):
        names = tuple(self.outcomes) if overrides is None else overrides.metrics
        self.asked.append((trace.id, names))
        return [_evaluation(trace, name, self.outcomes[name], revision=revision) for name in names]

    async def evaluate_session(self, session, signals, overrides, *, revision, external, before=()):
        facts = {"scope": "session", "subject_id": session.session_id, "revision": revision}
        return [
            _evaluation(session.traces[-1], x, outcome, **facts)
            for x, outcome in self.outcomes.items()
        ]


class FakeSender:
    """Remembers what it was offered."""

    def __init__(self):
        self.offered = []

    def offer(self, numbered):
        self.offered += [evaluation for _, evaluation in numbered]


class FakeTrials(Trials):
    """Knows what a test says."""

    def __init__(self):
        super().__init__([], None, Meter())
        self.works = True
        self.since_ns = 0

    @property
    def answers_since_ns(self):
        return self.since_ns

    def may_answer(self, models):
        return self.works and bool(tuple(models))


def _evaluation(trace, metric, outcome, **facts):
    defaults = {
        "scope": "trace",
        "subject_id": trace.id,
        "metric": metric,
        "outcome": outcome,
        "threshold": 0.5,
    }
    evaluator = Evaluator("LLM", "judge", "1", model="m")
    placed = {
        "scale": (0.0, 1.0),
        "evaluator": evaluator,
        "target": trace.target,
        "session_id": trace.session_id,
    }
    return Evaluation(**defaults | placed | facts)


def a_trace(number=1, **facts):
    trace_id = f"{number:032x}"
    target = Target(trace_id, f"{number:016x}", 1000, 2000)
    ids = {
        "trace_ids": (trace_id,),
        "root_span_id": target.span_id,
        "opening_span_id": target.span_id,
    }
    return AgentTrace(
        target=target, started_ns=1000 * number, ended_ns=2000 * number, **ids | facts
    )


class World:
    """A store, the scoring before it and what asks again, with a clock that is moved by hand."""

    def __init__(self, folder, configured=JUDGED, **settings):
        self.now_ns = 10 * DAY_NS
        self.engine, self.sender, self.trials, self.meter = (
            FakeEngine(),
            FakeSender(),
            FakeTrials(),
            Meter(),
        )
        self.store = Store.open(Config(url=f"sqlite:///{folder}/store.db"), clock_ns=self.clock)
        self.failed, self.sessions_due = [], []
        self.scoring = Scoring(
            self.engine,
            self.store,
            self.sender,
            self.meter,
            judge_failed=lambda: self.failed.append(1),
            budget_window_ns=DAY_NS,
            clock_ns=self.clock,
        )
        self.rescoring = Rescoring(
            AskAgain(**settings),
            configured,
            self.trials,
            self.scoring,
            self.store,
            self.meter,
            session_due=self.sessions_due.append,
            clock_ns=self.clock,
            sleep=self.ends,
        )

    def clock(self):
        return self.now_ns

    async def ends(self, _seconds):
        raise asyncio.CancelledError

    def evaluated(self, trace, **outcomes):
        """Evaluate a trace for the first time, with these outcomes, and forget what was asked for
        that.
        """
        self.engine.outcomes = outcomes

        async def both():
            stored = StoredTrace(trace, 1, "d")
            await self.scoring.commit([stored], await self.scoring.evaluate(stored))

        asyncio.run(both())
        self.engine.asked.clear()
        return trace

    def now(self, after_ns=0, **outcomes):
        """Pass time, then ask once for what is due, with these outcomes."""
        self.now_ns += after_ns
        self.engine.outcomes |= outcomes
        asyncio.run(self.rescoring.once())
        return self.engine.asked

    def newest(self, trace):
        return {x.metric: x for x in self.store.evaluations(trace_id=trace.id)}

    def totals(self):
        return self.meter.totals().get("evaluations_asked_again", 0)


@pytest.fixture
def world(tmp_path):
    """`world(**settings)`: a World with these settings of `ask_again`."""
    opened = []

    def make(**settings):
        opened.append(World(tmp_path, **settings))
        return opened[-1]

    yield make
    for each in opened:
        each.store.close()


@pytest.mark.parametrize(
    "outcome", [NO_JUDGE, NO_VECTOR, Failure("JudgeTimeoutError", "slow"), NO_BUDGET]
)
def test_what_got_no_answer_is_asked_again(world, outcome):
    here = world()
    trace = here.evaluated(a_trace(), a=outcome)
    assert here.now(DAY_NS, a=GOOD) == [(trace.id, ("a",))]
    assert here.newest(trace)["a"].outcome == GOOD


@pytest.mark.parametrize(
    "outcome", [GOOD, NO_SENSE, Skip("no input"), Failure("ZeroDivisionError", "oh")]
)
def test_what_another_time_would_bring_nothing_is_not_asked_again(world, outcome):
    here = world()
    here.evaluated(a_trace(), a=outcome)
    assert here.now(DAY_NS) == []


def test_only_what_is_missing_is_asked(world):
    here = world()
    trace = here.evaluated(a_trace(), a=NO_JUDGE, b=GOOD)
    assert here.now(FIRST_WAIT_NS, a=GOOD) == [(trace.id, ("a",))]


def test_it_is_the_next_revision_and_says_what_it_supersedes(world):
    here = world()
    trace = here.evaluated(a_trace(), a=NO_JUDGE, b=GOOD)
    first = here.newest(trace)
    here.now(FIRST_WAIT_NS, a=GOOD)
    found = here.newest(trace)
    assert (found["a"].revision, found["a"].supersedes) == (2, first["a"].uid)
    assert found["b"] == first["b"]


def test_it_is_sent_once_it_is_there(world):
    here = world()
    here.evaluated(a_trace(), a=NO_JUDGE)
    here.sender.offered.clear()
    here.now(FIRST_WAIT_NS, a=GOOD)
    assert [x.outcome for x in here.sender.offered] == [GOOD]


def test_in_vain_nothing_is_sent_and_it_waits_twice_as_long(world):
    here = world()
    here.evaluated(a_trace(), a=NO_JUDGE)
    here.sender.offered.clear()
    here.now(FIRST_WAIT_NS)
    here.engine.asked.clear()
    assert (here.sender.offered, here.now(FIRST_WAIT_NS)) == ([], [])
    assert here.now(FIRST_WAIT_NS) != []


def test_another_outcome_than_before_is_news(world):
    here = world()
    trace = here.evaluated(a_trace(), a=NO_JUDGE)
    here.now(FIRST_WAIT_NS, a=NO_SENSE)
    assert here.newest(trace)["a"].outcome == NO_SENSE
    assert here.store.count_unanswered() == 0


def test_while_no_model_answers_nothing_is_asked(world):
    here = world()
    here.evaluated(a_trace(), a=NO_JUDGE)
    here.trials.works = False
    assert [here.now(FIRST_WAIT_NS) for _ in range(20)] == [[]] * 20


def test_when_a_model_answers_again_nothing_waits_longer(world):
    here = world()
    trace = here.evaluated(a_trace(), a=NO_JUDGE)
    here.trials.works = False
    here.now(FIRST_WAIT_NS)
    here.trials.works, here.trials.since_ns = True, here.now_ns
    assert here.now(1, a=GOOD) == [(trace.id, ("a",))]


def test_a_budget_is_waited_for_until_its_next_window(world):
    here = world()
    here.now_ns += DAY_NS // 2
    trace = here.evaluated(a_trace(), a=NO_BUDGET)
    assert here.now(DAY_NS // 2 - 1) == []
    assert here.now(1, a=GOOD) == [(trace.id, ("a",))]


@pytest.mark.slow
def test_after_a_restart_the_budget_is_new(world):
    here = world()
    trace = here.evaluated(a_trace(), a=NO_BUDGET)
    here.engine.outcomes["a"] = GOOD

    async def started():
        await asyncio.gather(here.rescoring.run(), return_exceptions=True)

    asyncio.run(started())
    assert here.newest(trace)["a"].outcome == GOOD


def test_its_session_is_evaluated_again(world):
    here = world()
    here.evaluated(a_trace(session_id="s"), a=NO_JUDGE)
    here.now(FIRST_WAIT_NS, a=GOOD)
    assert here.sessions_due == ["s"]


def test_in_vain_its_session_stays_as_it_is(world):
    here = world()
    here.evaluated(a_trace(session_id="s"), a=NO_JUDGE)
    here.now(FIRST_WAIT_NS)
    assert here.sessions_due == []


def test_what_is_missing_of_a_session_is_asked_with_the_session(world):
    here = world()
    here.evaluated(a_trace(session_id="s"), b=GOOD)
    here.engine.outcomes = {"a": NO_JUDGE}
    asyncio.run(here.scoring.sessions(["s"]))
    assert here.now(FIRST_WAIT_NS) == []
    assert here.sessions_due == ["s"]


def test_a_metric_that_runs_with_the_session_is_asked_with_it(world):
    here = world()
    here.evaluated(a_trace(session_id="s"), loop_detection=NO_VECTOR)
    assert (here.now(FIRST_WAIT_NS), here.sessions_due) == ([], ["s"])


def test_of_a_session_what_is_missing_again_is_no_news(world):
    here = world()
    here.evaluated(a_trace(session_id="s"), b=GOOD)
    here.engine.outcomes = {"a": NO_JUDGE, "b": GOOD}
    asyncio.run(here.scoring.sessions(["s"]))
    here.sender.offered.clear()
    asyncio.run(here.scoring.sessions(["s"]))
    assert [x.metric for x in here.sender.offered] == ["b"]


def test_a_metric_that_is_not_configured_any_more_is_forgotten(world):
    here = world(configured=ConfiguredMetrics(frozenset({"b"}), {"b": ("m",)}))
    here.evaluated(a_trace(), a=NO_JUDGE)
    assert here.now(FIRST_WAIT_NS) == []
    assert here.store.count_unanswered() == 0


def test_a_trace_that_retention_deleted_is_forgotten(world):
    here = world()
    here.evaluated(a_trace(), a=NO_JUDGE)
    here.store.prune(here.now_ns + 30 * DAY_NS)
    assert here.now(FIRST_WAIT_NS) == []
    assert here.store.count_unanswered() == 0


def test_a_trace_that_grew_meanwhile_is_left_to_its_own_evaluation(world, monkeypatch):
    here = world()
    trace = here.evaluated(a_trace(), a=NO_JUDGE)
    evaluate = here.engine.evaluate_trace

    async def slowly(*arguments, **options):
        here.store.commit([StoredTrace(replace(trace, user_input="more"), 2, "e")], [])
        return await evaluate(*arguments, **options)

    monkeypatch.setattr(here.engine, "evaluate_trace", slowly)
    here.now(FIRST_WAIT_NS, a=GOOD)
    assert here.newest(trace)["a"].outcome == NO_JUDGE


def test_it_keeps_the_chance_with_which_the_trace_was_drawn(world):
    here = world()
    trace = a_trace()
    scored = _evaluation(trace, "a", NO_JUDGE, sampling=0.25)
    asyncio.run(here.scoring.commit([StoredTrace(trace, 1, "d")], [scored]))
    here.now(FIRST_WAIT_NS, a=GOOD)
    assert here.newest(trace)["a"].sampling == 0.25


def test_so_many_traces_are_asked_about_in_a_minute(world):
    here = world(per_minute=12)
    for number in range(1, 6):
        here.evaluated(a_trace(number), a=NO_JUDGE)
    assert len(here.now(FIRST_WAIT_NS, a=GOOD)) == 2


def test_it_is_given_up_after_so_many_tries(world, caplog):
    here = world(max_tries=2)
    here.evaluated(a_trace(), a=NO_JUDGE)
    for _ in range(3):
        here.now(DAY_NS)
    assert (len(here.engine.asked), here.store.count_unanswered()) == (2, 0)
    assert "1 scores that got no answer are given up" in caplog.text


def test_how_it_went_is_a_line_of_level_info(world, caplog):
    caplog.set_level(logging.INFO)
    here = world()
    here.evaluated(a_trace(1), a=NO_JUDGE, b=NO_JUDGE)
    here.evaluated(a_trace(2, session_id="s"), a=NO_JUDGE, b=GOOD)
    here.now(FIRST_WAIT_NS, a=GOOD, b=NO_JUDGE)
    (told,) = caplog.messages
    assert (
        told
        == "asked again: 2 scores of 2 traces that had got no answer are there now, 1 are still"
        " missing; sessions that are evaluated again: 1"
    )


def test_a_score_that_is_missing_for_want_of_a_judge_is_reason_to_try_it(world):
    here = world()
    here.evaluated(a_trace(1), a=NO_BUDGET, b=GOOD)
    assert here.failed == []
    here.evaluated(a_trace(2), a=NO_JUDGE)
    assert here.failed == [1]


def test_a_fault_in_asking_again_does_not_stop_the_server(world, monkeypatch, caplog):
    here = world()
    monkeypatch.setattr(here.store, "count_unanswered", lambda: 1 / 0)

    async def started():
        return await asyncio.gather(here.rescoring.run(), return_exceptions=True)

    (ended,) = asyncio.run(started())
    assert isinstance(ended, asyncio.CancelledError)
    assert "cannot be asked again now" in caplog.text


def test_a_trace_whose_evaluation_raises_costs_no_other(world, monkeypatch):
    here = world()
    traces = [here.evaluated(a_trace(number), a=NO_JUDGE) for number in (1, 2)]
    evaluate = here.engine.evaluate_trace

    async def sometimes(trace, *arguments, **options):
        if trace.id == traces[0].id:
            raise ZeroDivisionError
        return await evaluate(trace, *arguments, **options)

    monkeypatch.setattr(here.engine, "evaluate_trace", sometimes)
    here.now(FIRST_WAIT_NS, a=GOOD)
    assert here.newest(traces[1])["a"].outcome == GOOD
