"""The SDKs of observability platforms, in the forms that their recordings do not cover."""

import json
from dataclasses import replace

import pytest

from spanscore import dialects
from spanscore.model.span import LogRecord, Resource, Scope, Span
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall

OPENLIT = "openlit.instrumentation.langchain"
GRAPH = "openlit.instrumentation.langgraph"
ASKED = [{"role": "user", "content": "Where?"}]


def span(attributes, *, scope="", name="span", span_id="1"):
    as_recorded = {
        k: json.dumps(v) if isinstance(v, (dict, list)) else v for k, v in attributes.items()
    }
    return Span("t", span_id, "", name, 1, 1, 2, 0, "", as_recorded, Resource(), Scope(scope))


def record(name, body):
    return LogRecord("t", "1", 1, "", body, {"event_name": name}, Resource(), Scope("litellm"))


def read(attributes, *, logs=(), **more):
    (step,) = dialects.read([span(attributes, **more)], logs).steps
    return step


def litellm(attributes, **more):
    return read(
        {"litellm.call_id": "c", "gen_ai.operation.name": "chat", **attributes},
        scope="litellm",
        **more,
    )


def test_litellm_tells_calls_beside_the_answer():
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "I look."}]}]
    calls = {
        "gen_ai.completion.0.function_call.name": "f",
        "gen_ai.completion.0.function_call.arguments": '{"x": 1}',
        "gen_ai.completion.1.function_call.name": "g",
        "gen_ai.completion.1.function_call.arguments": "{}",
    }
    step = litellm({"gen_ai.output.messages": said, **calls})
    assert step.output == (
        Message(
            "assistant",
            "I look.",
            calls=(RequestedCall(None, "f", {"x": 1}), RequestedCall(None, "g", {})),
        ),
    )


def in_span(attributes):
    """What LiteLLM wrote to the application's span, the last call's attributes last."""
    return read(
        {"litellm.call_id": "c", "gen_ai.operation.name": "chat", **attributes}, scope="shop"
    )


def said_by_litellm(text, reason):
    parts = [{"type": "text", "content": text}] if text else []
    return {
        "gen_ai.output.messages": [{"role": "assistant", "parts": parts, "finish_reason": reason}]
    }


def call_beside(index, name):
    return {f"gen_ai.completion.{index}.function_call.name": name}


def test_calls_of_an_earlier_answer_on_the_applications_span_are_none_of_the_last_answers():
    step = in_span({**call_beside(0, "f"), **said_by_litellm("It is 22C.", "stop")})
    assert step.output == (Message("assistant", "It is 22C."),)


def test_of_an_earlier_answer_with_more_calls_none_is_added_to_the_last_answers():
    step = in_span(
        {**call_beside(1, "g"), **said_by_litellm("", "tool_calls"), **call_beside(0, "h")}
    )
    assert [x.name for x in step.output[0].calls] == ["h"]


def test_litellm_tells_messages_in_records_of_one_each():
    step = litellm(
        {},
        logs=[
            record(
                "gen_ai.content.prompt", {"role": "tool", "tool_call_id": "c-1", "content": "0"}
            ),
            record(
                "gen_ai.content.completion",
                {"index": 0, "message": {"role": "assistant", "content": "None."}},
            ),
        ],
    )
    assert (step.input, step.output) == (
        (Message("tool", results=(ToolResult("c-1", 0),)),),
        (Message("assistant", "None."),),
    )


def test_litellm_lists_tools_by_index():
    step = litellm(
        {
            "gen_ai.tool.0.name": "f",
            "gen_ai.tool.0.description": "Finds.",
            "gen_ai.tool.0.parameters": "{}",
        }
    )
    assert [(x.name, x.description) for x in step.tools] == [("f", "Finds.")]


