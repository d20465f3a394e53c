"""Where the turn of one trace is left open, or was begun elsewhere: the marks by which its other parts are found."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from spanscore.model.span import STATUS_ERROR, Span
from spanscore.model.step import Reading, Step
from spanscore.model.trace import AgentTrace
from spanscore.turns.basis import stitch_keys, tool_boundary
from spanscore.turns.basis.tool_boundary import UNRECORDED, ToolBoundary, Wanted, latest, wanted
from spanscore.turns.basis.tree import Tree
from spanscore.turns.facts.turn_steps import TurnSteps
from spanscore.turns.splitting.split import split
from spanscore.turns.stitch import gateway
from spanscore.turns.stitch.delegation_hints import DelegatingCall, delegating_calls, hints_of
from spanscore.turns.stitch.gateway import Reports

_LINKS, _RUNS_AGENT = attrgetter("links"), attrgetter("runs_agent")
_MAX_LINKS = 20
"""Traces that one trace may link to and still be part of a turn: what links to more gathers unrelated work."""

_MESSAGING = (4, 5)  # OpenTelemetry's span kinds PRODUCER and CONSUMER

_MAX_NAMED = 20
"""Sessions, or users, that one trace may name and be looked for by: what names more gathers unrelated work."""

_MAX_NAME = 1000
"""Characters of the name of a session or user by which parts of a turn are found."""

_MAX_TEXT = 10_000
"""Characters of a question or answer that are compared with those of linked traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFragment:
    """What tells whether a trace is part of a turn that other traces hold too.

    `leaves` is the mark where its last model call asked for tools and was not told what they returned; `enters` the one
    at which its first model call was told. `may_leave` is the mark of an only model call that seems to have answered,
    but may have asked for tools as well, since some emitters leave the calls out. `ran` are the tools of a trace in
    which no agent or model shows; `response` the id of an answer that was only asked for, or only fetched. `links` are
    the traces that its outermost spans link to; `is_message` says that those spans only hand on a message that came
    from there, or work on it. `holds` says that an agent shows, but no call of a model, which may
    then lie in other traces; `is_held` that its outermost step tells nothing, which another trace may do for it.

    `asked` and `answer` are what the user said and was told, as far as the trace says; `question` stands for the former
    where the trace is of one turn. `delegating_calls` are its tool calls, by which another trace may have been asked; in a
    group, `within` is the span of the call that this trace was asked by.

    `is_silent`: it tells of a session and no answer; `retells`: it is made of log records alone, which may be about the
    spans of a silent one.

    `reports` are its model calls, which another trace may report once more. In a group, `repeats` is the trace whose
    calls this one only repeats. `waits`: it is to wait for others though it does not say itself that there are any.

    `offers` are the keys under which another part of its turn would look for it: only what shares one may have to do
    with it. `seeks` are those under which it looks for other parts. They are asked for often, so they are kept.
    """

    trace_id: str
    started_ns: int
    ended_ns: int
    sessions: frozenset[str]
    users: frozenset[str]
    leaves: ToolBoundary | None = None
    enters: ToolBoundary | None = None
    ran: tuple[Wanted, ...] = ()
    response: str | None = None
    links: frozenset[str] = frozenset()
    is_message: bool = False
    holds: bool = False
    shows: bool = True
    asked: str | None = None
    answer: str | None = None
    question: int | None = None
    delegating_calls: tuple[DelegatingCall, ...] = ()
    within: str = ""
    may_leave: ToolBoundary | None = None
    is_held: bool = False
    is_silent: bool = False
    retells: bool = False
    reports: Reports | None = None
    repeats: str | None = None
    waits: bool = False
    offers: frozenset[str] = frozenset()
    seeks: frozenset[str] = frozenset()

    @property
    def left(self) -> ToolBoundary | None:
        """The mark at which another trace may go on."""
        return self.leaves or self.may_leave

    @property
    def wants(self) -> tuple[Wanted, ...]:
        """The calls that it asked for and was not told of."""
        return () if self.leaves is None else self.leaves.calls or (UNRECORDED,)

    @property
    def is_fragment(self) -> bool:
        """Whether the trace by itself says that its turn has parts elsewhere."""
        return self.is_open or self.waits or (self.reports is not None and self.reports.is_gateway)

    @property
    def is_open(self) -> bool:
        """Whether something of its turn is missing in it."""
        return bool(self.leaves or self.enters or self.ran or self.response or self.links)

    @property
    def repeatable(self) -> list[str]:
        """The ids of its model calls, if it shows nothing else: another trace may tell the same and more."""
        reports = self.reports
        return [] if reports is None or not reports.is_bare else reports.ids


