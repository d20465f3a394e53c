"""BeeAI's events and answering tool in OpenInference's spans."""

import json

from spanscore.dialects import keys
from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms.structure import Facts, literal, object_at
from spanscore.model.json import printed
from spanscore.model.span import STATUS_ERROR, Span, changed
from spanscore.model.step import Message
from spanscore.model.trace import RequestedCall

_SCOPE = "openinference.instrumentation.beeai"
_EVENT = "metadata.path"  # of the event that a span stands for
_DECODER = json.JSONDecoder()
# the tool by which an agent answers the user, in its argument `response`
_FINAL_ANSWER = "final_answer"


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place."""
    if _EVENT in span.attributes:
        facts["kind"] = "other"
    elif facts["kind"] == "tool":
        _tool(facts)
    # its model is given the question in a prompt of BeeAI's, escaped
    elif facts["kind"] == "agent":
        question = object_at(span.attributes, keys.INPUT_VALUE).get("input")
        facts["input"] = (Message("user", question),) if isinstance(question, str) else None
    elif facts["kind"] == "model":
        if span.status_code == STATUS_ERROR:
            facts["output"] = None  # else the error's text
        facts["output"] = tuple(map(_answered, facts.get("output") or ())) or None
        offered = facts.get("tools")
        facts["tools"] = tuple(x for x in offered if x.name != _FINAL_ANSWER) if offered else None


def _tool(facts: Facts) -> None:
    given, returned = facts.get("arguments"), facts.get("result")
    if isinstance(given, dict) and given.keys() == {"input", "options"}:
        facts["arguments"] = given["input"]
    # what a function returned is printed
    if isinstance(returned, str) and returned.startswith(("{", "[")):
        facts["result"] = literal(returned)
    if facts["tool_name"] == _FINAL_ANSWER:
        facts["kind"] = "other"


def _first_of_several(call: RequestedCall) -> RequestedCall:
    """The first of calls that the instrumentation put into one: the name and id are its, the
    arguments theirs in a row.

    The others are recorded by their tools' spans and by the next request.
    """
    given = call.arguments
    if not (isinstance(given, str) and given.startswith("{") and "}{" in given):
        return call
    try:
        first, _ = _DECODER.raw_decode(given)
    except (ValueError, RecursionError):
        return call
    return changed(call, arguments=first)


def _answered(message: Message) -> Message:
    """The message with its answer as text instead of a call."""
    message = changed(message, calls=tuple(map(_first_of_several, message.calls)))
    answers = [x.arguments for x in message.calls if x.name == _FINAL_ANSWER]
    response = answers[-1].get("response") if answers and isinstance(answers[-1], dict) else None
    if response is None:
        return message
    return changed(
        message,
        text=printed(response),
        calls=tuple(x for x in message.calls if x.name != _FINAL_ANSWER),
    )


QUIRKS = (
    Quirk(
        name="beeai", under="openinference", scopes=(_SCOPE,), complete=complete, returns_state=True
    ),
)