@pytest.mark.parametrize(("declared", "damaged"), [(1, frozenset()), (2, frozenset({"tools"}))])
def test_tools_that_litellm_counts_and_does_not_list_are_lost(declared, damaged):
    step = litellm(
        {"llm.request.functions.0.name": "f", "litellm.request.tools.declared": declared}
    )
    assert step.damaged == damaged


def test_tools_of_which_a_limit_on_attributes_took_the_first_are_lost():
    assert litellm({"llm.request.functions.1.name": "g"}).damaged == {"tools"}


def test_a_step_of_litellms_proxy_that_only_names_a_model_calls_none():
    assert (
        read({"litellm.api_key.hash": "h", "gen_ai.request.model": "m"}, scope="litellm").kind
        == "other"
    )


def test_litellms_client_may_send_session_and_user_along():
    told = "{'session_id': '00815', 'user_id': '007', 'headers': {}}"
    step = litellm({"metadata.requester_metadata": told})
    assert (step.session_id, step.user_id) == ("00815", "007")


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("content='15C' name='f' tool_call_id='c-1'", "15C"),
        (
            "content=\"it's \\n tool_call_id='x'\" name='f' id='m' tool_call_id='c-1'",
            "it's \n tool_call_id='x'",
        ),
        ("content=[{'type': 'text', 'text': '0'}] tool_call_id='c-1' artifact={'a': 1}", 0),
        ("content='null' tool_call_id='c-1'", None),
        (
            "content=[{'type': 'text', 'text': '[1] [2]'}] name='f' id='m' tool_call_id='c-1'",
            "[1] [2]",
        ),
    ],
)
def test_openlit_records_tool_messages_as_python_prints_them(printed, value):
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}
    step = read({**tool, "gen_ai.tool.call.result": printed}, scope=OPENLIT)
    assert (step.result, step.has_result) == (value, True)


def test_openlit_records_that_a_tool_failed():
    printed = "content='no such city' name='f' tool_call_id='c-1' status='error'"
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}
    assert read({**tool, "gen_ai.tool.call.result": printed}, scope=OPENLIT).error == "no such city"


def test_a_tool_that_returns_text_like_a_message_keeps_it():
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}
    assert (
        read({**tool, "gen_ai.tool.call.result": "content='x' of y"}, scope=OPENLIT).result
        == "content='x' of y"
    )


def test_what_openlit_calls_an_agent_inside_a_graph_is_a_node():
    node = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "model"}
    graph = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "clerk"}
    steps = [read(node, scope=GRAPH), read(graph, scope=GRAPH)]
    assert [(x.kind, x.agent_name) for x in steps] == [("workflow", None), ("agent", "clerk")]


def test_laminar_keeps_messages_as_the_provider_has_them():
    choices = [{"index": 0, "message": {"role": "assistant", "content": "There."}}]
    step = read(
        {"lmnr.span.type": "LLM", "gen_ai.input.messages": ASKED, "gen_ai.output.messages": choices}
    )
    assert (step.input, step.output) == (
        (Message("user", "Where?"),),
        (Message("assistant", "There."),),
    )


