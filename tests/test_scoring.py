"""A store that is down is waited for, and complained of once a minute."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

import pytest

from spanscore.errors import FieldError, PermanentError, RetryableError
from spanscore.evaluation import Config, Engine, Overrides
from spanscore.evaluation.engine import BatchScores, FirstScores, SessionScores
from spanscore.model.score import Evaluation, Evaluator, Failure
from spanscore.model.trace import Session
from spanscore.scoring import Scoring, SessionsFailedError
from spanscore.store.lookup import SessionRecord
from spanscore.store.store import StoredTrace
from spanscore.telemetry import Meter


class FailingStore:
    """Answers after so many failures."""

    def __init__(self, failures):
        self.failures = failures

    def ask(self):
        if self.failures:
            self.failures -= 1
            raise RetryableError("disk full", retry_after_s=1.0)
        return "answer"


class Well:
    """A store with which nothing is wrong otherwise."""

    trouble = None


@pytest.fixture
def scoring():
    now_ns = [0]

    async def sleep(seconds):
        now_ns[0] += round(seconds * 10**9)

    return Scoring(None, Well(), None, Meter(), clock_ns=lambda: now_ns[0], sleep=sleep)


def test_a_run_that_cannot_be_met_is_refused_before_anything_is_read():
    scoring = Scoring(Engine(Config(), None, None), None, None, Meter())
    with pytest.raises(
        FieldError, match=r"signal_weights: 'coherance' is no metric of traces .* 'coherence'"
    ):
        scoring.check(Overrides(signal_weights={"coherance": 1.0}))


def test_the_store_is_waited_for(scoring):
    assert asyncio.run(scoring.patiently(FailingStore(3).ask)) == "answer"


def test_a_store_that_is_down_is_a_line_a_minute(scoring, caplog):
    asyncio.run(scoring.patiently(FailingStore(11).ask))
    assert caplog.messages == [
        "scoring waits for the store: disk full",
        "scoring waits for the store: disk full (7 times since the last line about it)",
    ]


def test_that_it_answers_again_is_said_once(scoring, caplog):
    caplog.set_level(logging.INFO)
    asyncio.run(scoring.patiently(FailingStore(2).ask))
    asyncio.run(scoring.patiently(FailingStore(0).ask))
    assert caplog.messages[1:] == ["the store answers again"]


def test_while_part_of_it_fails_an_answer_does_not_mean_that_it_is_over(scoring, caplog):
    caplog.set_level(logging.INFO)
    scoring._store.trouble = "disk full"
    asyncio.run(scoring.patiently(FailingStore(2).ask))
    asyncio.run(scoring.patiently(FailingStore(1).ask))
    assert len(caplog.messages) == 1


class Remembering:
    """An engine that scores nothing, and keeps which earlier turns each trace was given."""

    def __init__(self, *, looks_back=True):
        self.looks_back = looks_back
        self.ranking = {}
        self.given = {}

    async def evaluate_trace(self, trace, overrides=None, *, revision=1, earlier=(), before=()):
        self.given[trace.started_ns] = [x.started_ns for x in earlier]
        return []


class Holding:
    """A store in which a session's turns were kept."""

    trouble = None

    def __init__(self, *turns):
        self.turns = turns

    def turns_before(self, trace, *, limit, max_bytes):
        return [x for x in self.turns if x.started_ns < trace.started_ns]

    def evaluations(self, *, trace_id, tenant):
        return []


def turn(make_trace, number, session_id="s"):
    return make_trace(number, session_id=session_id, started_ns=number)


def test_a_trace_is_evaluated_with_the_stored_turns_before_it(make_trace):
    engine = Remembering()
    scoring = Scoring(engine, Holding(turn(make_trace, 1), turn(make_trace, 3)), None, Meter())
    asyncio.run(scoring.evaluate(StoredTrace(turn(make_trace, 2), 1, "")))
    assert engine.given == {2: [1]}


def test_a_turn_that_is_not_committed_yet_comes_before_a_later_one(make_trace):
    first, second, other = (
        turn(make_trace, 1),
        turn(make_trace, 2),
        turn(make_trace, 3, "another session"),
    )

    engine = Remembering()
    scoring = Scoring(engine, Holding(), None, Meter())
    stored = [StoredTrace(x, 1, "") for x in (second, first, other)]
    scoring.begin(stored)
    for one in stored:
        asyncio.run(scoring.evaluate(one))
    assert engine.given == {1: [], 3: [], 2: [1]}


def test_where_no_judge_reads_them_earlier_turns_are_not_looked_for(make_trace):
    engine = Remembering(looks_back=False)
    scoring = Scoring(engine, None, None, Meter())
    asyncio.run(scoring.evaluate(StoredTrace(turn(make_trace, 2), 1, "")))
    assert engine.given == {2: []}


