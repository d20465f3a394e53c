"""A tool that halts before it runs, to be approved, and runs later: two spans, of which only one
tells a result.
"""

import pytest
from turn_spans import ANSWER, ASK, agent, call, chat, tool

from spanscore.rebuild import rebuild_all


def calls(*spans):
    (found,) = rebuild_all([agent(), *spans])
    return [(x.name, x.result, x.returned) for x in found.tool_calls]


def pay(span_id, start, result=None, identity=None):
    told = {} if result is None else {"call__result": result}
    known = {} if identity is None else {"call__id": identity}
    return tool(span_id, start, "pay", call__arguments='{"to": "Bo"}', **told, **known)


def asks(times=1):
    return chat("m1", 1, [ASK], [call("pay", {"to": "Bo"}, f"c{n}") for n in range(times)])


def answers():
    return chat("m2", 50, [ASK], [ANSWER])


@pytest.mark.parametrize("identity", [None, "c0"])
def test_a_tool_that_was_halted_and_run_is_one_call(identity):
    assert calls(asks(), pay("t1", 10), pay("t2", 20, "paid", identity), answers()) == [
        ("pay", "paid", True)
    ]


def test_a_tool_that_was_halted_twice_with_one_id_is_one_call():
    assert calls(asks(), pay("t1", 10, None, "c0"), pay("t2", 20, None, "c0"), answers()) == [
        ("pay", None, False)
    ]


def test_two_requests_are_two_calls_though_one_span_tells_no_result():
    assert len(calls(asks(2), pay("t1", 10), pay("t2", 20, "paid"), answers())) == 2


def test_a_tool_that_ran_twice_for_one_request_is_two_calls():
    found = calls(asks(), pay("t1", 10, "paid"), pay("t2", 20, "paid again"), answers())
    assert [x[1] for x in found] == ["paid", "paid again"]


def test_a_span_without_a_result_that_comes_after_one_with_it_is_another_call():
    assert len(calls(asks(), pay("t1", 10, "paid"), pay("t2", 20), answers())) == 2


def test_a_tool_that_returned_null_was_not_halted():
    assert len(calls(asks(), pay("t1", 10, "null"), pay("t2", 20, "paid"), answers())) == 2


def test_spans_with_different_ids_are_two_calls():
    found = calls(asks(), pay("t1", 10, None, "c0"), pay("t2", 20, "paid", "c1"), answers())
    assert [x[1] for x in found] == [None, "paid"]


def test_a_tool_that_ran_beside_another_did_not_go_on_from_it():
    assert len(calls(asks(), pay("t1", 10), pay("t2", 10, "paid"), answers())) == 2


def test_a_tool_that_was_halted_and_run_is_one_call_though_its_request_was_lost():
    assert calls(pay("t1", 10, None, "c0"), pay("t2", 20, "paid", "c0"), answers()) == [
        ("pay", "paid", True)
    ]
