"""What failed in a worker process is logged by the server as an error of its own would be."""

import io
import logging
import pickle
import sys

import pytest

from spanscore.embed.config import Config as Embedding
from spanscore.evaluation import Config as Evaluation
from spanscore.judge.config import Config as Judge
from spanscore.store.config import Config as Store
from spanscore.telemetry import Config, configure_logging
from spanscore.workers.answers import Evaluating, EvaluationSetup, SessionKeys, encoded
from spanscore.workers.readers import ReadFailedError

LOG = logging.getLogger("spanscore.serving.completion")
WORDS = "the user's own words"


class Damaged:
    """A stored session whose decoding fails with what a user wrote."""

    def decoded(self):
        raise ValueError(WORDS)


@pytest.fixture
def line(monkeypatch):
    """The server's log line on a session that failed in a worker process."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging(Config.model_validate({"logs": {"encoding": "console"}}))
    setup = EvaluationSetup(Evaluation(), Judge(), Embedding(), Store())
    scoring = Evaluating(setup, lambda *_: (Damaged(), ()))
    failed = pickle.loads(encoded(scoring.sessions(SessionKeys(["s"]))))  # noqa: S301 - made here
    error = ReadFailedError(failed.error, failed.traceback)
    LOG.error("a session cannot be scored", exc_info=error)
    return stream.getvalue()


def test_the_line_names_the_class_of_the_error(line):
    assert "ValueError in a worker process" in line


def test_the_line_has_where_the_error_was_raised(line):
    assert "in decoded" in line


def test_the_line_does_not_quote_what_users_wrote(line):
    assert WORDS not in line
