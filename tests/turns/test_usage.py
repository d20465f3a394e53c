"""How many tokens a turn took, and whether that is all of them."""

from dataclasses import replace

from turn_spans import ANSWER, ASK, agent, chat

from spanscore.rebuild import rebuild


def test_a_sum_that_lacks_the_tokens_of_a_call_whose_attributes_were_dropped_is_damaged():
    counted = chat("1", 1, [ASK], [ANSWER], gen_ai__usage__input_tokens=7)
    lost = replace(chat("2", 5, [ASK], [ANSWER]), dropped_attributes_count=3)
    (trace,) = rebuild([agent(), counted, lost])
    assert (trace.usage.input_tokens, "usage" in trace.damaged) == (7, True)
