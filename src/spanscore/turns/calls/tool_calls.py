"""Rebuild the tool calls of a turn: a model's request, the tool's span and the next model call's
input are one call.
"""

from bisect import insort_right
from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from spanscore.model.json import Json, printed
from spanscore.model.record import record
from spanscore.model.step import Message, Step
from spanscore.model.trace import RequestedCall, Tool
from spanscore.turns.basis import conversation
from spanscore.turns.basis.call_ids import is_item
from spanscore.turns.calls.appearances import Call, Executed, Order, Requested, Returned
from spanscore.turns.calls.call_facts import CALL_SOURCES
from spanscore.turns.calls.interrupted_calls import InterruptedCalls, ids_of_one_call, last_of_each
from spanscore.turns.calls.match_results import Answer, paired, repeated, side_by_side
from spanscore.turns.calls.requesters import Requesters, leave_to_requesters
from spanscore.turns.facts.source import first
from spanscore.turns.facts.turn_steps import TurnSteps

_Kind: TypeAlias = tuple[str, Hashable]
"""What calls have in common that may be the same: the name, and the arguments as a key, None where
not known.
"""

_Passed: TypeAlias = defaultdict[_Kind, int]
"""For each kind, how many calls at the front of a list are known to be taken."""

_MAX_DEPTH = 50

_MAX_WITH_ARGUMENT = 100
"""Calls that are compared where many have an argument in common."""


@record()
class _Conversation:
    """Messages of the present turn that one model or agent produced or was given, and the agent it
    belongs to.
    """

    step: Step
    messages: Sequence[Message]
    agent: str | None


@dataclass(slots=True)
class _Places:
    """Where tool calls show, besides in what models were given next: in what models put out, and in
    spans; by time.
    """

    requests: list[_Conversation]
    spans: list[tuple[Step, str | None]]


def rebuild(turn: TurnSteps, tools: Sequence[Tool]) -> list[Call]:
    """The tool calls of a turn in the order in which they were requested, each once."""
    outputs = (_outputs_of_models if turn.models else _outputs_of_agents)(turn)
    places = _Places(outputs, [(x, turn.agent_of(x)) for x in turn.tools])
    unreliable = _repeated_ids(places)
    calls = _requested_calls(places, unreliable)
    _add_spans(calls, places, unreliable, tools)
    if not turn.models:
        _place_by_spans(calls)
    leave_to_requesters(calls, turn)
    gathered, requesters = _Gathered(calls), Requesters(turn)
    for own in outputs if turn.models else ():
        if any(x.results for x in own.messages):  # of tools that the provider ran itself
            _add_tail(gathered, own, unreliable, requesters)
    for number, tail in enumerate(_tails(turn) if turn.models else reversed(outputs)):
        if number and not gathered.unanswered:
            break  # the last input contains those before it: what it does not add, they hardly will
        _add_tail(gathered, tail, unreliable, requesters)
    return sorted(gathered.calls, key=_order)


def _outputs_of_models(turn: TurnSteps) -> list[_Conversation]:
    return [_Conversation(x, x.output, turn.agent_of(x)) for x in turn.models if x.output]


def _tails(turn: TurnSteps) -> Iterator[_Conversation]:
    """What models were given in the present turn, the last one first."""
    questions: dict[str, str | None] = {}
    given: list[tuple[Step, tuple[Message, ...], str]] = []
    for model in turn.models:
        if model.input:
            agent = turn.tree.place(model).agent
            whose = "" if agent is None else agent.span.span_id
            given.append((model, model.input, whose))
            if whose not in questions:
                questions[whose] = conversation.opening(model.input).text
    for model, messages, whose in reversed(given):
        yield _Conversation(
            model, conversation.tail(messages, questions[whose]), turn.agent_of(model)
        )


def _outputs_of_agents(turn: TurnSteps) -> list[_Conversation]:
    return [
        _Conversation(agent, output, agent.agent_name) for agent, output in _distinct_outputs(turn)
    ]


def _distinct_outputs(turn: TurnSteps) -> Iterator[tuple[Step, Sequence[Message]]]:
    """The outputs of agents, the outermost first, without those of inner agents that only contain
    the same calls.
    """
    recorded: dict[str, set[str | None]] = {}
    for agent in turn.agents:
        if agent.output:
            ids = recorded[agent.span.span_id] = {c.call_id for m in agent.output for c in m.calls}
            around = turn.tree.place(agent).agent
            if (
                not ids
                or None in ids
                or around is None
                or not ids <= recorded.get(around.span.span_id, set())
            ):
                yield agent, agent.output


