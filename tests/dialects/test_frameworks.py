"""What the dialects of single frameworks make of the forms that their recordings do not cover."""

import json

import pytest
from one_span import read, span

from spanscore.model.trace import RequestedCall, Tool
from spanscore.rebuild import rebuild

JS_OPENAI = "@arizeai/openinference-instrumentation-openai"
SMOLAGENTS = "openinference.instrumentation.smolagents"


def said(messages):
    return [(x.role, x.text) for x in messages]


@pytest.mark.parametrize(
    "prompt",
    [
        {"system": "Be brief.", "prompt": '{"city": "Paris"}'},
        {"system": "Be brief.", "messages": [{"role": "user", "content": '{"city": "Paris"}'}]},
        {
            "system": {"role": "system", "content": "Be brief."},
            "prompt": [{"role": "user", "content": '{"city": "Paris"}'}],
        },
    ],
    ids=["prompt", "messages", "system message"],
)
def test_vercels_prompt_is_text_or_messages_and_stays_text_when_it_looks_like_json(prompt):
    step = read({"ai.operationId": "ai.streamText", "ai.prompt": json.dumps(prompt)})
    assert (said(step.input), step.system) == ([("user", '{"city": "Paris"}')], "Be brief.")


def test_vercels_loop_ends_with_its_answer_though_it_lists_all_calls():
    calls = json.dumps([{"toolCallId": "1", "toolName": "f", "input": {}}])
    response = {
        "ai.response.text": "Done.",
        "ai.response.finishReason": "stop",
        "ai.response.toolCalls": calls,
    }
    step = read({"ai.operationId": "ai.generateText"} | response)
    assert [(x.text, len(x.calls)) for x in step.output] == [(None, 1), ("Done.", 0)]


def test_vercels_generated_object_is_the_answer():
    step = read({"ai.operationId": "ai.generateObject.doGenerate", "ai.response.object": '{"x":1}'})
    assert (step.kind, said(step.output)) == ("model", [("assistant", '{"x":1}')])


@pytest.mark.parametrize(
    ("output", "value", "error"),
    [
        ({"type": "text", "value": "0"}, "0", None),
        ({"type": "json", "value": {"type": "text"}}, {"type": "text"}, None),
        ({"type": "error-text", "value": "no such city"}, "no such city", "no such city"),
        ({"type": "text"}, None, None),
        ({"text": "mine"}, {"text": "mine"}, None),
    ],
)
def test_vercels_result_is_taken_out_of_its_envelope(output, value, error):
    part = {"type": "tool-result", "toolCallId": "1", "toolName": "f", "output": output}
    given = json.dumps([{"role": "tool", "content": [part]}])
    step = read({"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": given})
    assert [(x.call_id, x.value, x.error) for x in step.input[0].results] == [("1", value, error)]


ADK_TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        ({"result": 0}, 0),
        ({"result": None}, None),
        ({"result": 1, "unit": "C"}, {"result": 1, "unit": "C"}),
    ],
)
def test_adk_puts_what_is_no_object_under_result(returned, result):
    step = read(
        ADK_TOOL | {"gcp.vertex.agent.tool_response": json.dumps(returned)},
        scope="gcp.vertex.agent",
    )
    assert (step.result, step.has_result) == (result, True)


def test_a_result_key_of_another_frameworks_tool_is_kept():
    assert read(ADK_TOOL | {"gen_ai.tool.call.result": '{"result": 0}'}).result == {"result": 0}


def test_ids_that_adk_makes_up_identify_nothing():
    parts = [
        {"type": "tool_call", "id": x, "name": "f", "arguments": {}} for x in ("f_1", "call_2")
    ]
    output = json.dumps([{"role": "assistant", "parts": parts}])
    step = read(
        {"gen_ai.operation.name": "chat", "gen_ai.output.messages": output},
        scope="gcp.vertex.agent",
    )
    assert [x.call_id for x in step.output[0].calls] == [None, "call_2"]


