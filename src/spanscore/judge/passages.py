"""The passages of a transcript, in reading order."""

import functools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate, count
from typing import Literal, TypeAlias

from spanscore.judge.marks import UNRECORDED, indented, left_out, section, text_of
from spanscore.model.json import Json, dumps
from spanscore.model.tool_names import may_change
from spanscore.model.trace import (
    AgentTrace,
    Attachment,
    ModelCall,
    PastMessage,
    RequestedCall,
    Retrieval,
    Session,
    Tool,
    ToolCall,
    requested_in,
)

Part: TypeAlias = Literal["frame", "tool", "history", "document", "step"]
Kind: TypeAlias = Literal[
    "note", "input", "instructions", "plan", "output", "head", "arguments", "result", "error",
    "text", "reasoning",
]  # fmt: skip

Unit: TypeAlias = tuple[Part, int, int]


@dataclass(frozen=True, slots=True)
class Passage:
    """Some lines of a transcript.

    `number` is that of the step, past message, tool or document they belong to, `turn` that of the
    turn in a session, `call` the place of the tool call whose arguments they are. `decisive`: they
    belong to a call that changes something, or to a tool that was called.
    """

    text: str
    part: Part = "frame"
    number: int = 0
    kind: Kind = "note"
    turn: int | None = None
    call: int | None = None
    decisive: bool = False

    @property
    def unit(self) -> Unit:
        """What can only be left out together: a step, a past message, a tool, a document; in
        reading order.
        """
        return (self.part, self.turn or 0, self.number)


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
    asked = _with_notices(trace.user_input, trace.attachments)
    yield Passage(section("User input", asked), kind="input")
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
    unread = [x for x in earlier if x.user_input is None or x.user_input not in given]
    turns = unread[-MAX_EARLIER_TURNS:]
    if len(unread) > len(turns):
        yield Passage(left_out(f"{len(unread) - len(turns)} earlier turn(s)"))
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
    lines.append(f"- user: {_shown(turn.user_input)}")
    lines += [
        f"- the tool {indented(call.name)} was called with {_given(call)}; {_came_of(call)}"
        for call in turn.tool_calls or ()
    ]
    lines.append(f"- agent: {_shown(turn.final_output)}")
    for line in lines:
        yield Passage(line, "history", number)


def _shown(text: str | None, depth: int = 2) -> str:
    return UNRECORDED if text is None else indented(text, depth)


def _given(call: ToolCall, depth: int = 2) -> str:
    """The arguments of a call."""
    return _shown(None if call.arguments is None else text_of(call.arguments), depth)


def _came_of(call: ToolCall) -> str:
    if call.error is not None:
        return f"it failed: {indented(call.error)}"
    if call.returned:
        return f"it returned {indented(text_of(call.result))}"
    return "its result was not recorded"


def _message(message: PastMessage) -> str:
    calls = " ".join(f"[called {_requested(call)}]" for call in message.tool_calls)
    text = _with_notices(message.text, message.attachments)
    return f"- {indented(message.role)}: {indented(' '.join(x for x in (text, calls) if x))}"


def _with_notices(text: str | None, attachments: Sequence[Attachment]) -> str | None:
    """A text with what was attached to it on lines of their own."""
    if not attachments:
        return text
    return "\n".join([*([text] if text else ()), *(f"Attached: {x}" for x in attachments)])


def _requested(call: RequestedCall) -> str:
    return f"{call.name} with {UNRECORDED if call.arguments is None else dumps(call.arguments)}"


def _retrieval(retrieval: Retrieval, places: Iterator[int]) -> Iterator[Passage]:
    yield Passage(f"- for the query: {_shown(retrieval.query)}")
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
    # a call belongs to the model call that requested it; one that nobody requested follows the tool
    # call before it
    places = (-1 if x is None else x for x in requested_in(trace.model_calls, calls))
    for number, place in enumerate(accumulate(places, max)):
        following[place].append(number)
    made = _names(calls)
    for place in range(-1, len(trace.model_calls)):
        if place >= 0:
            model = trace.model_calls[place]
            lines = () if model.utility else tuple(_remarks(trace, model, made))
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
            place = first_call + step.place
            yield from _called(calls[step.place], step.number, place, trace.started_ns)
        elif step.number:
            yield from _answered(trace.model_calls[step.place], step, trace.started_ns)
    if not any_step:
        yield Passage("(none)")


