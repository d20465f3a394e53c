"""JavaScript's frameworks, in the forms that their recordings do not cover: other versions and
exporters.
"""

import json

import pytest

from spanscore import dialects
from spanscore.model.span import STATUS_ERROR, STATUS_UNSET, Resource, Scope, Span
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool
from spanscore.rebuild import rebuild

TRACELOOP = "@traceloop/instrumentation-openai"
AGENTS = "@arizeai/openinference-instrumentation-openai-agents"
VOLTAGENT = "@voltagent/core"


def span(
    attributes, *, scope="", name="span", span_id="1", parent="", start_ns=1, status=STATUS_UNSET
):
    given = {
        k: v if isinstance(v, (str, int, list)) else json.dumps(v) for k, v in attributes.items()
    }
    return Span(
        "t",
        span_id,
        parent,
        name,
        1,
        start_ns,
        start_ns + 1,
        status,
        "",
        given,
        Resource(),
        Scope(scope),
    )


def read(attributes, **more):
    (step,) = dialects.read([span(attributes, **more)]).steps
    return step


def mastra(kind, attributes, **more):
    return read({"mastra.span.type": kind} | attributes, **more)


def responses(content):
    said = [{"role": "user", "parts": [{"type": "text", "content": content}]}]
    return read(
        {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(said)},
        scope=TRACELOOP,
    )


def test_traceloops_text_of_a_list_of_items_is_opened():
    items = [
        {"role": "user", "content": "Where?"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x": "00042"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "0"},
    ]
    assert responses(json.dumps(items)).input == (
        Message("user", "Where?"),
        Message("assistant", calls=(RequestedCall("c1", "f", {"x": "00042"}),)),
        Message("tool", results=(ToolResult("c1", 0),)),
    )


@pytest.mark.parametrize(
    "question",
    [
        '[{"city": "Paris"}]',
        '{"role": "user", "content": "hi"}',
        '[{"type": "order"}]',
        '[{"role": "user"',
        "[1, 2]",
    ],
)
def test_a_question_to_traceloop_that_is_json_stays_a_question(question):
    assert responses(question).input == (Message("user", question),)


def test_the_text_that_traceloops_messages_leave_out_beside_calls_is_in_its_indexed_ones():
    called = {"type": "tool_call", "tool_call": {"name": "look", "arguments": "{}"}}
    step = read(
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [called]}]),
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "I look.",
            "gen_ai.completion.0.tool_calls.0.name": "look",
            "gen_ai.completion.0.tool_calls.0.arguments": "{}",
            "llm.request.functions.0.name": "look",
        },
        scope="ai",
    )
    assert [(x.text, [y.name for y in x.calls]) for x in step.output] == [("I look.", ["look"])]
    assert [x.name for x in step.tools] == ["look"]


def test_the_agents_earlier_texts_are_taken_from_the_request():
    items = [
        {"role": "user", "content": "Where?"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Here."}],
        },
    ]
    flat = {
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "Be brief.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": "Where?",
        "llm.input_messages.2.message.role": "assistant",
    }
    step = read({"openinference.span.kind": "LLM", "input.value": items} | flat, scope=AGENTS)
    assert [x.text for x in step.input] == ["Be brief.", "Where?", "Here."]


@pytest.mark.parametrize("request_", ["Where?", "[1]", '[{"role": "user"}, 7, null]'])
def test_a_request_that_does_not_match_its_messages_fills_nothing(request_):
    flat = {
        "llm.input_messages.0.message.role": "assistant",
        "llm.input_messages.1.message.role": "user",
    }
    step = read({"openinference.span.kind": "LLM", "input.value": request_} | flat, scope=AGENTS)
    assert [x.text for x in step.input] == [None, None]


@pytest.mark.parametrize("name", ["handoff to clerk", "mcp_tools"])
def test_a_hand_off_and_a_list_of_tools_are_no_tool_calls(name):
    assert read({"openinference.span.kind": "TOOL"}, scope=AGENTS, name=name).kind == "other"


def test_a_question_to_mastra_that_is_json_stays_a_question():
    step = mastra("agent_run", {"mastra.agent_run.input": '{"task": "reserve"}'})
    assert (step.input, step.input_text) == (None, '{"task": "reserve"}')


def test_messages_to_mastra_are_read_as_it_stores_them():
    stored = [
        {"role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": "Where?"}]}}
    ]
    assert mastra("agent_run", {"mastra.agent_run.input": stored}).input == (
        Message("user", "Where?"),
    )


