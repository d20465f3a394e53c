"""Spans that are traces by themselves, and which of them became one turn, for the tests of turns
over many traces.
"""

from dataclasses import replace

from turn_spans import ANSWER, ASK, call, chat

from spanscore.model.span import Link
from spanscore.rebuild import rebuild_all

RAIN = call("weather", {"city": "Paris"}, "c1")
SUN = call("weather", {"city": "Berlin"}, "c2")


def alone(number, span, *, after=None, **attributes):
    """A span as the trace `number`, `after` the span to which it is linked."""
    return replace(
        span,
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        parent_span_id="",
        links=() if after is None else (Link(after.trace_id, after.span_id),),
        attributes={
            **span.attributes,
            **{key.replace("__", "."): value for key, value in attributes.items()},
        },
    )


def asks(number, start, *calls, given=(ASK,), **attributes):
    """A model call that ends in tool calls, as a trace."""
    return alone(number, chat("x", start, [*given], [*calls]), **attributes)


def answers(number, start, *said, given=(ASK,), answer=ANSWER, **attributes):
    """A model call that was told what tools returned, and answers, as a trace."""
    return alone(number, chat("x", start, [*given, *said], [answer]), **attributes)


def parts(traces):
    """Which traces each agent trace is made of, by number."""
    return [[int(x, 16) for x in trace.trace_ids] for trace in traces]


def rebuilt(*spans):
    return parts(rebuild_all(spans))
