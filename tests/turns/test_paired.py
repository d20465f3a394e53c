"""Which result of a conversation is of which call."""

import pytest
from turn_spans import ANSWER, ASK, call, chat, told

from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall
from spanscore.rebuild import rebuild
from spanscore.turns.calls.call_facts import paired


def asks(*ids):
    return Message("assistant", calls=tuple(RequestedCall(x, "pay", {}) for x in ids))


def tells(value, identity=None, name=None):
    return Message("tool", results=(ToolResult(identity, value, name=name),))


def asks_for(*tools):
    return Message("assistant", calls=tuple(RequestedCall(None, x, {}) for x in tools))


def results(*messages, unreliable=()):
    """What each call is told to have returned; "-" for nothing."""
    pairs, _ = paired(messages, set(unreliable))
    return ["-" if x.answer is None else x.answer[0].value for x in pairs]


def test_a_call_gets_the_result_with_its_id_wherever_that_stands():
    assert results(tells("early", "b"), asks("a", "b"), tells("late", "a")) == ["late", "early"]


def test_a_call_does_not_get_the_result_of_another_id():
    assert results(asks("a"), tells("of a call that is not shown", "b")) == ["-"]


def test_a_call_does_not_get_the_second_result_of_another_call():
    assert results(asks("a", "b"), tells("first", "a"), tells("again", "a")) == ["again", "-"]


def test_a_result_without_id_is_not_of_a_call_that_comes_after_it():
    assert results(tells("of an earlier call"), asks(None)) == ["-"]


@pytest.mark.parametrize("asked", [(None, None), ("a", "b")])
def test_results_without_ids_are_of_the_calls_in_their_order(asked):
    assert results(asks(*asked), tells("first"), tells("second")) == ["first", "second"]


def test_results_with_ids_are_of_calls_that_have_none_in_their_order():
    assert results(asks(None), tells("first", "a"), asks(None), tells("second", "b")) == [
        "first",
        "second",
    ]


def test_a_result_without_id_passes_over_a_call_that_has_its_result():
    assert results(asks("a", "b"), tells("of the second"), tells("by id", "a")) == [
        "by id",
        "of the second",
    ]


def test_results_without_ids_are_of_calls_of_the_tools_that_they_name():
    told_late = (tells("of g", name="g"), tells("of f", name="f"), tells("of f again", name="f"))
    assert results(asks_for("f", "g", "f"), *told_late) == ["of f", "of g", "of f again"]


def test_a_result_is_not_of_a_call_of_another_tool():
    assert results(asks_for("f", "g"), tells("of g", name="g")) == ["-", "of g"]


def test_a_result_of_a_tool_that_nobody_called_is_told_by_its_order():
    assert results(asks_for("f"), tells("first", name="functions.f")) == ["first"]


def test_a_conversation_without_calls_tells_results_by_the_tools_that_they_name():
    names = "f", "g"
    asked = [{"type": "tool_call", "name": x, "arguments": {}} for x in names]
    given = [{"role": "tool", "name": x, "content": f"of {x}"} for x in reversed(names)]
    produced = [{"role": "assistant", "parts": asked}]
    spans = [chat("1", 1, produced=produced), chat("2", 20, given=given)]
    (trace,) = rebuild(spans)
    assert [(x.name, x.result) for x in trace.tool_calls] == [("f", "of f"), ("g", "of g")]


def test_of_calls_that_are_numbered_anew_each_gets_the_result_of_its_number():
    first, second = asks("0", "1"), asks("0", "1")
    told_late = (tells("b", "1"), tells("a", "0"))
    assert results(first, *told_late, second, *told_late) == ["a", "b", "a", "b"]


def test_an_id_that_another_place_repeats_still_tells_its_call_from_others():
    assert results(asks("0"), tells("of 1", "1"), tells("of 0", "0"), unreliable={"0", "1"}) == [
        "of 0"
    ]


def test_a_call_that_has_the_id_of_its_item_gets_the_next_result():
    assert results(asks("fc_1"), tells("paid", "call_1")) == ["paid"]


def test_a_result_that_answers_no_call_is_left_over():
    _, left = paired([tells("early", "x"), asks("a"), tells("paid", "a")], set())
    assert [x[0].value for x in left] == ["early"]


def test_a_pending_call_has_no_result_where_another_one_was_lost_with_its_request():
    given = [ASK, told("zero", "lost"), call("pay", {"eur": 1}, "c1")]
    [trace] = rebuild([chat("1", 5, given, [ANSWER], parent="")])
    assert [(x.result, x.returned) for x in trace.tool_calls] == [(None, False)]
