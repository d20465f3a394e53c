"""What worker processes answer: what cannot be sent is left to the server, and the rest arrives."""

import pickle

from spanscore.assemble.assembler import Cut
from spanscore.evaluation.engine import SessionScores
from spanscore.turn_scheduling import ReadJob, ReadResult
from spanscore.workers.answers import Answers, Failed, Scored, encoded


def read(*traces):
    job = ReadJob((Cut(b"t" * 16, (1,), "complete", genai=True, reopened=False),))
    return ReadResult(job, traces)


def deep():
    """A value as no pickle has it, though its JSON can be read."""
    value = []
    for _ in range(900):
        value = [value]
    return value


def sent(answer):
    return pickle.loads(encoded(answer))  # noqa: S301 - made here


def test_one_trace_that_is_nested_too_deeply_is_left_to_the_server_and_the_others_arrive():
    first, second = sent(Answers([read("plain"), read(deep())], [])).read
    assert list(first.traces) == ["plain"]
    assert second == Failed("RecursionError", "", is_for_server=True)


def test_scores_that_are_nested_too_deeply_are_left_to_the_server():
    assert sent(Scored([SessionScores([deep()], [])], [])).is_for_server
