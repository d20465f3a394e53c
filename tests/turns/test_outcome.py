"""How a turn ended, and what its metrics make of it."""

import pytest
from turn_spans import ANSWER, ASK, agent, call, chat, text, tool

from spanscore.metrics import available
from spanscore.model.span import STATUS_ERROR
from spanscore.rebuild import rebuild

ASKED_FOR = call("book", {"seat": "4A"}, "c1")


def only(*spans):
    (trace,) = rebuild(spans)
    return trace


def ended(*spans):
    trace = only(*spans)
    return trace.outcome, trace.error


def test_an_answer_after_a_failed_try_is_an_answer():
    tried = chat("1", 1, [ASK], status=STATUS_ERROR, message="HTTP 500")
    assert ended(agent(), tried, chat("2", 5, [ASK], [ANSWER])) == ("answered", None)


def test_an_error_that_leaves_the_agent_fails_the_turn_whatever_was_answered():
    root = agent(error__type="GuardrailError")
    assert ended(root, chat("1", 1, [ASK], [ANSWER])) == ("failed", "GuardrailError")


def test_a_model_that_refuses_fails_the_turn():
    refused = chat("1", 1, [ASK], gen_ai__response__finish_reasons=["content_filter"])
    assert ended(agent(), refused) == ("failed", "content_filter")


def test_without_an_answer_or_an_error_the_outcome_is_unknown():
    assert ended(agent(), chat("1", 1, [ASK])) == ("unknown", None)


def test_a_call_that_waited_and_then_went_on_is_one_call():
    waited = tool("2", 3, "book", call__id="c1", error__type="GraphInterrupt")
    went_on = tool("3", 9, "book", call__id="c1", call__result="booked")
    spans = agent(), chat("1", 1, [ASK], [ASKED_FOR]), waited
    assert ended(*spans) == ("waiting", None)
    trace = only(*spans, went_on, chat("4", 12, produced=[text("assistant", "Done.")]))
    assert (trace.outcome, [(x.result, x.error) for x in trace.tool_calls]) == (
        "answered",
        [("booked", None)],
    )


@pytest.mark.parametrize(
    ("error", "metric", "cause"),
    [
        ("BadRequestError", "task_completion", None),
        ("BadRequestError", "check.answer_present", "not_applicable"),
        ("CancelledError", "task_completion", "not_applicable"),
        ("GraphInterrupt", "task_completion", "not_applicable"),
    ],
)
def test_a_failed_turn_is_judged_and_one_that_stopped_is_not(error, metric, cause):
    skip = available()[metric]().unmeasurable(only(agent(error__type=error), chat("1", 1, [ASK])))
    assert (None if skip is None else skip.cause) == cause
