"""Tables of span forms that another tool accepts from its users, with the facts that each holds.

A form is a trace of one or a few spans, and the facts that a rebuilt turn must state. What a form
does not hold is no fact of it: `ABSENT` says that none may be stated.
"""

import json
from typing import Any, NamedTuple

from spanscore.model.span import Event, LogRecord, Resource, Scope, Span
from spanscore.rebuild import rebuild

ABSENT = None


class Form(NamedTuple):
    """What arrives, and what it holds: facts by the names of `_facts`."""

    name: str
    spans: list[Span]
    facts: dict[str, Any]
    logs: tuple[LogRecord, ...] = ()


def span(attributes, *, scope="", name="span", parent="", at=1, events=(), status=0, message=""):
    """A span as an exporter sends it: objects and lists of objects are JSON.

    Its id is the moment at which it began.
    """
    sent = {key: as_sent(value) for key, value in attributes.items()}
    end = 10_000 if not parent else at * 10 + 5
    told = [
        Event(x, at * 10 + i, {k: as_sent(v) for k, v in y.items()})
        for i, (x, y) in enumerate(events)
    ]
    return Span(
        "t",
        f"s{at}",
        parent,
        name,
        1,
        at * 10,
        end,
        status,
        message,
        sent,
        Resource(),
        Scope(scope),
        tuple(told),
    )


def as_sent(value):
    """The value of an attribute: what is no OTLP array of plain values is JSON in text."""
    is_plain = not isinstance(value, (dict, list)) or (
        isinstance(value, list) and all(isinstance(x, str) for x in value)
    )
    return value if is_plain else json.dumps(value)


def facts_of(spans, logs=(), *, names):
    """What the rebuilt turns state of the facts of these names; of several turns the last one's."""
    traces = rebuild(spans, logs)
    found = _facts(traces) if traces else dict.fromkeys(names)
    return {name: found[name] for name in names}


def _facts(traces):
    trace = traces[-1]
    calls = trace.tool_calls or ()
    offered = trace.available_tools
    model = trace.model_calls[-1] if trace.model_calls else None
    return {
        "input": trace.user_input,
        "output": trace.final_output,
        "system": trace.system_instructions,
        "session": trace.session_id,
        "user": trace.user_id,
        "agent": trace.agent_name,
        "calls": [x.name for x in calls],
        "ids": [x.call_id for x in calls],
        "arguments": [x.arguments for x in calls],
        "results": [x.result for x in calls],
        "errors": [x.error for x in calls],
        "tools": None if offered is None else [x.name for x in offered],
        "descriptions": [x.description for x in offered or ()],
        "schemas": [x.parameters for x in offered or ()],
        "model": model and model.model,
        "said": model and model.text,
        "reasoning": model and model.reasoning,
        "requested": [x.name for x in model.tool_calls] if model else None,
        "tokens": (trace.usage.input_tokens, trace.usage.output_tokens),
        "history": None if trace.history is None else [(x.role, x.text) for x in trace.history],
        "query": trace.retrieved[0].query if trace.retrieved else None,
        "documents": list(trace.retrieved[0].documents) if trace.retrieved else None,
        "turns": len(traces),
    }
