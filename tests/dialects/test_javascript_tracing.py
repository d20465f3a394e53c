"""How SDKs for JavaScript and TypeScript trace: clocks of milliseconds, classes as names, envelopes
of their own.
"""

import json
from dataclasses import replace

import pytest
from one_span import read, span

from spanscore import dialects
from spanscore.model.span import STATUS_ERROR, Event, LogRecord, Resource, Scope, Span
from spanscore.model.step import Message
from spanscore.model.trace import RequestedCall
from spanscore.rebuild import rebuild_all

TRACELOOP = "@traceloop/instrumentation-langchain"
MOMENT_NS = 1_795_310_258_080_000_000


def logged(*messages, time_ns=MOMENT_NS):
    """The model call of which these messages were logged: (role, content) each."""
    place = ("t", "1", time_ns)
    chat = span({"gen_ai.operation.name": "chat"})
    logs = [
        LogRecord(*place, f"gen_ai.{x}.message", {"content": y}, {}, Resource(), Scope())
        for x, y in messages
    ]
    (step,) = dialects.read([chat], logs).steps
    return [(x.role, x.text) for x in step.input]


def test_messages_that_were_logged_in_one_millisecond_are_in_the_order_in_which_they_came():
    said = [("system", "Be kind."), ("user", "Why?"), ("assistant", "So."), ("user", "And how?")]
    assert logged(*said) == said


def test_a_question_that_was_asked_twice_is_there_twice_though_both_are_of_one_millisecond():
    said = [("system", "Be kind."), ("user", "Why?"), ("assistant", "So."), ("user", "Why?")]
    assert logged(*said) == said


def test_what_was_delivered_again_is_there_once():
    said = [("system", "Be kind."), ("user", "Why?"), ("assistant", "So."), ("user", "Why?")]
    assert logged(*said, *said) == said


def test_by_a_finer_clock_records_alike_are_one():
    said = [("user", "Why?"), ("assistant", "So.")]
    assert logged(*said, said[0], time_ns=MOMENT_NS + 1) == said


def test_a_logged_result_that_is_null_is_no_empty_text():
    chat = span({"gen_ai.operation.name": "chat"})
    place = ("t", "1", MOMENT_NS, "gen_ai.tool.message")
    bodies = ({"id": "c1", "content": "null"}, {"id": "c2"})
    logs = [LogRecord(*place, x, {}, Resource(), Scope()) for x in bodies]
    (step,) = dialects.read([chat], logs).steps
    assert [y.value for x in step.input for y in x.results] == [None, ""]


def constructed(kind, **fields):
    """A message as LangChain for JavaScript serializes it."""
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "messages", kind],
        "kwargs": fields,
    }


def traceloop(name, attributes, **more):
    recorded = {
        k: json.dumps(v) if isinstance(v, (dict, list)) else v for k, v in attributes.items()
    }
    return span(recorded, scope=TRACELOOP, name=name, **more)


def ran(args, returned, **more):
    entity = {
        "traceloop.entity.name": "DynamicStructuredTool",
        "traceloop.entity.input": {"args": [json.dumps(args)]},
    }
    if returned is not None:
        entity["traceloop.entity.output"] = returned
    kind = {"gen_ai.operation.name": "execute_tool", "traceloop.span.kind": "task"}
    return traceloop("execute_tool DynamicStructuredTool", kind | entity, **more)


def test_a_tool_of_langchain_under_traceloop_has_the_name_and_id_of_what_it_answered():
    answer = constructed(
        "ToolMessage", content="0", tool_call_id="c1", name="count", status="success"
    )
    (step,) = dialects.read([ran({"floor": 3}, answer)]).steps
    assert (step.kind, step.tool_name, step.call_id, step.arguments, step.result, step.error) == (
        "tool",
        "count",
        "c1",
        {"floor": 3},
        0,
        None,
    )


def test_a_tool_that_is_only_known_by_its_class_is_no_tool_of_that_name():
    (step,) = dialects.read([ran({"floor": 3}, None, status=STATUS_ERROR)]).steps
    assert step.kind == "other"


def chat(said, number):
    told = [{"role": "assistant", "parts": [{"type": "text", "content": said}]}]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": told}
    return traceloop("chat", attributes, span_id=str(number), start_ns=number)


