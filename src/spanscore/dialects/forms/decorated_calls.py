"""Function calls recorded by decorators and wrappers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, TypeGuard

from spanscore.dialects.forms import langchain_messages
from spanscore.dialects.forms.arguments import arguments
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.provider_bodies import messages_of
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    Parsed,
    as_list,
    as_object,
    is_address,
    is_redacted,
    opened,
    step_facts,
    structure,
)
from spanscore.dialects.forms.tool_results import tool_output
from spanscore.dialects.forms.truncation import is_cut_or_redacted, mended
from spanscore.model.json import dumps, loads
from spanscore.model.span import Attributes, Span, Value
from spanscore.model.step import Message, Step, StepFact

_LISTS = ("input", "output", "choices")
_CALL = frozenset({"args", "kwargs"})
_MESSAGE = frozenset({"role", "content"})


def read_function(
    called: Any, answered: Parsed, facts: Facts, *, envelope: str | None = None
) -> None:
    """What an agent's or chain's function was called with and returned: text, messages, or an
    object around them.

    `envelope` is the one key under which the emitter puts what is no object by itself.
    """
    facts["input"] = _listed(called, "user")
    facts["output"] = langchain_messages.after_question(_listed(answered.value, "assistant"))
    returned = unwrapped(answered.value, envelope)
    facts["input_text"], facts["output_text"] = _only_text(called), _text(returned)
    if not facts["output"] and not answered.damaged:
        facts["output_json"] = json_of(returned)


def read_recorded(
    given: Value, returned: Value, facts: Facts, *, envelope: str | None = None
) -> None:
    """What the attributes of a function's span record that it was called with and returned, and
    which of the two arrived cut or redacted; the envelope is for a call that no decorator recorded.
    """
    called = recorded(given).value
    if is_call(called):
        called, envelope = only_argument(called), None
    read_function(called, recorded(returned), facts, envelope=envelope)
    facts["damaged"] = damaged(input=given, output=returned)


def recorded(value: Value) -> Parsed:
    """The value of an attribute that is plain text or JSON; text that only begins as JSON does
    stays text.

    >>> recorded("[1] is the source."), recorded('["Paris", "Ber').damaged
    (Parsed(value='[1] is the source.', damaged=False), True)
    """
    parsed = structure(value)
    if (
        not parsed.damaged
        or not isinstance(value, str)
        or is_redacted(value)
        or mended(value) is not None
    ):
        return parsed
    try:
        loads(value)
    except ValueError:
        return Parsed(value)
    return parsed  # nested too deeply


def unwrapped(value: Any, envelope: str | None) -> Any:
    """What an emitter put under the key `envelope`, alone."""
    if envelope is not None and isinstance(value, dict) and value.keys() == {envelope}:
        return value[envelope]
    return value


def json_of(value: Any) -> str | None:
    """An answer that is an object, a list, a number or a truth value, as JSON; None where some of
    it was lost.

    None also for an empty value: most functions with such a value return nothing.

    >>> json_of(3.5), json_of(0), json_of(False), json_of([]), json_of(float("nan"))
    ('3.5', '0', 'false', None, None)
    """
    if isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return dumps(value)
    if not value or not isinstance(value, (dict, list)):
        return None
    elements = value.values() if isinstance(value, dict) else value
    if any(isinstance(x, str) and is_cut_or_redacted(x) for x in elements):
        return None
    return dumps(value)


def read_call(
    span: Span,
    given: Value,
    returned: Value,
    facts: Facts,
    *,
    error: str | None = None,
    envelope: str | None = None,
) -> None:
    """What a tool's span records of its call: why it failed, what it was called with and what it
    returned.

    `error` is why it failed where its status does not record it.
    """
    facts["error"] = status_error(span) or error
    facts["damaged"] = damaged(arguments=given, result=returned)
    if given is not None and not is_redacted(given):
        facts["arguments"] = arguments(given)
    read_result(returned, facts, envelope=envelope)


def read_result(returned: Value, facts: Facts, *, envelope: str | None = None) -> None:
    """What a tool returned, out of LangChain's ToolMessage and of the object with the one key
    `envelope`.
    """
    if returned is None or is_redacted(returned):
        return
    value = opened(returned)
    if envelope is not None and isinstance(value, dict) and value.keys() == {envelope}:
        inside = value[envelope]
        is_own_object = isinstance(inside, dict) and tool_output(inside) is None
        # what is no text is none there
        value = value if is_own_object else opened(inside, scalars=False)
    answer = tool_output(value)
    if answer is not None:
        value, facts["call_id"] = answer.value, facts.get("call_id") or answer.call_id
        facts["error"] = facts.get("error") or answer.error
    facts["result"], facts["has_result"] = value, True


def read_retrieval(given: Value, returned: Value, facts: Facts) -> None:
    """What a retriever's span records: the query, or the first text, that it was given, and a list,
    or the one in an object, of what it found.
    """
    request, found = recorded(given).value, structure(returned).value
    if is_call(request):
        request = only_argument(request)
    asked = message(as_object(request).get("query"), "user")
    values = request.values() if isinstance(request, dict) else (request,)
    query = None if asked is None else asked.text
    facts["query"] = query or next((x for x in values if isinstance(x, str)), None)
    if isinstance(found, dict):
        found = found.get("documents", found.get("output"))
    facts["documents"] = tuple(as_list(found))


def is_call(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether it is what decorators record of a function's call: `{"args": […], "kwargs": {…}}`."""
    return isinstance(value, dict) and value.keys() == _CALL


