"""Questions and answers under the names of other conventions, by attribute and by event.

The attributes are those that Langfuse's server reads (langfuse/langfuse,
packages/shared/src/server/otel: OtelIngestionProcessor, ObservationTypeMapper) and that its tests
send (web/src/__tests__/server/api/otel).
"""

from accepted import Form, span
from langfuse_forms import BOTH, INPUT, OUTPUT, RAN
from message_form import ANSWER, ASK, ASSISTANT, DEFINITION, OFFERED, QUESTION, RULES, SAID

FORMS = [
    # content on a span of the conventions under other names
    Form(
        "input.value on a span of the conventions",
        [
            span(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m-1",
                    "input.value": QUESTION,
                    "output.value": ANSWER,
                }
            )
        ],
        BOTH,
    ),
    Form(
        "input and output on a span of the conventions",
        [
            span(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m-1",
                    "input": [ASK],
                    "output": SAID,
                }
            )
        ],
        BOTH,
    ),
    Form(
        "Langfuse's attributes on a span of the conventions",
        [
            span(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m-1",
                    INPUT: [ASK],
                    OUTPUT: SAID,
                }
            )
        ],
        BOTH | {"model": "m-1"},
    ),
    Form(
        "input.value on an agent's span of the conventions",
        [
            span(
                {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.agent.name": "clerk",
                    "input.value": QUESTION,
                    "output.value": ANSWER,
                }
            )
        ],
        BOTH | {"agent": "clerk"},
    ),
    Form(
        "input.value with a model's name",
        [
            span(
                {
                    "llm.model_name": "m-1",
                    "input.value": QUESTION,
                    "output.value": ANSWER,
                    "llm.token_count.prompt": 7,
                    "llm.token_count.completion": 3,
                }
            )
        ],
        BOTH | {"model": "m-1", "tokens": (7, 3)},
    ),
    Form(
        "OpenInference's messages without a kind",
        [
            span(
                {
                    "llm.model_name": "m-1",
                    "llm.input_messages.0.message.role": "user",
                    "llm.input_messages.0.message.content": QUESTION,
                    "llm.output_messages.0.message.role": "assistant",
                    "llm.output_messages.0.message.content": ANSWER,
                }
            )
        ],
        BOTH,
    ),
    Form(
        "messages in indexed attributes",
        [
            span(
                {
                    "gen_ai.prompt.0.role": "system",
                    "gen_ai.prompt.0.content": RULES,
                    "gen_ai.prompt.1.role": "user",
                    "gen_ai.prompt.1.content": QUESTION,
                    "gen_ai.completion.0.role": "assistant",
                    "gen_ai.completion.0.content": ANSWER,
                }
            )
        ],
        BOTH | {"system": RULES},
    ),
    Form(
        "prompt and completion as text",
        [span({"gen_ai.system": "openai", "gen_ai.prompt": QUESTION, "gen_ai.completion": ANSWER})],
        BOTH,
    ),
    Form(
        "MLflow's inputs and outputs",
        [
            span(
                {
                    "mlflow.spanType": '"CHAT_MODEL"',
                    "mlflow.spanInputs": {"messages": [ASK]},
                    "mlflow.spanOutputs": {"choices": [{"message": SAID}]},
                }
            )
        ],
        BOTH,
    ),
    Form(
        "Traceloop's entity",
        [
            span(
                {
                    "traceloop.span.kind": "workflow",
                    "traceloop.entity.name": "clerk",
                    "traceloop.entity.input": QUESTION,
                    "traceloop.entity.output": ANSWER,
                }
            )
        ],
        BOTH,
    ),
    Form(
        "Pydantic AI's agent",
        [
            span(
                {
                    "agent_name": "clerk",
                    "pydantic_ai.all_messages": [
                        {"role": "user", "parts": [{"type": "text", "content": QUESTION}]},
                        {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]},
                    ],
                    "final_result": ANSWER,
                    "gen_ai.operation.name": "invoke_agent",
                },
                scope="pydantic-ai",
                name="agent run",
            )
        ],
        BOTH,
    ),
    Form(
        "Logfire's prompt and events",
        [
            span(
                {
                    "prompt": QUESTION,
                    "all_messages_events": [
                        {"event.name": "gen_ai.user.message", "role": "user", "content": QUESTION},
                        {
                            "event.name": "gen_ai.assistant.message",
                            "role": "assistant",
                            "content": ANSWER,
                        },
                    ],
                    "agent_name": "clerk",
                    "final_result": ANSWER,
                },
                scope="pydantic-ai",
                name="agent run",
            )
        ],
        BOTH,
    ),
    Form(
        "Pydantic AI's events of a call",
        [
            span(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "m-1",
                    "events": [
                        {"event.name": "gen_ai.system.message", "role": "system", "content": RULES},
                        {"event.name": "gen_ai.user.message", "role": "user", "content": QUESTION},
                        {"event.name": "gen_ai.choice", "index": 0, "message": SAID},
                    ],
                },
                scope="pydantic-ai",
            )
        ],
        BOTH | {"system": RULES},
    ),
    Form(
        "Google ADK's request and response",
        [
            span(
                {
                    "gen_ai.system": "gcp.vertex.agent",
                    "gen_ai.operation.name": "call_llm",
                    "gcp.vertex.agent.llm_request": {
                        "model": "m-1",
                        "config": {
                            "system_instruction": RULES,
                            "tools": [{"function_declarations": [DEFINITION]}],
                        },
                        "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
                    },
                    "gcp.vertex.agent.llm_response": {
                        "content": {"role": "model", "parts": [{"text": ANSWER}]}
                    },
                    "gcp.vertex.agent.session_id": "s-1",
                },
                scope="gcp.vertex.agent",
                name="call_llm",
            )
        ],
        BOTH | OFFERED | {"system": RULES, "session": "s-1"},
    ),
    Form(
        "Google ADK's attributes of any scope",
        [
            span(
                {
                    "gen_ai.system": "gcp.vertex.agent",
                    "gen_ai.request.model": "m-1",
                    "gcp.vertex.agent.llm_request": {
                        "contents": [{"role": "user", "parts": [{"text": QUESTION}]}]
                    },
                    "gcp.vertex.agent.llm_response": {
                        "content": {"role": "model", "parts": [{"text": ANSWER}]}
                    },
                },
                name="call_llm",
            )
        ],
        BOTH,
    ),
    Form(
        "LiveKit's texts",
        [
            span(
                {"lk.user_input": QUESTION, "lk.response.text": ANSWER},
                scope="livekit-agents",
                name="agent_turn",
            )
        ],
        {"output": ANSWER},
    ),
    # events
    Form(
        "events of one message each",
        [
            span(
                {"gen_ai.system": "openai", "gen_ai.operation.name": "chat"},
                events=[
                    ("gen_ai.system.message", {"content": RULES}),
                    ("gen_ai.user.message", {"content": QUESTION}),
                    ("gen_ai.choice", {"message": SAID, "index": 0}),
                ],
            )
        ],
        BOTH | {"system": RULES},
    ),
    Form(
        "events with calls",
        [
            span(
                {"gen_ai.system": "openai", "gen_ai.operation.name": "chat"},
                events=[
                    ("gen_ai.user.message", {"content": QUESTION}),
                    ("gen_ai.assistant.message", {"tool_calls": ASSISTANT["tool_calls"]}),
                    ("gen_ai.tool.message", {"id": "c1", "content": '{"left": 4}'}),
                    ("gen_ai.choice", {"content": ANSWER}),
                ],
            )
        ],
        BOTH | RAN,
    ),
    Form(
        "events of the first conventions",
        [
            span(
                {"gen_ai.system": "openai", "gen_ai.request.model": "m-1"},
                events=[
                    ("gen_ai.content.prompt", {"gen_ai.prompt": [ASK]}),
                    ("gen_ai.content.completion", {"gen_ai.completion": [SAID]}),
                ],
            )
        ],
        BOTH,
    ),
    Form(
        "events of Semantic Kernel",
        [
            span(
                {"gen_ai.operation.name": "chat", "gen_ai.system": "openai"},
                scope="Microsoft.SemanticKernel.Diagnostics",
                events=[
                    ("gen_ai.user.message", {"gen_ai.event.content": ASK}),
                    (
                        "gen_ai.choice",
                        {
                            "gen_ai.event.content": {
                                "message": {"role": "Assistant", "content": ANSWER}
                            }
                        },
                    ),
                ],
            )
        ],
        BOTH,
    ),
]