def graph(*answers):
    state = [constructed("HumanMessage", content="Where?"), *answers]
    kind = {"gen_ai.operation.name": "workflow", "traceloop.span.kind": "workflow"}
    entity = {
        "traceloop.workflow.name": "CompiledStateGraph",
        "traceloop.entity.output": {"messages": state},
    }
    recorded = {k: json.dumps(v) if isinstance(v, dict) else v for k, v in (kind | entity).items()}
    return Span(
        "t",
        "9",
        "",
        "workflow CompiledStateGraph",
        1,
        1,
        100,
        1,
        "",
        recorded,
        Resource(),
        Scope(TRACELOOP),
    )


ASKED = constructed(
    "AIMessage", content="", tool_calls=[{"name": "count", "args": {"floor": 3}, "id": "c1"}]
)
ANSWERED = constructed("AIMessage", content="None.")


def outputs(*spans):
    return [x.output for x in dialects.read(spans).steps if x.kind == "model"]


def test_a_model_call_under_traceloop_has_the_calls_that_the_graph_around_it_returned():
    called = Message("assistant", "", calls=(RequestedCall("c1", "count", {"floor": 3}),))
    assert outputs(graph(ASKED, ANSWERED), chat("", 2), chat("None.", 3)) == [
        (called,),
        (Message("assistant", "None."),),
    ]


def test_a_graph_that_was_handed_a_conversation_tells_only_what_it_added():
    supervisor = constructed("AIMessage", content="I ask the clerk.")
    handed = {"messages": [constructed("HumanMessage", content="Where?"), supervisor]}
    given = graph(supervisor, ASKED, ANSWERED)
    inner = replace(
        given, attributes={**given.attributes, "traceloop.entity.input": json.dumps(handed)}
    )
    assert [x[0].calls != () for x in outputs(inner, chat("", 2), chat("None.", 3))] == [
        True,
        False,
    ]


def test_what_a_model_was_told_of_tools_has_the_ids_and_errors_that_the_graph_tells():
    failed = constructed(
        "ToolMessage", content="no floor 3", name="count", tool_call_id="c1", status="error"
    )
    given = [
        {"role": x, "parts": [{"type": "text", "content": y}]}
        for x, y in (QUESTION, ("tool", "no floor 3"))
    ]
    told = chat("None.", 3)
    told = replace(told, attributes={**told.attributes, "gen_ai.input.messages": json.dumps(given)})
    step = dialects.read([graph(ASKED, failed, ANSWERED), chat("", 2), told]).steps[-1]
    assert [(x.call_id, x.error) for x in step.input[-1].results] == [("c1", "no floor 3")]


def test_a_graph_whose_answers_are_others_tells_nothing_of_a_model_call():
    assert outputs(graph(ASKED, ANSWERED), chat("", 2), chat("Three.", 3)) == [
        None,
        (Message("assistant", "Three."),),
    ]


def test_content_blocks_that_traceloop_printed_are_opened_and_a_question_that_is_json_is_not():
    said = [("system", '[{"type":"text","text":"Be kind."}]'), ("user", '[{"q": "bill?"}]')]
    told = [{"role": x, "parts": [{"type": "text", "content": y}]} for x, y in said]
    step = read(
        {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(told)},
        scope=TRACELOOP,
    )
    assert [x.text for x in step.input] == ["Be kind.", '[{"q": "bill?"}]']


def langsmith(kind, **attributes):
    return read({"langsmith.traceable": "true", "langsmith.span.kind": kind, **attributes})


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        ({"outputs": 0}, 0),
        ({"outputs": None}, None),
        ({"outputs": []}, []),
        ({"output": 0}, {"output": 0}),
        ({"outputs": {"x": 1}}, {"outputs": {"x": 1}}),
    ],
)
def test_langsmith_for_javascript_puts_what_is_no_object_under_outputs(returned, result):
    step = langsmith("tool", **{"gen_ai.completion": json.dumps(returned)})
    assert (step.result, step.has_result) == (result, True)


def test_calls_that_langsmith_ran_together_in_a_stream_are_parted():
    offered = [{"type": "function", "function": {"name": x}} for x in ("count", "look")]
    function = {"name": "countlook", "arguments": '{"x": 1}{}'}
    message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_1", "function": function}],
    }
    step = langsmith(
        "llm",
        **{
            "gen_ai.prompt": json.dumps(
                {"messages": [{"role": "user", "content": "?"}], "tools": offered}
            ),
            "gen_ai.completion": json.dumps({"choices": [{"message": message}]}),
        },
    )
    assert [(x.name, x.arguments) for x in step.output[0].calls] == [
        ("count", {"x": 1}),
        ("look", {}),
    ]