def test_laminar_has_the_instructions_of_a_response_beside_its_messages():
    told = {"gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "Be brief."}
    assert (
        read({"lmnr.span.type": "LLM", "gen_ai.input.messages": ASKED, **told}).system
        == "Be brief."
    )


@pytest.mark.parametrize("beside", [{}, {"gen_ai.system": "openai", "gen_ai.request.model": "m"}])
def test_laminars_model_call_has_its_tokens_whatever_else_is_set(beside):
    tokens = {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 4}
    step = read({"lmnr.span.type": "LLM", **tokens, **beside})
    assert (step.kind, step.input_tokens, step.output_tokens) == ("model", 3, 4)


def test_an_evaluator_of_laminars_is_no_step():
    assert read({"lmnr.span.type": "EVALUATOR", "lmnr.span.output": "1"}).kind == "other"


@pytest.mark.parametrize("value", [0, False, None, "", [], {"result": 1, "error": None}])
def test_langwatch_says_what_kind_of_value_a_tool_returned(value):
    step = read(
        {"langwatch.span.type": "tool", "langwatch.output": {"type": "json", "value": value}},
        name="f",
    )
    assert (step.tool_name, step.result, step.has_result) == ("f", value, True)


def test_a_tools_own_object_with_langwatchs_keys_stays_whole():
    value = {"type": "tea", "value": 3}
    step = read(
        {"langwatch.span.type": "tool", "langwatch.output": {"type": "json", "value": value}}
    )
    assert step.result == value


@pytest.mark.parametrize(
    ("given", "query"),
    [
        ({"args": ["Where?"], "kwargs": {}}, "Where?"),
        ({"query": "Where?"}, "Where?"),
        ({"k": "3", "query": {"content": [{"text": "Where?"}]}}, "Where?"),
    ],
)
def test_a_retriever_tells_its_query_however_it_was_called(given, query):
    found = [{"text": "There."}]
    asked, returned = json.dumps(given), json.dumps(found)
    of_langfuse = {
        "langfuse.observation.type": "retriever",
        "langfuse.observation.input": asked,
        "langfuse.observation.output": returned,
    }
    of_genkit = {
        "genkit:type": "action",
        "genkit:metadata:subtype": "retriever",
        "genkit:input": asked,
        "genkit:output": returned,
    }
    steps = read(of_langfuse), read(of_genkit)
    assert [(x.kind, x.query, list(x.documents)) for x in steps] == [
        ("retrieval", query, found)
    ] * 2


@pytest.mark.parametrize(
    ("key", "contexts"),
    [
        (
            "langwatch.contexts",
            {"type": "json", "value": [{"document_id": "1", "content": "Green."}]},
        ),
        ("langwatch.rag_contexts", '[{"document_id": "1", "content": "Green."}]'),
    ],
)
def test_langwatchs_retrieval_tells_its_documents(key, contexts):
    attributes = {"langwatch.input": {"type": "text", "value": "tea"}, key: contexts}
    step = read({"langwatch.span.type": "rag", **attributes})
    assert (step.kind, step.query, step.documents) == (
        "retrieval",
        "tea",
        ({"document_id": "1", "content": "Green."},),
    )


@pytest.mark.parametrize(
    "kind", ["span", "component", "server", "client", "producer", "consumer", "task"]
)
def test_langwatchs_outermost_span_of_any_kind_has_question_and_answer(kind):
    attributes = {
        "langwatch.span.type": kind,
        "langwatch.input": json.dumps({"type": "text", "value": "Where?"}),
        "langwatch.output": json.dumps({"type": "text", "value": "There."}),
    }
    step = read(attributes)
    assert (step.kind, step.input_text, step.output_text) == ("workflow", "Where?", "There.")


def mlflow(kind, given, returned, **attributes):
    recorded = {
        "mlflow.spanType": kind,
        "mlflow.spanInputs": given,
        "mlflow.spanOutputs": returned,
        **attributes,
    }
    return read({k: json.dumps(v) for k, v in recorded.items()})


def test_mlflow_records_pydantic_ais_own_parts():
    asked = {"part_kind": "user-prompt", "content": "Where?"}
    called = {"part_kind": "tool-call", "tool_name": "f", "args": "{}", "tool_call_id": "c"}
    answered = {"part_kind": "tool-return", "tool_name": "f", "content": 0, "tool_call_id": "c"}
    said = [
        {"kind": "request", "instructions": "Be brief.", "parts": [asked]},
        {"kind": "response", "parts": [called]},
        {"kind": "request", "parts": [answered]},
    ]
    returned = {"kind": "response", "parts": [{"part_kind": "text", "content": "There."}]}
    step = mlflow("LLM", {"messages": said}, returned, **{"mlflow.message.format": "pydantic_ai"})
    assert (step.input, step.output, step.system) == (
        (
            Message("user", "Where?"),
            Message("assistant", calls=(RequestedCall("c", "f", {}),)),
            Message("tool", results=(ToolResult("c", 0),)),
        ),
        (Message("assistant", "There."),),
        "Be brief.",
    )


def test_mlflow_records_how_openais_agents_were_run():
    run = {"run_config": {"group_id": "00815", "trace_metadata": {"user_id": "007"}}}
    step = mlflow("AGENT", "Where?", "There.", kwargs=run, **{"mlflow.openai.agent_run_root": True})
    assert (step.agent_name, step.session_id, step.user_id) == (None, "00815", "007")


def test_a_tool_of_langchains_is_one_where_langfuse_gave_it_no_type():
    told = {
        "status": "success",
        "content": "0",
        "tool_call_id": "c1",
        "name": "stock",
        "additional_kwargs": {},
    }
    message = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "messages", "ToolMessage"],
        "kwargs": told,
    }
    returned = json.dumps(message, separators=(",", ":"))
    attributes = {
        "langfuse.observation.type": "span",
        "langfuse.observation.input": '{"sku":"00042"}',
    }
    step = read(
        attributes | {"langfuse.observation.output": returned}, scope="langfuse-sdk", name="stock"
    )
    assert (step.kind, step.tool_name, step.arguments, step.result) == (
        "tool",
        "stock",
        {"sku": "00042"},
        0,
    )