def test_strands_describes_a_tool_where_it_ran():
    scope = "strands.telemetry.tracer"
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.tools": '["f", "g"]'}
    tool = ADK_TOOL | {
        "gen_ai.tool.description": "d",
        "gen_ai.tool.json_schema": '{"type": "object"}',
    }
    (trace,) = rebuild([span(agent, scope=scope), span(tool, scope=scope, span_id="2", parent="1")])
    assert trace.available_tools == (Tool("f", "d", {"type": "object"}), Tool("g"))


@pytest.mark.parametrize(
    ("given", "arguments", "positional"),
    [
        ({"args": ["Paris"], "kwargs": {}}, None, ("Paris",)),
        ({"args": [], "kwargs": {"city": "Paris"}}, {"city": "Paris"}, ()),
        ({"args": [], "kwargs": {}}, {}, ()),
        ({"city": "Paris"}, {"city": "Paris"}, ()),
        ("{'city': 'Paris'}", {"city": "Paris"}, ()),
    ],
)
def test_langfuses_decorator_or_callback_records_a_call(given, arguments, positional):
    recorded = given if isinstance(given, str) else json.dumps(given)
    step = read(
        {"langfuse.observation.type": "tool", "langfuse.observation.input": recorded}, name="f"
    )
    assert (step.tool_name, step.arguments, step.positional) == ("f", arguments, positional)


def test_a_failed_langfuse_tool_says_why():
    level = {
        "langfuse.observation.level": "ERROR",
        "langfuse.observation.status_message": "no such city",
    }
    assert read({"langfuse.observation.type": "tool"} | level).error == "no such city"


def test_langfuses_generation_may_hold_an_object_of_the_provider():
    response = {"choices": [{"message": {"role": "assistant", "content": "Ho"}}]}
    attributes = {
        "langfuse.observation.input": '"Hi"',
        "langfuse.observation.output": json.dumps(response),
    }
    step = read({"langfuse.observation.type": "generation"} | attributes)
    assert (said(step.input), said(step.output)) == ([("user", "Hi")], [("assistant", "Ho")])


def test_langfuses_callback_lists_tools_among_messages():
    definition = {"type": "function", "function": {"name": "f"}}
    given = json.dumps([{"role": "user", "content": "Hi"}, {"role": "tool", "content": definition}])
    step = read({"langfuse.observation.type": "generation", "langfuse.observation.input": given})
    assert (said(step.input), step.tools) == ([("user", "Hi")], (Tool("f"),))


def test_langfuses_answer_may_be_json_text():
    step = read(
        {"langfuse.observation.type": "generation", "langfuse.observation.output": '{"x": 1}'}
    )
    assert said(step.output) == [("assistant", '{"x": 1}')]


def test_a_client_that_langsmith_wraps_is_read():
    request = {
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }
    response = {"choices": [{"message": {"role": "assistant", "content": "Ho"}}]}
    attributes = {"gen_ai.prompt": json.dumps(request), "gen_ai.completion": json.dumps(response)}
    step = read({"langsmith.span.kind": "llm"} | attributes)
    assert (said(step.input), said(step.output), step.tools) == (
        [("user", "Hi")],
        [("assistant", "Ho")],
        (Tool("f"),),
    )


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        ({"output": 0}, 0),
        ({"output": 1, "x": 2}, {"output": 1, "x": 2}),
        ({"x": None}, {"x": None}),
    ],
)
def test_langsmith_puts_what_is_no_object_under_output(returned, result):
    attributes = {"langsmith.span.kind": "tool", "gen_ai.completion": json.dumps(returned)}
    assert read(attributes, name="f").result == result


def test_langsmith_notes_tokens_in_the_metadata_where_hooks_report_a_run():
    noted = {"langsmith.metadata.usage_metadata": '{"input_tokens": 120, "output_tokens": 0}'}
    step = read({"langsmith.span.kind": "llm"} | noted)
    assert (step.input_tokens, step.output_tokens) == (120, 0)


