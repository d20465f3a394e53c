"""The facts of one tool call."""

from bisect import insort_right
from collections import defaultdict
from typing import Any, TypeAlias

from spanscore.model.trace import RequestedCall, ToolCall
from spanscore.turns.basis.conversation import is_item
from spanscore.turns.calls.appearances import (
    Call,
    Kind,
    Order,
    Requested,
    Returned,
    items,
    kind_of,
    kind_with,
)
from spanscore.turns.calls.tool_errors import error_in
from spanscore.turns.facts.source import FirstOf, Source, Sourced, first, is_damaged


def finished(call: Call) -> tuple[ToolCall, bool]:
    """The call as its sources record it; and whether its arguments or result were cut or redacted
    in all of them.
    """
    plain = _plain_call(call)
    if plain is not None:
        return plain, False
    arguments, result, error, agent = (first(CALL_SOURCES[name], call) for name in _BUILT_FROM)
    span = None if call.ran is None else call.ran.step.span
    finished_call = ToolCall(
        call.call_id,
        call.name,
        _value(arguments),
        _value(result),
        _value(error),
        None if span is None else span.span_id,
        None if span is None else span.start_ns,
        error is not None and first(STATED_ERROR, call) is None,
        _value(agent),
        # of a damaged one, what is left is recorded
        returned=result is not None and not result.damaged,
        ended_ns=None if span is None else span.end_ns,
    )
    return finished_call, any(fact is not None and fact.damaged for fact in (arguments, result))


def _value(fact: Sourced | None) -> Any:
    return None if fact is None else fact.value


def _plain_call(call: Call) -> ToolCall | None:
    """The quick way for what nearly all calls are: a whole request, and a span with the result and
    no error.

    It gives what the sources in their order would, and takes a fifth of the time.
    """
    if not _is_plain(call) or call.request is None or call.ran is None:
        return None
    step = call.ran.step
    error = error_in(call.name, call.request.call.arguments, step.result)
    return ToolCall(
        call.call_id,
        call.name,
        call.request.call.arguments,
        step.result,
        error,
        step.span.span_id,
        step.span.start_ns,
        error is not None,
        call.ran.agent,
        returned=True,
        ended_ns=step.span.end_ns,
    )


def _is_plain(call: Call) -> bool:
    request, ran = call.request, call.ran
    if request is None or request.damaged or not isinstance(request.call.arguments, dict):
        return False
    if ran is None or not ran.agent or ran.step.damaged or ran.step.error:
        return False
    if ran.step.result is None or not ran.step.has_result:
        return False
    return call.returned is None or not call.returned.result.error


def _requested_name(request: Requested | None) -> Sourced | None:
    return None if request is None else Sourced(request.step, "calls", request.call.name)


def _requested_id(request: Requested | None) -> Sourced | None:
    if request is None or not request.call.call_id:
        return None
    return Sourced(request.step, "calls", request.call.call_id)


def _id_in_result(call: Call) -> Sourced | None:
    """The id of the call that a result answers, where the request has that of OpenAI's item, which
    is another.
    """
    returned = call.returned
    if returned is None or returned.result.call_id is None:
        return None
    if not is_item(call.call_id) or is_item(returned.result.call_id):
        return None
    return Sourced(returned.step, "results", returned.result.call_id)


def _requested_arguments(request: Requested | None) -> Sourced | None:
    if request is None or (request.call.arguments is None and not request.damaged):
        return None
    return Sourced(request.step, "calls", request.call.arguments, request.damaged)


def _object(found: Sourced | None) -> Sourced | None:
    return found if found is not None and isinstance(found.value, dict) else None


def _name_in_span(call: Call) -> Sourced | None:
    return (
        None if call.ran is None else Sourced(call.ran.step, "tool_name", call.ran.step.tool_name)
    )


def _id_in_span(call: Call) -> Sourced | None:
    if call.ran is None or not call.ran.call_id:
        return None
    return Sourced(call.ran.step, "call_id", call.ran.call_id)


def _arguments_in_span(call: Call) -> Sourced | None:
    if call.ran is None:
        return None
    damaged = is_damaged(call.ran.step, "arguments")
    if call.ran.arguments is None and not damaged:
        return None
    return Sourced(call.ran.step, "arguments", call.ran.arguments, damaged)


