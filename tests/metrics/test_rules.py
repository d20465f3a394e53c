"""What the rules judge sees, metric by metric."""

import dataclasses

import pytest

from spanscore.metrics import Evidence
from spanscore.metrics._evidence import reads
from spanscore.metrics._plans import plan_steps, steps_in
from spanscore.metrics._words import plain
from spanscore.metrics.trace.argument_correctness import ArgumentCorrectness
from spanscore.metrics.trace.confidence import Confidence
from spanscore.metrics.trace.plan_adherence import PlanAdherence
from spanscore.metrics.trace.plan_quality import PlanQuality
from spanscore.metrics.trace.step_efficiency import StepEfficiency
from spanscore.metrics.trace.task_completion import TaskCompletion
from spanscore.metrics.trace.tool_correctness import ToolCorrectness
from spanscore.model.score import Skip
from spanscore.model.trace import ModelCall, PastMessage, RequestedCall, Tool, ToolCall

FAILED = ToolCall(None, "get_weather", {"city": "Rome"}, error="503 upstream timeout")


def score(metric, trace):
    return metric().measure_by_rules(Evidence(trace))


def calls(*specs):
    return tuple(ToolCall(None, name, arguments, result) for name, arguments, result in specs)


@pytest.mark.parametrize(
    ("arguments", "said", "verdict"),
    [
        ({"city": "Rome"}, "Weather in Rome?", "yes"),
        ({"city": "rome"}, "Weather in ROME?", "yes"),
        ({"city": "Oslo"}, "Weather in Rome?", "no"),
        ({"seats": 2}, "Book two seats", "yes"),
        ({"seats": 3}, "Book two seats", "no"),
        ({"price": 1250.5}, "at most 1,250.50 EUR", "yes"),
        ({"seats": 3}, "\u0663 \u0645\u0642\u0627\u0639\u062f", "yes"),
        ({"date": "2024-05-20"}, "fly on May 20th", "yes"),
        ({"date": "2024-05-20"}, "fly on 20 May", "yes"),
        ({"date": "2024-05-21"}, "fly on May 20th", "no"),
        ({"date": "2024-05-21"}, "fly tomorrow", "yes"),
        ({"date": "2024-05-20"}, "between 2024-05-20 and 2024-06-21", "yes"),
        ({"date": "2024-05-21"}, "at 05:30 or later in 2024, with as many as 21 seats", "no"),
        ({"at": "2024-05-20T10:30:00Z"}, "it leaves at 2024-05-20T10:30:00Z", "yes"),
        ({"ssn": "1234-56-78"}, "mine is 1234-56-78", "yes"),
        ({"route": {"to": ["Lisbon"]}}, "fly to Lisbon", "yes"),
        ({"route": {"to": ["Porto"]}}, "fly to Lisbon", "no"),
        ({"id": "XEHM4B"}, "cancel XEHM4B", "yes"),
        ({"id": "XEHM4C"}, "cancel XEHM4B", "no"),
        ({"query": "cheap flights to Lisbon in May"}, "I want a cheap flight to Lisbon in May", "yes"),
        ({"currency": "EUR", "verbose": True, "page": 1, "note": ""}, "price of gold", "yes"),
        ({}, "anything", "yes"),
    ],
)
def test_a_value_must_come_from_somewhere(make_trace, arguments, said, verdict):
    trace = make_trace(user_input=said, available_tools=None, tool_calls=calls(("do", arguments, None)))
    assert score(ArgumentCorrectness, trace).metadata["verdicts"][0]["verdict"] == verdict


def test_ascii_is_made_plain_like_any_other_text():
    every = "".join(map(chr, range(128)))
    assert plain(every + "\u00e9") == plain(every)[:-1] + "\u00e9 "


def test_a_value_may_come_from_an_earlier_result(make_trace):
    found = calls(("find", {}, {"user": "mia_li_3668"}), ("load", {"user": "mia_li_3668"}, None))
    assert score(ArgumentCorrectness, make_trace(tool_calls=found)).value == 1.0


