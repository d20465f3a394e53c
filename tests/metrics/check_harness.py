"""What the tests of the checks share: calls, tools, and what a check finds in a trace."""

from spanscore.metrics import available
from spanscore.metrics.check import Check
from spanscore.model.score import Score
from spanscore.model.trace import Tool, ToolCall

CHECKS = {name: metric for name, metric in available().items() if issubclass(metric, Check)}


def outcome(name, trace, earlier=()):
    check = CHECKS[f"check.{name}"]()
    return check.unmeasurable(trace) or check.measure(trace, earlier)


def findings(name, trace, earlier=()):
    """What a check found; () where it found nothing or did not apply."""
    found = outcome(name, trace, earlier)
    return tuple(found.metadata["findings"]) if isinstance(found, Score) else ()


def fired(trace, earlier=()):
    """The checks that found something."""
    return {
        name.removeprefix("check.")
        for name in CHECKS
        if findings(name.removeprefix("check."), trace, earlier)
    }


def call(name, arguments=None, result="ok", error=None, **fields):
    return ToolCall(
        None,
        name,
        {} if arguments is None else arguments,
        None if error else result,
        error,
        **fields,
    )


def tool(name, properties=None, required=(), **schema):
    return Tool(
        name,
        None,
        {"type": "object", "properties": properties or {}, "required": list(required), **schema},
    )
