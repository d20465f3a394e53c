"""The tool calls of a turn, each once."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spanscore.model.json import Json, printed
from spanscore.model.span import changed, record
from spanscore.model.step import Message, Step
from spanscore.model.trace import RequestedCall, Tool
from spanscore.turns.basis import conversation
from spanscore.turns.calls.call_facts import (
    Answer,
    Call,
    Executed,
    Kind,
    KnownCalls,
    Order,
    Passed,
    Requested,
    Returned,
    is_settled,
    kind_of,
    order_of,
    paired,
    repeated,
    settle,
    side_by_side,
)
from spanscore.turns.facts.source import TurnSteps

_MAX_OF_LENGTH = 100
"""Model calls that are compared where many were given equally many messages."""


class Requesters:
    """The model calls of a turn by how many messages they were given; sorted when first needed, as
    it seldom is.
    """

    def __init__(self, turn: TurnSteps) -> None:
        self._turn = turn
        self._by_length: defaultdict[int, list[tuple[Step, Message]]] | None = None
        self._latest: tuple[Step, list[Message], dict[int, int]] | None = None
        self._agents: set[str | None] | None = None

    def of(self, later: Step, message: Message) -> Step | None:
        """The model call whose output is `message`, which the input of a `later` model call
        contains.

        That model call was given exactly what comes before the message. Of several, it is one of
        the same agent, else the last.
        """
        given, before = self._input_of(later)
        count = before.get(id(message), 0)
        if not count:
            return None
        place_of = self._turn.tree.place
        alike = [
            model
            for model, last in self._of_length(count)[-_MAX_OF_LENGTH:]
            if last == given[count - 1]
        ]
        earlier = [model for model in alike if model.span.start_ns < later.span.start_ns]
        agent = place_of(later).agent
        own = [model for model in earlier if place_of(model).agent is agent]
        return next(reversed(own or earlier), None)

    def agent(self, later: Step, message: Message, given_to: str | None) -> str | None:
        """The agent that requested it; where the turn has only one, that one, which is `given_to`;
        else None.
        """
        requester = self.of(later, message)
        if requester is not None:
            return self._turn.agent_of(requester)
        if self._agents is None:
            self._agents = {self._turn.agent_of(model) for model in self._turn.models}
        return given_to if len(self._agents) <= 1 else None

    def _input_of(self, model: Step) -> tuple[list[Message], dict[int, int]]:
        """The input of a model call without system messages, and how many of these stand before
        each, by its id.

        It is kept for the latest call: each of the calls in its input is looked for there.
        """
        if self._latest is None or self._latest[0] is not model:
            given = _without_system(model)
            before: dict[int, int] = {}
            for at, message in enumerate(given):
                before.setdefault(id(message), at)
            self._latest = model, given, before
        return self._latest[1:]

    def _of_length(self, count: int) -> list[tuple[Step, Message]]:
        """The model calls that were given so many messages, by time, each with the last of them."""
        if self._by_length is None:
            self._by_length = defaultdict(list)
            for model in self._turn.models:
                given = _without_system(model)
                if given:
                    self._by_length[len(given)].append((model, given[-1]))
        return self._by_length.get(count, [])


def _without_system(model: Step) -> list[Message]:
    return [message for message in model.input or () if message.role != "system"]


def leave_to_requesters(calls: Iterable[Call], turn: TurnSteps) -> None:
    """Remove the agent that the tool's span shows, where the agent whose model requested the call
    is more exact.

    It is where it lies inside the agent around, as in a chat of several agents, or where the model
    call itself names it.
    """
    for call in calls:
        request, ran = call.request, call.ran
        if (
            request is None
            or ran is None
            or request.agent is None
            or ran.agent in {None, request.agent}
        ):
            continue
        is_inside = turn.tree.place(request.step).agents > turn.tree.place(ran.step).agents
        if is_inside or (request.step.agent_name and not ran.step.agent_name):
            call.ran = changed(ran, agent=None)


class InterruptedCalls:
    """The calls of a turn that a span without a request of its own may be about: once those have
    their spans.
    """

    def __init__(self, calls: Iterable[Call]) -> None:
        self._interrupted: defaultdict[Kind, deque[Call]] = defaultdict(deque)
        self._latest: dict[Kind, Call] = {}
        self._by_id: dict[str | None, Call] = {}
        for call in calls:
            if call.request is not None and call.ran is not None:
                self._by_id[call.call_id] = call
                kind = kind_of(call.name, call.arguments)
                self._latest[kind] = call
                if _is_interrupted(call.ran.step):
                    self._interrupted[kind].append(call)

    def resumed(self, ran: Executed) -> Call | None:
        """The call that `ran` is a span of, if any; without the span known before, where `ran`
        records more.
        """
        same = self._by_id.get(ran.call_id) if ran.call_id else None
        if same is not None and same.ran is not None and _went_on(same.ran.step, ran.step):
            same.ran = None
            return same
        kind = kind_of(ran.step.tool_name or "", ran.arguments)
        latest = self._latest.get(kind)
        if latest is not None and latest.ran is not None and _went_on(ran.step, latest.ran.step):
            return latest
        interrupted = self._interrupted.get(kind)
        first = interrupted[0] if interrupted else None
        if (
            interrupted
            and first is not None
            and first.ran is not None
            and _went_on(first.ran.step, ran.step)
        ):
            if not _is_interrupted(ran.step):
                interrupted.popleft()
            first.ran = None
            return first
        return None


def ids_of_one_call(spans: Iterable[Step], repeated: set[str]) -> set[str]:
    """Of ids that several spans have, those whose spans are of one call, interrupted until the last
    of them.
    """
    steps: defaultdict[str, list[Step]] = defaultdict(list)
    for step in spans:
        if step.call_id in repeated:
            steps[step.call_id or ""].append(step)
    return {x for x, alike in steps.items() if _are_one(alike)}


def last_of_each(spans: Sequence[Executed]) -> list[Executed]:
    """The spans, in order of time, without those whose id, which identifies one call, a later one
    has too.
    """
    last = {x.call_id: x for x in spans}
    return [x for x in spans if x.call_id is None or last[x.call_id] is x]


def _are_one(steps: Sequence[Step]) -> bool:
    *interrupted, last = steps  # by time
    kinds = {kind_of(x.tool_name or "", x.arguments) for x in steps}
    return len(kinds) == 1 and all(_went_on(x, last) for x in interrupted)


def _is_interrupted(step: Step) -> bool:
    return not step.has_result and step.error is None


def _went_on(interrupted: Step, step: Step) -> bool:
    """Whether a tool's span that ended without a result had its result in another one, or may
    have.
    """
    if not _is_interrupted(interrupted) or interrupted.span.end_ns > step.span.start_ns:
        return False
    if interrupted.call_id and step.call_id and interrupted.call_id != step.call_id:
        return False
    return (
        step.has_result
        or step.error is not None
        or (step.call_id is not None and step.call_id == interrupted.call_id)
    )


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
    """Where tool calls are recorded first: in the outputs of models, and in spans; by time.

    The inputs of later model calls, which repeat them, are looked at afterwards (`_tails`).
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
    known, requesters = KnownCalls(calls), Requesters(turn)
    for own in outputs if turn.models else ():
        if any(x.results for x in own.messages):  # of tools that the provider ran itself
            _add_tail(known, own, unreliable, requesters)
    for step in (*turn.agents, *turn.workflows) if turn.models else ():
        for hosted in _run_by_provider(step):
            _add_tail(known, hosted, unreliable, requesters)
    for number, tail in enumerate(_tails(turn) if turn.models else reversed(outputs)):
        if number and not known.unanswered:
            break  # the last input contains those before it: what it does not add, they hardly will
        _add_tail(known, tail, unreliable, requesters)
    _exchange_spans(known.calls)
    return sorted(known.calls, key=order_of)