def test_a_value_may_not_come_from_a_later_result(make_trace):
    found = calls(("load", {"user": "mia_li_3668"}, None), ("find", {}, {"user": "mia_li_3668"}))
    assert score(ArgumentCorrectness, make_trace(tool_calls=found)).value == 0.5


def test_a_value_may_come_from_the_conversation_before(make_trace):
    trace = make_trace(history=(PastMessage("user", "I live in Oslo"),), tool_calls=calls(("do", {"x": "Oslo"}, None)))
    assert score(ArgumentCorrectness, trace).value == 1.0


def test_a_value_may_be_one_that_the_tool_offers(make_trace):
    trace = make_trace(tool_calls=calls(("get_weather", {"city": "Rome", "unit": "celsius"}, None)))
    assert score(ArgumentCorrectness, trace).value == 1.0


def test_arguments_that_break_the_tools_schema_are_wrong(make_trace):
    verdicts = score(ArgumentCorrectness, make_trace(tool_calls=calls(("get_weather", {}, None)))).metadata["verdicts"]
    assert verdicts == [{"verdict": "no", "reason": "'city' is missing"}]


def test_arguments_that_the_tool_refused_are_wrong(make_trace):
    refused = ToolCall(None, "do", {"city": "Rome"}, error="1 validation error for Do: field required")
    assert score(ArgumentCorrectness, make_trace(tool_calls=(refused,))).value == 0.0


def test_arguments_that_were_not_recorded_are_skipped(make_trace):
    settled = ArgumentCorrectness().settle(make_trace(tool_calls=calls(("do", None, None))), {})
    assert settled == Skip("The trace did not record the arguments of do.", "not_recorded")


def test_a_tool_that_is_not_on_offer_is_a_fault(make_trace):
    trace = make_trace(tool_calls=calls(("launch_rocket", {}, None)))
    assert "not on offer" in score(ToolCorrectness, trace).reason


def test_a_prefix_of_a_server_makes_no_other_tool(make_trace):
    trace = make_trace(tool_calls=calls(("weather_server.get_weather", {"city": "Rome"}, "sunny")))
    assert score(ToolCorrectness, trace).value == 1.0


def test_tools_on_offer_that_were_not_recorded_are_not_held_against_calls(make_trace):
    trace = make_trace(tool_calls=calls(("launch_rocket", {}, None)), available_tools=None)
    assert score(ToolCorrectness, trace).value == 1.0


def test_a_tool_that_the_request_names_and_nobody_called_is_missed(make_trace):
    assert score(ToolCorrectness, make_trace(tool_calls=())).value == 0.0


def test_no_call_is_right_where_no_tool_was_asked_for(make_trace):
    assert score(ToolCorrectness, make_trace(tool_calls=(), user_input="Say hello")).value == 1.0


def test_a_failed_call_that_was_made_good_is_no_fault(make_trace):
    call = make_trace().tool_calls[0]
    failed = dataclasses.replace(call, result=None, error="503")
    assert score(ToolCorrectness, make_trace(tool_calls=(failed, call))).value == 1.0


def test_that_the_right_tool_failed_is_no_fault_of_the_choice(make_trace):
    assert score(ToolCorrectness, make_trace(tool_calls=(FAILED,))).value == 1.0


def test_the_right_tool_called_in_vain_again_and_again_is_half_right(make_trace):
    assert score(ToolCorrectness, make_trace(tool_calls=(FAILED,) * 3)).value == pytest.approx(0.5)


def test_a_repetition_that_succeeds_is_no_fault(make_trace):
    again = dataclasses.replace(FAILED, error=None, result="sunny")
    assert score(ToolCorrectness, make_trace(tool_calls=(FAILED, again))).value == 1.0


def test_a_tool_that_its_own_error_does_not_know_is_a_fault(make_trace):
    unknown = ToolCall(None, "launch", {}, error="Unknown tool name: 'launch'. Available tools: get_weather")
    assert score(ToolCorrectness, make_trace(tool_calls=(unknown,), available_tools=None)).value == 0.0


