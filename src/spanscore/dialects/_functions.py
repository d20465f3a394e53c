"""Read what decorators and wrappers recorded of a function's call: an agent's, a chain's or a tool's."""

from typing import Any

from spanscore.dialects import _langchain
from spanscore.dialects._arguments import arguments
from spanscore.dialects._base import Facts
from spanscore.dialects._json import is_redacted, opened
from spanscore.dialects._requests import messages_of
from spanscore.dialects.semconv import status_error
from spanscore.model.span import Span, Value
from spanscore.model.step import Message

_LISTS = ("input", "output", "choices")


def read_function(called: Any, answered: Any, facts: Facts) -> None:
    """What an agent's or chain's function was called with and returned: text, messages, or an object around them."""
    facts["input"] = _listed(called, "user")
    facts["output"] = _langchain.after_question(_listed(answered, "assistant"))
    facts["input_text"], facts["output_text"] = _only_text(called), _only_text(answered)


def read_call(span: Span, given: Value, returned: Value, facts: Facts, *, envelope: str | None = None) -> None:
    """What a tool's span tells of its call: why it failed, what it was called with and what it returned."""
    facts["error"] = status_error(span)
    facts["damaged"] = damaged(arguments=given, result=returned)
    if given is not None and not is_redacted(given):
        facts["arguments"] = arguments(given)
    read_result(returned, facts, envelope=envelope)


def read_result(returned: Value, facts: Facts, *, envelope: str | None = None) -> None:
    """What a tool returned, out of LangChain's ToolMessage and of the object with the one key `envelope`."""
    if returned is None or is_redacted(returned):
        return
    value = opened(returned)
    if envelope is not None and isinstance(value, dict) and value.keys() == {envelope}:
        inside = value[envelope]
        is_own_object = isinstance(inside, dict) and _langchain.tool_output(inside) is None
        value = value if is_own_object else opened(inside)
    answer = _langchain.tool_output(value)
    if answer is not None:
        value, facts["call_id"] = answer.value, facts.get("call_id") or answer.call_id
        facts["error"] = facts.get("error") or answer.error
    facts["result"], facts["has_result"] = value, True


def only_argument(call: dict[str, Any]) -> Any:
    """The one value that a decorated function was called with, as `{"args": […], "kwargs": {…}}`; None for several."""
    args, kwargs = call.get("args"), call.get("kwargs")
    values = [*(args if isinstance(args, list) else ()), *(kwargs.values() if isinstance(kwargs, dict) else ())]
    return values[0] if len(values) == 1 else None


def damaged(**values: Value) -> frozenset[str]:
    """The facts whose recorded value is a mark of redaction."""
    return frozenset(fact for fact, value in values.items() if is_redacted(value))


def _listed(value: Any, role: str) -> tuple[Message, ...] | None:
    """The messages of a graph's state, or of an object like a provider's request or response."""
    found = _langchain.state_messages(value) if isinstance(value, (list, dict)) else None
    if found is None and isinstance(value, dict) and any(isinstance(value.get(x), list) for x in _LISTS):
        return messages_of(value, role)
    return found


def _only_text(value: Any) -> str | None:
    """Text that was recorded as it is, or that stands alone in an object."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return value if isinstance(value, str) and value else None