def _repeated_ids(places: _Places) -> set[str]:
    """Ids that name two calls, as of emitters that number calls anew in each answer: they identify
    nothing.
    """
    requested: list[str] = []
    for output in places.requests:
        for message in output.messages:
            requested += [call.call_id for call in message.calls if call.call_id]
    steps = [step for step, _ in places.spans]
    ran = repeated([step.call_id for step in steps if step.call_id])
    if ran:
        ran -= ids_of_one_call(steps, ran, _kind)
    return repeated(requested) | ran


def _requested_calls(places: _Places, unreliable: set[str]) -> list[Call]:
    found: list[Call] = []
    for number, output in enumerate(places.requests):
        calls = [(call, message) for message in output.messages for call in message.calls]
        for position, (call, message) in enumerate(calls):
            request = _request_in(output, call, message, trusted=call.call_id not in unreliable)
            # not the end of the model call: tools may run inside of it
            order = (output.step.span.start_ns, number, position)
            found.append(
                Call(order, call.name, request.call.call_id, call.arguments, request=request)
            )
    return found


def _request_in(
    output: _Conversation, call: RequestedCall, message: Message, *, trusted: bool
) -> Requested:
    if not trusted:
        call = RequestedCall(None, call.name, call.arguments)
    return Requested(output.step, output.agent, call, "calls" in message.damaged)


def _is_settled(call: Call) -> bool:
    """Whether no other place can change its id and arguments: the request records both."""
    request = call.request
    return (
        request is not None
        and not request.damaged
        and request.call.call_id is not None
        and isinstance(request.call.arguments, dict)
    )


def _settle(call: Call) -> None:
    """Take its id and arguments from the first of the places known by now that records them."""
    for name in ("call_id", "arguments"):
        found = first(CALL_SOURCES[name], call)
        setattr(call, name, None if found is None else found.value)


def _add_spans(
    calls: list[Call], places: _Places, unreliable: set[str], tools: Sequence[Tool]
) -> None:
    """Give each tool span to the request it answers: by id, else by name and arguments, else by
    name; in order.
    """
    by_id = {call.call_id: call for call in calls if call.call_id}
    executed = _executed(places, unreliable, tools)
    pending = [ran for ran in executed if not _attach(by_id.get(ran.call_id or ""), ran)]
    if not pending:
        return
    for exact in (True, False):
        waiting = _without_span(calls, exact=exact)
        pending = [
            ran for ran in pending if not _attach(_pick(waiting, ran, by_id, exact=exact), ran)
        ]
    if not pending:
        return
    interrupted = InterruptedCalls(calls, _kind)
    pending = [ran for ran in pending if not _resume(interrupted, ran)]
    for number, ran in enumerate(last_of_each(pending)):
        order = (ran.step.span.start_ns, len(calls), number)
        calls.append(Call(order, ran.step.tool_name or "", ran.call_id, ran.arguments, ran=ran))


def _executed(places: _Places, unreliable: set[str], tools: Sequence[Tool]) -> list[Executed]:
    """The runs of tools that spans report."""
    schemas = {tool.name: tool.parameters for tool in tools}
    found: list[Executed] = []
    for step, agent in places.spans:
        if step.tool_name:
            call_id = None if step.call_id in unreliable else step.call_id
            found.append(Executed(step, agent, call_id, _named_arguments(step, schemas)))
    return found


def _without_span(calls: Sequence[Call], *, exact: bool) -> Mapping[_Kind, deque[Call]]:
    """The calls that have no span yet, by name, and by arguments too where `exact`."""
    waiting: defaultdict[_Kind, deque[Call]] = defaultdict(deque)
    for call in calls:
        if call.ran is None:
            waiting[_kind(call.name, call.arguments if exact else None)].append(call)
    return waiting


def _place_by_spans(calls: Sequence[Call]) -> None:
    """Put calls where their spans are: an agent's output contains all its requests at once, others
    worked meanwhile.
    """
    latest_ns: dict[int, int] = {}
    for call in calls:
        if call.request is not None:
            begun_ns, number, position = call.order
            ran_ns = 0 if call.ran is None else call.ran.step.span.start_ns
            latest_ns[number] = max(latest_ns.get(number, begun_ns), ran_ns)
            call.order = (latest_ns[number], number, position)


