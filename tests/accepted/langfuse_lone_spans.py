"""Instructions in every outline, and spans of which one attribute or event alone shows what they
are.

The forms are those that the tests of Langfuse's server send (langfuse/langfuse, MIT outside of
`ee`: packages/shared/src/server/otel, web/src/__tests__/server/api/otel); the values are made up
here.
"""

from accepted import ABSENT, Form, span
from langfuse_forms import BOTH, INPUT, OUTPUT, TYPE
from message_form import ANSWER, ASK, GIVEN, OPENAI_CALL, QUESTION, RULES, SAID

INSTRUCTIONS = "gen_ai.system_instructions"
STRUCTURED = [{"role": "system", "parts": [{"type": "text", "content": RULES}]}]


def part(text):
    return {"type": "text", "content": text}


def run(instructions, asked=QUESTION):
    """An agent's run of Pydantic AI that Langfuse's span processor marked as a span of its own."""
    attributes = {
        TYPE: "span",
        "pydantic_ai.all_messages": [{"role": "user", "parts": [part(asked)]}],
        INSTRUCTIONS: instructions,
    }
    return [span(attributes, scope="pydantic-ai", name="agent-run")]


def generation(instructions):
    """An observation whose messages are in the conventions' attributes."""
    attributes = {TYPE: "generation", "gen_ai.input.messages": [ASK], INSTRUCTIONS: instructions}
    return [span(attributes, scope="openinference-instrumentation-openai", name="chat")]


def lone(key, value, **more):
    return [span({key: value}, name="openai.chat.completions", **more)]


def eventful(name, **attributes):
    return [span({}, name="openai.chat.completions", events=[(name, attributes)])]


OUTLINES = {
    "a message": (STRUCTURED, RULES),
    "two messages": (
        [{"role": "system", "parts": [part(x)]} for x in ("Be brief.", "Be right.")],
        "Be brief.\nBe right.",
    ),
    "a message with what is no text": (
        [{"role": "system", "parts": [part(RULES), {"type": "function", "name": "stock"}]}],
        RULES,
    ),
    "a message without a role": ([{"parts": [part(RULES)]}], RULES),
    "parts": ([part("Be brief."), part("Be right.")], "Be brief.\nBe right."),
    "a part beside a message": ([part("First."), *STRUCTURED], f"First.\n{RULES}"),
    "a text in JSON": (f'"{RULES}"', RULES),
    "a text": (RULES, RULES),
    "a text that begins as a list": ("not [valid json", "not [valid json"),
    "parts with null among them": ([None, part(RULES), None], RULES),
    "an empty part": ([part("")], ABSENT),
    "an empty list": ("[]", ABSENT),
    "numbers and words": ("[42, true, null]", ABSENT),
}
SETTINGS = [
    Form(f"instructions of {carrier}: {name}", make(value), {"system": told, "input": QUESTION})
    for name, (value, told) in OUTLINES.items()
    for carrier, make in (("a run", run), ("a generation", generation))
]


def specialist(**more):
    """A span of a process that joined the trace, and takes itself for a root."""
    attributes = {TYPE: "span", INPUT: "Count.", OUTPUT: "Four.", "langfuse.internal.as_root": True}
    inner = {"scope": "langfuse-sdk", "name": "specialist", "parent": "s1", "at": 2}
    return span(attributes | more, **inner)


DESK = span(
    {
        TYPE: "span",
        "langfuse.trace.name": "desk",
        "langfuse.trace.input": QUESTION,
        "langfuse.trace.output": ANSWER,
    },
    scope="langfuse-sdk",
    name="desk",
)


def ai_sdk(operation, **more):
    counted = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 50}
    attributes = {"gen_ai.operation.name": operation, "gen_ai.provider.name": "openai", **counted}
    spoken = {
        "gen_ai.request.model": "m-1",
        "gen_ai.input.messages": [{"role": "user", "parts": [part(QUESTION)]}],
        "gen_ai.output.messages": [{"role": "assistant", "parts": [part(ANSWER)]}],
    }
    attributes |= {} if operation == "agent_step" else spoken
    return span(attributes, scope="gen_ai", name=operation, **more)


