"""Sessions and traces are evaluated in a worker process; the server counts what the rules decided
there.
"""

import pytest

import spanscore
from spanscore import config
from spanscore.embed.config import Config as Embedding
from spanscore.evaluation import Config as Evaluation
from spanscore.evaluation.engine import digest_of
from spanscore.judge.config import Config as Judge
from spanscore.metrics.own import registry
from spanscore.model.trace import Session, ToolCall
from spanscore.serving.processing import evaluation_setup
from spanscore.store import records
from spanscore.store.config import Config as Store
from spanscore.store.lookup import SessionRecord
from spanscore.workers.answers import Evaluating, EvaluationSetup, Failed, SessionKeys


class Stored:
    """A session, and after it what cannot be decoded where `is_damaged`."""

    def __init__(self, trace, *, is_damaged=False):
        self.record = SessionRecord(Session("s", (trace,)), 0, [])
        self.is_damaged = is_damaged

    def decoded(self):
        yield self.record
        if self.is_damaged:
            raise ValueError


ONE = SessionKeys(["s"])
SETUP = EvaluationSetup(Evaluation(), Judge(), Embedding(), Store())


@pytest.fixture
def scoring():
    return Evaluating(SETUP)


@pytest.fixture
def scoring_stored():
    """Gives what evaluates these sessions, one at each call."""
    made = []

    def make(*stored, rest=()):
        left = [(x, rest) for x in stored]
        made.append(Evaluating(SETUP, lambda _keys, _tenant: left.pop(0)))
        return made[-1]

    return make


def test_what_the_rules_decided_comes_with_the_scores(scoring_stored, make_trace):
    scoring = scoring_stored(Stored(make_trace(session_id="s")))
    assert len(scoring.sessions(ONE).decisions) == 1


def test_what_the_rules_decided_before_an_error_does_not_come_with_other_scores(
    scoring_stored, make_trace
):
    trace = make_trace(session_id="s")
    scoring = scoring_stored(Stored(trace, is_damaged=True), Stored(trace))
    assert isinstance(scoring.sessions(ONE), Failed)
    assert len(scoring.sessions(ONE).decisions) == 1


def test_the_sessions_that_were_not_read_are_named(scoring_stored, make_trace):
    scoring = scoring_stored(Stored(make_trace(session_id="s")), rest=("t",))
    assert scoring.sessions(SessionKeys(["s", "t"])).rest == ("t",)


def test_sessions_of_a_store_that_cannot_be_read_are_for_the_server(tmp_path):
    store = Store(url=f"sqlite:///{tmp_path}/none.db")
    scoring = Evaluating(EvaluationSetup(Evaluation(), Judge(), Embedding(), store))
    assert scoring.sessions(ONE).is_for_server


def test_sessions_whose_reading_ends_in_an_unknown_error_are_an_answer():
    def read(_keys, _tenant):
        raise ZeroDivisionError

    scoring = Evaluating(SETUP, read)
    found = scoring.sessions(ONE)
    assert (found.error, found.is_for_server) == ("ZeroDivisionError", False)


def test_what_a_trace_gives_as_its_first_revision_comes_by_its_id(scoring, make_trace):
    trace = make_trace()
    made = scoring.traces([trace])[trace.id]
    assert made.record == records.encode(trace)
    assert made.digest == digest_of(trace, made.record)
    assert {x.revision for x in made.evaluations} == {1}


def test_what_the_rules_decided_comes_with_the_scores_of_each_trace(scoring, make_trace):
    made = scoring.traces([make_trace(1), make_trace(2)])
    assert [len(x.decisions) for x in made.values()] == [1, 1]


@pytest.fixture
def scoring_by():
    """Gives what evaluates by a configuration."""
    made = []

    def make(**config):
        setup = EvaluationSetup(Evaluation.model_validate(config), Judge(), Embedding(), Store())
        made.append(Evaluating(setup))
        return made[-1]

    return make


LOOKING_BACK = {"metrics": {"check.arguments_grounded": {}}}


@pytest.mark.parametrize("session_id", ["s", None])
def test_a_trace_whose_evaluation_needs_earlier_turns_is_left_to_the_server(
    scoring_by, make_trace, session_id
):
    asked_about = ToolCall(None, "get_orders", {"user_id": "u-881234"}, result={}, returned=True)
    trace = make_trace(session_id=session_id, tool_calls=(asked_about,))
    assert bool(scoring_by(**LOOKING_BACK).traces([trace])) is (session_id is None)


def test_a_trace_that_explains_itself_is_not_left_to_the_server(scoring_by, make_trace):
    asked_about = ToolCall(None, "get_orders", {"user_id": "u-881234"}, result={}, returned=True)
    trace = make_trace(session_id="s", user_input="I am u-881234", tool_calls=(asked_about,))
    assert scoring_by(**LOOKING_BACK).traces([trace])


def test_a_trace_that_cannot_be_evaluated_costs_the_others_nothing(
    scoring, make_trace, monkeypatch
):
    bad, good = make_trace(1), make_trace(2)
    encode = records.encode

    def encode_good(trace):
        if trace is bad:
            raise ValueError
        return encode(trace)

    monkeypatch.setattr(records, "encode", encode_good)
    assert list(scoring.traces([bad, good])) == [good.id]


def test_where_a_metric_of_ones_own_is_measured_the_server_evaluates(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    assert evaluation_setup(config.parse("")) is not None

    @spanscore.metric
    def is_short(trace):
        return len(trace.final_output or "") < 10

    named = config.parse("evaluation: {metrics: {is_short: {}}}")
    assert evaluation_setup(named) is None