@pytest.mark.parametrize(
    ("other", "value"),
    [("weather_forecast_search", 2 / 3), ("find_weather", 2 / 3), ("get_news", 1.0), ("set_weather", 1.0)],
)
def test_an_alternative_to_a_tool_that_failed_for_good_is_to_be_tried(make_trace, other, value):
    trace = make_trace(user_input="Rome?", tool_calls=(FAILED,), available_tools=(Tool("get_weather"), Tool(other)))
    assert score(ToolCorrectness, trace).value == pytest.approx(value, abs=1e-4)


def test_a_tool_is_no_alternative_to_itself_under_the_prefix_of_a_server(make_trace):
    failed = dataclasses.replace(FAILED, name="weather_server.get_weather")
    assert score(ToolCorrectness, make_trace(tool_calls=(failed,))).value == 1.0


def test_an_alternative_that_was_tried_is_not_missed(make_trace):
    tools = (Tool("get_weather"), Tool("find_weather"))
    tried = calls(("find_weather", {"city": "Rome"}, "sunny"))
    assert score(ToolCorrectness, make_trace(tool_calls=(FAILED, *tried), available_tools=tools)).value == 1.0


def test_polling_that_brings_something_new_is_no_duplicate(make_trace):
    polled = calls(("get_weather", {"city": "Rome"}, "pending"), ("get_weather", {"city": "Rome"}, "sunny"))
    assert score(ToolCorrectness, make_trace(tool_calls=polled)).value == 1.0


def test_a_result_of_which_nothing_was_used_is_half_a_needless_step(make_trace):
    found = (*make_trace().tool_calls, *calls(("search_hotels", {"city": "Rome"}, "Grand Plaza, 210 EUR")))
    assert score(StepEfficiency, make_trace(tool_calls=found)).value == pytest.approx(1 - 0.5 / 3, abs=1e-4)


def test_an_empty_output_completes_nothing(make_trace):
    assert score(TaskCompletion, make_trace(final_output=" ")).value == 0.0


def test_a_short_answer_to_a_short_question_is_an_answer(make_trace):
    trace = make_trace(user_input="What is the capital of France?", final_output="Paris.", tool_calls=())
    assert score(TaskCompletion, trace).value >= 0.5


def test_a_part_of_the_request_without_an_answer_costs(make_trace):
    asked = {"user_input": "What is the weather in Rome? And which museums open on Monday?"}
    assert score(TaskCompletion, make_trace(**asked)).value < score(TaskCompletion, make_trace()).value


def test_work_that_is_only_announced_is_not_done(make_trace):
    trace = make_trace(final_output="Let me check the weather in Rome for you, one moment.")
    assert score(TaskCompletion, trace).value <= 0.4


def test_an_error_at_the_end_costs(make_trace):
    assert score(TaskCompletion, make_trace(tool_calls=(FAILED,))).value < 0.5


def test_the_outcome_names_calls_and_failures(make_trace):
    outcome = score(TaskCompletion, make_trace(tool_calls=(FAILED,))).metadata["outcome"]
    assert outcome.startswith("Called get_weather (failed). Answered: ")


def test_one_hedge_in_a_long_answer_is_no_hesitation(make_trace):
    trace = make_trace(final_output="The weather in Rome is perhaps sunny. " + "It is thirty degrees warm. " * 30)
    assert score(Confidence, trace).value == 1.0


def test_going_back_on_oneself_costs(make_trace):
    trace = make_trace(model_calls=(ModelCall("s", text="I was wrong. Let me try another city."),))
    assert score(Confidence, trace).value == pytest.approx(0.6)


def test_a_tool_left_for_another_after_failing_costs(make_trace):
    failed = ToolCall(None, "get_forecast", {"city": "Rome"}, error="503")
    trace = make_trace(tool_calls=(failed, *make_trace().tool_calls))
    assert score(Confidence, trace).value == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ("1. Get the weather\n2. Book a hotel", "2 of 2 planned steps were executed, 1 of them in order."),
        ("1. Book a hotel\n2. Get the weather", "2 of 2 planned steps were executed, in order."),
        ("1. Book a hotel\n2. Rent a car", "1 of 2 planned steps was executed; not seen: Rent a car; 1 call beyond"),
        ("Rent a car", "The one planned step was not executed"),
    ],
)
def test_the_reason_says_which_steps_of_the_plan_were_executed(make_trace, plan, reason):
    done = calls(("book_hotel", {}, "ok"), ("get_weather", {"city": "Rome"}, "sunny"))
    assert score(PlanAdherence, make_trace(plan=plan, tool_calls=done)).reason.startswith(reason)


