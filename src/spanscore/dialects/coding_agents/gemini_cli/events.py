"""Gemini CLI's telemetry, a trace for each model call and records of none: what of it belongs to
one prompt.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from spanscore.dialects.conventions import semconv
from spanscore.dialects.forms.values import first_text, text
from spanscore.dialects.keys.gen_ai import GEN_AI_CONVERSATION_ID, GEN_AI_TOOL_NAME
from spanscore.dialects.keys.opentelemetry import SESSION_ID
from spanscore.dialects.log_turns import (
    Calls,
    LogTurns,
    Part,
    Unit,
    around,
    in_order,
    name_of,
    span_of,
    under,
)
from spanscore.model.span import Attributes, Link, LogRecord, Span

QWEN = "qwen-code"
SCOPES = ("gemini-cli", QWEN)
"""The scopes, of spans and log records alike, of Gemini CLI and of Qwen Code, which grew out of
it.
"""

PROMPT, REQUEST, RESPONSE, FAILED, CALLED = (
    "user_prompt",
    "api_request",
    "api_response",
    "api_error",
    "tool_call",
)
MODEL, TOOL, SUBAGENT = "llm_call", "tool_call", "agent_call"

_READ = frozenset({PROMPT, REQUEST, RESPONSE, FAILED, CALLED})
_SESSION = (SESSION_ID, GEN_AI_CONVERSATION_ID)
# starts the role of a model call that serves no turn: titles, routing, compression
_ASIDE = "utility"
# starts the names of Qwen Code's own agents, which go on after a turn: they keep its memory
_MANAGED = "managed-"


def event(log: LogRecord) -> str:
    """What a record is about, without the program's name before it."""
    name = name_of(log)
    return name if name == semconv.DETAILS else name.partition(".")[2]


def unit(attributes: Attributes, _trace_id: str) -> Unit | None:
    """The session: a turn's traces have nothing else in common."""
    session = first_text(attributes, _SESSION)
    name = attributes.get("event.name")
    if session is None or (
        name is not None and name != semconv.DETAILS and str(name).partition(".")[2] not in _READ
    ):
        return None
    return Unit(("gemini_cli", session), goes_on=True)


def parts(unit: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[Part]:
    """A turn from each prompt to the next.

    What comes before the first is the end of a turn that was not received.

    Spans alone contain no prompt, and are read as they are.
    """
    records = in_order(logs)
    begun_ns = [x.time_ns for x in records if event(x) == PROMPT]
    turns: list[Part] = [([], []) for _ in range(len(begun_ns) + 1)]
    for span in spans:
        turns[bisect_right(begun_ns, span.start_ns)][0].append(span)
    for log in records:
        turns[bisect_right(begun_ns, log.time_ns)][1].append(log)
    yield from (_turn(unit, *turn) for turn in (turns[1:] or turns) if turn[0] or turn[1])


def _turn(unit: str, received: Sequence[Span], logs: Sequence[LogRecord]) -> Part:
    spans, logs = _without_asides(received, logs)
    spans += _untraced(unit, spans, logs)
    opening = next((x for x in logs if event(x) == PROMPT), None)
    if opening is None:
        return spans, list(_placed(spans, logs))
    root = around(
        span_of(unit, PROMPT, opening), (*(x.end_ns for x in spans), *(x.time_ns for x in logs))
    )
    first = next((x for x in spans if x.recorded), None)
    if first is not None:
        root = replace(root, links=(Link(first.trace_id, first.span_id),))
    spans = [x if x.parent_span_id else replace(x, parent_span_id=root.span_id) for x in spans]
    return [root, *spans], [under(root, opening), *_placed(spans, logs)]


def _without_asides(received: Sequence[Span], logs: Sequence[LogRecord]) -> Part:
    """Spans by start time, and records, without those of model calls that serve no turn."""
    asides = {x.span_id for x in logs if x.span_id and _is_aside(x)}
    spans = sorted((x for x in received if x.span_id not in asides), key=lambda x: x.start_ns)
    return spans, [x for x in logs if not _is_aside(x)]


def _is_aside(log: LogRecord) -> bool:
    attributes = log.attributes
    return str(attributes.get("role")).startswith(_ASIDE) or str(
        attributes.get("subagent_name")
    ).startswith(_MANAGED)


def _is_of_subagent(log: LogRecord) -> bool:
    return (
        log.attributes.get("role") == "subagent"
        or text(log.attributes.get("subagent_name")) is not None
    )


def _untraced(unit: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> list[Span]:
    """The model and tool calls of which there are only records, where spans are not collected."""
    traced = {x.name for x in spans}
    agents: dict[str, Span] = {}
    found: list[Span] = []
    for number, log in enumerate(logs):
        name = {RESPONSE: MODEL, FAILED: MODEL, CALLED: TOOL}.get(event(log))
        if name is not None and name not in traced:
            above = None
            if _is_of_subagent(log):
                prompt = str(log.attributes.get("prompt_id"))
                above = agents.setdefault(prompt, span_of(unit, SUBAGENT, log, identity=prompt))
            found.append(span_of(unit, name, log, identity=f"{log.time_ns} {number}", parent=above))
    return [*agents.values(), *found]


def _placed(spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[LogRecord]:
    """The records, each under the call that it is about."""
    known = {x.span_id: x for x in spans}
    models = Calls(x for x in spans if x.name == MODEL)
    tools: defaultdict[str | None, list[Span]] = defaultdict(list)
    for span in spans:
        if span.name == TOOL:
            tools[first_text(span.attributes, (GEN_AI_TOOL_NAME, "function_name"))].append(span)
    named = {name: Calls(calls) for name, calls in tools.items()}
    for log in logs:
        about: Span | None = known.get(log.span_id)
        if event(log) == CALLED:
            calls = named.get(text(log.attributes.get("function_name")))
            about = None if calls is None else calls.nearest(log.time_ns, by_end=True)
        elif event(log) in {RESPONSE, FAILED, REQUEST, semconv.DETAILS} and (
            about is None or about.name != MODEL
        ):
            about = models.nearest(log.time_ns, by_end=event(log) != REQUEST)
        if about is not None:
            yield under(about, log)


LOG_TURNS = tuple(LogTurns(scope, unit, parts, with_spans=True) for scope in SCOPES)