def test_langsmiths_project_is_no_session():
    assert (
        read({"langsmith.span.kind": "chain", "langsmith.trace.session_id": "p"}).session_id is None
    )


def test_of_several_calls_below_an_applications_span_litellms_raw_spans_tell_each():
    outer = {
        "litellm.call_id": "2",
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 5,
    }
    raw = {
        "llm.openai.usage": "{'prompt_tokens': 4, 'completion_tokens': 1}",
        "llm.openai.messages": "[{'role': 'user', 'content': 'Hi'}]",
    }
    spans = [
        span(raw, scope="litellm", name="raw_gen_ai_request", parent="1", span_id=x) for x in "23"
    ]
    (trace,) = rebuild([span(outer, scope="app"), *spans])
    assert (trace.usage.input_tokens, [x.span_id for x in trace.model_calls]) == (8, ["2", "3"])


def test_smolagents_final_answer_is_no_tool_call():
    prefix = "llm.output_messages.0.message."
    function = prefix + "tool_calls.0.tool_call.function."
    call = {
        function + "name": "final_answer",
        function + "arguments": '{"answer": "Done."}',
        prefix + "role": "assistant",
    }
    step = read({"openinference.span.kind": "LLM"} | call, scope=SMOLAGENTS)
    assert (step.output[0].text, step.output[0].calls) == ("Done.", ())


def test_an_agent_that_writes_code_has_the_tools_that_its_span_names():
    names = ["on_sale", "python_interpreter", "final_answer"]
    managed = {
        "smolagents.managed_agents.0.name": "clerk",
        "smolagents.managed_agents.0.description": "Knows parcels.",
    }
    kind = {"openinference.span.kind": "AGENT"}
    step = read({**kind, "smolagents.tools_names": names, **managed}, scope=SMOLAGENTS)
    assert step.tools == (Tool("on_sale"), Tool("clerk", "Knows parcels."))


def test_a_tool_of_smolagents_is_described_by_its_own_span():
    told = {
        "tool.name": "f",
        "tool.description": "Finds.",
        "tool.parameters": '{"a": {"type": "string"}}',
    }
    step = read({"openinference.span.kind": "TOOL", **told}, scope=SMOLAGENTS)
    assert step.tools == (
        Tool("f", "Finds.", {"type": "object", "properties": {"a": {"type": "string"}}}),
    )


def test_a_step_of_smolagents_neither_asks_nor_answers():
    memory = '{"memory_step": "ActionStep(step_number=1)"}'
    given = {"openinference.span.kind": "CHAIN", "input.value": memory, "output.value": "None"}
    assert read(given, scope=SMOLAGENTS).kind == "other"


def test_an_agent_of_smolagents_that_goes_on_counts_the_tokens_of_all_its_runs():
    given = {
        "openinference.span.kind": "AGENT",
        "input.value": '{"task": "Hi", "reset": false}',
        "llm.token_count.prompt": 450,
    }
    step = read(given, scope=SMOLAGENTS)
    assert (step.input_tokens, step.damaged) == (None, {"tokens"})


def test_model_calls_of_adk_that_were_overwritten_are_missed():
    given = [{"role": "user", "parts": [{"type": "tool_call_response", "response": 1}]}]
    overwritten = {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.usage.input_tokens": 200,
    }
    step = read(overwritten, scope="gcp.vertex.agent", name="invoke_agent clerk")
    assert step.damaged == {"tokens"}


def test_a_pipeline_of_haystack_stands_for_the_agent_whose_span_is_lost():
    asked = "ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='Hi')])"
    told = "ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[TextContent(text='Yo')])"
    state = {"messages": [asked, told], "token_usage": {"prompt_tokens": 9}}
    attributes = {
        "openinference.span.kind": "CHAIN",
        "output.mime_type": "application/json",
        "output.value": json.dumps({"clerk": state}),
    }
    scope = "openinference.instrumentation.haystack"
    (trace,) = rebuild([span(attributes, scope=scope, name="Pipeline.run")])
    assert (trace.final_output, trace.usage.input_tokens) == ("Yo", 9)


