"""How frameworks tell of agents that call or hand over to each other, in forms that their
recordings do not cover.
"""

import json

import pytest

from spanscore import dialects
from spanscore.model.span import Resource, Scope, Span

LANGCHAIN = "openinference.instrumentation.langchain"
CREWAI = "openinference.instrumentation.crewai"
OPENAI_AGENTS = "opentelemetry.instrumentation.openai_agents"


def span(attributes, *, scope, name="span", parent="", span_id="1"):
    return Span("t", span_id, parent, name, 1, 1, 2, 0, "", attributes, Resource(), Scope(scope))


def read(attributes, **more):
    return dialects.read([span(attributes, **more)]).steps[-1]


def chain(name, metadata, kind="CHAIN", *, messages=False):
    state = (
        {"messages": [{"type": "human", "data": {"content": "Where?", "type": "human"}}]}
        if messages
        else {}
    )
    attributes = {
        "openinference.span.kind": kind,
        "metadata": json.dumps(metadata),
        "input.value": json.dumps(state),
        "input.mime_type": "application/json",
    }
    return read(attributes, scope=LANGCHAIN, name=name)


def test_a_graph_that_is_named_as_the_agent_of_its_metadata_is_that_agent():
    step = chain("clerk", {"lc_agent_name": "clerk", "langgraph_node": "clerk"})
    assert (step.kind, step.agent_name) == ("agent", "clerk")


def test_a_node_is_no_agent_though_its_name_has_the_word():
    assert chain("call_agent", {"langgraph_node": "clerk"}, "AGENT").kind == "workflow"


def test_an_agent_executor_outside_of_any_graph_stays_an_agent():
    assert chain("AgentExecutor", {}, "AGENT").kind == "agent"


def test_the_outermost_graph_is_an_agent_without_a_name_where_it_was_given_none():
    step = chain("LangGraph", {}, messages=True)
    assert (step.kind, step.agent_name) == ("agent", None)


def test_a_tool_belongs_to_the_agent_whose_graph_it_ran_in():
    metadata = json.dumps({"langgraph_checkpoint_ns": "clerk:1f|tools:2a"})
    step = read(
        {"openinference.span.kind": "TOOL", "metadata": metadata}, scope=LANGCHAIN, name="track"
    )
    assert step.agent_name == "clerk"


def test_a_command_is_opened_to_the_message_for_the_tools_caller():
    told = {
        "type": "tool",
        "data": {"content": "Transferred.", "type": "tool", "tool_call_id": "c1"},
    }
    state = [{"type": "human", "data": {"content": "Where?", "type": "human"}}, told]
    command = {
        "graph": "__parent__",
        "update": {"messages": state},
        "resume": None,
        "goto": ["clerk"],
    }
    output = {"openinference.span.kind": "TOOL", "output.value": json.dumps(command)}
    step = read(output, scope=LANGCHAIN, name="transfer_to_clerk")
    assert (step.result, step.call_id) == ("Transferred.", "c1")


@pytest.mark.parametrize(
    ("scope", "kind"), [("openinference.instrumentation.openai_agents", "other"), ("mine", "tool")]
)
def test_a_hand_off_is_no_tool_of_openais_sdk(scope, kind):
    assert (
        read({"openinference.span.kind": "TOOL"}, scope=scope, name="handoff to clerk").kind == kind
    )


def test_arguments_that_openinference_left_out_are_none_given():
    calls = "llm.output_messages.0.message.tool_calls.0.tool_call."
    asked = {calls + "id": "c1", calls + "function.name": "transfer_to_clerk"}
    kind = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.role": "assistant"}
    step = read(kind | asked, scope="openinference.instrumentation.openai_agents")
    assert step.output[0].calls[0].arguments == {}


def test_crewais_tool_has_the_name_that_the_model_asks_for():
    described = {
        "tool.name": "Delegate work to coworker",
        "tool.description": "Tool Name: delegate_work_to_coworker\nArgs",
    }
    step = read(
        {"openinference.span.kind": "TOOL", **described},
        scope=CREWAI,
        name="Delegate work to coworker.run",
    )
    assert step.tool_name == "delegate_work_to_coworker"


def test_crewais_agent_is_named_after_its_role():
    step = read(
        {"openinference.span.kind": "AGENT"}, scope=CREWAI, name="travel desk._execute_core"
    )
    assert step.agent_name == "travel desk"


def printed(*texts, operation="chat"):
    parts = [{"type": "text", "content": x} for x in texts]
    attributes = {
        "gen_ai.system": "openai",
        "gen_ai.provider.name": "openai",
        "gen_ai.operation.name": operation,
        "gen_ai.agent.name": "OpenAI Agent",
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
    }
    return read(attributes, scope=OPENAI_AGENTS)


def test_a_printed_call_is_a_call():
    step = printed(
        "ResponseFunctionToolCall(arguments='{\"n\": 1}', call_id='c1', name='f',"
        " type='function_call', id='fc')"
    )
    assert [(x.call_id, x.name, x.arguments) for x in step.output[0].calls] == [
        ("c1", "f", {"n": 1})
    ]


def test_a_printed_call_that_cannot_be_read_stays_text():
    text = "ResponseFunctionToolCall(arguments=open('/etc/passwd'))"
    assert printed(text).output[0].text == text


def test_printed_content_is_opened_and_printed_reasoning_left_out():
    step = printed(
        "{'annotations': [], 'text': 'Yes.', 'type': 'output_text'}",
        "ResponseReasoningItem(id='r')",
    )
    assert step.output[0].text == "Yes."


def test_hidden_content_is_damage():
    (message,) = printed("readacted").output
    assert (message.text, "text" in message.damaged) == (None, True)


def test_the_instrumentations_own_name_is_no_agents():
    assert printed("Yes.").agent_name is None
