"""The span and attribute behind each fact."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spanscore.model.step import Reading, Step
from spanscore.model.trace import Tool
from spanscore.turns import attribute_finder
from spanscore.turns.attribute_finder import AttributeFinder, FactGetter, Rereader
from spanscore.turns.builder import SOURCES
from spanscore.turns.calls import call_facts, tool_calls
from spanscore.turns.calls.call_facts import Call
from spanscore.turns.facts import agent
from spanscore.turns.facts.agent import DESCRIBED, OFFERED, available_tools, listed
from spanscore.turns.facts.source import FirstOf, Source, Sourced, TurnSteps, first
from spanscore.turns.stitch.fragment import Join

MAX_EXPLAINED = 50
"""How many of a turn's tool calls, of its tools on offer and of its counts of tokens are explained:
the first.
"""

_MAX_LOST = 4  # of one fact in one span
_MAX_BESIDE = 1000
"""Steps among which one is looked for that records a fact, where its own span does not."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from.

    `attributes` are the attributes (or other parts) of the step's span that contained it.

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
    """The origin of a fact, None where the trace lacks it; and its other sources, which come later
    in the order.
    """

    origin: Origin | None
    lost: tuple[Origin, ...] = ()

    def to_json(self) -> dict[str, Any] | None:
        """The origin as JSON, with the other sources and whether they agree; None where the trace
        lacks the fact.
        """
        if self.origin is None:
            return None
        lost = [{**x.to_json(), "agrees": x.value == self.origin.value} for x in self.lost]
        return {**self.origin.to_json(), "lost": lost}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where the facts of one turn came from; each of `tools` (by name) and `tokens` counts.

    `joins` has why its traces were joined, where it has several.
    """

    facts: Mapping[str, Explained]
    tool_calls: tuple[Mapping[str, Explained], ...]
    tools: Mapping[str, Origin]
    tokens: tuple[Origin, ...]
    joins: tuple[Join, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What `spanscore inspect --explain --jsonl` adds to an agent trace."""
        return {
            **{name: x.to_json() for name, x in self.facts.items()},
            "tool_calls": [
                {name: x.to_json() for name, x in call.items()} for call in self.tool_calls
            ],
            "available_tools": {name: x.to_json() for name, x in self.tools.items()},
            "usage": [{**x.to_json(), "tokens": x.value} for x in self.tokens],
            "joins": [x._asdict() for x in self.joins],
        }


def explain(turn: TurnSteps, rereader: Rereader, reading: Reading) -> Explanation:
    """Explain every fact of a turn of a reading.

    The work is bounded, but far more than building the turn is.
    """
    explaining = _Explaining(turn, rereader, reading)
    offered = available_tools(turn)[0] or ()
    calls = tool_calls.rebuild(turn, offered)[:MAX_EXPLAINED]
    return Explanation(
        {name: explaining.fact(name, sources, turn) for name, sources in SOURCES.items()},
        tuple(
            {
                name: explaining.fact(name, sources, call)
                for name, sources in call_facts.CALL_SOURCES.items()
            }
            for call in calls
        ),
        explaining.tools(offered),
        tuple(explaining.tokens()),
    )