def test_smolagents_task_is_the_question():
    step = read(
        {"openinference.span.kind": "AGENT", "input.value": '{"task": "Hi", "stream": false}'},
        scope=SMOLAGENTS,
    )
    assert step.input_text == "Hi"


@pytest.mark.parametrize(
    ("name", "arguments", "calls"),
    [
        (
            "ff",
            '{"x": 1}{"x": 2}',
            [RequestedCall("call_a", "f", {"x": 1}), RequestedCall("call_b", "f", {"x": 2})],
        ),
        (
            "fgh",
            '{"x": 1}{}',
            [RequestedCall("call_a", "f", {"x": 1}), RequestedCall("call_b", "gh", {})],
        ),
        ("unknown", '{"x": 1}{}', [RequestedCall("call_acall_b", "unknown", '{"x": 1}{}')]),
        ("f", '{"x": "}{"}', [RequestedCall("call_acall_b", "f", {"x": "}{"})]),
    ],
)
def test_calls_that_a_stream_ran_together_are_parted_by_the_tools_on_offer(name, arguments, calls):
    prefix = "llm.output_messages.0.message.tool_calls.0.tool_call."
    tools = {
        f"llm.tools.{i}.tool.json_schema": json.dumps({"name": x})
        for i, x in enumerate(("f", "gh"))
    }
    call = {
        prefix + "id": "call_acall_b",
        prefix + "function.name": name,
        prefix + "function.arguments": arguments,
    }
    step = read({"openinference.span.kind": "LLM"} | tools | call, scope=JS_OPENAI)
    assert list(step.output[0].calls) == calls


def test_pydantic_ais_question_is_the_last_one_where_nothing_says_where_the_run_starts():
    texts = [("user", "One"), ("assistant", "1"), ("user", "Two"), ("assistant", "?")]
    retry = ("user", "Validation feedback:\nno\n\nFix the errors and try again.")
    events = [{"role": role, "content": text} for role, text in (*texts, retry, ("assistant", "2"))]
    step = read({"all_messages_events": json.dumps(events)}, scope="pydantic-ai", name="agent run")
    assert (step.input[-1].text, [x.text for x in step.output][-1]) == ("Two", "2")


def test_mlflows_text_is_encoded_as_json():
    attributes = {
        "mlflow.spanType": '"AGENT"',
        "mlflow.spanInputs": '{"q": "Hi"}',
        "mlflow.spanOutputs": '"Ho"',
    }
    assert (read(attributes).input_text, read(attributes).output_text) == ("Hi", "Ho")


def test_mlflows_tool_may_return_null():
    step = read({"mlflow.spanType": '"TOOL"', "mlflow.spanOutputs": "null"}, name="f")
    assert (step.tool_name, step.result, step.has_result) == ("f", None, True)


def test_genkits_answer_stood_among_candidates_before_version_1():
    output = json.dumps(
        {"candidates": [{"message": {"role": "model", "content": [{"text": "Ho"}]}}]}
    )
    step = read(
        {"genkit:type": "action", "genkit:metadata:subtype": "model", "genkit:output": output}
    )
    assert said(step.output) == [("assistant", "Ho")]


def test_what_gemini_cli_cut_is_damaged():
    given = '[{"role": "user", "parts": [{"te...[TRUNCATED: original length 12000]'
    step = read(
        {"gen_ai.operation.name": "llm_call", "gen_ai.input.messages": given}, scope="gemini-cli"
    )
    assert step.damaged == {"input"}


def test_claude_codes_hidden_prompt_is_damage():
    step = read({"user_prompt": "<REDACTED>"}, name="claude_code.interaction")
    assert [(step.dialect, x.text, x.damaged) for x in step.input] == [
        ("claude_code", None, {"text"})
    ]