DECISION = {"rule": "default", "scope": "trace", "outcome": "evaluated"}
FIRST = FirstScores("the record", "the digest", ("a score",), (DECISION,))


def evaluated(make_trace, revision):
    """What is given for a trace whose first revision was evaluated already, and the meter."""
    meter = Meter()
    scoring = Scoring(Remembering(looks_back=False), Holding(), None, meter)
    stored = StoredTrace(make_trace(), revision, "")
    return asyncio.run(scoring.evaluate_new(stored, FIRST)), meter


def test_a_first_revision_that_was_evaluated_already_is_not_evaluated_again(make_trace):
    found, meter = evaluated(make_trace, 1)
    assert found == FIRST.evaluations
    assert meter.totals()["rules_decisions"] == 1


def test_a_later_revision_is_evaluated_whatever_the_first_would_have_been(make_trace):
    found, meter = evaluated(make_trace, 2)
    assert found == []
    assert "rules_decisions" not in meter.totals()


class Knowing(Well):
    """Has some traces, with the digest that they have."""

    def __init__(self, known):
        self._known = known

    def known(self, _ids):
        return self._known


def test_a_trace_that_was_evaluated_already_has_its_record_and_digest(make_trace):
    trace = make_trace()
    (stored,) = Scoring(None, Knowing({}), None, Meter()).new([trace], {trace.id: FIRST})
    assert (stored.record, stored.digest, stored.revision) == (FIRST.record, FIRST.digest, 1)


def test_a_trace_that_is_stored_just_so_is_not_new(make_trace):
    trace = make_trace()
    scoring = Scoring(None, Knowing({trace.id: (1, FIRST.digest)}), None, Meter())
    assert scoring.new([trace], {trace.id: FIRST}) == []


class Taking:
    """A store that takes everything, and a sender too."""

    trouble = None

    def commit(self, _traces, evaluations, **_also):
        return list(range(1, len(evaluations) + 1))

    def offer(self, rows):
        list(rows)


class RefusingOne:
    """An engine that cannot evaluate session two, and a store with sessions, of which it keeps the
    scores.
    """

    uses_external_scores = False
    ranking: ClassVar = {}
    trouble = None

    def __init__(self, *sessions):
        self.sessions = sessions
        self.kept = []

    async def evaluate_session(self, session, *_, **__):
        if session.session_id == "two":
            raise ZeroDivisionError
        return [score_of(session.traces[-1], scope="session", subject_id=session.session_id)]

    def stored_sessions(self, _ids, *, tenant):
        return self

    def decoded(self):
        return [SessionRecord(x, 0, []) for x in self.sessions]

    def commit(self, _traces, evaluations, **_also):
        self.kept += [x.subject_id for x in evaluations]
        return list(range(len(evaluations)))


@pytest.fixture
def refusing(make_trace):
    """What cannot evaluate session two of three, and what scores with it."""
    names = ("one", "two", "three")
    made = RefusingOne(*(Session(x, (turn(make_trace, 1, x),)) for x in names))
    return made, Scoring(made, made, Taking(), Meter())


def test_a_session_that_cannot_be_scored_is_named(refusing):
    with pytest.raises(SessionsFailedError) as raised:
        asyncio.run(refusing[1].sessions(["one", "two", "three"]))
    assert list(raised.value.failed) == ["two"]


def test_the_scores_of_other_sessions_than_one_that_cannot_be_scored_are_kept(refusing):
    store, scoring = refusing
    with suppress(SessionsFailedError):
        asyncio.run(scoring.sessions(["one", "two", "three"]))
    assert store.kept == ["one", "three"]


class WithUnreadable(RefusingOne):
    """Whose session two has a text that cannot be read, whatever is read with it."""

    def stored_sessions(self, ids, *, tenant):
        if "two" in ids:
            raise PermanentError("its text is not UTF-8")
        return WithUnreadable(*(x for x in self.sessions if x.id in ids))


def test_a_session_that_cannot_be_read_costs_the_others_nothing(refusing):
    store = WithUnreadable(*refusing[0].sessions)
    with pytest.raises(SessionsFailedError) as raised:
        asyncio.run(Scoring(store, store, Taking(), Meter()).sessions(["one", "two", "three"]))
    assert (list(raised.value.failed), store.kept) == (["two"], ["one", "three"])


class OneAfterAnother:
    """Evaluates sessions one by one, and notes what the store has before each next one."""

    def __init__(self, store):
        self.store = store
        self.kept_before = []

    async def session_scores(self, _keys, _tenant):
        for session in self.store.sessions:
            self.kept_before.append(list(self.store.kept))
            trace = session.traces[-1]
            evaluation = score_of(trace, scope="session", subject_id=session.session_id)
            yield BatchScores([session.session_id], [SessionScores([evaluation], [])])


