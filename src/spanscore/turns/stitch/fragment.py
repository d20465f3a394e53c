"""What of a trace shows that its turn began, or goes on, in another one, and the keys by which that is found."""

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
    """A trace that may be a part of a turn of which other traces have parts too, and by what these are found.

    Texts are cut to 10,000 characters; times are Unix ns.
    """

    trace_id: str
    started_ns: int
    ended_ns: int
    sessions: frozenset[str]
    users: frozenset[str]

    pending_at: ToolBoundary | None = None
    """Where its last model call requested tools whose results the trace does not contain."""

    maybe_pending_at: ToolBoundary | None = None
    """The same for an only model call that seems to be an answer: some emitters leave out requested calls."""

    resumes_at: ToolBoundary | None = None
    """The results that its first model call begins with: their calls were requested in another trace."""

    ran: tuple[Wanted, ...] = ()
    """The tools of a trace without an agent or a model call."""

    response: str | None = None
    """The id of a response that was only requested, or only fetched."""

    links: frozenset[str] = frozenset()
    """The traces that its outermost spans link to."""

    is_message: bool = False
    """Whether those spans only pass on, or work on, a message from there."""

    lacks_model_calls: bool = False
    """Whether it has an agent and no model call: these may be in other traces."""

    lacks_content: bool = False
    """Whether its outermost span records neither input nor output: another trace may."""

    lacks_answer: bool = False
    """Whether it has one turn, and that no answer."""

    is_logs_only: bool = False
    """Whether it was made of log records alone, which may be about the spans of a trace that lacks an answer."""

    has_turn: bool = True
    """Whether an agent trace could be built of it."""

    asked: str | None = None
    """The user's question."""

    answer: str | None = None
    """The final output."""

    question: int | None = None
    """Stands for the question, where the trace has one turn."""

    delegating_calls: tuple[DelegatingCall, ...] = ()
    """Its tool calls that another trace's agent may have been asked by."""

    within: str = ""
    """In a group, the span of the tool call that asked for this trace."""

    reports: Reports | None = None
    """Its model calls, which another trace may report as well."""

    repeats: str | None = None
    """In a group, the trace whose model calls this one only repeats."""

    must_wait: bool = False
    """Whether it waits for others though it does not itself show that there are any."""

    offers: frozenset[str] = frozenset()
    """The keys by which other parts of its turn look for it. Kept, since they are asked for often."""

    seeks: frozenset[str] = frozenset()
    """The keys by which it looks for other parts."""

    @property
    def may_go_on_at(self) -> ToolBoundary | None:
        """Where another trace may go on."""
        return self.pending_at or self.maybe_pending_at

    @property
    def unanswered_calls(self) -> tuple[Wanted, ...]:
        """The calls that it requested and whose results it does not contain."""
        return () if self.pending_at is None else self.pending_at.calls or (UNRECORDED,)

    @property
    def is_fragment(self) -> bool:
        """Whether the trace by itself says that its turn has parts elsewhere."""
        return self.is_open or self.must_wait or (self.reports is not None and self.reports.is_gateway)

    @property
    def is_open(self) -> bool:
        """Whether something of its turn is missing in it."""
        return bool(self.pending_at or self.resumes_at or self.ran or self.response or self.links)

    @property
    def repeatable(self) -> list[str]:
        """The ids of its model calls, if it shows nothing else: another trace may report the same and more."""
        reports = self.reports
        return [] if reports is None or not reports.is_bare else reports.ids


