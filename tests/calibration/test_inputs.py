"""A certificate ends when what is scored is no longer as what was labelled."""

import random

import pytest

from spanscore.calibration import Calibration, Certificate, Certificates, InputWatch
from spanscore.calibration.inputs import WINDOW, inputs_of, moved
from spanscore.judge.config import Certificate as Required
from spanscore.model.score import Evaluation, Evaluator, Score
from spanscore.model.trace import AgentTrace, Target, ToolCall
from spanscore.stats import Confusion, shares_differ
from spanscore.store.config import Config
from spanscore.store.store import Store, StoredTrace

DAY_NS = 1_795_219_200_000_000_000  # 2026-11-21
LABELS = 150
JUDGE = ("task_completion", "judge", "1", "gpt-4o", "abc", None, 0.5)
TOOLS = ((), ("search",), ("search", "book"))


def trace(number, *, length=1.0, tools=None, agent="travel", letter="a"):
    """A turn whose length and tools differ from number to number."""
    draw = random.Random(number)
    names = draw.choice(TOOLS) if tools is None else tools
    target = Target(f"{number:032x}", f"{number:016x}", 1, 2)
    return AgentTrace(
        trace_ids=(target.trace_id,),
        root_span_id=target.span_id,
        target=target,
        opening_span_id=target.span_id,
        started_ns=1,
        ended_ns=2,
        agent_name=agent,
        user_input=letter * int(length * draw.randint(10, 1000)),
        tool_calls=tuple(ToolCall(None, x) for x in names),
    )


def score(of, model="gpt-4o"):
    return Evaluation(
        scope="trace",
        subject_id=of.id,
        metric=JUDGE[0],
        outcome=Score(0.9, ""),
        threshold=0.5,
        scale=(0.0, 1.0),
        evaluator=Evaluator("LLM", "judge", "1", model, "abc"),
        target=of.target,
        session_id=None,
    )


@pytest.fixture
def store(tmp_path):
    """A store with labelled traces, and a certificate that a server has looked at."""
    opened = Store.open(Config(url=f"sqlite:///{tmp_path}/spanscore.db"))
    put(opened, [trace(x) for x in range(1, LABELS + 1)])
    table = Confusion(75, 0, 0, 75)
    used = tuple(f"trace {x:032x}/{x:016x}" for x in range(1, LABELS + 1))
    certificate = Certificate(table, (1.0, 1.0), LABELS)
    made = Calibration(JUDGE, table, 1, certificate=certificate, used=used)
    opened.labels.keep("", {made.key: made.to_json()}, 1)
    InputWatch(opened, Required()).look(DAY_NS)
    yield opened
    opened.close()


def put(store, traces, **facts):
    store.commit([StoredTrace(x, 1, "") for x in traces], [score(x, **facts) for x in traces])


def why_not(store):
    """Why the judge is not certified after a look."""
    InputWatch(store, Required()).look(DAY_NS)
    certificates = Certificates(Required(), store.labels.kept)
    certificates.refresh()
    return certificates.why_not(JUDGE)


def later(**facts):
    return [trace(x, **facts) for x in range(1000, 1000 + WINDOW)]


def test_a_certificate_holds_while_inputs_are_as_those_that_were_labelled(store):
    put(store, later())

    assert why_not(store) == ""
    assert store.labels.kept()[0].record["certificate"]["looks"] == 1


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"length": 2.0}, "the length"),
        ({"letter": "я"}, "the script"),
        ({"tools": ("refund",)}, "the tools"),
        ({"agent": "legal"}, "the domain"),
        ({"agent": "legal", "length": 3.0}, "the length and the domain"),
    ],
)
def test_a_certificate_ends_when_inputs_move_and_it_says_which(store, facts, what):
    put(store, later(**facts))

    assert why_not(store) == f"it ended on 2026-11-21: {what} of its inputs moved"


def test_a_certificate_that_has_ended_does_not_hold_again(store):
    put(store, later(agent="legal"))
    ended = why_not(store)
    put(store, [trace(x) for x in range(5000, 5000 + WINDOW)])

    assert why_not(store) == ended != ""


def test_fewer_scores_than_a_window_are_not_compared(store):
    put(store, later(agent="legal")[1:])

    assert why_not(store) == ""


def test_what_another_judge_scores_ends_no_certificate(store):
    put(store, later(agent="legal"), model="gpt-5")

    assert why_not(store) == ""


@pytest.mark.slow
def test_inputs_that_have_not_moved_are_seldom_said_to_have():
    false = 0
    for repeat in range(100):
        numbers = iter(range(repeat * 10_000, (repeat + 1) * 10_000))
        labelled = inputs_of([trace(next(numbers)) for _ in range(LABELS)])
        false += bool(moved(labelled, [trace(next(numbers)) for _ in range(WINDOW)], 0.05))

    assert false <= 12  # of 5 that are expected at most


@pytest.mark.parametrize(
    ("a", "b", "differ"),
    [
        ({"x": 100}, {"x": 900}, False),
        ({}, {"x": 900}, False),
        ({"x": 100}, {"x": 890, "y": 10}, False),  # too rare
        ({"x": 100, "y": 50}, {"x": 100, "y": 200}, True),
    ],
)
def test_shares_differ_only_beyond_chance(a, b, differ):
    assert shares_differ(a, b, 0.01) is differ
