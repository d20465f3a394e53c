"""Say where each fact of a turn came from, and what lost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from spanscore.model.step import Step
from spanscore.model.trace import Tool
from spanscore.turns import _call_sources, _conversation, _sources, _tool_calls
from spanscore.turns._found import First, Found, first
from spanscore.turns._held import Again, Lens, held
from spanscore.turns._sorted import Turn
from spanscore.turns._turn import available_tools

MAX_EXPLAINED = 50
"""How many of a turn's tool calls, of its tools on offer and of its counts of tokens are explained: the first."""

_MAX_LOST = 4  # of one fact in one span


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from. `attributes` are the attributes (or other parts) of the step's span that held it.

    They are empty where no single one does. `damaged`: the value was cut or redacted on the way.
    """

    source: str
    value: Any
    step: Step
    attributes: tuple[str, ...]
    damaged: bool = False

    def to_json(self) -> dict[str, Any]:
        """The origin as JSON, without the value itself."""
        span = self.step.span
        return {
            "source": self.source,
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "span_name": span.name,
            "dialect": self.step.dialect or None,
            "attributes": list(self.attributes),
            "damaged": self.damaged,
        }


@dataclass(frozen=True, slots=True)
class Explained:
    """The origin of a fact, None where the trace did not say; and what else spoke, but came after it in the order."""

    origin: Origin | None
    lost: tuple[Origin, ...] = ()

    def to_json(self) -> dict[str, Any] | None:
        """The origin as JSON, with what lost and whether that says the same; None where the trace did not say."""
        if self.origin is None:
            return None
        lost = [{**x.to_json(), "agrees": x.value == self.origin.value} for x in self.lost]
        return {**self.origin.to_json(), "lost": lost}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where the facts of one turn came from; each of `tools` (by name) and `tokens` counts."""

    facts: Mapping[str, Explained]
    tool_calls: tuple[Mapping[str, Explained], ...]
    tools: Mapping[str, Origin]
    tokens: tuple[Origin, ...]

    def to_json(self) -> dict[str, Any]:
        """What `spanscore inspect --explain --jsonl` adds to an agent trace."""
        return {
            **{name: x.to_json() for name, x in self.facts.items()},
            "tool_calls": [{name: x.to_json() for name, x in call.items()} for call in self.tool_calls],
            "available_tools": {name: x.to_json() for name, x in self.tools.items()},
            "usage": [{**x.to_json(), "tokens": x.value} for x in self.tokens],
        }


def explain(turn: Turn, again: Again, told_by: Sequence[Step] = ()) -> Explanation:
    """Explain every fact of a turn. The work is bounded, but far more than building the turn is.

    `told_by` are reports of its model calls in other traces.
    """
    explaining = _Explaining(turn, again, told_by)
    offered = available_tools(turn)[0] or ()
    calls = _tool_calls.rebuild(turn, offered)[:MAX_EXPLAINED]
    return Explanation(
        {name: explaining.fact(name, sources, turn) for name, sources in _sources.SOURCES.items()},
        tuple(
            {name: explaining.fact(name, sources, call) for name, sources in _call_sources.CALL_SOURCES.items()}
            for call in calls
        ),
        explaining.tools(offered),
        tuple(explaining.tokens()),
    )


