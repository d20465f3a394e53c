"""Spans of turns, made by hand, as the tests of the scheduler have them."""

import json

from spanscore.model.span import Resource, Scope, Span

SECOND = 10**9
ASK = {"role": "user", "parts": [{"type": "text", "content": "Which of the two is warmer today?"}]}
ANSWER = {"role": "assistant", "parts": [{"type": "text", "content": "Paris, by four degrees."}]}
REQUEST = {
    "role": "assistant",
    "parts": [
        {
            "type": "tool_call",
            "id": "call_1",
            "name": "look",
            "arguments": {"request": ASK["parts"][0]["content"]},
        }
    ],
}
RESULT = {
    "role": "tool",
    "parts": [
        {"type": "tool_call_response", "id": "call_1", "response": "Paris, by four degrees."}
    ],
}


def span(trace, number, parent, operation, start, end, *, service="shop", links=(), **attributes):
    return Span(
        trace_id=f"{trace:032x}",
        span_id=f"{trace:08x}{number:08x}",
        parent_span_id=f"{trace:08x}{parent:08x}" if parent else "",
        name=operation,
        kind=1,
        start_ns=SECOND + start,
        end_ns=SECOND + end,
        status_code=0,
        status_message="",
        attributes={
            "gen_ai.operation.name": operation,
            **{key.replace("__", "."): value for key, value in attributes.items()},
        },
        links=links,
        resource=Resource({"service.name": service}),
        scope=Scope(service),
    )


def agent(trace, number=1, start=0, end=100, **more):
    return span(
        trace, number, 0, "invoke_agent", start, end, gen_ai__agent__name=f"agent {trace}", **more
    )


def chat(trace, number, parent, messages, produced, start=1, end=90, **more):
    given_text, produced_text = json.dumps(messages), json.dumps([produced])
    contents = {"gen_ai__input__messages": given_text, "gen_ai__output__messages": produced_text}
    return span(trace, number, parent, "chat", start, end, **contents, **more)


def tool(trace, number, parent, start, end):
    request = REQUEST["parts"][0]
    return span(
        trace,
        number,
        parent,
        "execute_tool",
        start,
        end,
        gen_ai__tool__name="look",
        gen_ai__tool__call__id="call_1",
        gen_ai__tool__call__arguments=json.dumps(request["arguments"]),
        gen_ai__tool__call__result="Paris, by four degrees.",
    )
