"""Spans as PostHog takes them: Pydantic AI's, Traceloop's and the AI SDK's without the scope of
their instrumentation, events in one attribute, and calls in every outline.

The forms are those that PostHog's tests list (PostHog/posthog, MIT outside of `ee`:
nodejs/src/ingestion/ai/otel and ai/tools); the conversations are made up here.
"""

from accepted import ABSENT, Form, span
from langfuse_forms import BOTH, RAN
from message_form import (
    ANSWER,
    ASK,
    GIVEN,
    OFFERED,
    OPENAI_CALL,
    QUESTION,
    RESULT,
    RULES,
    SAID,
    SCHEMA,
)

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
AND = {"role": "user", "content": "And the desk?"}


def parts(role, text):
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def run(attributes, scope="pydantic-ai"):
    """An agent's run of Pydantic AI, which names itself by its messages."""
    given = {"pydantic_ai.all_messages": [parts("system", RULES), parts("user", QUESTION)]}
    return span({**given, "logfire.msg": "agent run", **attributes}, scope=scope, name="agent run")


def with_tool(attributes):
    named = {"logfire.msg": "running tool: stock", "gen_ai.tool.name": "stock"}
    inner = {"scope": "pydantic-ai", "name": "running tool", "parent": "s1", "at": 2}
    return [run({"final_result": ANSWER}), span({**named, **attributes}, **inner)]


def ai_sdk(attributes, operation="ai.generateText"):
    return span({"ai.operationId": operation, **attributes})


def ai_sdk_tool(attributes):
    named = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "stock", **attributes}
    return [ai_sdk(ASKED), span(named, parent="s1", at=2)]


def traceloop(attributes):
    return [span({"llm.request.type": "chat", **attributes})]


def indexed(side, *messages):
    return {f"gen_ai.{side}.{i}.{key}": x for i, y in enumerate(messages) for key, x in y.items()}


def event(name, **fields):
    return {"event.name": f"gen_ai.{name}", **fields}


def listed(*events):
    return [span(CHAT | {"events": list(events)})]


def answered(value):
    return [span(CHAT | {"gen_ai.input.messages": [ASK], "gen_ai.output.messages": value})]


def function(name, **more):
    return {"type": "function", "function": {"name": name}, **more}


def printed(*items):
    return answered(f"[{', '.join(items)}]")


ASKED = {"ai.prompt": QUESTION, "ai.response.text": ANSWER}
TOLD = BOTH | {"system": RULES}
USER, CHOICE = event("user.message", content=QUESTION), event("choice", index=0, message=SAID)
INNER = "ai.generateText.doGenerate"
SETTING = [{"role": "system", "content": RULES}, ASK]
WHOLE = (
    "ResponseFunctionToolCall(arguments='{\"sku\": \"lamp\"}', call_id='c1', name='stock',"
    " type='function_call')"
)