def test_mastras_agent_answers_with_its_last_step_and_not_with_all_of_them():
    run = {"mastra.span.type": "agent_run", "mastra.agent_run.output": {"text": "Plan.Done."}}
    inner = span({"mastra.span.type": "model_step"}, span_id="2", parent="1")
    answers = [x.output_text for x in dialects.read([span(run), inner]).steps if x.kind == "agent"]
    assert answers == [None]


def previewed(text):
    (message,) = mastra(
        "model_step", {"mastra.model_step.input": [{"role": "assistant", "content": text}]}
    ).input
    return message.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I look. [tool: f][reasoning] [tool: g]", "I look."),
        ("[reasoning]", None),
        ("See [tool: f].", "See [tool: f]."),
        ("[1]", "[1]"),
    ],
)
def test_mastras_preview_of_a_message_is_what_stands_before_its_mentions(text, said):
    assert previewed(text) == said


@pytest.mark.parametrize(
    "text", ["[tool: " * 200_000, "[reasoning]" * 100_000 + "."], ids=["open", "followed by text"]
)
def test_a_long_preview_with_mentions_inside_is_read_as_it_is(text):
    assert previewed(text) == text


def test_mastras_agent_answered_with_its_last_step_alone_before_version_1():
    assert mastra("agent_run", {"output": {"text": "Done."}}).output_text == "Done."


def test_what_stands_for_calls_and_results_in_mastras_preview_is_neither():
    preview = [
        {"role": "assistant", "content": "I look. [tool: f] [tool: g]"},
        {"role": "tool", "content": "[tool-result: f]"},
        {"role": "user", "content": "What does [tool: f] do?"},
    ]
    told = mastra("model_step", {"mastra.model_step.input": preview}).input
    assert [(x.role, x.text, x.calls, x.results) for x in told] == [
        ("assistant", "I look.", (), ()),
        ("tool", None, (), ()),
        ("user", "What does [tool: f] do?", (), ()),
    ]


def test_what_mastra_cut_for_its_depth_is_no_call():
    calls = [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "[MaxDepth]", "arguments": "[MaxDepth]"},
        }
    ]
    body = {"messages": [{"role": "assistant", "content": None, "tool_calls": calls}]}
    (told,) = mastra("model_step", {"input": {"body": body}}).input
    assert told.calls == ()


def test_mastras_shortened_schemas_are_not_taken_for_schemas():
    tools = [
        {
            "type": "function",
            "name": "f",
            "description": "Finds.",
            "parameters": {"city": "string (required)"},
        }
    ]
    step = mastra(
        "model_step", {"mastra.model_step.input": {"body": {"input": [], "tools": tools}}}
    )
    assert step.tools == (Tool("f", "Finds."),)


def test_an_object_that_mastra_generated_is_the_answer():
    step = mastra("model_step", {"mastra.model_step.output": {"text": "", "object": {"n": 0}}})
    assert step.output == (Message("assistant", '{"n":0}'),)


def test_arguments_that_mastra_refused_are_a_stated_error():
    refused = {"error": True, "message": "time: Required", "validationErrors": {}}
    step = mastra("tool_call", {"gen_ai.tool.name": "f", "gen_ai.tool.call.result": refused})
    assert (step.error, step.result) == ("time: Required", refused)


@pytest.mark.parametrize(
    "attributes",
    [
        {"mastra.metadata.resourceId": "user-7", "mastra.metadata.threadId": "00815"},
        {"resourceId": "user-7", "threadId": "00815"},
        {"metadata": {"resourceId": "user-7"}, "session.id": "00815"},
    ],
    ids=["version 1", "before", "Arize"],
)
def test_mastras_thread_is_the_session_and_its_resource_the_user(attributes):
    step = mastra("agent_run", attributes)
    assert (step.session_id, step.user_id) == ("00815", "user-7")


def test_tokens_that_only_the_span_around_several_calls_tells_are_counted_once():
    kind, said = "mastra.span.type", {"text": "Done."}
    spans = [
        span({kind: "agent_run", "mastra.agent_run.input": "Go."}, span_id="a"),
        span({kind: "model_generation", "gen_ai.usage.input_tokens": 42}, span_id="b", parent="a"),
        span(
            {kind: "model_step", "mastra.model_step.output": said},
            span_id="c",
            parent="b",
            start_ns=2,
        ),
        span(
            {kind: "model_step", "mastra.model_step.output": said},
            span_id="d",
            parent="b",
            start_ns=4,
        ),
    ]
    (trace,) = rebuild(spans)
    assert (trace.usage.input_tokens, [x.input_tokens for x in trace.model_calls]) == (
        42,
        [None, None],
    )