def vercel_tool(**more):
    attributes = {
        "ai.operationId": "ai.toolCall",
        "ai.toolCall.name": "f",
        "openinference.span.kind": "TOOL",
    }
    return read(
        attributes | {"ai.toolCall.result": '"done"'}, scope="ai", status=STATUS_ERROR, **more
    )


def test_an_error_that_openinference_spread_over_vercels_spans_is_not_the_tools():
    assert vercel_tool().error is None


def test_a_tool_of_vercels_that_failed_under_openinference_did_fail():
    assert vercel_tool(events=(Event("exception", 1, {"exception.message": "no"}),)).error == "no"


def test_a_result_of_vercels_that_just_ends_is_damaged():
    attributes = {
        "ai.operationId": "ai.toolCall",
        "ai.toolCall.args": "{}",
        "ai.toolCall.result": '{"a": 1, "b',
    }
    assert read(attributes, scope="ai").damaged == {"result"}


@pytest.mark.parametrize(
    ("parts", "text", "damaged"),
    [
        (
            [{"type": "text", "content": "1"}, {"q": "bill?"}, {"type": "text", "content": ""}],
            None,
            {"text"},
        ),
        ([{"type": "text", "content": '[{"q": "bill?"}]'}], '[{"q": "bill?"}]', set()),
    ],
)
def test_a_question_that_traceloop_took_apart_is_damaged(parts, text, damaged):
    said = json.dumps([{"role": "user", "parts": parts}], separators=(",", ":"))
    step = read({"ai.operationId": "ai.generateText", "gen_ai.input.messages": said}, scope="ai")
    assert [(x.text, set(x.damaged)) for x in step.input] == [(text, damaged)]


@pytest.mark.parametrize(
    ("scope", "result"), [("opencode", 0), ("ai", {"title": "", "metadata": {}, "output": "0"})]
)
def test_what_opencode_has_for_its_screen_is_not_the_result(scope, result):
    returned = json.dumps({"title": "", "metadata": {}, "output": "0"})
    step = read({"ai.operationId": "ai.toolCall", "ai.toolCall.result": returned}, scope=scope)
    assert step.result == result


def strands(operation, **more):
    started = {
        "gen_ai.operation.name": operation,
        "gen_ai.event.start_time": "2026-11-22T01:37:05.040Z",
    }
    return read(
        started | {"gen_ai.system": "shop"} | more.pop("attributes", {}), scope="shop", **more
    )


def test_an_agent_of_strands_for_typescript_is_known_whatever_its_scope():
    step = strands(
        "invoke_agent",
        attributes={"system_prompt": '"Be {kind}."', "gen_ai.agent.tools": '["count"]'},
    )
    assert (step.dialect, step.system, [x.name for x in step.tools]) == (
        "strands",
        "Be {kind}.",
        ["count"],
    )


@pytest.mark.parametrize("prompt", ["Be kind.", '{"be": "kind"}', '"Kind" is what you are'])
def test_instructions_of_strands_that_are_not_printed_stay_as_they_are(prompt):
    assert strands("invoke_agent", attributes={"system_prompt": prompt}).system == prompt


def test_what_a_model_of_strands_for_typescript_asks_for_is_a_call():
    asked = [{"type": "toolUse", "name": "count", "toolUseId": "t1", "input": {"floor": 3}}]
    step = strands("chat", events=(Event("gen_ai.choice", 1, {"message": json.dumps(asked)}),))
    assert step.output == (
        Message("assistant", calls=(RequestedCall("t1", "count", {"floor": 3}),)),
    )


@pytest.mark.parametrize(
    ("block", "result"), [({"json": {"$value": []}}, []), ({"text": "null"}, None)]
)
def test_what_a_tool_of_strands_for_typescript_returned_is_taken_out_of_its_block(block, result):
    told = {"gen_ai.tool.name": "f", "gen_ai.tool.call.result": json.dumps([block])}
    step = strands("execute_tool", attributes=told)
    assert (step.result, step.has_result) == (result, True)


@pytest.mark.parametrize(
    ("blocks", "result"),
    [
        ([{"text": "false"}], False),
        ([{"json": {"$value": [1]}}], [1]),
        ([{"text": "a"}] * 2, "a\na"),
    ],
)
def test_a_result_that_only_messages_of_strands_tell_is_taken_out_of_its_blocks(blocks, result):
    part = {"type": "tool_call_response", "id": "t1", "response": blocks}
    (message,) = strands(
        "chat",
        attributes={"gen_ai.input.messages": json.dumps([{"role": "tool", "parts": [part]}])},
    ).input
    assert [x.value for x in message.results] == [result]


