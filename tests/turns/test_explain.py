"""Where each fact came from: the source that won, the attribute that held it, and what lost."""

import json
from pathlib import Path

import pytest

from spanscore.model.span import Resource, Scope, Span
from spanscore.otlp import files
from spanscore.rebuild import explain_all

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = [min(x.glob("*/traces.pb.gz")).parent for x in sorted(GOLDEN.iterdir()) if any(x.glob("*/traces.pb.gz"))]
"""One of each dialect."""


def span(span_id, parent="", start=0, resource=None, **attributes):
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return Span(
        "t", span_id, parent, f"span {span_id}", 1, start, start + 9, 0, "", named, resource or Resource(), Scope()
    )


def said(*texts, role="user"):
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": x}]} for x in texts])


def explained(*spans):
    ((_, explanation),) = explain_all(spans)
    return explanation


def place(origin):
    return origin.step.span.span_id, origin.attributes


CHAT = {"gen_ai__operation__name": "chat"}


def test_a_fact_names_the_span_and_the_attribute_that_held_it():
    found = explained(span("1", **CHAT, gen_ai__input__messages=said("Paris?"))).facts["user_input"]
    assert place(found.origin) == ("1", ("gen_ai.input.messages",))


def test_what_comes_later_in_the_order_of_sources_lost():
    agent = span("1", gen_ai__operation__name="invoke_agent", gen_ai__input__messages=said("Paris?"))
    model = span("2", "1", 3, **CHAT, gen_ai__input__messages=said("Paris, they ask?"))
    found = explained(agent, model).facts["user_input"]
    assert [(place(x), x.value) for x in found.lost] == [(("2", ("gen_ai.input.messages",)), "Paris, they ask?")]


def test_of_two_attributes_that_say_the_same_the_one_that_is_read_first_won():
    found = explained(span("1", **CHAT, gen_ai__input__messages=said("Paris?"), gen_ai__prompt="Paris?"))
    assert found.facts["user_input"].origin.attributes == ("gen_ai.input.messages",)
    assert [x.attributes for x in found.facts["user_input"].lost] == [("gen_ai.prompt",)]


def test_the_agent_of_a_tool_call_is_told_by_the_agents_span():
    agent = span("1", gen_ai__operation__name="invoke_agent", gen_ai__agent__name="guide")
    tool = span("2", "1", 3, gen_ai__operation__name="execute_tool", gen_ai__tool__name="weather")
    (call,) = explained(agent, tool).tool_calls
    assert place(call["agent"].origin) == ("1", ("gen_ai.agent.name",))


def test_the_place_that_won_did_not_lose_too():
    agent = span("1", gen_ai__operation__name="invoke_agent", gen_ai__agent__name="guide")
    asked = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "a", "name": "weather", "arguments": {}}]}]
    model = span("2", "1", 2, **CHAT, gen_ai__output__messages=json.dumps(asked))
    tool = span("3", "1", 3, gen_ai__operation__name="execute_tool", gen_ai__tool__name="weather")
    (call,) = explained(agent, model, tool).tool_calls
    assert (place(call["agent"].origin), call["agent"].lost) == (("1", ("gen_ai.agent.name",)), ())


def test_a_fact_that_was_not_told_has_no_origin():
    assert explained(span("1", **CHAT)).facts["user_input"].origin is None


def test_a_fact_of_the_resource_names_it():
    owner = Resource({"session.id": "s1"})
    found = explained(span("1", resource=owner, **CHAT)).facts["session_id"]
    assert found.origin.attributes == ("session.id of the resource",)


def test_a_number_of_tokens_names_its_attribute():
    (count,) = explained(span("1", **CHAT, gen_ai__usage__input_tokens=120, gen_ai__usage__other=120)).tokens
    assert (count.value, count.attributes) == (120, ("gen_ai.usage.input_tokens",))


def test_a_damaged_fact_that_lost_to_a_whole_one_is_named():
    agent = span("1", gen_ai__operation__name="invoke_agent", gen_ai__input__messages=said("[REDACTED]"))
    model = span("2", "1", 3, **CHAT, gen_ai__input__messages=said("Paris?"))
    found = explained(agent, model).facts["user_input"]
    assert (found.origin.value, [(x.value, x.damaged) for x in found.lost]) == ("Paris?", [(None, True)])


@pytest.fixture
def call():
    """A call that shows in three places: its arguments in the first, its result in the others."""
    asked = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {"q": "Rome"}}]}
    told = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "20 degrees"}]}
    given = [{"role": "user", "parts": [{"type": "text", "content": "Go."}]}]
    tool = {"gen_ai.tool.name": "f", "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": "20C"}
    (found,) = explained(
        span("1", gen_ai__operation__name="invoke_agent"),
        span(
            "2", "1", 1, **CHAT, gen_ai__input__messages=json.dumps(given), gen_ai__output__messages=json.dumps([asked])
        ),
        span("3", "1", 20, gen_ai__operation__name="execute_tool", **tool),
        span("4", "1", 40, **CHAT, gen_ai__input__messages=json.dumps([*given, asked, told])),
    ).tool_calls
    return found


def test_arguments_come_from_the_request(call):
    assert place(call["arguments"].origin) == ("2", ("gen_ai.output.messages",))


def test_a_result_comes_from_the_tools_span(call):
    assert place(call["result"].origin) == ("3", ("gen_ai.tool.call.result",))


def test_a_result_that_a_model_was_told_lost(call):
    assert [(place(x), x.value) for x in call["result"].lost] == [(("4", ("gen_ai.input.messages",)), "20 degrees")]


def test_an_explanation_is_json(call):
    assert json.loads(json.dumps(call["result"].to_json()))["lost"][0]["agrees"] is False


@pytest.fixture(scope="module", params=CASES, ids=lambda x: f"{x.parent.name}/{x.name}")
def of_case(request):
    """The agent traces of a golden case with their explanations, made once for all that is asked of them."""
    telemetry = files.load(sorted(request.param.glob("*.pb.gz")))
    return explain_all(telemetry.spans, telemetry.logs)


def test_what_is_explained_is_what_was_built(of_case):
    for trace, explanation in of_case:
        for name, found in explanation.facts.items():
            told = None if found.origin is None else found.origin.value
            assert told == (getattr(trace, name) or None if name == "history" else getattr(trace, name))
        for made, of_call in zip(trace.tool_calls or (), explanation.tool_calls, strict=False):
            for name, found in of_call.items():
                assert (None if found.origin is None else found.origin.value) == getattr(made, name)


def test_questions_and_answers_of_every_dialect_are_found_in_an_attribute(of_case):
    for _, explanation in of_case:
        for name in ("user_input", "final_output"):
            found = explanation.facts[name].origin
            assert found is None or not found.value or found.attributes
