"""Tool calls and tools on offer, under every name and in events.

The attributes are those that Langfuse's server reads (langfuse/langfuse,
packages/shared/src/server/otel: OtelIngestionProcessor, ObservationTypeMapper) and that its tests
send (web/src/__tests__/server/api/otel).
"""

from accepted import ABSENT, Form, span
from langfuse_forms import BOTH, CHAT, INPUT, OUTPUT, RAN, TYPE, around, tool
from message_form import (
    ANSWER,
    ASK,
    ASSISTANT,
    DEFINITION,
    GIVEN,
    OFFERED,
    QUESTION,
    RESULT,
    SAID,
    TOOL,
)

FORMS = [
    # tools
    Form(
        "a tool's observation",
        around(tool({TYPE: "tool", INPUT: GIVEN, OUTPUT: RESULT}, scope="langfuse-sdk")),
        RAN,
    ),
    Form(
        "a tool's observation that failed",
        around(
            tool(
                {
                    TYPE: "tool",
                    INPUT: GIVEN,
                    "langfuse.observation.level": "ERROR",
                    "langfuse.observation.status_message": "The list is locked.",
                },
                scope="langfuse-sdk",
            )
        ),
        {"errors": ["The list is locked."]},
    ),
    Form(
        "a tool message as a tool's output",
        around(
            tool(
                {
                    TYPE: "tool",
                    INPUT: GIVEN,
                    OUTPUT: {
                        "content": '{"left": 4}',
                        "type": "tool",
                        "name": "stock",
                        "tool_call_id": "c1",
                        "status": "success",
                        "artifact": None,
                    },
                },
                scope="langfuse-sdk",
            )
        ),
        RAN | {"ids": ["c1"]},
    ),
    Form(
        "a tool message of another outline as a tool's output",
        around(
            span(
                {TYPE: "generation", INPUT: [ASK], OUTPUT: ASSISTANT},
                parent="s1",
                at=2,
                scope="langfuse-sdk",
            ),
            tool(
                {
                    TYPE: "tool",
                    INPUT: GIVEN,
                    OUTPUT: {"content": '{"left": 4}', "tool_call_id": "c1", "status": "success"},
                },
                at=3,
                scope="langfuse-sdk",
            ),
            span(
                {TYPE: "generation", INPUT: [ASK, ASSISTANT, TOOL], OUTPUT: SAID},
                parent="s1",
                at=4,
                scope="langfuse-sdk",
            ),
        ),
        RAN,
    ),
    Form(
        "a failed tool message of another outline as a tool's output",
        around(
            span(
                {TYPE: "generation", INPUT: [ASK], OUTPUT: ASSISTANT},
                parent="s1",
                at=2,
                scope="langfuse-sdk",
            ),
            tool(
                {
                    TYPE: "tool",
                    INPUT: GIVEN,
                    OUTPUT: {
                        "content": "The list is locked.",
                        "tool_call_id": "c1",
                        "status": "error",
                    },
                },
                at=3,
                scope="langfuse-sdk",
            ),
        ),
        {"results": ["The list is locked."], "errors": ["The list is locked."]},
    ),
    Form(
        "a serialized tool message as the output",
        around(
            tool(
                {
                    TYPE: "tool",
                    INPUT: GIVEN,
                    OUTPUT: {
                        "output": {"kwargs": {"content": '{"left": 4}', "tool_call_id": "c1"}}
                    },
                },
                scope="langfuse-sdk",
            )
        ),
        RAN,
    ),
    Form(
        "Pydantic AI's tool",
        around(
            tool(
                {
                    "gen_ai.tool.name": "stock",
                    "gen_ai.tool.call.id": "c1",
                    "tool_arguments": GIVEN,
                    "tool_response": RESULT,
                },
                scope="pydantic-ai",
                name="running tool",
            )
        ),
        RAN | {"ids": ["c1"]},
    ),
    Form(
        "tool_arguments on any tool's span",
        around(
            tool(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "stock",
                    "tool_arguments": GIVEN,
                    "tool_response": RESULT,
                }
            )
        ),
        RAN,
    ),
    Form(
        "Google ADK's tool",
        around(
            tool(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "stock",
                    "gen_ai.tool.call.id": "c1",
                    "gcp.vertex.agent.llm_request": "{}",
                    "gcp.vertex.agent.llm_response": "{}",
                    "gcp.vertex.agent.tool_call_args": GIVEN,
                    "gcp.vertex.agent.tool_response": RESULT,
                },
                scope="gcp.vertex.agent",
            )
        ),
        RAN | {"ids": ["c1"]},
    ),
    Form(
        "a tool of the conventions",
        around(
            tool(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "stock",
                    "gen_ai.tool.call.id": "c1",
                    "gen_ai.tool.call.arguments": GIVEN,
                    "gen_ai.tool.call.result": RESULT,
                }
            )
        ),
        RAN | {"ids": ["c1"]},
    ),
    Form(
        "a tool known by its call's id",
        around(
            tool(
                {
                    "gen_ai.tool.call.id": "c1",
                    "gen_ai.tool.call.arguments": GIVEN,
                    "gen_ai.tool.call.result": RESULT,
                }
            )
        ),
        RAN | {"ids": ["c1"]},
    ),
    Form(
        "a tool of the conventions with input and output",
        around(
            tool(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "stock",
                    "input": GIVEN,
                    "output": RESULT,
                }
            )
        ),
        RAN,
    ),
    Form(
        "a tool of the conventions with input.value",
        around(
            tool(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "stock",
                    "input.value": GIVEN,
                    "output.value": RESULT,
                }
            )
        ),
        RAN,
    ),
    Form(
        "a tool of the conventions with Langfuse's attributes",
        around(
            tool(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "stock",
                    INPUT: GIVEN,
                    OUTPUT: RESULT,
                }
            )
        ),
        RAN,
    ),
    Form(
        "a tool of the conventions with Traceloop's entity",
        around(
            tool(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "stock",
                    "traceloop.entity.input": GIVEN,
                    "traceloop.entity.output": RESULT,
                }
            )
        ),
        RAN,
    ),
    Form(
        "a tool whose call is in events alone",
        around(
            tool(
                {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "stock"},
                events=[
                    ("gen_ai.tool.message", {"role": "tool", "content": GIVEN, "id": "c1"}),
                    ("gen_ai.choice", {"message": RESULT, "id": "c1"}),
                ],
            )
        ),
        RAN | {"ids": ["c1"]},
    ),
    Form(
        "a tool whose call is in an event's attributes",
        around(
            tool(
                {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "stock"},
                events=[
                    (
                        "gen_ai.client.inference.operation.details",
                        {"gen_ai.tool.call.arguments": GIVEN, "gen_ai.tool.call.result": RESULT},
                    )
                ],
            )
        ),
        RAN,
    ),
    Form(
        "a tool whose call is in the attributes of two events",
        around(
            tool(
                {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "stock"},
                events=[
                    ("tool.call", {"gen_ai.tool.call.arguments": GIVEN}),
                    ("tool.result", {"gen_ai.tool.call.result": RESULT}),
                ],
            )
        ),
        RAN,
    ),
    Form(
        "a tool that failed by its status alone",
        around(
            tool(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "stock",
                    "gen_ai.tool.call.arguments": GIVEN,
                },
                status=2,
            )
        ),
        {"errors": ["error"]},
    ),
    Form(
        "a tool whose own status is a failure",
        around(
            tool(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "stock",
                    "gen_ai.tool.call.arguments": GIVEN,
                    "tool.status": "failure",
                }
            )
        ),
        {"errors": ["failure"]},
    ),
    Form(
        "a tool whose own status is an error with a result",
        around(
            tool(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "stock",
                    "gen_ai.tool.call.result": "The list is locked.",
                    "gen_ai.tool.status": "error",
                }
            )
        ),
        {"errors": ["The list is locked."], "results": ["The list is locked."]},
    ),
    Form(
        "a tool whose own status is a success",
        around(
            tool(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "stock",
                    "gen_ai.tool.call.arguments": GIVEN,
                    "tool.status": "success",
                }
            )
        ),
        {"errors": [ABSENT]},
    ),
    # tools on offer
    Form(
        "no tools of the conventions",
        [span(CHAT | {"gen_ai.tool.definitions": "[]"})],
        {"tools": []},
    ),
    Form(
        "tools of the conventions",
        [span(CHAT | {"gen_ai.tool.definitions": [{"type": "function", **DEFINITION}]})],
        OFFERED,
    ),
    Form(
        "tools of the conventions as a list of JSON",
        [
            span(
                CHAT
                | {
                    "gen_ai.tool.definitions": [
                        '{"type": "function", "name": "stock", "description": "How many are left"}'
                    ]
                }
            )
        ],
        {"tools": ["stock"], "descriptions": ["How many are left"]},
    ),
    Form(
        "Pydantic AI's tools",
        [
            span(
                CHAT
                | {
                    "model_request_parameters": {
                        "function_tools": [
                            {
                                "name": "stock",
                                "description": "How many are left",
                                "parameters_json_schema": DEFINITION["parameters"],
                            }
                        ]
                    }
                },
                scope="pydantic-ai",
            )
        ],
        OFFERED,
    ),
    Form(
        "AI SDK's tools",
        [
            span(
                {
                    "ai.operationId": "ai.generateText.doGenerate",
                    "ai.prompt.messages": [ASK],
                    "ai.response.text": ANSWER,
                    "ai.prompt.tools": [
                        '{"type": "function", "name": "stock", "description": "How many are left"}'
                    ],
                },
                scope="ai",
            )
        ],
        BOTH | {"tools": ["stock"], "descriptions": ["How many are left"]},
    ),
    Form(
        "OpenInference's tools",
        [
            span(
                {
                    "openinference.span.kind": "LLM",
                    "input.value": QUESTION,
                    "llm.tools.0.tool.json_schema": {"type": "function", "function": DEFINITION},
                }
            )
        ],
        OFFERED,
    ),
    # AI SDK's other names
    Form(
        "AI SDK's call as of version 3",
        [
            span(
                {
                    "ai.operationId": "ai.generateText",
                    "ai.prompt": {"prompt": QUESTION},
                    "ai.result.text": ANSWER,
                    "ai.usage.promptTokens": 7,
                    "ai.usage.completionTokens": 3,
                },
                scope="ai",
            )
        ],
        BOTH | {"tokens": (7, 3)},
    ),
    Form(
        "AI SDK's span known by its scope",
        [
            span(
                {
                    "operation.name": "ai.generateText.doGenerate chat",
                    "ai.prompt.messages": [ASK],
                    "ai.response.text": ANSWER,
                    "ai.model.id": "m-1",
                    "gen_ai.usage.input_tokens": 7,
                    "gen_ai.usage.output_tokens": 3,
                },
                scope="ai",
            )
        ],
        BOTH | {"model": "m-1", "tokens": (7, 3)},
    ),
    Form(
        "AI SDK's calls",
        [
            span(
                {
                    "ai.operationId": "ai.streamText.doStream",
                    "ai.prompt.messages": [ASK],
                    "ai.response.text": "",
                    "ai.response.toolCalls": [
                        {"toolCallId": "c1", "toolName": "stock", "args": GIVEN}
                    ],
                },
                scope="ai",
            )
        ],
        {"calls": ["stock"], "arguments": [GIVEN]},
    ),
    Form(
        "AI SDK's object",
        [
            span(
                {
                    "ai.operationId": "ai.generateObject",
                    "ai.prompt": {"prompt": QUESTION},
                    "ai.response.object": '{"left": 4}',
                },
                scope="ai",
            )
        ],
        {"output": '{"left": 4}'},
    ),
    Form(
        "AI SDK's tool",
        around(
            tool(
                {
                    "ai.operationId": "ai.toolCall",
                    "ai.toolCall.name": "stock",
                    "ai.toolCall.id": "c1",
                    "ai.toolCall.args": GIVEN,
                    "ai.toolCall.result": RESULT,
                },
                scope="ai",
                name="ai.toolCall",
            )
        ),
        RAN | {"ids": ["c1"]},
    ),
]