@pytest.mark.parametrize(
    "kind", ["model_chunk", "processor_run", "memory_operation", "generic", "new_in_2027"]
)
def test_mastras_bookkeeping_is_no_step_of_a_turn(kind):
    assert mastra(kind, {}).kind == "other"


@pytest.mark.parametrize("result", [{"output": 0}, {"output": None, "content": 0}, 0])
def test_genkits_tool_that_returns_parts_is_opened_to_its_value(result):
    step = read(
        {
            "genkit:type": "action",
            "genkit:metadata:subtype": "tool.v2",
            "genkit:output": json.dumps(result),
        }
    )
    assert step.result == 0


def test_genkits_tool_with_an_object_of_that_shape_keeps_it():
    step = read(
        {"genkit:type": "action", "genkit:metadata:subtype": "tool", "genkit:output": {"output": 0}}
    )
    assert step.result == {"output": 0}


def test_genkits_session_and_user_are_those_of_the_context_that_an_action_was_called_in():
    context = json.dumps({"auth": "<redacted>", "sessionId": "chat-7", "userId": "ada"})
    step = read(
        {
            "genkit:type": "action",
            "genkit:metadata:subtype": "flow",
            "genkit:metadata:context": context,
        }
    )
    assert (step.session_id, step.user_id) == ("chat-7", "ada")


def test_genkits_session_and_user_may_be_labels_of_the_call():
    labels = {"session.id": "chat-7", "user.id": "ada"}
    step = read({"genkit:type": "action", "genkit:metadata:subtype": "model", **labels})
    assert (step.session_id, step.user_id) == ("chat-7", "ada")


@pytest.mark.parametrize("context", ["<redacted>", "[1]", '{"sessionId": {"a": 1}}', 7])
def test_a_genkit_context_of_another_form_names_no_session(context):
    step = read(
        {
            "genkit:type": "action",
            "genkit:metadata:subtype": "flow",
            "genkit:metadata:context": context,
        }
    )
    assert step.session_id is None


def test_the_text_that_genkits_openai_plugin_drops_is_found_in_the_response():
    raw = {"choices": [{"message": {"role": "assistant", "content": "I look."}}]}
    answer = {"role": "model", "content": [{"toolRequest": {"name": "f", "input": {}}}]}
    output = {"message": answer, "raw": raw}
    step = read(
        {"genkit:type": "action", "genkit:metadata:subtype": "model", "genkit:output": output}
    )
    assert [(x.text, len(x.calls)) for x in step.output] == [("I look.", 1)]


def test_voltagents_model_span_tells_no_tokens_since_they_are_the_last_calls_alone():
    model = span({"span.type": "llm", "llm.usage.prompt_tokens": 160}, scope=VOLTAGENT)
    tool = span({"span.type": "tool"}, scope=VOLTAGENT, span_id="2")
    agent = span({"span.type": "agent"}, scope=VOLTAGENT, span_id="3")
    for beside in (tool, agent):
        steps = dialects.read([model, beside]).steps
        assert [x.input_tokens for x in steps if x.kind == "model"] == [None]


def test_voltagents_title_belongs_to_no_turn():
    assert (
        read({"span.type": "llm", "llm.operation": "generateTitle"}, scope=VOLTAGENT).kind
        == "other"
    )


def test_a_retriever_of_voltagent_may_find_a_text():
    attributes = {"span.type": "retriever", "input": "[1]", "output": "It is open."}
    step = read(attributes, scope=VOLTAGENT)
    assert (step.kind, step.query, step.documents) == ("retrieval", "[1]", ("It is open.",))


@pytest.mark.parametrize("said", ["0", "null", '"yes"'])
def test_a_text_that_a_workflow_took_and_returned_is_as_it_was_recorded(said):
    entity = {"entity.type": "workflow", "input": said, "output": said}
    run = {
        "mastra.span.type": "workflow_run",
        "mastra.workflow_run.input": said,
        "mastra.workflow_run.output": said,
    }
    steps = read(entity, scope=VOLTAGENT), read(run)
    assert [(x.input_text, x.output_text) for x in steps] == [(said, said)] * 2