def _exchange_spans(calls: Iterable[Call]) -> None:
    """Give spans that several calls of a tool may have to those that were told their results."""
    guessed = defaultdict[str, list[Call]](list)
    for call in calls:
        if (
            call.is_guess
            and call.has_stated_result
            and call.ran is not None
            and call.ran.step.has_result
        ):
            guessed[call.name].append(call)
    for alike in guessed.values():
        spans = defaultdict[str, deque[Executed]](deque)
        for call in alike:
            if call.ran is not None:
                spans[printed(call.ran.step.result)].append(call.ran)
        stated = [printed(x.returned.result.value) for x in alike if x.returned is not None]
        if Counter(stated) == {result: len(found) for result, found in spans.items()}:
            for call, result in zip(alike, stated, strict=True):
                call.ran, call.is_guess = spans[result].popleft(), False


def _run_by_provider(step: Step) -> Iterator[_Conversation]:
    """The message of the present turn that contains calls with their results, among those that an
    agent or workflow returned: some emitters leave them out of the model call's output.
    """
    output = step.output or ()
    for message in output[conversation.last_user_message(output) + 1 :]:
        if message.calls and message.results:
            yield _Conversation(step, (message,), step.agent_name)


def _outputs_of_models(turn: TurnSteps) -> list[_Conversation]:
    return [_Conversation(x, x.output, turn.agent_of(x)) for x in turn.models if x.output]


