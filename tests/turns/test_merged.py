"""What was cut in one report of a call is taken from another report that tells it whole."""

from dataclasses import replace

from turn_spans import ANSWER, ASK, chat

from spanscore.model.span import Scope
from spanscore.model.step import Message, Step
from spanscore.model.trace import RequestedCall
from spanscore.turns.dedup.identity import merged, merged_tools

WHOLE = (Message("user", "Where is parcel 00731?"),)
CUT = (Message("user", "Where is par", damaged=frozenset({"text"})),)
SAID = (Message("assistant", "I look it up."),)
CALLED = (Message("assistant", "I look it up.", calls=(RequestedCall("c1", "track", {}),)),)


def report(scope="one", kind="model", **facts):
    span = replace(chat("m", 0, [ASK], [ANSWER]), scope=Scope(scope))
    return Step(span=span, dialect="semconv", kind=kind, **{"damaged": frozenset(), **facts})


def lacking(*facts, **more):
    return report(damaged=frozenset(facts), **more)


def test_a_message_that_was_cut_is_taken_from_the_report_that_has_it_whole():
    assert merged(report(input=CUT), report(input=WHOLE)).input == WHOLE


def test_a_fact_that_was_lost_is_not_damaged_once_the_other_report_tells_it():
    filled = merged(
        lacking("input", "system", "tokens"), report(input=WHOLE, input_tokens=3, output_tokens=1)
    )
    assert (filled.input, filled.damaged) == (WHOLE, {"system"})


def test_a_fact_that_the_other_report_tells_in_part_is_damaged():
    assert merged(report(), lacking("input", input=WHOLE)).damaged == {"input"}


def test_what_is_whole_stays_though_the_other_report_was_cut():
    filled = merged(report(input=WHOLE), lacking("input", input=CUT))
    assert (filled.input, filled.damaged) == (WHOLE, frozenset())


def test_a_text_of_the_same_instrumentation_does_not_tell_that_there_were_no_calls_beside_it():
    filled = merged(lacking("output"), report(output=SAID))
    assert (filled.output, filled.damaged) == (SAID, {"output"})


def test_one_with_its_calls_is_all_that_was_put_out():
    assert merged(lacking("output"), report(output=CALLED)).damaged == frozenset()


def test_so_is_one_with_the_reason_why_the_model_stopped():
    assert (
        merged(lacking("output"), report(output=SAID, finish_reasons=("stop",))).damaged
        == frozenset()
    )


def test_and_one_of_another_instrumentation():
    assert merged(lacking("output"), report("two", output=SAID)).damaged == frozenset()


def test_a_text_of_a_model_that_stopped_for_tools_lacks_them():
    assert merged(
        lacking("output"), report("two", output=SAID, finish_reasons=("tool_calls",))
    ).damaged == {"output"}


def test_a_conversation_of_which_the_other_report_tells_little_stays_as_it_is():
    long = (*WHOLE, *SAID, *WHOLE, *CUT)
    assert merged(report(input=long), report(input=WHOLE)).input == long


def test_a_result_that_was_cut_is_taken_from_the_report_that_has_it_whole():
    filled = merged_tools(
        lacking("result", kind="tool", result="It is on", has_result=True),
        report(kind="tool", result="It is on its way.", has_result=True),
    )
    assert (filled.result, filled.damaged) == ("It is on its way.", frozenset())