def _result_in_span(call: Call) -> Sourced | None:
    if call.ran is None:
        return None
    step, damaged = call.ran.step, is_damaged(call.ran.step, "result")
    return Sourced(step, "result", step.result, damaged) if step.has_result or damaged else None


def _returned_result(call: Call) -> Sourced | None:
    returned = call.returned
    if returned is None or not returned.result.shown:
        return None
    return Sourced(returned.step, "results", returned.result.value, returned.damaged)


def _returned_where_null(call: Call) -> Sourced | None:
    """The result that the model was given, where it is false, 0 or empty: some emitters write null
    for all that is.
    """
    if call.returned is None or call.ran is None or call.ran.step.result is not None:
        return None
    value = call.returned.result.value
    return _returned_result(call) if value is not None and (not value or value == "False") else None


def _error_in_span(call: Call) -> Sourced | None:
    if call.ran is None or not call.ran.step.error:
        return None
    return Sourced(call.ran.step, "error", call.ran.step.error)


def _returned_error(call: Call) -> Sourced | None:
    returned = call.returned
    if returned is None or not returned.result.error:
        return None
    return Sourced(returned.step, "results", returned.result.error)


def _inferred_error(call: Call) -> Sourced | None:
    found = first(CALL_SOURCES["result"], call)
    if found is None:
        return None
    text = error_in(call.name, _value(first(CALL_SOURCES["arguments"], call)), found.value)
    return None if text is None else Sourced(found.step, found.field, text)


def _agent_of_span(call: Call) -> Sourced | None:
    if call.ran is None or not call.ran.agent:
        return None
    return Sourced(call.ran.step, "agent_name", call.ran.agent)


def _requesting_agent(request: Requested | None) -> Sourced | None:
    if request is None or not request.agent:
        return None
    return Sourced(request.step, "agent_name", request.agent)


_BUILT_FROM = ("arguments", "result", "error", "agent")

CALL_SOURCES: dict[str, FirstOf[Call]] = {
    "name": (
        Source("the model's request", lambda call: _requested_name(call.request)),
        Source("the tool's span", _name_in_span),
        Source("the next model call's input", lambda call: _requested_name(call.repeated)),
    ),
    "call_id": (
        Source(
            "the result that the next model call was given, where the request has an id of its own",
            _id_in_result,
        ),
        Source("the model's request", lambda call: _requested_id(call.request)),
        Source("the tool's span", _id_in_span),
        Source("the next model call's input", lambda call: _requested_id(call.repeated)),
    ),
    "arguments": (
        Source(
            "the model's request, where they are an object",
            lambda call: _object(_requested_arguments(call.request)),
        ),
        Source("the tool's span", _arguments_in_span),
        Source(
            "the model's request, whatever they are",
            lambda call: _requested_arguments(call.request),
        ),
        Source("the next model call's input", lambda call: _requested_arguments(call.repeated)),
    ),
    "result": (
        Source(
            "the next model call's input, where that is false, 0 or empty and the tool's span null",
            _returned_where_null,
        ),
        Source("the tool's span", _result_in_span),
        Source("the next model call's input", _returned_result),
    ),
    "error": (
        Source("the tool's span, by its status", _error_in_span),
        Source("the next model call's input, where the message is marked as one", _returned_error),
        Source("inferred from the result", _inferred_error),
    ),
    "agent": (
        Source(
            "the agent around the tool's span, unless the model call that requested it names one,"
            " or one inside that",
            _agent_of_span,
        ),
        Source("the agent whose model requested it", lambda call: _requesting_agent(call.request)),
        Source(
            "the agent whose model must have requested it, since a later model call's"
            " input repeats the request",
            lambda call: _requesting_agent(call.repeated),
        ),
    ),
}
"""For each fact of a tool call its sources: the first that records the fact counts."""

STATED_ERROR = CALL_SOURCES["error"][:2]
"""Where an error is stated, and not inferred."""


def is_settled(call: Call) -> bool:
    """Whether no other place can change its id and arguments: the request records both."""
    request = call.request
    return (
        request is not None
        and not request.damaged
        and request.call.call_id is not None
        and isinstance(request.call.arguments, dict)
    )


