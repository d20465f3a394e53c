"""What a judge reads of an agent trace, in reading order: each fact once, each step numbered, no
JSON dump.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count
from typing import Literal

from spanscore.judge.clock import moment, step_time
from spanscore.judge.framing import conversation_ending, ending, frame, written_in
from spanscore.judge.lines import UNRECORDED, indented, section, text_of
from spanscore.judge.marks import left_out
from spanscore.judge.passage import Passage
from spanscore.model.json import dumps
from spanscore.model.requests import requested_in
from spanscore.model.tool_names import may_change
from spanscore.model.trace import (
    AgentTrace,
    ModelCall,
    PastMessage,
    RequestedCall,
    Retrieval,
    Session,
    ToolCall,
)

MAX_TURNS = 200
"""No more turns of a session are shown: the first and the last ones."""

MAX_EARLIER_TURNS = 50
"""No more turns before the one that is judged are shown: the last ones."""


class Numbers:
    """The one numbering of a transcript: steps from 1, over all its turns; and the place of each
    tool call.

    A call that is not shown has the number 0.
    """

    def __init__(self) -> None:
        self.of_calls: list[int] = []
        self._last = 0

    def step(self) -> int:
        """The number of the next step."""
        self._last += 1
        return self._last

    def call(self) -> tuple[int, int]:
        """The number and the place of the next step, a tool call."""
        self.of_calls.append(self.step())
        return self.of_calls[-1], len(self.of_calls) - 1

    def skip(self, trace: AgentTrace) -> None:
        """Leave out a turn: its calls have places all the same."""
        self.of_calls += [0] * len(trace.tool_calls or ())


def turns_passages(session: Session, numbers: Numbers) -> Iterator[Passage]:
    """The passages of all turns of `session`, each turn under its index from 0.

    What a turn has in common with the turn before is not said again, nor is the history that the
    turns before are.
    """
    turns = len(session.traces)
    yield Passage(
        f"A session of {turns} turn(s), numbered from 0; the steps are numbered from 1 through all"
        " turns. What a turn does not repeat is as in the turn before."
    )
    before: AgentTrace | None = None
    for index, trace in enumerate(session.traces):
        if MAX_TURNS // 2 <= index < turns - MAX_TURNS // 2:
            if index == MAX_TURNS // 2:
                yield Passage(left_out(f"turns {index} to {turns - MAX_TURNS // 2 - 1}"))
            numbers.skip(trace)
            continue
        yield Passage(f"Turn {index}:", turn=index)
        found = passages(trace, before, numbers=numbers, of_session=True)
        yield from (replace(passage, turn=index) for passage in found)
        before = trace
    if before is not None:
        yield Passage(conversation_ending(before))


def passages(
    trace: AgentTrace,
    before: AgentTrace | None = None,
    *,
    numbers: Numbers,
    earlier: Sequence[AgentTrace] = (),
    of_session: bool = False,
) -> Iterator[Passage]:
    """The passages of `trace`: its frame, the history, the input, what was retrieved, the steps,
    the final output.

    `before` is the turn before in the same transcript: what was said of it is not said again.
    `earlier` are the session's turns before this one, marked as such. `of_session`: other turns
    follow, or came before, in the same transcript.
    """
    yield from frame(trace, before)
    if before is None:
        yield from _past(trace, earlier)
    yield Passage(section("User input", trace.user_input), kind="input")
    if trace.plan is not None:
        yield Passage(section("What the agent wrote before it acted", trace.plan), kind="plan")
    if trace.retrieved:
        yield Passage("Documents that were retrieved:")
        places = count()
        yield from (
            passage for retrieval in trace.retrieved for passage in _retrieval(retrieval, places)
        )
    yield Passage("Steps:")
    if trace.tool_calls is None:
        yield Passage("(tool calls were not recorded)")
    yield from _steps(trace, numbers)
    yield Passage(section("Final output", trace.final_output), kind="output")
    written = written_in(trace, before)
    if written:
        yield Passage(written)
    if not of_session or not trace.final_output:
        yield Passage(ending(trace))


def _past(trace: AgentTrace, earlier: Sequence[AgentTrace]) -> Iterator[Passage]:
    """What came before the turn: the session's earlier turns, and the messages that the model was
    given of them.

    An earlier turn whose input is among these messages is not shown a second time.
    """
    given = {x.text for x in trace.history or () if x.role == "user"}
    turns = [
        x for x in earlier[-MAX_EARLIER_TURNS:] if x.user_input is None or x.user_input not in given
    ]
    for index, turn in enumerate(turns, 1):
        yield from _earlier(turn, index, len(turns))
    title = "Conversation before this turn, as the model was given it:"
    if trace.history:
        yield Passage(title)
    elif "history" in trace.damaged:
        yield Passage(f"{title} (arrived cut or masked)")
    else:
        yield Passage(f"{title} {UNRECORDED if trace.history is None else '(none recorded)'}")
    for place, message in enumerate(trace.history or (), len(turns) + 1):
        yield Passage(_message(message), "history", place)


def _earlier(turn: AgentTrace, number: int, count: int) -> Iterator[Passage]:
    """A turn of the session before this one: what the user said, which tools were called, what the
    agent answered.
    """
    at = moment(turn.started_ns)
    head = f"Earlier turn {number} of {count}" + (f", {at}" if at else "")
    lines = [f"{head} (for reference only, it is not what you judge):"]
    lines.append(f"- user: {UNRECORDED if turn.user_input is None else indented(turn.user_input)}")
    for call in turn.tool_calls or ():
        given = UNRECORDED if call.arguments is None else indented(text_of(call.arguments))
        lines.append(f"- the tool {indented(call.name)} was called with {given}; {_came_of(call)}")
    lines.append(
        f"- agent: {UNRECORDED if turn.final_output is None else indented(turn.final_output)}"
    )
    for line in lines:
        yield Passage(line, "history", number)


def _came_of(call: ToolCall) -> str:
    if call.error is not None:
        return f"it failed: {indented(call.error)}"
    return (
        f"it returned {indented(text_of(call.result))}"
        if call.returned
        else "its result was not recorded"
    )


def _message(message: PastMessage) -> str:
    calls = " ".join(f"[called {_requested(call)}]" for call in message.tool_calls)
    return (
        f"- {indented(message.role)}: {indented(' '.join(x for x in (message.text, calls) if x))}"
    )


def _requested(call: RequestedCall) -> str:
    return f"{call.name} with {UNRECORDED if call.arguments is None else dumps(call.arguments)}"


def _retrieval(retrieval: Retrieval, places: Iterator[int]) -> Iterator[Passage]:
    yield Passage(
        f"- for the query: {UNRECORDED if retrieval.query is None else indented(retrieval.query)}"
    )
    for document in retrieval.documents:
        yield Passage(f"    document: {indented(text_of(document), 6)}", "document", next(places))


@dataclass(frozen=True, slots=True)
class Step:
    """A model call or tool call of a turn, in reading order; `place` is its place among those of
    its kind.

    `number` is 0 for a model call that is no step of the transcript, since it adds nothing; `lines`
    are what it adds.
    """

    kind: Literal["model", "tool"]
    place: int
    number: int
    lines: tuple[str, ...] = ()


def ordered(trace: AgentTrace, numbers: Numbers) -> Iterator[Step]:
    """Each model call, followed by the tool calls that it asked for, as a transcript numbers
    them.
    """
    calls = trace.tool_calls or ()
    following: defaultdict[int, list[int]] = defaultdict(list)
    for number, place in enumerate(_requesting_model(trace.model_calls, calls)):
        following[place].append(number)
    made = {name for call in calls for name in (call.call_id, call.name) if name}
    for place in range(-1, len(trace.model_calls)):
        if place >= 0:
            lines = tuple(_remarks(trace, trace.model_calls[place], made))
            yield Step("model", place, numbers.step() if lines else 0, lines)
        for called in following[place]:
            yield Step("tool", called, numbers.call()[0])


def _steps(trace: AgentTrace, numbers: Numbers) -> Iterator[Passage]:
    """Each model call that said something, followed by the tool calls that it asked for."""
    calls = trace.tool_calls or ()
    first_call = len(numbers.of_calls)
    any_step = False
    for step in ordered(trace, numbers):
        any_step = any_step or step.number > 0
        if step.kind == "tool":
            yield from _called(
                calls[step.place], step.number, first_call + step.place, trace.started_ns
            )
        elif step.number:
            yield from _answered(
                trace.model_calls[step.place], step.lines, step.number, trace.started_ns
            )
    if not any_step:
        yield Passage("(none)")


def _requesting_model(models: Sequence[ModelCall], calls: Sequence[ToolCall]) -> list[int]:
    """For each tool call, the place of the model call that it follows; -1: it comes before all of
    them.

    A call belongs to the model call that requested it, by id, else by name and arguments; one that
    nobody requested follows the tool call before it. Places never go down, since the tool calls are
    in order.
    """
    places = (-1 if place is None else place for place in requested_in(models, calls))
    return list(accumulate(places, max))


def _remarks(trace: AgentTrace, model: ModelCall, made: Collection[str]) -> list[str]:
    """What a model call adds to the record: its text, unless it stands elsewhere, unmet requests,
    and reasoning.

    `made` are the ids and names of the tool calls that were made. Empty where it adds nothing.
    """
    lines: list[str] = []
    if model.text and model.text != trace.final_output:
        lines.append(
            "   the text above"
            if model.text == trace.plan
            else f"   text: {indented(model.text, 6)}"
        )
    lines += [
        f"   asked for {indented(_requested(x), 6)}; no such call is recorded"
        for x in model.tool_calls
        if x.call_id not in made and x.name not in made
    ]
    if model.reasoning:
        lines.append(f"   reasoning: {indented(model.reasoning, 6)}")
    return lines


def _answered(
    model: ModelCall, lines: Sequence[str], number: int, started_ns: int
) -> Iterator[Passage]:
    name = f" ({indented(model.model)})" if model.model else ""
    when = step_time(model.started_ns, model.ended_ns, started_ns)
    yield Passage(f"{number}. the model answered{name}{when}", "step", number, "head")
    for line in lines:
        yield Passage(
            line, "step", number, "reasoning" if line.startswith("   reasoning") else "text"
        )


def _called(call: ToolCall, number: int, place: int, started_ns: int) -> Iterator[Passage]:
    by = f" (by agent {indented(call.agent)})" if call.agent else ""
    when = step_time(call.started_ns, call.ended_ns, started_ns)
    yield Passage(
        f"{number}. the tool {indented(call.name)} was called{by}{when}", "step", number, "head"
    )
    decisive = may_change(call.name)
    given = UNRECORDED if call.arguments is None else indented(text_of(call.arguments), 6)
    yield Passage(
        f"   arguments: {given}", "step", number, "arguments", call=place, decisive=decisive
    )
    if call.error is not None:
        how = " (recognised in the result)" if call.error_inferred else ""
        yield Passage(
            f"   error{how}: {indented(call.error, 6)}", "step", number, "error", decisive=decisive
        )
    if call.error is None or (call.result is not None and call.result != call.error):
        result = indented(text_of(call.result), 6) if call.returned else UNRECORDED
        yield Passage(f"   result: {result}", "step", number, "result", decisive=decisive)