def fragment_of(reading: Reading, traces: Sequence[AgentTrace], *, linked: bool = False) -> TraceFragment | None:
    """The fragment that a trace is, of which `traces` are the turns; None for an ordinary trace, as most are.

    `linked`: another trace refers to it, so that it is returned even if it looks complete.
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
    pending_at, maybe_pending_at = _pending_at(last, is_open=bool(traces) and traces[-1].final_output is None)
    found = TraceFragment(
        trace_id=reading.spans[0].trace_id,
        started_ns=min(x.span.start_ns for x in reading.steps),
        ended_ns=max(max(x.span.start_ns, x.span.end_ns) for x in reading.steps),
        sessions=_named(x.session_id for x in reading.steps),
        users=_named(x.user_id for x in reading.steps),
        pending_at=pending_at,
        resumes_at=tool_boundary.resumed_by(first.main[0]) if first.main else None,
        ran=() if traces else latest([wanted(x.call_id, x.tool_name, x.arguments) for x in first.tools if x.tool_name]),
        response=_response(first),
        links=_links(linking),
        is_message=bool(linking) and all(x.kind in _MESSAGING for x in linking),
        lacks_model_calls=bool(traces) and not first.models,
        has_turn=bool(traces),
        asked=_cut(traces[0].user_input) if traces else None,
        answer=_cut(traces[-1].final_output) if traces else None,
        maybe_pending_at=maybe_pending_at,
        lacks_content=len(traces) == 1 and _lacks_content(reading.steps) and traces[0].final_output is not None,
        lacks_answer=is_recorded and len(traces) == 1 and traces[0].final_output is None,
        is_logs_only=not is_recorded and len(traces) == 1,
        reports=gateway.reports(reading, tree) if traces else None,
    )
    may_be_sought = found.lacks_model_calls or found.lacks_content or found.lacks_answer or found.is_logs_only
    is_known = found.maybe_pending_at or (found.sessions and may_be_sought) or found.repeatable
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
    """The keys by which other traces may look for `part`."""
    yield stitch_keys.trace(part.trace_id)
    if part.response is not None:
        yield stitch_keys.response(part.response)
    if part.reports is not None:
        yield from map(stitch_keys.model_call, part.reports.ids)
    if part.question is not None:
        yield stitch_keys.question(part.question)
    boundary = part.may_go_on_at
    if boundary is not None:
        yield from tool_boundary.keys(boundary)
    pending = (*(boundary.calls if boundary is not None else ()), *part.unanswered_calls)
    for session in part.sessions:
        for call in pending:
            yield stitch_keys.tool(session, call.name)
        yield from _session_offers(part, session)


def _session_offers(part: TraceFragment, session: str) -> Iterator[str]:
    if part.lacks_model_calls:
        yield stitch_keys.holder(session)
        yield stitch_keys.holder_of(session, part.asked)
    if part.lacks_answer:
        yield stitch_keys.silent(session)


def _seeks(part: TraceFragment) -> Iterator[str]:
    """The keys of the traces that `part` looks for."""
    yield from map(stitch_keys.trace, part.links)
    yield from map(stitch_keys.model_call, part.repeatable)
    yield from map(stitch_keys.question, {text for call in part.delegating_calls for text in call.said})
    if part.resumes_at is not None:
        yield from tool_boundary.keys(part.resumes_at)
    if part.response is not None:
        yield stitch_keys.response(part.response)
    for call in part.ran:
        if call.call_id:
            yield stitch_keys.tool_call(call.call_id)
    for session in part.sessions:
        yield from _session_seeks(part, session)


def _session_seeks(part: TraceFragment, session: str) -> Iterator[str]:
    for call in (*part.ran, UNRECORDED) if part.ran else ():
        yield stitch_keys.tool(session, call.name)
    if part.is_open and not part.lacks_model_calls:
        yield stitch_keys.holder(session)
    if part.lacks_content:
        yield stitch_keys.holder_of(session, part.asked)
    if part.is_logs_only:
        yield stitch_keys.silent(session)


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
    if _lacks_content(reading.steps) or (len(models) == 1 and (_is_half(models[0]) or _is_alone(reading.steps))):
        return False
    first = next((x.input for x in models if x.input), ())  # of a call reported twice, one report may tell nothing
    return not (first and first[-1].results)


def _lacks_content(steps: Sequence[Step]) -> bool:
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


def _pending_at(turn: TurnSteps, *, is_open: bool) -> tuple[ToolBoundary | None, ToolBoundary | None]:
    """Where a trace's last model call requested tools; else where it may have, whether or not the turn `is_open`."""
    told = tool_boundary.pending_after(turn.main[-1]) if is_open and turn.main else None
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