def gemini(text):
    said = json.dumps(
        [
            {"role": "user", "parts": [{"text": text}]},
            {"role": "user", "parts": [{"text": "Where?"}]},
        ]
    )
    attributes = {"gen_ai.operation.name": "llm_call", "gen_ai.input.messages": said}
    return [x.text for x in read(attributes, scope="gemini-cli").input]


def test_the_question_beside_gemini_clis_own_words_is_kept():
    context = "<session_context>\nToday\n</session_context>"
    assert (gemini(context), gemini(f"{context}\nIs it?")) == (["Where?"], ["Is it?", "Where?"])


def test_a_step_of_mastra_has_the_tokens_of_the_response_that_it_carries():
    body = json.dumps({"choices": [], "usage": {"prompt_tokens": 101, "completion_tokens": 11}})
    step = read({"mastra.span.type": "model_step", "mastra.metadata.body": body})
    assert (step.input_tokens, step.output_tokens) == (101, 11)


def test_a_step_of_mastra_has_the_thoughts_of_the_response_that_it_carries():
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    attributes = {
        "mastra.metadata.body": json.dumps({"output": [thought]}),
        "output": '{"text": "Yes."}',
    }
    assert read({"mastra.span.type": "model_step"} | attributes).output == (
        Message("assistant", "Yes.", "Hm."),
    )


@pytest.mark.parametrize(
    ("whole", "said"),
    [('I look.{"free": 0}', '{"free": 0}'), ('I look.{"free": false}', '{"free":0}')],
)
def test_an_answer_that_mastra_printed_anew_is_as_the_agents_text_has_it(whole, said):
    told = [("agent_run", {"text": whole}), ("model_step", {"text": '{"free":0}'})]
    spans = [
        span({"mastra.span.type": x, f"mastra.{x}.output": json.dumps(y)}, span_id=str(i))
        for i, (x, y) in enumerate(told)
    ]
    assert [x.output[0].text for x in dialects.read(spans).steps if x.kind == "model"] == [said]


ADK = "gcp.vertex.agent"


@pytest.mark.parametrize(
    ("told", "result"), [("usageMetadata", []), ("usage_metadata", {"results": []})]
)
def test_a_list_that_a_tool_of_googles_adk_returned_is_wrapped_in_typescript_only(told, result):
    model = span(
        {f"{ADK}.llm_response": json.dumps({told: {}}), "gen_ai.operation.name": "chat"}, scope=ADK
    )
    ran = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "f",
        f"{ADK}.tool_response": '{"results": []}',
    }
    steps = dialects.read([model, span(ran, scope=ADK, span_id="2")]).steps
    assert [x.result for x in steps if x.kind == "tool"] == [result]


def test_the_instructions_of_googles_adk_for_typescript_are_read():
    request = {"config": {"systemInstruction": "Be {kind}."}}
    step = read(
        {f"{ADK}.llm_request": json.dumps(request), "gen_ai.operation.name": "chat"}, scope=ADK
    )
    assert step.system == "Be {kind}."


def run(span_id, name, start_ns, end_ns, attributes):
    """A run of LangChain's under OpenLLMetry without a workflow around it: a trace of its own."""
    told = {"traceloop.association.properties.session_id": "s", **attributes}
    place = span_id * 32, span_id * 16, "", name, 1, start_ns, end_ns
    return Span(*place, 0, "", told, Resource(), Scope(TRACELOOP))


def class_run(span_id, name, start_ns, end_ns, given, returned):
    told = {
        "traceloop.span.kind": "workflow",
        "traceloop.workflow.name": name,
        "gen_ai.operation.name": "workflow",
    }
    sides = {
        "traceloop.entity.input": json.dumps(given),
        "traceloop.entity.output": json.dumps(returned),
    }
    return run(span_id, f"workflow {name}", start_ns, end_ns, told | sides)


def chat_run(span_id, start_ns, given, said, reason):
    parts = [{"role": role, "parts": [{"type": "text", "content": x}]} for role, x in given]
    answer = [
        {"role": "assistant", "parts": [{"type": "text", "content": said}], "finish_reason": reason}
    ]
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(parts),
        "gen_ai.output.messages": json.dumps(answer),
        "gen_ai.response.finish_reasons": [reason],
        "gen_ai.usage.input_tokens": 7,
    }
    return run(span_id, "chat gpt", start_ns, start_ns + 5, told)


def constructed(kind, **fields):
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain_core", "messages", kind],
        "kwargs": fields,
    }