def test_langsmith_wraps_arguments_and_results_of_the_claude_agent_sdks_tools_in_an_object():
    told = {"langsmith.span.kind": "tool", "langsmith.metadata.ls_integration": "claude-agent-sdk"}
    returned = json.dumps({"content": [{"type": "text", "text": "[]"}]})
    step = read(
        {**told, "gen_ai.prompt": '{"input": {"sku": "00042"}}', "gen_ai.completion": returned}
    )
    assert (step.arguments, step.result) == ({"sku": "00042"}, [])


def test_a_query_of_the_claude_agent_sdk_is_an_agent_under_langsmith():
    told = {"langsmith.span.kind": "chain", "langsmith.metadata.ls_integration": "claude-agent-sdk"}
    asked = json.dumps({"prompt": "Is it?", "system": "Be brief."})
    answer = json.dumps({"role": "assistant", "content": [{"type": "text", "text": "No."}]})
    step = read(
        {**told, "gen_ai.prompt": asked, "gen_ai.completion": answer}, name="claude.conversation"
    )
    assert (step.kind, step.input_text, step.system, said(step.output)) == (
        "agent",
        "Is it?",
        "Be brief.",
        [("assistant", "No.")],
    )


def test_what_copilot_says_in_the_users_name_is_not_what_the_user_said():
    given = [
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "<current_datetime>1</current_datetime>\n\nIs it?"}
            ],
        }
    ]
    step = read(
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": json.dumps(given)},
        scope="github.copilot",
    )
    assert said(step.input) == [("user", "Is it?")]


@pytest.mark.parametrize("asked", ["  Is it?", "\n\tIs it?"])
def test_the_white_space_before_a_question_to_copilot_is_the_users(asked):
    added = "<reminder>Be brief.</reminder>\n<current_datetime>1</current_datetime>\n\n"
    given = [{"role": "user", "parts": [{"type": "text", "content": added + asked}]}]
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.input.messages": json.dumps(given),
    }
    assert said(read(attributes, scope="github.copilot").input) == [("user", asked)]


@pytest.mark.parametrize(
    ("recorded", "result"),
    [
        ('22C\n\n{"result": "22C"}', "22C"),
        ('0\n\n{"returned": 0}', 0),
        ('22C\n\n{"result": "23C"}', '22C\n\n{"result": "23C"}'),
        ('{"result": "22C"}', {"result": "22C"}),
    ],
)
def test_a_result_that_copilot_tells_twice_is_told_once(recorded, result):
    told = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "f",
        "gen_ai.tool.call.result": recorded,
    }
    assert read(told, scope="github.copilot").result == result


def test_gemini_clis_chunks_are_one_answer():
    output = json.dumps([{"role": "model", "parts": [{"text": x}]} for x in ("It is ", "15C.")])
    step = read(
        {"gen_ai.operation.name": "llm_call", "gen_ai.output.messages": output}, scope="gemini-cli"
    )
    assert said(step.output) == [("assistant", "It is 15C.")]


CREWAI = "openinference.instrumentation.crewai"


def test_the_task_of_crewais_agent_is_what_it_was_asked_and_not_the_prompt_around_it():
    done = {"description": "Is 00042 in stock?", "expected_output": "A number.", "raw": "No."}
    step = read(
        {
            "openinference.span.kind": "AGENT",
            "output.value": json.dumps(done),
            "output.mime_type": "application/json",
        },
        scope=CREWAI,
        name="clerk._execute_core",
    )
    assert [(x.role, x.text) for x in step.input] == [("user", "Is 00042 in stock?")]