def fragment_of(reading: Reading, traces: Sequence[AgentTrace], *, linked: bool = False) -> TraceFragment | None:
    """What ties a trace, of which `traces` are the turns, to others; None for an ordinary one, as most are.

    `linked`: another trace links to it, looks for its calls or says what it says, so that it is told of in any case.
    """
    if not reading.steps:
        return None
    is_bare = bool(traces) and gateway.is_bare(reading)
    if not linked and not is_bare and _is_ordinary(reading, traces):
        return None
    tree = Tree(reading)
    turns = split(reading.steps, tree)
    first, last = TurnSteps(turns[0][1], tree), TurnSteps(turns[-1][1], tree)
    is_recorded = reading.spans[0].recorded
    linking = _linking(reading)
    leaves, may_leave = _left(last, is_open=bool(traces) and traces[-1].final_output is None)
    found = TraceFragment(
        trace_id=reading.spans[0].trace_id,
        started_ns=min(x.span.start_ns for x in reading.steps),
        ended_ns=max(max(x.span.start_ns, x.span.end_ns) for x in reading.steps),
        sessions=_named(x.session_id for x in reading.steps),
        users=_named(x.user_id for x in reading.steps),
        leaves=leaves,
        enters=tool_boundary.entered(first.main[0]) if first.main else None,
        ran=() if traces else latest([wanted(x.call_id, x.tool_name, x.arguments) for x in first.tools if x.tool_name]),
        response=_response(first),
        links=_links(linking),
        is_message=bool(linking) and all(x.kind in _MESSAGING for x in linking),
        holds=bool(traces) and not first.models,
        shows=bool(traces),
        asked=_cut(traces[0].user_input) if traces else None,
        answer=_cut(traces[-1].final_output) if traces else None,
        may_leave=may_leave,
        is_held=len(traces) == 1 and _is_held(reading.steps) and traces[0].final_output is not None,
        is_silent=is_recorded and len(traces) == 1 and traces[0].final_output is None,
        retells=not is_recorded and len(traces) == 1,
        reports=gateway.reports(reading, tree) if traces else None,
    )
    may_be_sought = found.holds or found.is_held or found.is_silent or found.retells
    is_known = found.may_leave or (found.sessions and may_be_sought) or found.repeatable
    if not (linked or found.is_fragment or is_known):
        return None
    said = hints_of(reading, traces)
    if said is not None:
        found = replace(found, question=said.question, delegating_calls=delegating_calls(said))
    return replace(found, offers=frozenset(_offers(found)), seeks=frozenset(_seeks(found)))


def _named(names: Iterable[str | None]) -> frozenset[str]:
    found = {x for x in names if x and len(x) <= _MAX_NAME}
    return frozenset(found) if len(found) <= _MAX_NAMED else frozenset()


def _offers(part: TraceFragment) -> Iterator[str]:
    yield stitch_keys.trace(part.trace_id)
    yield from (stitch_keys.response(part.response),) if part.response is not None else ()
    yield from map(stitch_keys.model_call, part.reports.ids if part.reports is not None else ())
    yield from (stitch_keys.question(part.question),) if part.question is not None else ()
    left = part.left
    yield from tool_boundary.keys(left) if left is not None else ()
    for session in part.sessions:
        yield from (
            stitch_keys.tool(session, call.name) for call in (*(left.calls if left is not None else ()), *part.wants)
        )
        yield from (stitch_keys.holder(session), stitch_keys.holder_of(session, part.asked)) if part.holds else ()
        yield from (stitch_keys.silent(session),) if part.is_silent else ()