def settle(call: Call) -> None:
    """Take its id and arguments from the first of the places known by now that records them."""
    for name in ("call_id", "arguments"):
        found = first(CALL_SOURCES[name], call)
        setattr(call, name, None if found is None else found.value)


Passed: TypeAlias = defaultdict[Kind, int]
"""For each kind, how many calls at the front of a list are known to be taken."""

_MAX_WITH_ARGUMENT = 100
"""Calls that are compared where many have an argument in common."""


class KnownCalls:
    """The calls that are known, to be found by id, or by name and arguments in their order, however
    many there are.
    """

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls
        self.by_id = {x.call_id: x for x in calls if x.call_id}
        self.unanswered = sum(not x.has_result for x in calls)
        self._alike: defaultdict[Kind, list[Call]] | None = None  # mostly ids are enough
        self._ran_with: defaultdict[Kind, list[Call]] | None = None

    def first(self, request: RequestedCall, taken: set[int], passed: Passed) -> Call | None:
        """The first call with these arguments, else the first whose arguments are not known, that
        is not taken yet.

        `passed` counts, for each kind, the calls at the front that are known to be taken.
        """
        for kind in (kind_of(request.name, request.arguments), (request.name, None)):
            calls = self._filed().get(kind, [])
            while passed[kind] < len(calls):
                call = calls[passed[kind]]
                if kind[1] is None and call.arguments is not None:
                    del calls[passed[kind]]  # its arguments have become known
                elif id(call) in taken:
                    passed[kind] += 1
                else:
                    return call
        return None

    def fuller(self, request: RequestedCall, taken: set[int], passed: Passed) -> Call | None:
        """The first call that only its span records, not taken yet, with these arguments and more.

        A tool's span may have the defaults of what the model left out. Such a call is not the one
        that is looked for where their ids differ. `passed` counts as in `first`.
        """
        wanted = items(request.arguments)
        kinds = [kind_with(request.name, x) for x in wanted]
        ran_with = self._filed_by_argument() if kinds else {}
        kind = min(kinds, key=lambda x: len(ran_with.get(x, ())), default=None)
        if kind is None or kind not in ran_with:
            return None
        calls = ran_with[kind]
        while passed[kind] < len(calls) and id(calls[passed[kind]]) in taken:
            passed[kind] += 1
        near = calls[passed[kind] : passed[kind] + _MAX_WITH_ARGUMENT]
        possible = (x for x in near if id(x) not in taken and not (request.call_id and x.call_id))
        return next((x for x in possible if wanted < items(x.arguments)), None)

    def add(self, call: Call) -> None:
        """Take in a call that was not known."""
        self.calls.append(call)
        self.unanswered += 1
        self._file(call)

    def complete(self, call: Call, repeated: Requested) -> None:
        """Add to a call what the input of a model call repeats of it."""
        call.repeated = repeated
        if is_settled(call):
            return
        before = call.call_id, call.arguments
        settle(call)
        if call.call_id is not None and before[0] is None:
            self.by_id[call.call_id] = call
        if call.arguments is not before[1]:
            self._file(call)

    def answer(self, call: Call, returned: Returned) -> None:
        """Add to a call the first result of it that a model was given."""
        if call.returned is not None:
            return
        if not call.has_result:
            self.unanswered -= 1
        call.returned = returned
        if is_item(call.call_id):
            settle(call)

    def _filed(self) -> defaultdict[Kind, list[Call]]:
        """The calls by what they have in common that may be the same, each list in their order."""
        if self._alike is None:
            self._alike = defaultdict(list)
            for call in sorted(self.calls, key=order_of):
                self._alike[kind_of(call.name, call.arguments)].append(call)
        return self._alike

    def _filed_by_argument(self) -> defaultdict[Kind, list[Call]]:
        """The calls that only spans record, by each of their arguments, each list in their
        order.
        """
        if self._ran_with is None:
            self._ran_with = defaultdict(list)
            for call in sorted((x for x in self.calls if x.ran and not x.request), key=order_of):
                for item in items(call.arguments):
                    self._ran_with[kind_with(call.name, item)].append(call)
        return self._ran_with

    def _file(self, call: Call) -> None:
        if self._alike is not None:
            insort_right(self._alike[kind_of(call.name, call.arguments)], call, key=order_of)


def order_of(call: Call) -> Order:
    """Sorts calls by when they were requested."""
    return call.order