def _pick(
    waiting: Mapping[_Kind, deque[Call]], ran: Executed, by_id: Mapping[str, Call], *, exact: bool
) -> Call | None:
    """Take the first call that may be the same from `waiting`.

    Ids that both sides know and that differ do not forbid it, as long as the span's id is nobody's:
    a model's API and a framework may each have ids of their own.
    """
    if ran.call_id in by_id:
        return None
    calls = waiting.get(_kind(ran.step.tool_name or "", ran.arguments if exact else None))
    return calls.popleft() if calls else None


def _attach(call: Call | None, ran: Executed) -> bool:
    """Add a span to its call; False where there is none, or where it has its span already."""
    if call is None or call.ran is not None:
        return False
    call.ran = ran
    if not _is_settled(call):
        _settle(call)
    return True


def _resume(halts: InterruptedCalls, ran: Executed) -> bool:
    """Whether a span without a request of its own is of a call that was interrupted, to be
    approved, and run later.
    """
    call = halts.resumed(ran)
    _attach(call, ran)
    return call is not None


def _named_arguments(step: Step, schemas: dict[str, Any]) -> Json:
    """A span's arguments; values recorded without names get those of the tool's schema, in its
    order.

    Without a schema they stay as they are: the value, or a list of them.
    """
    if not step.positional:
        return step.arguments
    given = step.arguments if isinstance(step.arguments, dict) else {}
    values: list[Json] = [value for value in step.positional if value is not None]
    properties = _properties(schemas.get(step.tool_name or ""))
    names = [name for name in properties if name not in given]
    if len(values) == 1 and isinstance(values[0], dict) and len(names) != 1 and not given:
        return values[0]
    if len(names) < len(values):
        return given or (values[0] if len(values) == 1 else values)
    named = {
        name: _as_requested(value, properties[name])
        for name, value in zip(names, values, strict=False)
    }
    return {**named, **given}


def _properties(schema: Any) -> dict[str, Any]:
    """What the JSON schema of a tool's arguments has for each by its name."""
    described = schema.get("properties") if isinstance(schema, dict) else None
    return described if isinstance(described, dict) else {}


def _as_requested(value: Json, schema: Any) -> Json:
    """A value; of what the schema calls text, the text, which may look like a number where it was
    recorded alone.
    """
    is_text = (
        isinstance(schema, dict)
        and schema.get("type") == "string"
        and isinstance(value, bool | int | float)
    )
    return printed(value) if is_text else value


class _Gathered:
    """The calls that are known, to be found by id, or by name and arguments in their order, however
    many there are.
    """

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls
        self.by_id = {x.call_id: x for x in calls if x.call_id}
        self.unanswered = sum(not x.has_result for x in calls)
        self._alike: defaultdict[_Kind, list[Call]] | None = None  # mostly ids are enough
        self._ran_with: defaultdict[_Kind, list[Call]] | None = None

    def first(self, request: RequestedCall, taken: set[int], passed: _Passed) -> Call | None:
        """The first call with these arguments, else the first whose arguments are not known, that
        is not taken yet.

        `passed` counts, for each kind, the calls at the front that are known to be taken.
        """
        for kind in (_kind(request.name, request.arguments), (request.name, None)):
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

    def fuller(self, request: RequestedCall, taken: set[int], passed: _Passed) -> Call | None:
        """The first call that only its span records, not taken yet, with these arguments and more.

        A tool's span may have the defaults of what the model left out. Such a call is not the one
        that is looked for where their ids differ. `passed` counts as in `first`.
        """
        wanted = _items(request.arguments)
        kinds = [_having(request.name, x) for x in wanted]
        ran_with = self._filed_by_argument() if kinds else {}
        kind = min(kinds, key=lambda x: len(ran_with.get(x, ())), default=None)
        if kind is None or kind not in ran_with:
            return None
        calls = ran_with[kind]
        while passed[kind] < len(calls) and id(calls[passed[kind]]) in taken:
            passed[kind] += 1
        near = calls[passed[kind] : passed[kind] + _MAX_WITH_ARGUMENT]
        possible = (x for x in near if id(x) not in taken and not (request.call_id and x.call_id))
        return next((x for x in possible if wanted < _items(x.arguments)), None)

    def add(self, call: Call) -> None:
        """Take in a call that was not known."""
        self.calls.append(call)
        self.unanswered += 1
        self._file(call)

    def complete(self, call: Call, repeated: Requested) -> None:
        """Add to a call what the input of a model call repeats of it."""
        call.repeated = repeated
        if _is_settled(call):
            return
        before = call.call_id, call.arguments
        _settle(call)
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
            _settle(call)

    def _filed(self) -> defaultdict[_Kind, list[Call]]:
        """The calls by what they have in common that may be the same, each list in their order."""
        if self._alike is None:
            self._alike = defaultdict(list)
            for call in sorted(self.calls, key=_order):
                self._alike[_kind(call.name, call.arguments)].append(call)
        return self._alike

    def _filed_by_argument(self) -> defaultdict[_Kind, list[Call]]:
        """The calls that only spans record, by each of their arguments, each list in their
        order.
        """
        if self._ran_with is None:
            self._ran_with = defaultdict(list)
            for call in sorted((x for x in self.calls if x.ran and not x.request), key=_order):
                for item in _items(call.arguments):
                    self._ran_with[_having(call.name, item)].append(call)
        return self._ran_with

    def _file(self, call: Call) -> None:
        if self._alike is not None:
            insort_right(self._alike[_kind(call.name, call.arguments)], call, key=_order)


