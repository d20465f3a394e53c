"""CrewAI where no model's client is instrumented: its own spans tell the task, the answer and the
tools.
"""

import json
from functools import partial

import one_span
import pytest

from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool
from spanscore.rebuild import rebuild

SCOPE = "openinference.instrumentation.crewai"
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "lookup", "arguments": '{"x": "00042"}'},
}
PROMPT = [
    {"role": "system", "content": "You are clerk."},
    {"role": "user", "content": "\nCurrent Task: Where?\n\nThink."},
]
DONE = {"description": "Where?", "raw": "There.", "agent": "clerk"}

span = partial(one_span.span, scope=SCOPE)


def agent(done, task=None):
    attributes = {
        "openinference.span.kind": "AGENT",
        "graph.node.id": "clerk",
        "output.value": json.dumps(done),
    }
    attributes |= {} if task is None else {"input.value": json.dumps(task)}
    return one_span.read(attributes, scope=SCOPE, name="clerk._execute_core")


def test_a_finished_task_holds_the_agents_whole_conversation():
    said = [
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "content": "0", "tool_call_id": "c1"},
    ]
    step = agent({**DONE, "messages": [*PROMPT, *said, {"role": "assistant", "content": "There."}]})
    assert (step.input, step.output) == (
        (Message("system", "You are clerk."), Message("user", "Where?")),
        (
            Message("assistant", calls=(RequestedCall("c1", "lookup", {"x": "00042"}),)),
            Message("tool", results=(ToolResult("c1", 0),)),
            Message("assistant", "There."),
        ),
    )


@pytest.mark.parametrize("said", ["Thought: I know.\nFinal Answer: There.", None])
def test_the_raw_result_is_the_answer_whatever_the_last_message_says(said):
    last = [] if said is None else [{"role": "assistant", "content": said}]
    assert agent({**DONE, "messages": [*PROMPT, *last]}).output[-1] == Message(
        "assistant", "There."
    )


def test_a_task_of_a_version_that_keeps_no_messages_has_its_answer():
    step = agent(DONE)
    assert (step.input, step.output) == (
        (Message("user", "Where?"),),
        (Message("assistant", "There."),),
    )


def test_tools_that_python_printed_are_on_offer_by_the_name_a_model_is_told():
    printed = [
        (
            "name='Ask question to coworker' description=\"It's for questions.\" env_vars=[]"
            " result_schema=None"
        ),
        "name='lookup' description='Look up.' env_vars=[] func=<function lookup at 0x7f>",
        "nonsense",
    ]
    assert agent(DONE, {"tools": printed}).tools == (
        Tool("ask_question_to_coworker", "It's for questions.", None),
        Tool("lookup", "Look up.", None),
    )


def test_a_coworkers_call_has_the_coworkers_name():
    asked = {"task": "Find it.", "context": "", "coworker": "carrier"}
    delegated = {"openinference.span.kind": "TOOL", "tool.name": "Delegate work to coworker"}
    delegated |= {
        "tool.description": "Tool Name: delegate_work_to_coworker\n",
        "input.value": json.dumps(asked),
    }
    own = {"openinference.span.kind": "TOOL", "tool.name": "lookup", "input.value": "{}"}
    (trace,) = rebuild(
        [
            span({"openinference.span.kind": "AGENT", "graph.node.id": "clerk"}, span_id="a"),
            span(delegated, span_id="b", parent="a", start_ns=2),
            span(own, span_id="c", parent="b", start_ns=3),
        ]
    )
    assert [(x.name, x.agent) for x in trace.tool_calls] == [
        ("delegate_work_to_coworker", "clerk"),
        ("lookup", "carrier"),
    ]


OPENLLMETRY = "opentelemetry.instrumentation.crewai.instrumentation"


def test_a_crews_result_is_the_answer_under_openllmetry():
    attributes = {"gen_ai.operation.name": "invoke_agent", "crewai.crew.result": "There."}
    assert one_span.read(attributes, scope=OPENLLMETRY).output_text == "There."


def test_an_agents_tools_are_on_offer_under_openllmetry():
    listed = json.dumps([{"name": "Look up", "description": "Find."}, "nonsense"])
    attributes = {"traceloop.span.kind": "agent", "crewai.agent.tools": listed}
    assert one_span.read(attributes, scope=OPENLLMETRY).tools == (Tool("look_up", "Find."),)


def test_an_agent_that_was_asked_without_a_task_tells_its_instructions_and_the_names_of_its_tools():
    done = {"raw": "There.", "messages": PROMPT}
    attributes = {
        "openinference.span.kind": "AGENT",
        "graph.node.id": "clerk",
        "agent.tools": '["Look it up"]',
    }
    step = one_span.read(
        {**attributes, "output.value": json.dumps(done)}, scope=SCOPE, name="clerk.kickoff"
    )
    assert (step.system, step.tools) == ("You are clerk.", (Tool("look_it_up"),))


LISTENER = "openinference.instrumentation.crewai._event_listener"


@pytest.mark.parametrize("name", ["'weather'", '"weather"', "weather"])
def test_the_listeners_names_of_tools_have_no_quotes(name):
    call = "llm.input_messages.0.message.tool_calls.0.tool_call."
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "assistant",
        call + "id": "c1",
        call + "function.name": name,
        call + "function.arguments": "{}",
    }
    step = one_span.read(attributes, scope=LISTENER)
    assert [x.name for x in step.input[0].calls] == ["weather"]


def test_the_listeners_list_of_tools_is_opened_to_what_it_prints():
    printed = {
        "properties": {"city": "{'type': 'string'}"},
        "required": ["'city'"],
        "type": "object",
    }
    offered = [
        {
            "type": "function",
            "function": {"name": "weather", "description": "Looks.", "parameters": printed},
        }
    ]
    step = one_span.read(
        {"openinference.span.kind": "LLM", "llm.tools": json.dumps(offered)}, scope=LISTENER
    )
    schema = {"properties": {"city": {"type": "string"}}, "required": ["city"], "type": "object"}
    assert [(x.name, x.description, x.parameters) for x in step.tools] == [
        ("weather", "Looks.", schema)
    ]


def test_the_listeners_agent_is_asked_its_task_without_the_words_around_it():
    attributes = {
        "openinference.span.kind": "AGENT",
        "graph.node.id": "guide",
        "task_description": "Where?",
    }
    attributes |= {"input.value": "Where?\n\nThis is the expected criteria: A town."}
    step = one_span.read(attributes, scope=LISTENER, name="guide.Where?.execute")
    assert (step.agent_name, step.input_text) == ("guide", "Where?")