def _names(calls: Sequence[ToolCall]) -> set[str]:
    """By what the calls that were made are known: their ids and names."""
    return {name for call in calls for name in (call.call_id, call.name) if name}


def _remarks(trace: AgentTrace, model: ModelCall, made: set[str]) -> list[str]:
    """What a model call adds to the record: its text, unless it stands elsewhere, unmet requests,
    and reasoning.

    `made` are the ids and names of the tool calls that were made. Empty where it adds nothing.
    """
    lines: list[str] = []
    if model.text and model.text != trace.final_output:
        is_plan = model.text == trace.plan
        lines.append("   the text above" if is_plan else f"   text: {indented(model.text, 6)}")
    lines += [
        f"   asked for {indented(_requested(x), 6)}; no such call is recorded"
        for x in model.tool_calls
        if made.isdisjoint((x.call_id, x.name))
    ]
    if model.reasoning:
        lines.append(f"   reasoning: {indented(model.reasoning, 6)}")
    return lines


def _answered(model: ModelCall, step: Step, started_ns: int) -> Iterator[Passage]:
    name = f" ({indented(model.model)})" if model.model else ""
    when = step_time(model.started_ns, model.ended_ns, started_ns)
    yield Passage(f"{step.number}. the model answered{name}{when}", "step", step.number, "head")
    for line in step.lines:
        kind: Kind = "reasoning" if line.startswith("   reasoning") else "text"
        yield Passage(line, "step", step.number, kind)


def _called(call: ToolCall, number: int, place: int, started_ns: int) -> Iterator[Passage]:
    of_step = partial(Passage, part="step", number=number)
    by = f" (by agent {indented(call.agent)})" if call.agent else ""
    when = step_time(call.started_ns, call.ended_ns, started_ns)
    name = indented(call.name)
    yield of_step(f"{number}. the tool {name} was called{by}{when}", kind="head")
    decisive = may_change(call.name)
    given = f"   arguments: {_given(call, 6)}"
    yield of_step(given, kind="arguments", call=place, decisive=decisive)
    if call.error is not None:
        how = " (recognised in the result)" if call.error_inferred else ""
        error = f"   error{how}: {indented(call.error, 6)}"
        yield of_step(error, kind="error", decisive=decisive)
    if call.error is None or (call.result is not None and call.result != call.error):
        result = _shown(text_of(call.result) if call.returned else None, 6)
        yield of_step(f"   result: {result}", kind="result", decisive=decisive)


_MAX_SCHEMA_CHARACTERS = 300
_QUESTION_MARKS = (
    "?",
    "？",  # noqa: RUF001 - full width, Arabic, Armenian, Greek
    "؟",
    "՞",
    "\u037e",
)
_COMPLETENESS = {
    "partial": "spans of this turn did not arrive; steps of it may be missing",
    "idle": "no span closed this turn; its end may be missing",
    "truncated": "this turn was cut at a limit of size or age; its end may be missing",
}


def frame(trace: AgentTrace, before: AgentTrace | None) -> Iterator[Passage]:
    """What holds for the whole turn.

    `before` is the turn before: what is the same is not repeated.
    """
    if trace.agent_name and (before is None or before.agent_name != trace.agent_name):
        yield Passage(f"Agent: {indented(trace.agent_name)}")
    started = moment(trace.started_ns)
    if started is not None:
        took = lasted(max(trace.ended_ns - trace.started_ns, 0))
        yield Passage(f"Turn started: {started}; it took {took}")
    elif before is None:
        yield Passage(f"Turn started: {UNRECORDED}")
    if trace.completeness != "complete":
        yield Passage(f"Record: {_COMPLETENESS[trace.completeness]}.")
    if trace.damaged:
        yield Passage(f"Arrived cut or masked: {', '.join(trace.damaged)}")
    if before is None or before.available_tools != trace.available_tools:
        called = {call.name for call in trace.tool_calls or ()}
        yield from _offer(trace.available_tools, called)
    instructions = trace.system_instructions
    if before is None or before.system_instructions != instructions:
        text = section("System instructions of the agent", instructions)
        yield Passage(text, kind="instructions")


