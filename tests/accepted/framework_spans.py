"""What mappers take from spans of Google's ADK, the Claude Agent SDK and LangGraph that hold little
else.

Which forms they take is in the tests of Strands' evaluation SDK (github.com/strands-agents/evals,
tests/strands_evals/mappers, Apache-2.0); the values are made up here.
"""

from accepted import Form, span

ADK, CLAUDE = "gcp.vertex.agent", "openinference.instrumentation.claude_agent_sdk"
LANGCHAIN = "openinference.instrumentation.langchain"
DETAILS = "gen_ai.client.inference.operation.details"
BLOCKS = [{"type": "text", "text": "89°F"}, {"type": "text", "text": "partly cloudy"}]


def adk_turn(request, response):
    return [
        span({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}, scope=ADK),
        span(
            {"gcp.vertex.agent.llm_request": request, "gcp.vertex.agent.llm_response": response},
            scope=ADK,
            name="call_llm",
            parent="s1",
            at=2,
        ),
    ]


def claude_turn(**tool):
    named = {
        "openinference.span.kind": "TOOL",
        "tool.name": "Agent",
        "input.value": {"prompt": "Seattle?"},
    }
    return [
        span(
            {"openinference.span.kind": "AGENT", "input.value": "How is the weather?"}, scope=CLAUDE
        ),
        span({**named, **tool.pop("attributes", {})}, scope=CLAUDE, parent="s1", at=2, **tool),
    ]


def graph_state(*messages):
    return {"messages": [{"kwargs": {"content": text, "type": kind}} for kind, text in messages]}


FORMS = [
    Form(
        "a model call of Google's ADK with nothing but its request and response",
        adk_turn(
            {
                "model": "gemini-2.5-flash",
                "config": {
                    "system_instruction": "Be brief.",
                    "tools": [
                        {"function_declarations": [{"name": "calc", "description": "calculates"}]}
                    ],
                },
                "contents": [{"parts": [{"text": "What is 6 times 7?"}], "role": "user"}],
            },
            {"content": {"parts": [{"text": "42."}], "role": "model"}, "finish_reason": "STOP"},
        ),
        {
            "input": "What is 6 times 7?",
            "output": "42.",
            "system": "Be brief.",
            "tools": ["calc"],
            "agent": "helper",
        },
    ),
    Form(
        "what a sub-agent of the Claude Agent SDK answers",
        claude_turn(
            attributes={"output.value": {"status": "completed", "agentId": "a1", "content": BLOCKS}}
        ),
        {"calls": ["Agent"], "results": ["89°F\npartly cloudy"], "errors": [None]},
    ),
    Form(
        "an object of another tool that has a content of its own",
        claude_turn(attributes={"output.value": {"status": "open", "content": [{"id": 1}]}}),
        {"results": [{"status": "open", "content": [{"id": 1}]}]},
    ),
    Form(
        "an error that is a list of content blocks",
        claude_turn(
            status=2,
            events=[
                ("exception", {"exception.message": [{"type": "text", "text": "EACCES: denied"}]})
            ],
        ),
        {"errors": ["EACCES: denied"]},
    ),
    Form(
        "a graph's state that ends with an empty message",
        [
            span(
                {
                    "openinference.span.kind": "CHAIN",
                    "input.value": graph_state(("human", "What is 6 times 7?")),
                    "output.value": graph_state(
                        ("human", "What is 6 times 7?"), ("ai", "42."), ("ai", "")
                    ),
                },
                scope=LANGCHAIN,
                name="LangGraph",
            )
        ],
        {"input": "What is 6 times 7?", "output": "42."},
    ),
    Form(
        "a tool's result as a message that has it as its response",
        [
            span({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}),
            span(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "search",
                    "gen_ai.tool.call.id": "c1",
                },
                parent="s1",
                at=2,
                events=[
                    (
                        DETAILS,
                        {
                            "gen_ai.output.messages": [
                                {"role": "tool", "id": "c1", "response": "10 cats"}
                            ]
                        },
                    ),
                ],
            ),
        ],
        {"calls": ["search"], "ids": ["c1"], "results": ["10 cats"]},
    ),
]
