"""Sessions are evaluated in a worker process; the server counts what the rules decided there."""

import pytest

from spanscore.embed.config import Config as Embedding
from spanscore.evaluation import Config as Evaluation
from spanscore.judge.config import Config as Judge
from spanscore.model.trace import Session
from spanscore.store.reading import SessionRecord
from spanscore.workers.messages import Failed, SessionSetup
from spanscore.workers.scoring_sessions import ScoringSessions


class Stored:
    """A session, and after it what cannot be decoded where `is_damaged`."""

    def __init__(self, trace, *, is_damaged=False):
        self.record = SessionRecord(Session("s", (trace,)), 0, [])
        self.is_damaged = is_damaged

    def decoded(self):
        yield self.record
        if self.is_damaged:
            raise ValueError


@pytest.fixture
def scoring():
    made = ScoringSessions(SessionSetup(Evaluation(), Judge(), Embedding()))
    yield made
    made._loop.close()


def test_what_the_rules_decided_comes_with_the_scores(scoring, make_trace):
    assert len(scoring.scored(Stored(make_trace(session_id="s"))).decisions) == 1


def test_what_the_rules_decided_before_an_error_does_not_come_with_other_scores(
    scoring, make_trace
):
    trace = make_trace(session_id="s")
    assert isinstance(scoring.scored(Stored(trace, is_damaged=True)), Failed)
    assert len(scoring.scored(Stored(trace)).decisions) == 1