class _Explaining:
    """The turn that is explained, and what rereads its spans."""

    def __init__(self, turn: TurnSteps, rereader: Rereader, reading: Reading) -> None:
        self._turn = turn
        self._rereader = rereader
        self._finder = AttributeFinder(rereader)
        self._all = reading.steps
        self._other_reports = tuple(reading.other_reports.values())
        self._by_id = {(x.span.trace_id, x.span.span_id): x for x in turn.steps}

    def fact(self, name: str, sources: FirstOf[Any], subject: Any) -> Explained:
        """Explain a fact of the turn or of one of its tool calls."""
        winner = first(sources, subject)
        if winner is None or winner.value == ():
            return Explained(None)
        origin: list[Origin] = []
        lost: list[Origin] = []
        seen: set[tuple[str, str]] = set()
        for source in sources:
            found = source.find(subject)
            if found is None or found.value == () or (found.step.span.span_id, found.field) in seen:
                continue
            seen.add((found.step.span.span_id, found.field))
            origins = self._origins(
                name, source.words, found, subject if isinstance(subject, Call) else None
            )
            if found.step is winner.step and found.field == winner.field:
                origin, lost = origins[:1], lost + origins[1:]
            else:
                lost += origins
        return Explained(next(iter(origin), None), _elsewhere(lost, origin))

    def tools(self, offered: Sequence[Tool]) -> dict[str, Origin]:
        """Where each tool on offer was listed or described."""
        origins: dict[str, Origin] = {}
        for source in (*OFFERED, *DESCRIBED):
            for found in listed(source.find(self._turn)):
                in_list = {id(x) for x in found.value or ()}
                for tool in offered[:MAX_EXPLAINED]:
                    if tool.name not in origins and id(tool) in in_list:
                        step, getter = self._recorder(found), attribute_finder.of_tool(tool.name)
                        origins[tool.name] = self._origin(
                            source.words, step, getter, (tool.name,), damaged=found.damaged
                        )
        return origins

    def tokens(self) -> Iterator[Origin]:
        """Where the counts of tokens are that were added up."""
        for source in agent.USAGE_SOURCES:
            found = agent.token_counts(source.find(self._turn))
            for count in found[:MAX_EXPLAINED]:
                yield self._origin(
                    source.words,
                    self._recorder(count),
                    attribute_finder.of_fact("tokens", count),
                    count.value,
                )
            if found:
                return

    def _origins(self, name: str, source: str, found: Sourced, call: Call | None) -> list[Origin]:
        """Where a value came from; and what the same span contains without that, in order."""
        if found.field == "resource":
            key = name.replace("_", ".")
            return [Origin(source, found.value, found.step, (f"{key} of the resource",))]
        value, damaged = found.value, found.damaged
        if value is None and damaged:
            return [Origin(source, value, found.step, (), damaged)]
        place = attribute_finder.placed(found, call)
        recorder = self._recorder(found, place)
        getter = attribute_finder.of_fact(name, found, call, place)
        if getter(self._rereader.without(recorder)) != getter(recorder):
            recorder, getter = self._beside(name, found, call, recorder) or (recorder, getter)
        step, origins = recorder, list[Origin]()
        while len(origins) < _MAX_LOST:
            parts = self._finder.parts(step, getter, value)
            attributes = tuple(self._rereader.name(step, x) for x in parts)
            origins.append(Origin(source, value, recorder, attributes, damaged))
            if not parts:
                break
            step = self._rereader.without(step, *parts)
            value, damaged = getter(step), False
            if step.kind != found.step.kind or value is None or value == ():
                break
            if isinstance(value, attribute_finder.Recorded):
                value = value.value
        return origins if len(origins) == 1 or origins[-1].attributes else origins[:-1]

    def _origin(
        self, source: str, step: Step, getter: FactGetter, value: Any, *, damaged: bool = False
    ) -> Origin:
        parts = self._finder.parts(step, getter, value)
        return Origin(
            source, getter(step), step, tuple(self._rereader.name(step, x) for x in parts), damaged
        )

    def _recorder(self, found: Sourced, place: attribute_finder.Place | None = None) -> Step:
        """The step as its span was read: what is found may have been completed by another report of
        the same call.
        """
        step, field = found.step, found.field if place is None else place.field
        if field == "agent_name" and step.agent_name != found.value:
            above = self._turn.tree.place(step)
            runs = above.tool is not None and above.tool.runs_agent == found.value
            return (above.tool if runs else above.agent) or step
        value = getattr(step, field)
        own = self._by_id.get((step.span.trace_id, step.span.span_id), step)
        elsewhere = next(
            (x for x in self._other_reports if value is not None and getattr(x, field) is value),
            None,
        )
        if elsewhere is not None:
            return elsewhere
        if value is None or getattr(own, field) is value:
            return own
        return next((x for x in self._turn.steps if getattr(x, field) is value), own)

    def _beside(
        self, name: str, found: Sourced, call: Call | None, recorder: Step
    ) -> tuple[Step, FactGetter] | None:
        """Another step that records the fact, and its getter, where the dialect took it over into
        this one.
        """
        for step, getter in self._recording(name, found, call, recorder):
            if getter(self._rereader.without(step)) == found.value:
                return step, getter
        return None

    def _recording(
        self, name: str, found: Sourced, call: Call | None, recorder: Step
    ) -> Iterator[tuple[Step, FactGetter]]:
        """The steps that record the same, those after this one first."""
        started_ns = recorder.span.start_ns
        steps = sorted(
            self._all[:_MAX_BESIDE], key=lambda x: (x.span.start_ns <= started_ns, x.span.start_ns)
        )
        if found.field in {"session_id", "user_id"}:
            getter = attribute_finder.of_fact(name, found)
            yield from ((x, getter) for x in steps if getter(x) == found.value)
        request = None if call is None or call.request is None else call.request.call
        if found.field == "calls" and request is not None:
            places = (
                (x, attribute_finder.repeated(request, x)) for x in steps if x is not recorder
            )
            yield from (
                (x, attribute_finder.of_fact(name, found, call, place))
                for x, place in places
                if place is not None
            )


def _elsewhere(lost: Sequence[Origin], origin: Sequence[Origin]) -> tuple[Origin, ...]:
    """The other origins, each place once: an agent's one span records the agent of all its
    steps.
    """
    distinct: list[Origin] = []
    for one in lost:
        if not any(
            x.step.span is one.step.span and x.attributes == one.attributes
            for x in (*origin, *distinct)
        ):
            distinct.append(one)
    return tuple(distinct)


def reference() -> str:
    """The tables of facts and their sources, in Markdown."""
    gathered = {"`available_tools`": [*OFFERED, *DESCRIBED], "`usage`": agent.USAGE_SOURCES}
    lines = [
        "| fact | its sources: the first that records it counts |",
        "|---|---|",
        *_rows(SOURCES),
        "",
        "| fact | gathered from many steps |",
        "|---|---|",
        *(f"| {name} | {_numbered(sources)} |" for name, sources in gathered.items()),
        "",
        "| of a tool call | its sources: the first that records it counts |",
        "|---|---|",
        *_rows(call_facts.CALL_SOURCES),
    ]
    return "\n".join(lines)


def _rows(facts: Mapping[str, Sequence[Source[Any, Any]]]) -> Iterator[str]:
    return (f"| `{name}` | {_numbered(sources)} |" for name, sources in facts.items())


def _numbered(sources: Sequence[Source[Any, Any]]) -> str:
    if len(sources) == 1:
        return sources[0].words
    return "<br>".join(
        f"{number}. {source.words}" for number, source in enumerate(sources, start=1)
    )