@pytest.mark.parametrize(
    ("printed", "value"), [("0.0", 0.0), ("False", False), ("None", None), ("00042", "00042")]
)
def test_what_crewais_tools_returned_is_told_as_python_prints_it(printed, value):
    told = {
        "openinference.span.kind": "TOOL",
        "output.value": printed,
        "output.mime_type": "text/plain",
    }
    step = read(told, scope=CREWAI, name="stock.run")
    assert (step.result, step.has_result) == (value, True)


def test_blocks_that_openllmetry_prints_are_no_text_of_langchains_answer():
    call = {
        "type": "function_call",
        "call_id": "c1",
        "name": "stock",
        "arguments": "{}",
        "id": "fc1",
    }
    thought = {"type": "thinking", "thinking": "Look first.", "signature": "x"}
    parts = [{"type": "text", "content": json.dumps(x)} for x in (thought, call)]
    parts += [
        {"type": "text", "content": "I look."},
        {"type": "tool_call", "id": "c1", "name": "stock", "arguments": {}},
    ]
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
    }
    (answer,) = read(told, scope="opentelemetry.instrumentation.langchain").output
    assert (answer.text, answer.reasoning, [x.call_id for x in answer.calls]) == (
        "I look.",
        "Look first.",
        ["c1"],
    )


def test_an_answer_that_is_such_json_but_of_no_call_stays_text():
    said = json.dumps({"type": "function_call", "call_id": "c9", "name": "stock"})
    told = {"gen_ai.operation.name": "chat"}
    parts = [{"type": "text", "content": said}]
    told["gen_ai.output.messages"] = json.dumps([{"role": "assistant", "parts": parts}])
    (answer,) = read(told, scope="opentelemetry.instrumentation.langchain").output
    assert answer.text == said


def langchain(span_id, parent, kind, **values):
    told = {f"{key}.value": json.dumps(value) for key, value in values.items()}
    given = {
        "openinference.span.kind": kind,
        **told,
        **{f"{key}.mime_type": "application/json" for key in values},
    }
    return span(
        given,
        scope="openinference.instrumentation.langchain",
        span_id=span_id,
        parent=parent,
        name="desk",
    )


def test_langchains_structured_answer_is_the_answer_and_no_tool_call():
    asked = {"type": "human", "content": "How many?"}
    call = {
        "type": "ai",
        "content": "",
        "tool_calls": [{"name": "Count", "args": {"n": 0}, "id": "c1"}],
    }
    told = {"type": "tool", "content": "Returning structured response: n=0", "tool_call_id": "c1"}
    state = {"messages": [asked, call, told], "structured_response": {"n": 0}}
    model = {"generations": [[{"message": call}]]}
    spans = [
        langchain("1", "", "AGENT", input={"messages": [asked]}, output=state),
        langchain("2", "1", "LLM", input={"messages": [[asked]]}, output=model),
    ]
    (trace,) = rebuild(spans)
    assert (trace.final_output, trace.tool_calls) == ('{"n":0}', ())


def test_arguments_that_are_called_args_and_kwargs_are_a_tools_own_but_for_smolagents():
    given = {
        "openinference.span.kind": "TOOL",
        "input.value": json.dumps({"args": [1], "kwargs": {"a": 2}}),
    }
    assert read(given, scope="openinference.instrumentation.agno").arguments == {
        "args": [1],
        "kwargs": {"a": 2},
    }
    assert read(given, scope="openinference.instrumentation.smolagents").arguments == {"a": 2}


def test_arguments_that_are_called_as_langchains_callback_calls_them_are_a_tools_own_elsewhere():
    own = {"input_str": "x", "metadata": {}}
    told = {"traceloop.span.kind": "tool", "gen_ai.tool.call.arguments": json.dumps(own)}
    assert read(told, scope="opentelemetry.instrumentation.crewai").arguments == own


def test_a_result_around_blocks_as_agentscope_lists_them_stays_as_it_is():
    found = {"page": {"content": [{"type": "text", "text": "There."}]}}
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}
    step = read({**attributes, "gen_ai.tool.call.result": json.dumps(found)})
    assert step.result == found