def _tails(turn: TurnSteps) -> Iterator[_Conversation]:
    """The messages of the present turn in the input of each model call, the last call first."""
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
        ran -= ids_of_one_call(steps, ran)
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
        counts = {kind: len(alike) for kind, alike in waiting.items()}
        pending = [
            ran for ran in pending if not _attach_one(waiting, counts, ran, by_id, exact=exact)
        ]
    if not pending:
        return
    interrupted = InterruptedCalls(calls)
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
            found.append(Executed(step, agent, call_id, named_arguments(step, schemas)))
    return found


def _without_span(calls: Sequence[Call], *, exact: bool) -> Mapping[Kind, deque[Call]]:
    """The calls that have no span yet, by name, and by arguments too where `exact`."""
    waiting: defaultdict[Kind, deque[Call]] = defaultdict(deque)
    for call in calls:
        if call.ran is None:
            waiting[kind_of(call.name, call.arguments if exact else None)].append(call)
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
    waiting: Mapping[Kind, deque[Call]], ran: Executed, by_id: Mapping[str, Call], *, exact: bool
) -> Call | None:
    """Take the first call that may be the same from `waiting`.

    Ids that both sides know and that differ do not forbid it, as long as the span's id is nobody's:
    a model's API and a framework may each have ids of their own.
    """
    if ran.call_id in by_id:
        return None
    calls = waiting.get(kind_of(ran.step.tool_name or "", ran.arguments if exact else None))
    return calls.popleft() if calls else None


def _attach_one(
    waiting: Mapping[Kind, deque[Call]],
    counts: Mapping[Kind, int],
    ran: Executed,
    by_id: Mapping[str, Call],
    *,
    exact: bool,
) -> bool:
    """Add a span to the first call that may be the same; of several, that is a guess."""
    call = _pick(waiting, ran, by_id, exact=exact)
    if call is not None and call.ran is None:
        call.is_guess = counts[kind_of(call.name, call.arguments if exact else None)] > 1
    return _attach(call, ran)


def _attach(call: Call | None, ran: Executed) -> bool:
    """Add a span to its call; False where there is none, or where it has its span already."""
    if call is None or call.ran is not None:
        return False
    call.ran = ran
    if not is_settled(call):
        settle(call)
    return True


def _resume(interrupted: InterruptedCalls, ran: Executed) -> bool:
    """Whether a span without a request of its own is of a call that was interrupted, to be
    approved, and run later.
    """
    call = interrupted.resumed(ran)
    _attach(call, ran)
    return call is not None


def _add_tail(
    known: KnownCalls, tail: _Conversation, unreliable: set[str], requesters: Requesters
) -> None:
    """Complete the calls by the input of a model call; a call that shows only there is added."""
    pairs, loose = paired(tail.messages, unreliable)
    taken: set[int] = set()
    passed: Passed = defaultdict(int)
    before: Order = (0, 0, 0)
    for position, (request, repeating, answer) in enumerate(pairs):
        call = known.by_id.get(request.call_id) if request.call_id else None
        call = call or known.first(request, taken, passed) or known.fuller(request, taken, passed)
        if call is None:
            if "input" in tail.step.damaged:
                continue  # it may be of an earlier turn: where this one starts is not known
            requester = requesters.of(tail.step, repeating) or tail.step
            # never before a call that stands before it, whose span may have begun later
            order = max((requester.span.start_ns, -1, position), before)
            call = Call(order, request.name)
            known.add(call)
        taken.add(id(call))
        before = call.order
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
    known: KnownCalls, tail: _Conversation, loose: Sequence[Answer], *, is_alone: bool
) -> Iterator[tuple[Answer, Call | None]]:
    """Results that answer no call in their conversation, with the calls that they are of.

    In one that shows no call, results that name none are those of the turn's calls so far, if they
    are as many.
    """
    if is_alone and loose and not any(x[0].call_id for x in loose):
        calls = sorted(
            (x for x in known.calls if x.order[0] < tail.step.span.start_ns), key=order_of
        )
        yield from side_by_side(loose, calls) if len(calls) == len(loose) else ()
        return
    yield from ((x, known.by_id.get(x[0].call_id or "")) for x in loose)


def _returned(tail: _Conversation, answer: Answer) -> Returned:
    return Returned(tail.step, answer[0], "results" in answer[1].damaged)


def named_arguments(step: Step, schemas: dict[str, Any]) -> Json:
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