def test_the_scores_of_a_session_are_kept_before_the_next_is_evaluated_elsewhere(refusing):
    store, scoring = refusing
    scoring.elsewhere = OneAfterAnother(store)
    asyncio.run(scoring.sessions(["one", "two", "three"]))
    assert scoring.elsewhere.kept_before == [[], ["one"], ["one", "two"]]


class HangingAtTwo:
    """Evaluates sessions, but for session two: once `began` is set, until `may_end` is."""

    def __init__(self):
        self.began, self.may_end = asyncio.Event(), asyncio.Event()

    async def session_scores(self, keys, _tenant):
        yield BatchScores([x for x in keys if x != "two"])
        if "two" in keys:
            self.began.set()
            await self.may_end.wait()
            yield BatchScores(["two"])


@pytest.mark.parametrize("others", [["one"], ["three"]], ids=["of its batch", "of the next one"])
def test_a_session_that_hangs_elsewhere_keeps_no_other_waiting(refusing, others):
    _, scoring = refusing

    async def run():
        hanging = scoring.elsewhere = HangingAtTwo()
        first = asyncio.create_task(scoring.sessions(["one", "two"]))
        await hanging.began.wait()
        again = asyncio.create_task(scoring.sessions(["two", "three"]))
        await asyncio.sleep(0)
        await asyncio.wait_for(scoring.sessions(others), 60)
        was_done = first.done() or again.done()
        hanging.may_end.set()
        await asyncio.gather(first, again)
        return was_done

    assert not asyncio.run(run())


def test_with_changes_for_a_session_its_own_error_is_raised(refusing):
    with pytest.raises(ZeroDivisionError):
        asyncio.run(refusing[1].sessions(["two"], Overrides()))


def score_of(trace, **facts):
    """An evaluation of a trace."""
    made = Evaluation(
        scope="trace",
        subject_id="t",
        metric="coherence",
        outcome=Failure("JudgeTimeoutError", "slow"),
        threshold=None,
        scale=None,
        evaluator=Evaluator("LLM", "coherence", "1"),
        target=trace.target,
        session_id=None,
    )
    return replace(made, **facts)


@pytest.fixture
def committed(make_trace):
    """`committed(*runs)`: how many failures of these runs (None: live) count, and whether the judge
    is doubted.
    """

    def commit(*runs, in_vain=()):
        doubts, meter, taking = [], Meter(), Taking()
        scoring = Scoring(None, taking, taking, meter, judge_failed=lambda: doubts.append(1))
        failure = score_of(make_trace())
        failed, again = ([replace(failure, run=x) for x in some] for some in (runs, in_vain))
        asyncio.run(scoring.commit([], failed, in_vain=again))
        return meter.totals().get("evaluations_failed", 0), bool(doubts)

    return commit


def test_what_an_evaluation_run_failed_to_score_counts_for_no_live_alert(committed):
    assert committed("run1", in_vain=["run1"]) == (0, False)


def test_live_failures_are_counted_beside_those_of_an_evaluation_run(committed):
    assert committed("run1", None) == (1, True)


class InTheMiddle:
    """An engine during whose evaluation of a session another turn of it is stored."""

    uses_external_scores = False
    ranking: ClassVar = {}

    def __init__(self, store, turn):
        self.store, self.turn = store, turn

    async def evaluate_session(self, session, *_, **__):
        self.store.commit([StoredTrace(self.turn, 1, "d")], [])
        now_ns = 2**62  # long after that turn was stored
        scope = {"scope": "session", "subject_id": session.session_id}
        return [score_of(session.traces[-1], **scope, evaluated_at_ns=now_ns)]


def test_a_turn_that_is_stored_while_its_session_is_evaluated_leaves_the_session_open(
    any_store, make_trace
):
    any_store.commit([StoredTrace(turn(make_trace, 1, "s"), 1, "d")], [])
    engine = InTheMiddle(any_store, turn(make_trace, 2, "s"))
    asyncio.run(Scoring(engine, any_store, Taking(), Meter()).sessions(["s"]))
    assert [key for key, _ in any_store.open_sessions()] == ["s"]


@pytest.mark.parametrize(
    ("overrides", "is_open"), [(None, False), (Overrides(metrics=("coherence",)), True)]
)
def test_a_session_is_done_once_all_of_it_was_evaluated(any_store, make_trace, overrides, is_open):
    any_store.commit([StoredTrace(turn(make_trace, 1, "s"), 1, "d")], [])
    engine = RefusingOne()
    engine.ranking = {}
    scoring = Scoring(engine, any_store, Taking(), Meter())
    asyncio.run(scoring.sessions(["s"], overrides))
    assert bool(any_store.open_sessions()) is is_open