PYDANTIC_AI = [
    Form(
        "a run with its result",
        [run({"final_result": ANSWER, "gen_ai.agent.name": "clerk"})],
        TOLD | {"agent": "clerk"},
    ),
    Form("a run of no known scope", [run({"final_result": ANSWER}, scope="")], TOLD),
    Form(
        "a run whose answer is its last message",
        [
            run(
                {
                    "pydantic_ai.all_messages": [
                        parts("user", QUESTION),
                        parts("model-text-response", ANSWER),
                    ]
                }
            )
        ],
        BOTH,
    ),
    Form(
        "a run with what is no message among its messages",
        [
            run(
                {
                    "pydantic_ai.all_messages": [
                        "no object",
                        parts("user", QUESTION),
                        42,
                        None,
                        [1, 2],
                        parts("model-text-response", ANSWER),
                    ]
                }
            )
        ],
        BOTH,
    ),
    Form("a run by its older name", [run({"agent_name": "clerk"})], {"agent": "clerk"}),
    *(
        Form(f"a run with the result {x}", [run({"final_result": x})], {"output": x})
        for x in ("42", "true", "null", '{"left": 4}')
    ),
    Form(
        "a tool",
        with_tool({"gen_ai.tool.call.id": "c1", "tool_arguments": GIVEN, "tool_response": "Four."}),
        {"calls": ["stock"], "ids": ["c1"], "arguments": [GIVEN], "results": ["Four."]},
    ),
    Form("a tool's JSON", with_tool({"tool_response": RESULT}), {"results": [RESULT]}),
    Form("a tool's plain text", with_tool({"tool_arguments": "lamp"}), {"arguments": ["lamp"]}),
]
TRACELOOP = [
    Form(
        "a request by its type",
        traceloop(indexed("prompt", *SETTING) | indexed("completion", SAID)),
        TOLD,
    ),
    Form(
        "indexes with gaps",
        traceloop(
            {
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": QUESTION,
                "gen_ai.prompt.5.role": "assistant",
                "gen_ai.prompt.5.content": ANSWER,
                "gen_ai.prompt.9.role": "user",
                "gen_ai.prompt.9.content": "And the desk?",
            }
        ),
        {"input": "And the desk?", "history": [("user", QUESTION), ("assistant", ANSWER)]},
    ),
    Form(
        "two calls, of which one has a result",
        traceloop(
            indexed(
                "prompt",
                ASK,
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls.0.id": "c1",
                    "tool_calls.0.name": "stock",
                    "tool_calls.0.arguments": '{"sku": "lamp"}',
                    "tool_calls.1.name": "price",
                    "tool_calls.1.arguments": '{"sku": "desk"}',
                },
                {"role": "tool", "content": "Four.", "tool_call_id": "c1"},
            )
        ),
        {
            "calls": ["stock", "price"],
            "arguments": [GIVEN, {"sku": "desk"}],
            "results": ["Four.", ABSENT],
        },
    ),
    Form(
        "tools on offer by index",
        traceloop(
            indexed("prompt", ASK)
            | {
                "llm.request.functions.0.name": "stock",
                "llm.request.functions.0.description": "How many are left",
                "llm.request.functions.0.parameters": SCHEMA,
            }
        ),
        OFFERED,
    ),
    Form(
        "whose workflow it is",
        [
            span(
                {
                    "traceloop.span.kind": "workflow",
                    "traceloop.entity.input": QUESTION,
                    "traceloop.association.properties.user_id": "u-1",
                    "traceloop.association.properties.session_id": "s-1",
                }
            )
        ],
        {"user": "u-1", "session": "s-1", "input": QUESTION},
    ),
    Form(
        "an entity without a kind",
        [span({"traceloop.entity.input": QUESTION, "traceloop.entity.output": ANSWER})],
        BOTH,
    ),
]
AI_SDK = [
    Form(
        "a provider's call",
        [
            ai_sdk(
                {
                    "ai.prompt.messages": SETTING,
                    "ai.response.text": ANSWER,
                    "gen_ai.request.model": "m-1",
                    "gen_ai.usage.input_tokens": 23,
                    "gen_ai.usage.output_tokens": 14,
                },
                INNER,
            )
        ],
        TOLD | {"model": "m-1", "tokens": (23, 14)},
    ),
    Form("a prompt as text", [ai_sdk(ASKED)], BOTH),
    Form("a prompt that is a number", [ai_sdk({"ai.prompt": "42"})], {"input": "42"}),
    Form("a prompt as messages", [ai_sdk(ASKED | {"ai.prompt": SETTING})], TOLD),
    Form(
        "messages beside a prompt",
        [ai_sdk(ASKED | {"ai.prompt": "{}", "ai.prompt.messages": SETTING})],
        TOLD,
    ),
    Form(
        "a function's id",
        [ai_sdk(ASKED | {"ai.telemetry.functionId": "clerk"})],
        {"agent": "clerk"},
    ),
    Form("no function's id", [ai_sdk(ASKED | {"ai.telemetry.functionId": ""})], {"agent": ABSENT}),
    Form(
        "PostHog's names for a user and a session",
        [
            ai_sdk(
                ASKED
                | {
                    "ai.telemetry.metadata.posthog_distinct_id": "u-1",
                    "ai.telemetry.metadata.$ai_session_id": "s-1",
                }
            )
        ],
        {"user": "u-1", "session": "s-1"},
    ),
    Form(
        "PostHog's names without a value",
        [
            ai_sdk(
                ASKED
                | {
                    "ai.telemetry.metadata.posthog_distinct_id": "",
                    "ai.telemetry.metadata.$ai_session_id": "",
                }
            )
        ],
        {"user": ABSENT, "session": ABSENT},
    ),
    Form(
        "a stream's call with its cache",
        [
            ai_sdk(
                {
                    "gen_ai.response.model": "m-1",
                    "gen_ai.usage.input_tokens": 100,
                    "gen_ai.usage.output_tokens": 20,
                    "gen_ai.usage.cache_read.input_tokens": 80,
                    "ai.usage.inputTokenDetails.noCacheTokens": 10,
                },
                "ai.streamText.doStream",
            )
        ],
        {"model": "m-1", "tokens": (100, 20)},
    ),
    Form(
        "a tool of the AI SDK",
        ai_sdk_tool(
            {"ai.toolCall.id": "c1", "ai.toolCall.args": GIVEN, "ai.toolCall.result": '"Four."'}
        ),
        {"calls": ["stock"], "ids": ["c1"], "arguments": [GIVEN], "results": ["Four."]},
    ),
    Form(
        "a tool of the AI SDK with plain text",
        ai_sdk_tool({"ai.toolCall.args": "lamp"}),
        {"arguments": ["lamp"]},
    ),
]
EVENTS = [
    Form(
        "events in one attribute",
        listed(event("system.message", content=RULES), USER, CHOICE),
        TOLD,
    ),
    Form(
        "events in the order of their index",
        listed(
            event("user.message", content="And the desk?", **{"gen_ai.message.index": 3}),
            event("assistant.message", content=ANSWER, **{"gen_ai.message.index": 2}),
            event("user.message", content=QUESTION, **{"gen_ai.message.index": 1}),
            event("system.message", content=RULES, **{"gen_ai.message.index": 0}),
        ),
        {
            "system": RULES,
            "input": "And the desk?",
            "history": [("user", QUESTION), ("assistant", ANSWER)],
        },
    ),
    Form(
        "events of which some have an index",
        listed(
            event("system.message", content=RULES, **{"gen_ai.message.index": 5}),
            USER,
            event("assistant.message", content=ANSWER, **{"gen_ai.message.index": 0}),
            event("user.message", content="And the desk?"),
        ),
        {"input": "And the desk?", "history": [("user", QUESTION), ("assistant", ANSWER)]},
    ),
    Form(
        "messages beside older events",
        [
            span(
                CHAT
                | {
                    "gen_ai.input.messages": [ASK],
                    "events": [event("user.message", content="Older?")],
                }
            )
        ],
        {"input": QUESTION},
    ),
    Form(
        "a call that was chosen",
        listed(USER, event("choice", message={"role": "assistant", "tool_calls": [OPENAI_CALL]})),
        {"calls": ["stock"], "arguments": [GIVEN], "ids": ["c1"]},
    ),
    Form(
        "a call and its result among events",
        listed(
            USER,
            event("assistant.message", role="assistant", tool_calls=[OPENAI_CALL]),
            event("tool.message", role="tool", content='{"left": 4}', tool_call_id="c1"),
        ),
        RAN | {"input": QUESTION},
    ),
    Form("an answer beside no message", listed(USER, event("choice", content=ANSWER)), BOTH),
    Form(
        "an event of another name",
        listed(USER, event("unknown.thing", role="spurious"), CHOICE),
        BOTH,
    ),
    Form(
        "events under Logfire's name",
        [span({"logfire.msg": "chat", "llm.request.type": "chat", "events": [USER, CHOICE]})],
        BOTH,
    ),
    *(
        Form(
            f"no events: {x}",
            [span(CHAT | {"events": x})],
            {"input": ABSENT, "output": ABSENT, "model": "m-1"},
        )
        for x in ("not { valid", '{"foo": 1}', "[]")
    ),
]
CALLS = [
    Form("a choice's call", answered([{"message": {"tool_calls": [function("a")]}}]), ["a"]),
    Form(
        "calls of a choice",
        answered([{"message": {"tool_calls": [function("a"), function("a"), function("b")]}}]),
        ["a", "a", "b"],
    ),
    Form(
        "calls of several choices",
        answered([{"message": {"tool_calls": [function(x)]}} for x in "ab"]),
        ["a", "b"],
    ),
    Form(
        "calls as content",
        answered([{"role": "assistant", "content": [function("a", id="c1"), function("b")]}]),
        ["a", "b"],
    ),
    Form(
        "items of Responses",
        answered(
            [
                {"type": "reasoning", "id": "r", "summary": []},
                {"type": "function_call", "name": "a", "call_id": "c1", "arguments": "{}"},
                {"type": "message", "content": [{"type": "output_text", "text": ANSWER}]},
                {"type": "function_call", "name": "b", "call_id": "c2"},
            ]
        ),
        ["a", "b"],
    ),
    Form(
        "a call beside its message's content",
        answered([{"role": "assistant", "content": "", "tool_calls": [function("a", id="c1")]}]),
        ["a"],
    ),
    Form(
        "blocks in a choice",
        answered(
            [
                {
                    "message": {
                        "content": [
                            {"type": "tool_use", "name": "a"},
                            {"type": "text", "text": ANSWER},
                            {"type": "tool_use", "name": "b"},
                        ]
                    }
                }
            ]
        ),
        ["a", "b"],
    ),
    Form("one printed item", answered(WHOLE), ["stock"]),
    Form(
        "printed items",
        printed(*(f"ResponseFunctionToolCall(name='{x}', type='function_call')" for x in "ab")),
        ["a", "b"],
    ),
    Form(
        "a printed item beside a message",
        printed(
            "ResponseOutputMessage(content=[ResponseOutputText(text='One moment.')])",
            "ResponseFunctionToolCall(name='a', type='function_call')",
        ),
        ["a"],
    ),
    *(
        Form(f"no call, case {i}", answered(x), [])
        for i, x in enumerate(
            (
                [],
                [{}],
                [{"message": None}],
                [{"message": {}}],
                [{"message": {"tool_calls": [{"type": "function", "function": {}}]}}],
                [{"message": {"tool_calls": [None]}}],
                [{"message": {"content": [{"type": "text", "name": "no_tool"}]}}],
                [{"message": SAID}],
            )
        )
    ),
]
FORMS = [
    *PYDANTIC_AI,
    *TRACELOOP,
    *AI_SDK,
    *EVENTS,
    *(Form(x.name, x.spans, {"calls": x.facts}) for x in CALLS),
    Form(
        "what a printed item was called with",
        answered(WHOLE),
        {"arguments": [GIVEN], "ids": ["c1"]},
    ),
    Form(
        "the newer of two names for tokens",
        [
            span(
                CHAT
                | {
                    "gen_ai.usage.input_tokens": 100,
                    "gen_ai.usage.prompt_tokens": 200,
                    "gen_ai.usage.output_tokens": 10,
                    "gen_ai.usage.completion_tokens": 20,
                }
            )
        ],
        {"tokens": (100, 10)},
    ),
    Form(
        "the model that answered",
        [span(CHAT | {"gen_ai.response.model": "m-1-2024"})],
        {"model": "m-1-2024"},
    ),
    Form(
        "messages that are no JSON",
        [span(CHAT | {"gen_ai.input.messages": "Is it {here}"})],
        {"input": "Is it {here}"},
    ),
]