def read_arguments(call: dict[str, Any], facts: Facts) -> None:
    """The arguments of a call that was recorded as `{"args": […], "kwargs": {…}}`, by place and by
    name.
    """
    positional, named = call["args"], call["kwargs"]
    facts["positional"] = tuple(as_list(positional))
    facts["arguments"] = named or (None if facts["positional"] else {})


def only_argument(call: dict[str, Any]) -> Any:
    """The one value that a function was called with, as `{"args": […], "kwargs": {…}}`; None for
    several.
    """
    args, kwargs = call.get("args"), call.get("kwargs")
    values = [*(as_list(args)), *(kwargs.values() if isinstance(kwargs, dict) else ())]
    return values[0] if len(values) == 1 else None


def damaged(**values: Value) -> frozenset[StepFact]:
    """The facts whose recorded value is a placeholder for redacted content, or JSON that just
    ends.
    """
    return step_facts(
        fact for fact, value in values.items() if isinstance(value, str) and recorded(value).damaged
    )


def cut(**read: Parsed) -> frozenset[StepFact]:
    """The facts of whose recorded JSON not all could be read."""
    return step_facts(fact for fact, parsed in read.items() if parsed.damaged)


def _listed(value: Any, role: str) -> tuple[Message, ...] | None:
    """The messages of a graph's state, or of an object like a provider's request or response."""
    found = langchain_messages.state_messages(value) if isinstance(value, (list, dict)) else None
    if found is not None or not isinstance(value, dict):
        return found
    is_message = value.keys() >= _MESSAGE and value["role"] in ("user", "assistant")
    if is_message or any(_has_objects(value.get(x)) for x in _LISTS):
        return messages_of(value, role)
    return None


def _has_objects(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(x, dict) for x in value)


def _only_text(value: Any) -> str | None:
    """What a function was called with, if that is text: as it is, or as its only argument."""
    return _text(
        next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value and not is_address(value) else None


_BEGINNINGS = ("{", "[", '"')


def keep_json_text(
    steps: Sequence[Step], recorded: Callable[[Attributes], tuple[Value, Value]]
) -> list[Step]:
    """The steps; a question or answer that was read as a value is text if a model call below has
    exactly that text.

    `recorded` gives what an agent's span recorded of both, of which a value and a text that is JSON
    look alike.
    """
    unsure = {
        x.span.span_id: tuple(map(_text_json_text, recorded(x.span.attributes)))
        for x in steps
        if _is_read(x)
    }
    changed = {x.span.span_id: x for x in steps}
    for model in steps:
        above = model.span.parent_span_id
        if model.kind != "model" or above not in unsure:
            continue
        question, answer = unsure[above]
        step = changed[above]
        if question is not None and question == _last(model.input, "user"):
            step = _with_question(step, question)
        if answer is not None and answer == _last(model.output, "assistant"):
            step = _with_answer(step, answer)
        changed[above] = step
    return list(changed.values())


def _with_question(step: Step, question: str) -> Step:
    if not step.input and not step.input_text:
        return step
    return replace(step, input=None, input_text=question, damaged=step.damaged - {"input"})


def _with_answer(step: Step, answer: str) -> Step:
    if not step.output and not step.output_text and not step.output_json:
        return step
    return replace(step, output=None, output_text=answer, output_json=None)


def _is_read(step: Step) -> bool:
    """Whether the step records a question or an answer as an agent's, or as that of a function
    around one.
    """
    content = step.input or step.output or step.input_text or step.output_text or step.output_json
    return step.kind in {"agent", "workflow"} and bool(content)


def _text_json_text(value: Value) -> str | None:
    return value if isinstance(value, str) and value.startswith(_BEGINNINGS) else None


def _last(messages: Sequence[Message] | None, role: str) -> str | None:
    return next((x.text for x in reversed(messages or ()) if x.role == role), None)
