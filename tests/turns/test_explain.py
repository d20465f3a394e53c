"""Where each fact came from: the source that won, the attribute that held it, and what lost."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from spanscore.model.span import Resource, Scope, Span
from spanscore.model.trace import Expected, Tool
from spanscore.otlp import files
from spanscore.rebuild import by_unit, explain_all

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted({x.parent for x in GOLDEN.glob("*/*/*.pb.gz")})
UNNAMED = {
    "spring_ai/shop-version-1": {"tokens"},
    "spring_ai/shop-version-1-stream": {"final_output", "plan"},
    "autogen/desk-swarm": {"tokens"},
    "autogen/shop-team": {"tokens"},
    "voltagent/desk": {"tokens"},
    "openinference/haystack-stream": {"tokens"},
    "gemini_cli/shop": {"agent_name"},
    "gemini_cli/shop-traces": {"agent_name"},
    "gemini_cli/shop-qwen-code": {"agent_name", "agent"},
}
"""Facts that stand in no part of their span: Spring AI's of which a part is told by the spans
beside it, tokens of several messages in one attribute of AutoGen's, or of the sub-agents of
VoltAgent and Haystack, that are added up, and the names of Gemini CLI and Qwen Code, which their
scopes tell.
"""


def name_of(case):
    return f"{case.parent.name}/{case.name}"


def span(span_id, parent="", start=0, resource=None, **attributes):
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return Span(
        "t",
        span_id,
        parent,
        f"span {span_id}",
        1,
        start,
        start + 9,
        0,
        "",
        named,
        resource or Resource(),
        Scope(),
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
    agent = span(
        "1", gen_ai__operation__name="invoke_agent", gen_ai__input__messages=said("Paris?")
    )
    model = span("2", "1", 3, **CHAT, gen_ai__input__messages=said("Paris, they ask?"))
    found = explained(agent, model).facts["user_input"]
    assert [(place(x), x.value) for x in found.lost] == [
        (("2", ("gen_ai.input.messages",)), "Paris, they ask?")
    ]


def test_of_two_attributes_that_say_the_same_the_one_that_is_read_first_won():
    found = explained(
        span("1", **CHAT, gen_ai__input__messages=said("Paris?"), gen_ai__prompt="Paris?")
    )
    assert found.facts["user_input"].origin.attributes == ("gen_ai.input.messages",)
    assert [x.attributes for x in found.facts["user_input"].lost] == [("gen_ai.prompt",)]


def test_the_agent_of_a_tool_call_is_told_by_the_agents_span():
    agent = span("1", gen_ai__operation__name="invoke_agent", gen_ai__agent__name="guide")
    tool = span("2", "1", 3, gen_ai__operation__name="execute_tool", gen_ai__tool__name="weather")
    (call,) = explained(agent, tool).tool_calls
    assert place(call["agent"].origin) == ("1", ("gen_ai.agent.name",))


def test_the_place_that_won_did_not_lose_too():
    agent = span("1", gen_ai__operation__name="invoke_agent", gen_ai__agent__name="guide")
    asked = [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "a", "name": "weather", "arguments": {}}],
        }
    ]
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


def test_a_resource_may_name_a_session_by_a_number():
    ((trace, _),) = explain_all([span("1", resource=Resource({"session.id": 42}), **CHAT)])
    assert trace.session_id == "42"


def test_a_number_of_tokens_names_its_attribute():
    (count,) = explained(
        span("1", **CHAT, gen_ai__usage__input_tokens=120, gen_ai__usage__other=120)
    ).tokens
    assert (count.value, count.attributes) == (120, ("gen_ai.usage.input_tokens",))


def test_a_damaged_fact_that_lost_to_a_whole_one_is_named():
    agent = span(
        "1", gen_ai__operation__name="invoke_agent", gen_ai__input__messages=said("[REDACTED]")
    )
    model = span("2", "1", 3, **CHAT, gen_ai__input__messages=said("Paris?"))
    found = explained(agent, model).facts["user_input"]
    assert (found.origin.value, [(x.value, x.damaged) for x in found.lost]) == (
        "Paris?",
        [(None, True)],
    )


@pytest.fixture
def call():
    """A call that shows in three places: its arguments in the first, its result in the others."""
    asked = {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {"q": "Rome"}}],
    }
    told = {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "c1", "response": "20 degrees"}],
    }
    given = [{"role": "user", "parts": [{"type": "text", "content": "Go."}]}]
    tool = {"gen_ai.tool.name": "f", "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": "20C"}
    (found,) = explained(
        span("1", gen_ai__operation__name="invoke_agent"),
        span(
            "2",
            "1",
            1,
            **CHAT,
            gen_ai__input__messages=json.dumps(given),
            gen_ai__output__messages=json.dumps([asked]),
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
    assert [(place(x), x.value) for x in call["result"].lost] == [
        (("4", ("gen_ai.input.messages",)), "20 degrees")
    ]


def test_an_explanation_is_json(call):
    assert json.loads(json.dumps(call["result"].to_json()))["lost"][0]["agrees"] is False


def facts_of(explanation):
    """Each fact that was told, by name."""
    calls = (found for call in explanation.tool_calls for found in call.items())
    yield from (
        (name, x.origin) for name, x in (*explanation.facts.items(), *calls) if x.origin is not None
    )
    yield from (("available_tools", x) for x in explanation.tools.values())
    yield from (("tokens", x) for x in explanation.tokens)


def leaves(value):
    if isinstance(value, Expected):
        value = value.to_json()
    if isinstance(value, dict) and value:
        return [x for each in value.values() for x in leaves(each)]
    if isinstance(value, (list, tuple)) and value:
        return [x for each in value for x in leaves(each)]
    return [value.name] if isinstance(value, Tool) else [getattr(value, "text", value)]


def looks_held(value, text):
    """Whether a word of a value, or the value as JSON or Python prints it, stands in a text; or a
    number to add.
    """
    words = (
        x
        for leaf in leaves(value)
        for x in re.findall(r"[^\W_]+", leaf if isinstance(leaf, str) else "")
    )
    printed = {
        y for leaf in leaves(value) for y in (json.dumps(leaf), str(leaf), json.dumps(str(leaf)))
    }
    is_summand = isinstance(value, int) and text.isdecimal()
    return is_summand or not text.strip() or any(x in text for x in (*words, *printed))


def parts_of(step, logs):
    """The parts of a step's span by the names that an explanation gives them."""
    yield from step.span.attributes.items()
    yield from (("span name", step.span.name), ("status", step.span.status_message))
    for event in step.span.events:
        yield from ((f"event {event.name}: {key}", x) for key, x in event.attributes.items())
    for log in logs:
        for key, x in (("body", log.body), *log.attributes.items()):
            yield f"log record {log.event_name or '(no event name)'}: {key}", x