_STOPPED = {
    "cancelled": "it was cancelled before the agent answered",
    "waiting": "it waits for a person or a result from elsewhere",
}


def ending(trace: AgentTrace) -> str:
    """How the turn ended, as far as its record shows."""
    output, how = trace.final_output, ""
    if output:
        is_question = output.rstrip().endswith(_QUESTION_MARKS)
        question = ", which ends with a question" if is_question else ""
        how = f"with the agent's final output{question}."
    elif output is not None:
        how = "the agent's final output is empty; the user got no answer."
    elif trace.outcome == "failed":
        how = f"it failed: {indented(trace.error or 'no error is recorded')}"
    elif trace.outcome in _STOPPED:
        how = f"{_STOPPED[trace.outcome]}."
    elif "final_output" in trace.damaged:
        how = "unknown; the final output arrived cut or masked."
    return f"How the turn ended: {how or _last_step(trace) + _NO_OUTPUT}"


_NO_OUTPUT = "; no final output of the agent is recorded."


def written_in(trace: AgentTrace, before: AgentTrace | None) -> str | None:
    """In which scripts the user and the agent wrote; None where nothing is to be said that was not
    said of `before`.
    """
    now = _written(trace)
    return now if now and (before is None or _written(before) != now) else None


def conversation_ending(last: AgentTrace) -> str:
    """Who had the last word in a session, as far as its record shows."""
    if last.final_output:
        return (
            "How the conversation ended: the agent had the last word; no later message of the user"
            " is recorded."
        )
    return "How the conversation ended: no answer to the user's last message is recorded."


def _written(trace: AgentTrace) -> str | None:
    parts = (("the user's input", trace.user_input), ("the final output", trace.final_output))
    found = [
        f"{what} in {' and '.join(names)}"
        for what, text in parts
        if text and (names := scripts(text))
    ]
    return f"Scripts: {', '.join(found)}" if found else None


def _last_step(trace: AgentTrace) -> str:
    """What the record shows last, where there is no final output."""
    requested = trace.model_calls[-1].tool_calls if trace.model_calls else ()
    calls = trace.tool_calls or ()
    made = _names(calls)
    unmet = [x.name for x in requested if made.isdisjoint((x.call_id, x.name))]
    if unmet:
        return f"the model asked for the tool {indented(unmet[-1])}, and no such call is recorded"
    if not calls:
        return "it is not recorded"
    last = calls[-1]
    how = "which returned" if last.returned else "whose result is not recorded"
    how = how if last.error is None else "which failed"
    return f"the last recorded step is the call of {indented(last.name)}, {how}"


def _offer(tools: Sequence[Tool] | None, called: Collection[str]) -> Iterator[Passage]:
    if not tools:
        yield Passage(f"Tools on offer: {UNRECORDED if tools is None else '(none)'}")
        return
    yield Passage("Tools on offer:")
    for number, tool in enumerate(tools):
        yield Passage(_tool(tool), "tool", number, decisive=tool.name in called)


def _tool(tool: Tool) -> str:
    described = f": {indented(tool.description, 4)}" if tool.description else ""
    lines = [f"- {indented(tool.name)}{described}"]
    schema = tool.parameters if isinstance(tool.parameters, dict) else {}
    properties, required = schema.get("properties"), schema.get("required")
    needed = required if isinstance(required, list) else []
    if isinstance(properties, dict):
        lines += [_parameter(name, about, name in needed) for name, about in properties.items()]
    elif tool.parameters:
        lines.append(f"    parameters: {indented(text_of(tool.parameters), 6)}")
    return "\n".join(lines)