LANGFUSE_PLACE = "langfuse.observation.metadata."


@pytest.mark.parametrize(
    ("name", "kind", "metadata", "is_agent"),
    [
        ("route_to_active_agent", "agent", {"langgraph_node": '"__start__"'}, False),
        ("clerk", "chain", {"lc_agent_name": '"clerk"', "langgraph_node": '"clerk"'}, True),
        ("clerk", "chain", {"langgraph_node": '"clerk"'}, False),
        ("swarm", "chain", {"ls_integration": '"langgraph"'}, True),
        ("AgentExecutor", "agent", {}, True),
    ],
)
def test_langfuses_agents_are_the_graphs_and_not_their_nodes(name, kind, metadata, is_agent):
    attributes = {"langfuse.observation.type": kind} | {
        LANGFUSE_PLACE + k: v for k, v in metadata.items()
    }
    assert (read(attributes, scope="langfuse-sdk", name=name).kind == "agent") is is_agent


def test_langfuses_tool_belongs_to_the_agent_whose_graph_it_ran_in():
    place = {LANGFUSE_PLACE + "langgraph_checkpoint_ns": '"clerk:1f|tools:2a"'}
    step = read({"langfuse.observation.type": "tool"} | place, scope="langfuse-sdk", name="lookup")
    assert step.agent_name == "clerk"


def traceai(attributes, *, dropped):
    values = {"input.value": "You advise.", "output.value": "Function: f({})"}
    made = span({"gen_ai.span.kind": "LLM", "gen_ai.request.model": "m", **values, **attributes})
    (step,) = dialects.read([replace(made, dropped_attributes_count=dropped)]).steps
    return step


@pytest.mark.parametrize("dropped", [0, 3])
def test_a_first_text_of_traceai_is_no_question_beside_messages(dropped):
    said = {"role": "user", "content": "Where?"}
    flat = {f"gen_ai.input.messages.1.message.{key}": value for key, value in said.items()}
    step = traceai(flat, dropped=dropped)
    assert (step.input, step.output) == ((Message("user", "Where?"),), None)


def test_a_first_text_of_traceai_is_no_question_where_messages_were_dropped():
    step = traceai({}, dropped=5)
    assert (step.input, step.output) == (None, None)


def test_flattened_messages_come_before_a_text_beside_them():
    said = {"role": "user", "content": "Where?"}
    flat = {f"gen_ai.input.messages.1.message.{key}": value for key, value in said.items()}
    step = read({"gen_ai.operation.name": "chat", "input.value": "You advise.", **flat})
    assert step.input == (Message("user", "Where?"),)
