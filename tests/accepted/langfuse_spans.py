"""Spans of Langfuse's SDKs and hand-made ones: who is asked, what an observation is, models and
usage.

The attributes are those that Langfuse's server reads (langfuse/langfuse,
packages/shared/src/server/otel: OtelIngestionProcessor, ObservationTypeMapper) and that its tests
send (web/src/__tests__/server/api/otel).
"""

from accepted import ABSENT, Form, span
from langfuse_forms import BOTH, CHAT, INPUT, OUTPUT, TYPE, around, generation
from message_form import ANSWER, ASK, QUESTION, SAID

FORMS = [
    # identity
    Form(
        "session and user of the SDK",
        [generation({"langfuse.session.id": "s-1", "langfuse.user.id": "u-1"})],
        {"session": "s-1", "user": "u-1"},
    ),
    Form(
        "OpenTelemetry's session and user",
        [generation({"session.id": "s-1", "user.id": "u-1"})],
        {"session": "s-1", "user": "u-1"},
    ),
    Form(
        "a conversation's id", [generation({"gen_ai.conversation.id": "s-1"})], {"session": "s-1"}
    ),
    Form(
        "session and user in a trace's metadata",
        [
            generation(
                {
                    "langfuse.trace.metadata.langfuse_session_id": "s-1",
                    "langfuse.trace.metadata.langfuse_user_id": "u-1",
                }
            )
        ],
        {"session": "s-1", "user": "u-1"},
    ),
    Form(
        "session and user in an observation's metadata",
        [
            generation(
                {
                    "langfuse.observation.metadata.langfuse_session_id": "s-1",
                    "langfuse.observation.metadata.langfuse_user_id": "u-1",
                }
            )
        ],
        {"session": "s-1", "user": "u-1"},
    ),
    Form(
        "session and user of the SDK on a span of the conventions",
        [span(CHAT | {"langfuse.session.id": "s-1", "langfuse.user.id": "u-1"})],
        {"session": "s-1", "user": "u-1"} | BOTH,
    ),
    Form(
        "session and user of the SDK on OpenInference's",
        [
            span(
                {
                    "openinference.span.kind": "LLM",
                    "input.value": QUESTION,
                    "output.value": ANSWER,
                    "langfuse.session.id": "s-1",
                    "langfuse.user.id": "u-1",
                }
            )
        ],
        {"session": "s-1", "user": "u-1"} | BOTH,
    ),
    Form(
        "session and user on a span of no dialect around",
        [
            span({"langfuse.session.id": "s-1", "langfuse.user.id": "u-1"}, name="POST /chat"),
            span(CHAT, parent="s1", at=2),
        ],
        {"session": "s-1", "user": "u-1"} | BOTH,
    ),
    Form(
        "AI SDK's metadata",
        [
            span(
                {
                    "ai.operationId": "ai.generateText",
                    "ai.prompt": {"prompt": QUESTION},
                    "ai.response.text": ANSWER,
                    "ai.telemetry.metadata.userId": "u-1",
                    "ai.telemetry.metadata.sessionId": "s-1",
                },
                scope="ai",
            )
        ],
        {"session": "s-1", "user": "u-1"} | BOTH,
    ),
    # what an observation is
    Form(
        "a trace's input and output",
        [
            span(
                {TYPE: "span", "langfuse.trace.input": QUESTION, "langfuse.trace.output": ANSWER},
                scope="langfuse-sdk",
            )
        ],
        BOTH,
    ),
    Form(
        "a trace's input and output by hand",
        [
            span(
                {
                    "langfuse.trace.name": "chat",
                    "langfuse.trace.input": QUESTION,
                    "langfuse.trace.output": ANSWER,
                },
                name="chat",
            )
        ],
        BOTH,
    ),
    Form(
        "an observation by hand",
        [
            span(
                {
                    INPUT: QUESTION,
                    OUTPUT: ANSWER,
                    "langfuse.observation.model.name": "m-1",
                    "langfuse.observation.usage_details": {"input": 7, "output": 3},
                },
                name="answer",
            )
        ],
        BOTH | {"model": "m-1", "tokens": (7, 3)},
    ),
    Form(
        "a span of an old SDK that has a model",
        [
            span(
                {
                    TYPE: "span",
                    INPUT: [ASK],
                    OUTPUT: SAID,
                    "langfuse.observation.model.name": "m-1",
                    "langfuse.observation.usage_details": {"input": 7, "output": 3},
                },
                scope="langfuse-sdk",
            )
        ],
        BOTH | {"model": "m-1", "tokens": (7, 3)},
    ),
    Form(
        "a generation with usage alone",
        [
            span(
                {
                    TYPE: "generation",
                    "langfuse.observation.model.name": "m-1",
                    "langfuse.observation.usage_details": {"input": 7, "output": 3},
                },
                scope="langfuse-sdk",
            )
        ],
        {"model": "m-1", "tokens": (7, 3), "input": ABSENT, "output": ABSENT, "turns": 1},
    ),
    Form(
        "an agent alone",
        [
            span(
                {TYPE: "agent", INPUT: QUESTION, OUTPUT: ANSWER}, name="clerk", scope="langfuse-sdk"
            )
        ],
        BOTH | {"agent": "clerk", "turns": 1},
    ),
    Form(
        "a retriever",
        around(
            span(
                {TYPE: "retriever", INPUT: QUESTION, OUTPUT: [{"page_content": "Four lamps."}]},
                parent="s1",
                at=2,
                scope="langfuse-sdk",
            )
        ),
        {"query": QUESTION, "documents": [{"page_content": "Four lamps."}]},
    ),
    # model and usage
    Form(
        "usage as OpenAI counts it",
        [
            generation(
                {"langfuse.observation.usage_details": {"prompt_tokens": 7, "completion_tokens": 3}}
            )
        ],
        {"tokens": (7, 3)},
    ),
    Form(
        "usage as Anthropic counts it",
        [
            generation(
                {"langfuse.observation.usage_details": {"input_tokens": 7, "output_tokens": 3}}
            )
        ],
        {"tokens": (7, 3)},
    ),
    Form(
        "the conventions' usage and model on a generation",
        [
            generation(
                {
                    "gen_ai.usage.input_tokens": 7,
                    "gen_ai.usage.output_tokens": 3,
                    "gen_ai.response.model": "m-1",
                }
            )
        ],
        {"tokens": (7, 3), "model": "m-1"},
    ),
    Form(
        "OpenInference's usage and model on a generation",
        [
            generation(
                {
                    "llm.token_count.prompt": 7,
                    "llm.token_count.completion": 3,
                    "llm.model_name": "m-1",
                }
            )
        ],
        {"tokens": (7, 3), "model": "m-1"},
    ),
    Form(
        "usage as text",
        [span(CHAT | {"gen_ai.usage.input_tokens": "7", "gen_ai.usage.output_tokens": "3"})],
        {"tokens": (7, 3)},
    ),
    Form(
        "usage of the old conventions",
        [span(CHAT | {"gen_ai.usage.prompt_tokens": 7, "gen_ai.usage.completion_tokens": 3})],
        {"tokens": (7, 3)},
    ),
    Form(
        "OpenInference's usage on a span of the conventions",
        [
            span(
                CHAT
                | {
                    "llm.token_count.prompt": 7,
                    "llm.token_count.completion": 3,
                    "llm.model_name": "m-1",
                }
            )
        ],
        {"tokens": (7, 3), "model": "m-1"},
    ),
    Form(
        "a model known by `model` alone",
        [
            span(
                {
                    "model": "m-1",
                    "input": QUESTION,
                    "output": ANSWER,
                    "gen_ai.operation.name": "chat",
                }
            )
        ],
        BOTH | {"model": "m-1"},
    ),
    Form(
        "a model's span of the conventions with usage alone",
        [
            span(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m-1",
                    "gen_ai.usage.input_tokens": 7,
                    "gen_ai.usage.output_tokens": 3,
                }
            )
        ],
        {"model": "m-1", "tokens": (7, 3), "turns": 1, "input": ABSENT},
    ),
    Form(
        "a span with a model and usage alone",
        [
            span(
                {
                    "gen_ai.request.model": "m-1",
                    "gen_ai.usage.input_tokens": 7,
                    "gen_ai.usage.output_tokens": 3,
                }
            )
        ],
        {"model": "m-1", "tokens": (7, 3), "turns": 1},
    ),
    Form(
        "an agent of the conventions with usage alone",
        [
            span(
                {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.agent.name": "clerk",
                    "gen_ai.usage.input_tokens": 7,
                    "gen_ai.usage.output_tokens": 3,
                }
            )
        ],
        {"agent": "clerk", "tokens": (7, 3), "turns": 1},
    ),
]