def _parameter(name: str, about: Json, needed: bool) -> str:
    """One parameter of a tool, e.g. `cabin (string, one of ["economy","business"], required): the
    class to book`.
    """
    schema = about if isinstance(about, dict) else {}
    rest = {k: v for k, v in schema.items() if k not in ("type", "description", "title", "enum")}
    facts = [text_of(schema["type"])] if "type" in schema else []
    if "enum" in schema:
        facts.append(f"one of {dumps(schema['enum'])}")
    if rest:
        facts.append(dumps(rest)[:_MAX_SCHEMA_CHARACTERS])
    if needed:
        facts.append("required")
    described = f": {text_of(schema['description'])}" if schema.get("description") else ""
    return "    " + indented(name + (f" ({', '.join(facts)})" if facts else "") + described, 6)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST_NS = 946_684_800 * 10**9  # 2000: what is before comes from a clock that was never set
_SLOW_NS = 2 * 10**9
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def moment(at_ns: int) -> str | None:
    """A time in UTC with its day of the week; None where the clock was not set.

    >>> moment(1715785200_000000000)
    '2024-05-15 15:00:00 UTC, a Wednesday'
    """
    if at_ns < _EARLIEST_NS:
        return None
    try:
        at = _EPOCH + timedelta(seconds=at_ns // 10**9)
    except OverflowError:
        return None
    return f"{at:%Y-%m-%d %H:%M:%S} UTC, a {_DAYS[at.weekday()]}"


def lasted(duration_ns: int) -> str:
    """A duration for reading.

    >>> [lasted(x * 10**8) for x in (0, 12, 250, 4000, 90_000)]
    ['0.0 s', '1.2 s', '25 s', '6 min 40 s', '2 h 30 min']
    """
    seconds = duration_ns / 10**9
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def step_time(started_ns: int | None, ended_ns: int | None, turn_started_ns: int) -> str:
    """When a step began after its turn's start and, of a slow one, how long it took; "" where
    nobody knows.

    In brackets, with a space before them.

    >>> (
    ...     step_time(3_200_000_000, 9_000_000_000, 2_000_000_000),
    ...     step_time(3_200_000_000, None, 2_000_000_000),
    ... )
    (' (+1.2 s, took 5.8 s)', ' (+1.2 s)')
    """
    if started_ns is None or started_ns <= 0 or turn_started_ns <= 0:
        return ""
    sign = "+" if started_ns >= turn_started_ns else "-"
    duration_ns = 0 if ended_ns is None else ended_ns - started_ns
    took = f", took {lasted(duration_ns)}" if duration_ns >= _SLOW_NS else ""
    return f" ({sign}{lasted(abs(started_ns - turn_started_ns))}{took})"


_SCRIPTS = re.compile(
    "ARABIC|ARMENIAN|BENGALI|CYRILLIC|DEVANAGARI|ETHIOPIC|GEORGIAN|GREEK|GUJARATI|GURMUKHI|HANGUL"
    "|HEBREW|KANNADA|KHMER|LAO|LATIN|MALAYALAM|MYANMAR|SINHALA|TAMIL|TELUGU|THAI|TIBETAN"
)
_CALLED = {"CJK": "Chinese characters"} | dict.fromkeys(("HIRAGANA", "KATAKANA"), "Japanese kana")
_MAX_CHARACTERS = 4000
_LEAST_SHARE = 0.1


def scripts(text: str) -> tuple[str, ...]:
    """The scripts of at least a tenth of a text's letters, the most frequent first; of a long text,
    of its beginning.

    >>> scripts("Забронируй мне рейс на завтра"), scripts("予約をお願いします"), scripts("42")
    (('Cyrillic',), ('Japanese kana', 'Chinese characters'), ())
    """
    found = Counter(name for name in map(_script, text[:_MAX_CHARACTERS]) if name)
    least = found.total() * _LEAST_SHARE
    return tuple(name for name, count in found.most_common() if count >= least)


@functools.lru_cache(maxsize=4096)
def _script(character: str) -> str | None:
    name = unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""
    return _CALLED.get(name) or (name.capitalize() if _SCRIPTS.fullmatch(name) else None)