class _Explaining:
    """The turn that is explained, and what reads its spans again."""

    def __init__(self, turn: Turn, again: Again, told_by: Sequence[Step]) -> None:
        self._turn = turn
        self._again = again
        self._told_by = told_by
        self._by_id = {(x.span.trace_id, x.span.span_id): x for x in turn.steps}

    def fact(self, name: str, sources: First[Any], subject: Any) -> Explained:
        """Explain a fact of the turn or of one of its tool calls."""
        winner = first(sources, subject)
        if winner is None or winner.value == ():
            return Explained(None)
        origin: list[Origin] = []
        lost: list[Origin] = []
        seen: set[tuple[str, str]] = set()
        for source in sources:
            found = source.speak(subject)
            if found is None or (found.step.span.span_id, found.field) in seen:
                continue
            seen.add((found.step.span.span_id, found.field))
            told = self._origins(name, source.words, found)
            if found.step is winner.step and found.field == winner.field:
                origin, lost = told[:1], lost + told[1:]
            else:
                lost += told
        return Explained(next(iter(origin), None), _elsewhere(lost, origin))

    def tools(self, offered: Sequence[Tool]) -> dict[str, Origin]:
        """Where each tool on offer was listed or described."""
        origins: dict[str, Origin] = {}
        for source in (*_sources.OFFERED, *_sources.DESCRIBED):
            for found in _sources.listed(source.speak(self._turn)):
                told = {id(x) for x in found.value or ()}
                for tool in offered[:MAX_EXPLAINED]:
                    if tool.name not in origins and id(tool) in told:
                        step, lens = self._teller(found), _listed(tool.name)
                        origins[tool.name] = self._origin(source.words, step, lens, (tool.name,), damaged=found.damaged)
        return origins

    def tokens(self) -> Iterator[Origin]:
        """Where the counts of tokens are that were added up."""
        for source in _sources.TOKENS:
            found = _sources.tokens(source.speak(self._turn))
            for count in found[:MAX_EXPLAINED]:
                yield self._origin(source.words, self._teller(count), _lens("tokens", count), count.value)
            if found:
                return

    def _origins(self, name: str, source: str, found: Found) -> list[Origin]:
        """Where a value came from; and what the same span would have told without that, in order."""
        if found.field == "resource":
            key = name.replace("_", ".")
            return [Origin(source, found.value, found.step, (f"{key} of the resource",))]
        value, damaged = found.value, found.damaged
        if value is None and damaged:
            return [Origin(source, value, found.step, (), damaged)]
        lens, teller, told = _lens(name, found), self._teller(found), list[Origin]()
        step = teller
        while len(told) < _MAX_LOST:
            parts = held(self._again, step, lens, value)
            attributes = tuple(self._again.name(step, x) for x in parts)
            told.append(Origin(source, value, teller, attributes, damaged))
            if not parts:
                break
            step = self._again.without(step, *parts)
            value, damaged = lens(step), False
            if step.kind != found.step.kind or value is None or value == ():
                break
            if isinstance(value, _Recorded):
                value = value.value
        return told if len(told) == 1 or told[-1].attributes else told[:-1]

    def _origin(self, source: str, step: Step, lens: Lens, value: Any, *, damaged: bool = False) -> Origin:
        parts = held(self._again, step, lens, value)
        return Origin(source, lens(step), step, tuple(self._again.name(step, x) for x in parts), damaged)

    def _teller(self, found: Found) -> Step:
        """The step as its span was read: what is found may have been completed by another report of the same call."""
        step, field = found.step, _FIELD_OF.get(found.field, found.field)
        if field == "agent_name" and step.agent_name != found.value:
            return self._turn.tree.place(step).agent or step
        if field == "messages":
            field = "output" if _has_call(step.output or (), found.value) else "input"
        told = getattr(step, field)
        own = self._by_id.get((step.span.trace_id, step.span.span_id), step)
        elsewhere = next((x for x in self._told_by if told is not None and getattr(x, field) is told), None)
        if elsewhere is not None:
            return elsewhere
        if told is None or getattr(own, field) is told:
            return own
        return next((x for x in self._turn.steps if getattr(x, field) is told), own)


def _elsewhere(lost: Sequence[Origin], origin: Sequence[Origin]) -> tuple[Origin, ...]:
    """What lost, each place once: an agent's one span tells the agent of all its steps."""
    kept: list[Origin] = []
    for one in lost:
        if not any(x.step.span is one.step.span and x.attributes == one.attributes for x in (*origin, *kept)):
            kept.append(one)
    return tuple(kept)


class _Recorded(NamedTuple):
    """A result that was recorded, be it null."""

    value: Any


_FIELD_OF = {"calls": "messages", "results": "input"}


def _lens(name: str, found: Found) -> Lens:
    """What any reading of a span says of the fact that was found in its step."""
    field, value = found.field, found.value
    if field == "calls":
        return lambda step: value if _has_call((*(step.output or ()), *(step.input or ())), value) else None
    if field == "results":
        return lambda step: value if _has_result((*(step.input or ()), *(step.output or ())), value) else None
    if field in {"input", "output"} and name in _IN_MESSAGES:
        return _IN_MESSAGES[name]
    if field == "arguments":
        return lambda step: step.arguments if not step.positional else (step.arguments, step.positional)
    if field == "result":
        return lambda step: _Recorded(step.result) if step.has_result else None
    return lambda step: getattr(step, field)


def _plan(step: Step) -> str | None:
    said = [x.text for x in step.output or () if x.text and x.text.strip()]
    return "\n".join(said) or None


_IN_MESSAGES: Mapping[str, Lens] = {
    "user_input": lambda step: _conversation.opening(step.input or ()).text,
    "history": lambda step: _conversation.history(_conversation.opening(step.input or ())),
    "system_instructions": lambda step: _conversation.system_text(step.input or ()),
    "final_output": lambda step: _conversation.final_text(step.output or ()),
    "plan": _plan,
}


def _listed(name: str) -> Lens:
    return lambda step: next((x for x in step.tools or () if x.name == name), None)


def _has_call(messages: Sequence[Any], value: Any) -> bool:
    return any(value in (x.name, x.call_id, x.arguments) for message in messages for x in message.calls)


def _has_result(messages: Sequence[Any], value: Any) -> bool:
    return any(value in (x.value, x.error) for message in messages for x in message.results)
