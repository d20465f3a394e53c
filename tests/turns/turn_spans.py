"""Spans of agents, model calls and tools, in as few words as they need, for the tests of what
becomes of them.
"""

import json

from spanscore.model.span import Resource, Scope, Span


def span(
    span_id, parent="", start=0, end=None, name="span", scope="", status=0, message="", **attributes
):
    return Span(
        trace_id="t1",
        span_id=span_id,
        parent_span_id=parent,
        name=name,
        kind=1,
        start_ns=1_000 + start,
        end_ns=1_000 + (start + 1 if end is None else end),
        status_code=status,
        status_message=message,
        attributes={key.replace("__", "."): value for key, value in attributes.items()},
        resource=Resource({"service.name": "shop"}),
        scope=Scope(scope),
    )


def text(role, content):
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def call(name, arguments, identity=None, said=None):
    parts = [{"type": "text", "content": said}] if said else []
    asked = {"type": "tool_call", "name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "parts": [*parts, asked if identity is None else asked | {"id": identity}],
    }


def told(result, identity=None):
    part = {"type": "tool_call_response", "response": result}
    return {"role": "tool", "parts": [part if identity is None else part | {"id": identity}]}


def agent(span_id="a", start=0, end=100, **attributes):
    return span(span_id, start=start, end=end, gen_ai__operation__name="invoke_agent", **attributes)


def chat(span_id, start, given=None, produced=None, parent="a", **attributes):
    if given is not None:
        attributes["gen_ai__input__messages"] = json.dumps(given)
    if produced is not None:
        attributes["gen_ai__output__messages"] = json.dumps(produced)
    return span(span_id, parent, start, gen_ai__operation__name="chat", **attributes)


def tool(span_id, start, name, parent="a", **attributes):
    more = {
        "gen_ai__tool__" + key: value
        for key, value in attributes.items()
        if key.startswith("call__")
    }
    rest = {key: value for key, value in attributes.items() if not key.startswith("call__")}
    return span(
        span_id,
        parent,
        start,
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name=name,
        **more,
        **rest,
    )


ASK = text("user", "Paris or Berlin?")
ANSWER = text("assistant", "Paris, as ever.")
