"""The order of sources of each fact of one tool call, written down once like that of a turn's facts."""

from spanscore.turns.basis.call_ids import is_item
from spanscore.turns.basis.errors import inferred_error
from spanscore.turns.calls.appearances import Call, Requested
from spanscore.turns.facts.source import FirstOf, Source, Sourced, first, is_damaged


def _asked_name(asked: Requested | None) -> Sourced | None:
    return None if asked is None else Sourced(asked.step, "calls", asked.call.name)


def _asked_id(asked: Requested | None) -> Sourced | None:
    return Sourced(asked.step, "calls", asked.call.call_id) if asked is not None and asked.call.call_id else None


def _answered_id(call: Call) -> Sourced | None:
    """The id of the call that a result answers, where the request tells that of OpenAI's item, which is another."""
    told = call.told
    if told is None or told.result.call_id is None or not is_item(call.call_id) or is_item(told.result.call_id):
        return None
    return Sourced(told.step, "results", told.result.call_id)


def _asked_arguments(asked: Requested | None) -> Sourced | None:
    if asked is None or (asked.call.arguments is None and not asked.damaged):
        return None
    return Sourced(asked.step, "calls", asked.call.arguments, asked.damaged)


def _object(found: Sourced | None) -> Sourced | None:
    return found if found is not None and isinstance(found.value, dict) else None


def _ran_name(call: Call) -> Sourced | None:
    return None if call.ran is None else Sourced(call.ran.step, "tool_name", call.ran.step.tool_name)


def _ran_id(call: Call) -> Sourced | None:
    return Sourced(call.ran.step, "call_id", call.ran.call_id) if call.ran is not None and call.ran.call_id else None


def _ran_arguments(call: Call) -> Sourced | None:
    if call.ran is None:
        return None
    damaged = is_damaged(call.ran.step, "arguments")
    if call.ran.arguments is None and not damaged:
        return None
    return Sourced(call.ran.step, "arguments", call.ran.arguments, damaged)


def _ran_result(call: Call) -> Sourced | None:
    if call.ran is None:
        return None
    step, damaged = call.ran.step, is_damaged(call.ran.step, "result")
    return Sourced(step, "result", step.result, damaged) if step.has_result or damaged else None


def _told_result(call: Call) -> Sourced | None:
    told = call.told
    return Sourced(told.step, "results", told.result.value, told.damaged) if told and told.result.shown else None


def _told_where_null(call: Call) -> Sourced | None:
    """What the model was told, where that is false, 0 or empty: some emitters write null for all that is not true."""
    if call.told is None or call.ran is None or call.ran.step.result is not None:
        return None
    value = call.told.result.value
    return _told_result(call) if value is not None and (not value or value == "False") else None


def _ran_error(call: Call) -> Sourced | None:
    return (
        Sourced(call.ran.step, "error", call.ran.step.error) if call.ran is not None and call.ran.step.error else None
    )


def _told_error(call: Call) -> Sourced | None:
    told = call.told
    return None if told is None or not told.result.error else Sourced(told.step, "results", told.result.error)


def _inferred_error(call: Call) -> Sourced | None:
    found = first(CALL_SOURCES["result"], call)
    text = None if found is None else inferred_error(found.value)
    return None if found is None or text is None else Sourced(found.step, found.field, text)


def _ran_agent(call: Call) -> Sourced | None:
    return Sourced(call.ran.step, "agent_name", call.ran.agent) if call.ran is not None and call.ran.agent else None


def _asked_agent(asked: Requested | None) -> Sourced | None:
    return Sourced(asked.step, "agent_name", asked.agent) if asked is not None and asked.agent else None


CALL_SOURCES: dict[str, FirstOf[Call]] = {
    "name": (
        Source("the model's request", lambda call: _asked_name(call.request)),
        Source("the tool's span", _ran_name),
        Source("the next model call's input", lambda call: _asked_name(call.repeated)),
    ),
    "call_id": (
        Source("the result that the next model call was told, where the request has an id of its own", _answered_id),
        Source("the model's request", lambda call: _asked_id(call.request)),
        Source("the tool's span", _ran_id),
        Source("the next model call's input", lambda call: _asked_id(call.repeated)),
    ),
    "arguments": (
        Source("the model's request, where they are an object", lambda call: _object(_asked_arguments(call.request))),
        Source("the tool's span", _ran_arguments),
        Source("the model's request, whatever they are", lambda call: _asked_arguments(call.request)),
        Source("the next model call's input", lambda call: _asked_arguments(call.repeated)),
    ),
    "result": (
        Source(
            "the next model call's input, where that is false, 0 or empty and the tool's span null", _told_where_null
        ),
        Source("the tool's span", _ran_result),
        Source("the next model call's input", _told_result),
    ),
    "error": (
        Source("the tool's span, by its status", _ran_error),
        Source("the next model call's input, where the message says that it is one", _told_error),
        Source("inferred from the result", _inferred_error),
    ),
    "agent": (
        Source(
            "the agent around the tool's span, unless the model call that requested it names one, or one inside that",
            _ran_agent,
        ),
        Source("the agent whose model requested it", lambda call: _asked_agent(call.request)),
        Source(
            "the agent whose model must have requested it, since a later one was told so",
            lambda call: _asked_agent(call.repeated),
        ),
    ),
}
"""The facts of one tool call; the first that speaks wins."""

STATED_ERROR = CALL_SOURCES["error"][:2]
"""Where an error is stated, and not inferred."""