def test_no_plan_is_nothing_to_evaluate(make_trace):
    found = score(PlanAdherence, make_trace())
    assert (found.value, found.metadata["plan"]) == (1.0, [])


def test_a_plan_carried_out_in_order_is_followed(make_trace):
    trace = make_trace(plan="First, I'll look up the weather, then summarise it.")
    assert score(PlanAdherence, trace).value == 1.0


def test_a_step_not_carried_out_costs_its_share(make_trace):
    trace = make_trace(plan="1. Get the weather\n2. Book a hotel")
    assert score(PlanAdherence, trace).value == pytest.approx(0.5)


def test_steps_out_of_order_cost(make_trace):
    done = calls(("book_hotel", {}, "ok"), ("get_weather", {"city": "Rome"}, "sunny"))
    planned = "1. Get the weather\n2. Book a hotel"
    assert score(PlanAdherence, make_trace(plan=planned, tool_calls=done)).value == pytest.approx(0.9)


def test_a_plan_that_repeats_itself_is_not_economic(make_trace):
    trace = make_trace(plan="1. Search the weather in Rome\n2. Search the weather of Rome")
    assert "economy 0.50" in score(PlanQuality, trace).reason


def test_a_plan_is_found_in_what_a_model_wrote_before_it_acted(make_trace):
    before = ModelCall("s", text="I'll check Rome, then Oslo.", tool_calls=(RequestedCall("c", "get_weather"),))
    assert plan_steps(make_trace(model_calls=(before,))) == ["I'll check Rome", "Oslo"]


def test_no_plan_is_read_into_what_came_after_acting(make_trace):
    first = ModelCall("s", tool_calls=(RequestedCall("c", "get_weather"),))
    assert plan_steps(make_trace(model_calls=(first, ModelCall("t", text="I'll check Oslo, then Bonn.")))) == []


def test_a_plan_of_many_steps_is_bounded():
    assert len(steps_in("\n".join(f"{x % 90}. step {x}" for x in range(200)))) == 20


def test_a_tool_that_looks_up_is_known_by_its_verb():
    assert [reads(x) for x in ("get_weather", "searchFlights", "book_flight")] == [True, True, False]


def test_texts_of_any_size_are_judged_in_bounds(make_trace):
    huge = "Rome 31 and " * 200_000
    trace = make_trace(user_input=huge, final_output=huge, plan=huge, tool_calls=calls(("do", {"x": huge}, huge)))
    evidence = Evidence(trace)
    assert len(evidence.answer) < 101_000


def test_a_damaged_list_of_tools_is_as_good_as_none(make_trace):
    trace = make_trace(available_tools=(Tool("other"),), damaged=("available_tools",))
    assert score(ToolCorrectness, trace).metadata["available_tools"] is None


def test_a_value_may_come_from_a_result_that_was_not_recorded(make_trace):
    found = calls(("find", {}, None), ("load", {"user": "mia_li_3668"}, None))
    assert score(ArgumentCorrectness, make_trace(tool_calls=found)).value == 1.0


def test_a_value_may_come_from_a_conversation_that_arrived_cut(make_trace):
    trace = make_trace(tool_calls=calls(("do", {"city": "Oslo"}, None)), damaged=("history",))
    assert score(ArgumentCorrectness, trace).value == 1.0


def test_a_schema_that_arrived_cut_is_not_held_against_arguments(make_trace):
    trace = make_trace(tool_calls=calls(("get_weather", {}, None)), damaged=("available_tools",))
    assert score(ArgumentCorrectness, trace).value == 1.0
