"""What an emitter leaves out of messages, or tells under another id, is brought together with what
the others tell.
"""

from dataclasses import replace

import pytest
from turn_spans import ANSWER, ASK, agent, call, chat, text, told

from spanscore.model.span import Resource, Scope
from spanscore.rebuild import rebuild, rebuild_all

RAIN, SUN = call("weather", {"city": "Paris"}, "c1"), call("weather", {"city": "Berlin"}, "c2")
SILENT = text("assistant", "")


def only(*spans):
    (trace,) = rebuild(spans)
    return trace


def test_the_id_of_an_item_gives_way_to_that_of_the_call_which_its_result_answers():
    asked = call("weather", {"city": "Paris"}, "fc_68")
    trace = only(
        agent(),
        chat("1", 1, [ASK], [asked]),
        chat("2", 3, [ASK, asked, told("15C", "call_1")], [ANSWER]),
    )
    assert [(x.call_id, x.result) for x in trace.tool_calls] == [("call_1", "15C")]


def test_results_that_name_no_call_are_those_of_as_many_calls_in_their_order():
    given = [ASK, SILENT, told("15C"), told("20C")]
    trace = only(agent(), chat("1", 1, [ASK], [RAIN, SUN]), chat("2", 3, given, [ANSWER]))
    assert [(x.call_id, x.result) for x in trace.tool_calls] == [("c1", "15C"), ("c2", "20C")]


def test_results_that_name_no_call_are_nobodys_where_there_are_fewer():
    trace = only(
        agent(),
        chat("1", 1, [ASK], [RAIN, SUN]),
        chat("2", 3, [ASK, SILENT, told("15C")], [ANSWER]),
    )
    assert [x.result for x in trace.tool_calls] == [None, None]


def apart(*spans):
    """Each span as a trace by itself."""
    return [
        replace(x, trace_id=f"{at:032x}", parent_span_id="") for at, x in enumerate(spans, start=1)
    ]


def test_a_turn_goes_on_where_its_last_calls_were_asked_for_though_only_earlier_ones_have_ids():
    nameless = call("weather", {"city": "Berlin"})
    given = [ASK, RAIN, told("15C", "c1")]
    spans = apart(
        chat("1", 1, [ASK], [RAIN]),
        chat("2", 3, given, [nameless]),
        chat("3", 5, [*given, SUN, told("20C", "c2")], [ANSWER]),
    )
    assert [x.final_output for x in rebuild_all(spans)] == ["Paris, as ever."]


SDK = {
    "gen_ai__response__id": "msg_1",
    "gen_ai__usage__input_tokens": 7,
    "gen_ai__usage__output_tokens": 3,
}


def reported(**attributes):
    """A call that an instrumentation tells, and the SDK's own span of it, which has no content, in
    another trace.
    """
    told_by, own = (
        chat("1", 1, [ASK], [ANSWER], end=9, **SDK),
        chat("2", 2, end=8, **SDK | attributes),
    )
    return apart(replace(told_by, scope=Scope("instrumentation")), replace(own, scope=Scope("sdk")))


def test_a_call_that_the_sdk_tells_in_a_trace_of_its_own_is_counted_once():
    assert [x.final_output for x in rebuild_all(reported())] == ["Paris, as ever."]


@pytest.mark.parametrize(
    "other", [{"gen_ai__usage__input_tokens": 8}, {"gen_ai__response__id": "msg_2"}]
)
def test_a_call_with_other_tokens_or_another_id_is_another(other):
    assert len(rebuild_all(reported(**other))) == 2


def test_a_call_of_another_service_is_another_where_the_id_may_repeat():
    one, other = reported()
    assert (
        len(rebuild_all([one, replace(other, resource=Resource({"service.name": "another"}))])) == 2
    )