QUESTION, CALL = (
    ("user", "Where?"),
    {"name": "f", "args": {"a": 1}, "id": "c1", "type": "tool_call"},
)


@pytest.fixture
def runs():
    """A graph, the runs of its parts, its two model calls and its tool, as LangChain.js 1.4 was
    recorded.
    """
    result = constructed("ToolMessage", content="0", name="f", tool_call_id="c1", status="success")
    state = [
        constructed("HumanMessage", content="Where?"),
        constructed("AIMessage", content="I look.", tool_calls=[CALL]),
        result,
        constructed("AIMessage", content="Here."),
    ]
    asked = {"messages": [{"role": "user", "content": "Where?"}]}
    tool = {"gen_ai.operation.name": "execute_tool", "traceloop.span.kind": "task"}
    sides = {
        "traceloop.entity.input": '{"args":["{\\"a\\":1}"]}',
        "traceloop.entity.output": json.dumps(result),
    }
    told = [QUESTION, ("assistant", "I look."), ("tool", "0")]
    return [
        class_run("1", "CompiledStateGraph", 1, 99, asked, {"messages": state}),
        class_run("2", "RunnableSequence", 2, 3, asked, asked),
        chat_run("3", 10, [QUESTION], "I look.", "tool_call"),
        run(
            "4",
            "execute_tool DynamicStructuredTool",
            20,
            21,
            {**tool, "traceloop.entity.name": "Tool", **sides},
        ),
        chat_run("5", 30, told, "Here.", "stop"),
    ]


def test_a_graph_of_which_each_run_is_a_trace_is_one_turn(runs):
    (trace,) = rebuild_all(runs)
    assert (trace.user_input, trace.final_output, trace.session_id) == ("Where?", "Here.", "s")
    assert [(x.name, x.arguments, x.result) for x in trace.tool_calls] == [("f", {"a": 1}, 0)]
    assert ([x.text for x in trace.model_calls], trace.usage.input_tokens) == (
        ["I look.", "Here."],
        14,
    )


def test_runs_at_another_time_than_the_graph_are_no_part_of_its_turn(runs):
    graph, *others = runs
    assert len(rebuild_all([replace(graph, start_ns=200, end_ns=299), *others])) > 1


def test_a_model_call_alone_is_the_graphs_that_was_asked_and_answered_the_same(runs):
    messages = [
        constructed("HumanMessage", content="Where?"),
        constructed("AIMessage", content="Here."),
    ]
    asked = {"messages": [{"role": "user", "content": "Where?"}]}
    graph = class_run("1", "CompiledStateGraph", 1, 99, asked, {"messages": messages})
    (trace,) = rebuild_all([graph, chat_run("3", 10, [QUESTION], "Here.", "stop")])
    assert (trace.final_output, len(trace.model_calls)) == ("Here.", 1)


def test_opencodes_call_for_a_title_serves_no_turn():
    def streamed(instructions):
        said = json.dumps(
            [{"role": "system", "content": instructions}, {"role": "user", "content": "Where?"}]
        )
        return read(
            {"ai.operationId": "ai.streamText.doStream", "ai.prompt.messages": said},
            scope="opencode",
        )

    title = streamed("You are a title generator. You output ONLY a thread title.")
    assert (title.kind, streamed("You are opencode.").kind) == ("other", "model")


def langfuse_call(**metadata):
    """A model call as Langfuse's SDK records one, with these members of its metadata."""
    kept = {f"langfuse.observation.metadata.{key}": value for key, value in metadata.items()}
    return read(
        {"langfuse.observation.type": "generation", "langfuse.observation.output": "Hi."} | kept
    )


def test_langfuse_keeps_the_instructions_and_tools_of_openais_responses_in_metadata():
    listed = json.dumps(
        [{"type": "function", "name": "f", "description": "Find.", "parameters": {}}]
    )
    step = langfuse_call(instructions="Be brief.", tools=listed)
    assert (step.system, [(x.name, x.description) for x in step.tools]) == (
        "Be brief.",
        [("f", "Find.")],
    )


def test_of_responses_without_tools_langfuse_keeps_an_empty_list():
    assert langfuse_call(instructions="Be brief.", tools="[]").tools == ()


@pytest.mark.parametrize("listed", ["hammer", '["hammer"]', '{"a": 1}', "7"])
def test_metadata_of_an_applications_own_with_such_names_is_neither_instructions_nor_tools(listed):
    step = langfuse_call(instructions="for the auditor", tools=listed)
    assert (step.system, step.tools) == (None, None)