CLAUDE_CODE = {
    "span.type": "llm_request",
    "model": "claude-opus-5-5",
    "gen_ai.system": "anthropic",
    "gen_ai.request.model": "claude-opus-5-5",
    "llm_request.context": "interaction",
    "input_tokens": 2,
    "output_tokens": 333,
    "cache_read_tokens": 63002,
    "cache_creation_tokens": 679,
    "success": "true",
    "stop_reason": "tool_use",
}
OPENLIT = {
    "gen_ai.system": "openai",
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m-1",
    "gen_ai.usage.input_tokens": 14,
    "gen_ai.usage.output_tokens": 96,
}
LIVEKIT = {"scope": "livekit-agents", "name": "agent_turn"}
FORMS = [
    *SETTINGS,
    Form("a trace's own input and output", [DESK, specialist()], BOTH | {"turns": 1}),
    Form(
        "a session that a joining process states",
        [DESK, specialist(**{"session.id": "s-1"})],
        BOTH | {"session": "s-1", "turns": 1},
    ),
    Form(
        "an agent, a step and a call with the same tokens",
        [
            ai_sdk("invoke_agent"),
            ai_sdk("agent_step", parent="s1", at=2),
            ai_sdk("chat", parent="s2", at=3),
        ],
        BOTH | {"tokens": (100, 50), "model": "m-1", "turns": 1},
    ),
    Form(
        "an agent of OpenInference with tokens",
        [
            span(
                {
                    "openinference.span.kind": "AGENT",
                    "gen_ai.usage.input_tokens": 100,
                    "gen_ai.usage.output_tokens": 50,
                },
                scope="openinference.instrumentation.custom",
                name="clerk",
            )
        ],
        {"tokens": (100, 50), "agent": "clerk"},
    ),
    Form(
        "a request of Claude Code beside its cache",
        [
            span(
                CLAUDE_CODE,
                scope="com.anthropic.claude_code.tracing",
                name="claude_code.llm_request",
            )
        ],
        {"model": "claude-opus-5-5", "tokens": (63683, 333)},
    ),
    Form(
        "Google ADK's response alone",
        [
            span(
                {
                    TYPE: "generation",
                    "gcp.vertex.agent.llm_response": {
                        "usage_metadata": {
                            "prompt_token_count": 100,
                            "candidates_token_count": 50,
                            "thoughts_token_count": 200,
                        }
                    },
                },
                scope="gcp.vertex.agent",
                name="vertex-span",
            )
        ],
        {"tokens": (100, 250)},
    ),
    Form(
        "reasoning tokens among those that came out",
        [
            span(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.usage.input_tokens": 100,
                    "gen_ai.usage.output_tokens": 600,
                    "gen_ai.usage.reasoning_tokens": 500,
                }
            )
        ],
        {"tokens": (100, 600)},
    ),
    Form(
        "OpenLIT's events, each message a line",
        [
            span(
                OPENLIT,
                scope="openlit.otel.tracing",
                events=[
                    (
                        "gen_ai.content.prompt",
                        {"gen_ai.prompt": f"system: {RULES}\nuser: {QUESTION}"},
                    ),
                    ("gen_ai.content.completion", {"gen_ai.completion": ANSWER}),
                ],
            )
        ],
        BOTH | {"system": RULES, "model": "m-1", "tokens": (14, 96)},
    ),
    Form(
        "Semantic Kernel's events",
        [
            span(
                {"gen_ai.response.model": "m-1"},
                scope="Microsoft.SemanticKernel",
                name="chat_completion",
                events=[
                    ("gen_ai.system.message", {"content": RULES}),
                    ("gen_ai.user.message", {"content": QUESTION}),
                    ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": SAID}),
                ],
            )
        ],
        BOTH | {"system": RULES, "model": "m-1"},
    ),
    Form(
        "LiveKit's turn by its transcript",
        [span({"lk.user_transcript": QUESTION, "lk.response.text": ANSWER}, **LIVEKIT)],
        BOTH,
    ),
    # one attribute
    *(
        Form(f"{x} alone", lone(x, "m-1"), {"model": "m-1"})
        for x in ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name")
    ),
    *(
        Form(f"{x} alone", lone(x, 100), {"tokens": counts})
        for x, counts in {
            "gen_ai.usage.input_tokens": (100, ABSENT),
            "gen_ai.usage.prompt_tokens": (100, ABSENT),
            "gen_ai.usage.completion_tokens": (ABSENT, 100),
            "llm.token_count.prompt": (100, ABSENT),
            "llm.token_count.completion": (ABSENT, 100),
        }.items()
    ),
    Form("tokens in text", lone("gen_ai.usage.input_tokens", "15"), {"tokens": (15, ABSENT)}),
    *(
        Form(f"{x} alone", lone(x, QUESTION), {"input": QUESTION})
        for x in ("gen_ai.prompt", "gen_ai.prompt.0.content", "input.value")
    ),
    *(
        Form(f"{x} alone", lone(x, ANSWER), {"output": ANSWER})
        for x in (
            "gen_ai.completion",
            "gen_ai.completion.0.content",
            "gen_ai.output.messages",
            "output.value",
        )
    ),
    Form(
        "MLflow's inputs alone",
        lone("mlflow.spanInputs", {"question": QUESTION}),
        {"input": QUESTION},
    ),
    *(
        Form(f"{x} beside an input", [span({x: "s-1", INPUT: QUESTION})], {"session": "s-1"})
        for x in ("session.id", "langfuse.session.id", "gen_ai.conversation.id")
    ),
    *(
        Form(f"{x} beside an input", [span({x: "u-1", INPUT: QUESTION})], {"user": "u-1"})
        for x in ("user.id", "langfuse.user.id")
    ),
    # one event
    Form(
        "a prompt's event alone",
        eventful("gen_ai.content.prompt", **{"gen_ai.prompt": QUESTION}),
        {"input": QUESTION},
    ),
    Form(
        "a prompt's event with a list",
        eventful("gen_ai.content.prompt", **{"gen_ai.prompt": ["Is it here?"]}),
        {"input": "Is it here?"},
    ),
    Form(
        "a completion's event alone",
        eventful("gen_ai.content.completion", **{"gen_ai.completion": ANSWER}),
        {"output": ANSWER},
    ),
    Form(
        "a system message alone",
        eventful("gen_ai.system.message", content=RULES),
        {"system": RULES},
    ),
    Form(
        "a user's message alone",
        eventful("gen_ai.user.message", content=QUESTION),
        {"input": QUESTION},
    ),
    Form(
        "a message with a call alone",
        eventful("gen_ai.assistant.message", tool_calls=[OPENAI_CALL]),
        {"calls": ["stock"], "arguments": [GIVEN], "ids": ["c1"]},
    ),
    Form("a choice alone", eventful("gen_ai.choice", message=SAID), {"output": ANSWER}),
    Form(
        "a choice with nothing but why it ended",
        eventful("gen_ai.choice", finish_reason="stop", index=0),
        {"output": ABSENT},
    ),
]
