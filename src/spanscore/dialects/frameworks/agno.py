"""Agno's agents and errors in OpenInference's spans.

In OpenLLMetry's spans a team is the agent that its members work for, and a tool's result is printed
as Agno has it.
"""

import re
from typing import Any, Final, Literal

from spanscore.dialects import keys
from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms.structure import (
    Facts,
    as_object,
    evaluated,
    identity,
    is_address,
    objects,
    opened,
    opened_repr,
    quoted,
    structure,
    text,
)
from spanscore.model.json import Json
from spanscore.model.span import Span, Value, changed
from spanscore.model.step import Message, ToolResult

_OPENINFERENCE = "openinference.instrumentation.agno"
_OPENLLMETRY = "opentelemetry.instrumentation.agno"
_EXECUTED = re.compile(r"(?:FunctionExecutionResult\()?status='(success|failure)',? result=")
_FAILED = re.compile(r",? error=(?=None\b|['\"])")

_NAMED: Final[tuple[tuple[Literal["session_id", "user_id"], str], ...]] = (
    ("session_id", "agno.session.id"),
    ("user_id", "agno.user.id"),
)

_PAUSED = "I have tools to execute, but "
"""The output of a run that waits for a person; the answer is that of the run that goes on."""


def complete_openinference(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place.

    The name of an agent's span has its method after the agent's. A run of another framework's agent
    has its session and user only under Agno's own names.
    """
    _identify(span, facts)
    if facts["kind"] == "agent":
        facts["agent_name"] = text(span.attributes.get(keys.GRAPH_NODE_NAME)) or facts["agent_name"]
        returned = span.attributes.get(keys.OUTPUT_VALUE)
        if facts.get("output_text") and isinstance(returned, str) and returned.startswith('"'):
            facts["output_text"] = returned  # text is recorded as it is, even where it is JSON
        if (facts.get("output_text") or "").startswith(_PAUSED):
            facts["output_text"] = None
    elif (
        facts["kind"] == "model" and (given := facts.get("input")) and any(x.results for x in given)
    ):
        failed = _failed(structure(span.attributes.get(keys.INPUT_VALUE)).value)
        facts["input"] = tuple(_with_errors(x, failed) for x in given)
    elif facts["kind"] == "tool" and facts.get("has_result"):
        facts["result"] = evaluated(facts["result"])


def _identify(span: Span, facts: Facts) -> None:
    for fact, key in _NAMED:
        facts[fact] = facts.get(fact) or identity(span.attributes.get(key))


def complete_openllmetry(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place.

    Early versions write a run's question and answer as a model's.
    """
    team = text(span.attributes.get("agno.team.name"))
    if team is not None or span.name.startswith(("agno.agent.", "agno.team.")):
        facts["kind"], facts["agent_name"] = "agent", team or facts.get("agent_name")
    elif facts["kind"] == "tool" and facts.get("has_result"):
        _open_executed(span.attributes.get(keys.TRACELOOP_ENTITY_OUTPUT), facts)


def _open_executed(printed: Value, facts: Facts) -> None:
    """Take the result, or the error, out of what Agno prints of a call that was executed."""
    opening = _EXECUTED.match(printed) if isinstance(printed, str) else None
    if opening is None or not isinstance(printed, str):
        return
    value, end = _printed(printed, opening.end())
    stated = _FAILED.match(printed, end)
    error = None if stated is None else quoted(printed, stated.end())
    has_failed = opening[1] == "failure"
    facts["result"], facts["has_result"] = value, value is not None or not has_failed
    if has_failed or error is not None:
        facts["error"] = facts.get("error") or (error and error[0]) or "failure"


def _printed(text: str, start: int) -> tuple[Json, int]:
    """A value that Python printed, and where it ends: at its closing quote, else before the field
    behind it.
    """
    string = quoted(text, start)
    if string is not None:
        return opened(string[0]), string[1]
    end = next((x.start() for x in (_FAILED.search(text, start),) if x is not None), len(text))
    value = text[start:end]
    read = opened_repr(value)
    return (value if read is None and value != "None" and not is_address(value) else read), end


def _failed(request: Any) -> dict[object, str]:
    """What the failed calls of a request returned, by their ids; messages in attributes do not
    record the failure.
    """
    failed = (
        (identity(x.get("tool_call_id")), x.get("content"))
        for x in objects(as_object(request).get("messages"))
        if x.get("tool_call_error") is True
    )
    return {
        answered: text(content) or "error" for answered, content in failed if answered is not None
    }


def _with_errors(message: Message, failed: dict[object, str]) -> Message:
    """A message with its errors.

    Where a tool returned null, false or 0, only the tool's span records the result.
    """
    if not message.results:
        return message
    results = (
        ToolResult(
            result.call_id,
            None if result.value == "" else result.value,
            result.error or failed.get(result.call_id),
        )
        for result in message.results
    )
    return changed(message, results=tuple(results))


QUIRKS = (
    Quirk(
        name="agno",
        under="openinference",
        scopes=(_OPENINFERENCE,),
        complete=complete_openinference,
        returns_state=True,
    ),
    Quirk(name="agno", under="openllmetry", scopes=(_OPENLLMETRY,), complete=complete_openllmetry),
)
