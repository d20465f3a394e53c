"""What mappers take from spans of Google's ADK, the Claude Agent SDK and LangGraph that hold little
else.

Which forms they take is in the tests of Strands' evaluation SDK (github.com/strands-agents/evals,
tests/strands_evals/mappers, Apache-2.0); the values are made up here.
"""

from dataclasses import replace

from accepted import ABSENT, Form, span

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


def shown(request, response, *later, result=None, kind="FunctionTool", name="look", status=0):
    """An agent that ends with its tool's result, which nobody gave to a model."""
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": kind,
        "gen_ai.tool.call.id": "f1",
        "gcp.vertex.agent.tool_call_args": {"q": "x"},
        "gcp.vertex.agent.tool_response": {"result": "42 cats."} if result is None else result,
    }
    run, model = adk_turn(request, response)
    return [
        replace(run, status_code=status),
        model,
        span(tool, scope=ADK, name="execute_tool look", parent="s2", at=3),
        *later,
    ]


def requesting(*names):
    parts = [
        {"function_call": {"id": f"f{at}", "name": name, "args": {"q": "x"}}}
        for at, name in enumerate(names, 1)
    ]
    return {"content": {"parts": [{"text": "I look."}, *parts], "role": "model"}}


COUNT = {"contents": [{"parts": [{"text": "How many cats?"}], "role": "user"}]}
AGAIN = span({"gcp.vertex.agent.llm_request": COUNT}, scope=ADK, name="call_llm", parent="s1", at=9)
UNANSWERED = {
    "that failed": shown(COUNT, requesting("look"), status=2),
    "that asks its model again": shown(COUNT, requesting("look"), AGAIN),
    "whose tool is still running": shown(COUNT, requesting("look"), kind="LongRunningFunctionTool"),
    "that hands over": shown(COUNT, requesting("transfer_to_agent"), name="transfer_to_agent"),
    "whose tool returned nothing": shown(COUNT, requesting("look"), result={"result": None}),
    "with two calls, of which one was run": shown(COUNT, requesting("look", "look")),
}


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


SMOLAGENTS = "openinference.instrumentation.smolagents"
INPUTS = {"place": {"type": "string"}, "days": {"type": "integer"}, "unit": {"type": "string"}}
SHOWN = {"content": "Rain, 9C", "tool_call_id": "t1", "status": "success"}


def smolagents_tool(given, returned, *model):
    tool = {
        "openinference.span.kind": "TOOL",
        "tool.name": "weather",
        "tool.parameters": INPUTS,
        "input.value": given,
        "output.value": returned,
    }
    return [
        span({"openinference.span.kind": "AGENT", "input.value": "Rain?"}, scope=SMOLAGENTS),
        *model,
        span(tool, scope=SMOLAGENTS, parent="s1", at=3),
    ]


CALL = "llm.output_messages.0.message.tool_calls.0.tool_call"
REQUESTING = span(
    {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.role": "assistant",
        f"{CALL}.id": "t2",
        f"{CALL}.function.name": "weather",
        f"{CALL}.function.arguments": '{"place": "Oslo"}',
    },
    scope=SMOLAGENTS,
    parent="s1",
    at=2,
)

FORMS = [
    Form(
        "an agent of Google's ADK that shows its tool's result as it is",
        shown(COUNT, requesting("look")),
        {"input": "How many cats?", "output": "42 cats.", "calls": ["look"]},
    ),
    *(
        Form(f"an agent of Google's ADK {name}", spans, {"output": ABSENT})
        for name, spans in UNANSWERED.items()
    ),
    Form(
        "arguments by place and by name",
        smolagents_tool({"args": ["Oslo", 3], "kwargs": {"unit": "C"}}, "Rain"),
        {"calls": ["weather"], "arguments": [{"place": "Oslo", "days": 3, "unit": "C"}]},
    ),
    Form(
        "a tool's message for a result, of a call that nobody requested",
        smolagents_tool({"place": "Oslo"}, SHOWN),
        {"calls": ["weather"], "ids": ["t1"], "results": ["Rain, 9C"], "errors": [None]},
    ),
    Form(
        "a failed tool's message for a result, of a call that nobody requested",
        smolagents_tool({"place": "Oslo"}, {**SHOWN, "status": "error", "content": "no signal"}),
        {"ids": ["t1"], "results": ["no signal"], "errors": ["no signal"]},
    ),
    Form(
        "a tool's own object that names a call which is none of those requested",
        smolagents_tool({"place": "Oslo"}, SHOWN, REQUESTING),
        {"results": [SHOWN], "errors": [None]},
    ),
    Form(
        "a tool's own object with another status",
        smolagents_tool({"place": "Oslo"}, {**SHOWN, "status": "draft"}),
        {"results": [{**SHOWN, "status": "draft"}]},
    ),
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
                    )
                ],
            ),
        ],
        {"calls": ["search"], "ids": ["c1"], "results": ["10 cats"]},
    ),
]