def built_otherwise(trace, explanation):
    """The facts of which an explanation gives another value than was built."""
    calls = zip(trace.tool_calls or (), explanation.tool_calls, strict=False)
    told = replace(trace, history=trace.history or None)
    return [
        name
        for made, found in ((told, explanation.facts), *calls)
        for name, x in found.items()
        if getattr(made, name) != (None if x.origin is None else x.origin.value)
    ]


def not_held(explanation, logs):
    """The facts of which a part of their span that is named holds no piece, and that part."""
    found = []
    for name, origin in facts_of(explanation):
        held = {}
        for key, x in parts_of(origin.step, logs):
            text = x if isinstance(x, str) else json.dumps(x, ensure_ascii=False)
            held[key] = held.get(key, "") + text
        named = [x for x in origin.attributes if not x.endswith(" of the resource")]
        found += [(name, origin.value, x) for x in named if not looks_held(origin.value, held[x])]
    return found


def unnamed(explanation):
    """The facts that name no part of their span."""
    return {name for name, x in facts_of(explanation) if not x.attributes and x.value}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_fact_of_a_recording_names_the_parts_of_its_span_that_hold_it(case):
    telemetry = files.load(sorted(case.glob("*.pb.gz")))
    parts = [(telemetry.spans, telemetry.logs)]
    if name_of(case) not in UNNAMED:  # its turns are alike, so the first one stands for them
        parts = by_unit(*parts[0]).values()
    explained = next(x for x in (explain_all(*part) for part in parts) if x)
    assert [built_otherwise(*x) for x in explained] == [[]] * len(explained)
    assert [y for _, x in explained for y in not_held(x, telemetry.logs)] == []
    assert {y for _, x in explained for y in unnamed(x)} == UNNAMED.get(name_of(case), set())


def test_parallel_calls_of_one_tool_each_name_their_own_attribute():
    asked = {
        f"llm.output_messages.0.message.tool_calls.{number}.tool_call.{key}": value
        for number, city in enumerate(("Rome", "Oslo"))
        for key, value in (
            ("id", city),
            ("function.name", "weather"),
            ("function.arguments", f'{{"city": "{city}"}}'),
        )
    }
    calls = explained(span("1", **{"openinference.span.kind": "LLM"}, **asked)).tool_calls
    assert [x["name"].origin.attributes[0].split(".")[-4] for x in calls] == ["0", "1"]


@pytest.mark.slow
def test_a_conversation_of_thousands_of_messages_names_the_one_attribute():
    given = {
        f"llm.input_messages.{at}.message.{key}": value
        for at in range(2000)
        for key, value in (("role", "user"), ("content", f"message {at}"))
    }
    found = explained(span("1", **{"openinference.span.kind": "LLM"}, **given)).facts["user_input"]
    assert found.origin.attributes == ("llm.input_messages.1999.message.content",)


def test_a_name_that_must_stand_in_two_places_names_both():
    attributes = {"openinference.span.kind": "CHAIN", "metadata": '{"lc_agent_name": "clerk"}'}
    graph = replace(
        span("1", **attributes),
        name="clerk",
        scope=Scope("openinference.instrumentation.langchain"),
    )
    assert explained(graph, span("2", "1", **CHAT)).facts["agent_name"].origin.attributes == (
        "metadata",
        "span name",
    )