def _order(call: Call) -> Order:
    return call.order


def _kind(name: str, arguments: Json) -> _Kind:
    return name, _frozen(arguments, _MAX_DEPTH)


def _having(name: str, item: Hashable) -> _Kind:
    """What calls have in common of which one argument is the same."""
    return name, ("with", item)


def _items(arguments: Json) -> frozenset[Hashable]:
    """The arguments one by one, as keys; none where they are no object."""
    found = arguments if isinstance(arguments, dict) else {}
    return frozenset((key, _frozen(x, _MAX_DEPTH)) for key, x in found.items())


def _frozen(value: Json, depth: int) -> Hashable:
    """A key that is equal for equal values; what lies deep is compared as it is printed."""
    if isinstance(value, dict):
        if not depth:
            return repr(value)
        return "dict", frozenset((key, _frozen(x, depth - 1)) for key, x in value.items())
    if isinstance(value, list):
        return ("list", *(_frozen(x, depth - 1) for x in value)) if depth else repr(value)
    return value


def _add_tail(
    known: _Gathered, tail: _Conversation, unreliable: set[str], requesters: Requesters
) -> None:
    """Complete the calls by the input of a model call; a call that shows only there is added."""
    pairs, loose = paired(tail.messages, unreliable)
    taken: set[int] = set()
    passed: _Passed = defaultdict(int)
    for position, (request, repeating, answer) in enumerate(pairs):
        call = known.by_id.get(request.call_id) if request.call_id else None
        call = call or known.first(request, taken, passed) or known.fuller(request, taken, passed)
        if call is None:
            if "input" in tail.step.damaged:
                continue  # it may be of an earlier turn: where this one starts is not known
            requester = requesters.of(tail.step, repeating) or tail.step
            call = Call((requester.span.start_ns, -1, position), request.name)
            known.add(call)
        taken.add(id(call))
        if call.repeated is None or call.arguments is None:
            agent = (
                requesters.agent(tail.step, repeating, tail.agent) if call.request is None else None
            )
            known.complete(call, Requested(tail.step, agent, request, "calls" in repeating.damaged))
        if answer is not None:
            known.answer(call, _returned(tail, answer))
    for left, answered in _answered(known, tail, loose, is_alone=not pairs):
        if answered is not None:
            known.answer(answered, _returned(tail, left))


def _answered(
    known: _Gathered, tail: _Conversation, loose: Sequence[Answer], *, is_alone: bool
) -> Iterator[tuple[Answer, Call | None]]:
    """Results that answer no call in their conversation, with the calls that they are of.

    In one that shows no call, results that name none are those of the turn's calls so far, if they
    are as many.
    """
    if is_alone and loose and not any(x[0].call_id for x in loose):
        calls = sorted((x for x in known.calls if x.order[0] < tail.step.span.start_ns), key=_order)
        yield from side_by_side(loose, calls) if len(calls) == len(loose) else ()
        return
    yield from ((x, known.by_id.get(x[0].call_id or "")) for x in loose)


def _returned(tail: _Conversation, answer: Answer) -> Returned:
    return Returned(tail.step, answer[0], "results" in answer[1].damaged)