def _seeks(part: TraceFragment) -> Iterator[str]:
    yield from map(stitch_keys.trace, part.links)
    yield from map(stitch_keys.model_call, part.repeatable)
    yield from map(stitch_keys.question, {text for call in part.delegating_calls for text in call.said})
    yield from tool_boundary.keys(part.enters) if part.enters is not None else ()
    yield from (stitch_keys.response(part.response),) if part.response is not None else ()
    yield from (stitch_keys.tool_call(call.call_id) for call in part.ran if call.call_id)
    for session in part.sessions:
        yield from (stitch_keys.tool(session, call.name) for call in (*part.ran, *([UNRECORDED] if part.ran else ())))
        yield from (stitch_keys.holder(session),) if part.is_open and not part.holds else ()
        yield from (stitch_keys.holder_of(session, part.asked),) if part.is_held else ()
        yield from (stitch_keys.silent(session),) if part.retells else ()


def _is_ordinary(reading: Reading, traces: Sequence[AgentTrace]) -> bool:
    """A quick look: whether nothing in a trace can point to another one."""
    if any(map(_LINKS, reading.spans)) or not reading.spans[0].recorded:
        return False
    models = [x for x in reading.steps if x.kind == "model"]
    if not models:
        return bool(traces) and not any(x.session_id for x in reading.steps)
    is_silent = bool(traces) and traces[-1].final_output is None
    if is_silent and (traces[-1].session_id or any(x.output and x.output[-1].calls for x in models)):
        return False
    if any(map(_RUNS_AGENT, reading.steps)) and any(map(_is_awaited, reading.steps)):
        return False
    if _is_held(reading.steps) or (len(models) == 1 and (_is_half(models[0]) or _is_alone(reading.steps))):
        return False
    first = next((x.input for x in models if x.input), ())  # of a call reported twice, one report may tell nothing
    return not (first and first[-1].results)


def _is_held(steps: Sequence[Step]) -> bool:
    """Whether the outermost step is an agent's or a workflow's and tells nothing, though a model's inside it does.

    Or whether there is nothing but a model call.
    """
    top = steps[0]
    if len(steps) == 1 and top.kind == "model":
        return top.session_id is not None and not top.span.parent_span_id
    if top.kind not in {"agent", "workflow"} or top.span.parent_span_id or top.session_id is None:
        return False
    is_silent = all(x is None for x in (top.input, top.output, top.input_text, top.output_text))
    return is_silent and any(x.kind == "model" and x.input for x in steps)


def _is_alone(steps: Sequence[Step]) -> bool:
    """Whether there is a model call, and nothing that would tell of the calls that it asked for."""
    return not any(x.kind in {"agent", "tool"} for x in steps)


def _left(turn: TurnSteps, *, is_open: bool) -> tuple[ToolBoundary | None, ToolBoundary | None]:
    """The mark where a trace's last model call asked for tools; else the one where it may have, if `is_open` or not."""
    told = tool_boundary.left(turn.main[-1]) if is_open and turn.main else None
    awaited = [wanted(x.call_id, x.tool_name, x.arguments) for x in turn.tools if _is_awaited(x)]
    if awaited and not is_open:
        return None, ToolBoundary(None, latest(awaited), "", 0)
    if told is not None or len(turn.models) != 1 or turn.agents or turn.tools:
        return told, None
    silent = tool_boundary.maybe_pending_after(turn.models[0])
    return (silent, None) if is_open and tool_boundary.asks_for_tools(turn.models[0]) else (None, silent)


def _is_awaited(step: Step) -> bool:
    """Whether a tool runs an agent and returned nothing yet: it may do so in the background."""
    return bool(step.runs_agent) and step.kind == "tool" and bool(step.call_id) and not step.has_result


def _is_half(model: Step) -> bool:
    """Whether a model call tells only what was asked, or only what was answered."""
    told = model.output_tokens is not None or model.finish_reasons or model.span.status_code == STATUS_ERROR
    return bool(model.response_id) and not told and (model.input is None or model.output is None)


def _response(turn: TurnSteps) -> str | None:
    """The response id of the only model call, where that is half a call."""
    is_half = len(turn.models) == 1 and not turn.agents and _is_half(turn.models[0])
    return turn.models[0].response_id if is_half else None


def _links(linking: Iterable[Span]) -> frozenset[str]:
    """The other traces to which spans link."""
    found = {link.trace_id for top in linking for link in top.links if link.trace_id != top.trace_id}
    return frozenset(found) if len(found) <= _MAX_LINKS else frozenset()


def _linking(reading: Reading) -> list[Span]:
    """The outermost spans that have links."""
    known = {x.span_id for x in reading.spans}
    return [x for x in reading.spans if x.links and x.parent_span_id not in known]


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:_MAX_TEXT]