def test_an_agent_of_voltagent_without_messages_is_asked_by_its_input():
    step = read(
        {"entity.type": "agent", "entity.name": "helper", "input": '{"task": 1}'}, scope=VOLTAGENT
    )
    assert (step.kind, step.agent_name, step.input_text) == ("agent", "helper", '{"task": 1}')


def sentry(attributes, origin="auto.ai.openai"):
    return read({"sentry.origin": origin, "gen_ai.operation.name": "chat"} | attributes)


def test_sentrys_answer_is_put_together():
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": "00042"}'}}
    ]
    step = sentry(
        {"gen_ai.response.text": ["I look."], "gen_ai.response.tool_calls": json.dumps(calls)}
    )
    assert step.output == (
        Message("assistant", "I look.", calls=(RequestedCall("c1", "f", {"x": "00042"}),)),
    )


def test_an_answer_that_is_json_stays_text_where_sentry_records_it_as_it_is():
    assert sentry({"gen_ai.response.text": '["a"]'}, "auto.ai.anthropic").output == (
        Message("assistant", '["a"]'),
    )


def test_messages_that_sentry_left_out_are_damage():
    given = json.dumps([{"role": "user", "content": "Where?"}])
    length = "sentry.sdk_meta.gen_ai.input.messages.original_length"
    assert "input" in sentry({"gen_ai.input.messages": given, length: 7}).damaged


def test_what_sentry_did_not_make_is_not_sentrys():
    assert sentry({}, "manual").dialect == "semconv"


def test_vercels_attributes_are_found_where_another_sdk_moved_them():
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}]
    step = read({"ai.operationId": "ai.generateText", "gen_ai.output.messages": json.dumps(said)})
    assert (step.kind, step.output) == ("agent", (Message("assistant", "Done."),))


def test_vercels_failed_tool_stays_failed_where_its_attributes_were_moved():
    moved = {"gen_ai.tool.name": "f", "gen_ai.tool.call.arguments": "{}", "error.type": "TypeError"}
    step = read({"ai.operationId": "ai.toolCall"} | moved, status=STATUS_ERROR)
    assert (step.tool_name, step.error) == ("f", "TypeError")


def mastra_run(*loops):
    run = {"mastra.span.type": "agent_run", "gen_ai.system_instructions": "Be brief."}
    spans = [span(run, span_id="run")]
    for at, (system, said) in enumerate(loops):
        given = {
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": "Where?"},
            ]
        }
        loop = {
            "mastra.model_generation.input": given,
            "mastra.model_generation.output": {"text": said},
        }
        told = {"mastra.span.type": "model_generation", **loop}
        spans.append(span(told, span_id=f"loop{at}", parent="run", start_ns=at + 2))
    return rebuild(spans)


def test_the_title_that_mastras_memory_asked_for_is_not_the_answer():
    (trace,) = mastra_run(("Be brief.", "There."), ("Make a title.", "A question"))
    assert (trace.final_output, [x.text for x in trace.model_calls]) == ("There.", ["There."])


def test_what_an_agent_of_mastras_said_in_two_loops_of_its_own_is_all_read():
    (trace,) = mastra_run(("Be brief.", "There."), ("Be brief.\n\nYou remember: Rex.", "Here."))
    assert [x.text for x in trace.model_calls] == ["There.", "Here."]


def voltagent_run(*, tokens, last):
    agent = {"entity.type": "agent", "entity.name": "front", "usage.prompt_tokens": tokens}
    model = {"span.type": "llm", "llm.usage.prompt_tokens": last}
    tool = {"span.type": "tool", "tool.name": "delegate_task"}
    helper = {
        "entity.type": "agent",
        "entity.name": "front",
        "subagent.name": "clerk",
        "usage.prompt_tokens": 5,
    }
    told = [(agent, "1", ""), (model, "2", "1"), (tool, "3", "1"), (helper, "4", "3")]
    return [span(x, scope=VOLTAGENT, span_id=one, parent=above) for x, one, above in told]


def test_what_voltagents_sub_agents_used_is_counted_with_the_agents_own():
    (trace,) = rebuild(voltagent_run(tokens=30, last=20))
    assert trace.usage.input_tokens == 35


def test_voltagents_count_of_the_last_call_alone_is_no_count():
    (trace,) = rebuild(voltagent_run(tokens=20, last=20))
    assert trace.usage.input_tokens is None


def test_voltagents_sub_agent_has_its_own_name():
    assert [x.agent_name for x in dialects.read(voltagent_run(tokens=30, last=20)).steps][
        -1
    ] == "clerk"
