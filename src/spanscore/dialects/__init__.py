"""What a span says, in any dialect: spans and log records in, steps out.

One module, or one folder, is one dialect. A span is read by the first dialect that claims it, in the order of
`DIALECTS`: a dialect that extends another one stands before it, and one with a scope or an attribute of its own before
those that have to look at the span, whose attributes others borrow. So one look-up of each kind decides for all that
have a marker of their own.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Final, Literal, TypeAlias

from spanscore.dialects.author_attributes import AUTHORED, authored
from spanscore.dialects.coding_agents import claude_code, codex, copilot, gemini_cli
from spanscore.dialects.content_switch import ContentSwitch, switch_for
from spanscore.dialects.conventions import openinference, openllmetry, semconv
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.entry_points import installed
from spanscore.dialects.forms.ids import IDENTIFYING, SESSIONS, USERS, first_identity, identity
from spanscore.dialects.forms.message_cache import MessageCache
from spanscore.dialects.forms.structure import is_redacted
from spanscore.dialects.forms.tool_messages import opened
from spanscore.dialects.forms.truncation import LAST_OF_MARKS
from spanscore.dialects.forms.values import Facts, add_damaged, pop_given
from spanscore.dialects.frameworks import (
    agent_framework,
    autogen,
    bedrock,
    genkit,
    google_adk,
    google_genai,
    haystack,
    livekit,
    llama_index,
    mastra,
    openai_agents,
    pipecat,
    pydantic_ai,
    quarkus,
    semantic_kernel,
    spring_ai,
    strands,
    vercel_ai,
    voltagent,
)
from spanscore.dialects.log_turns import goes_on
from spanscore.dialects.losses.affected_facts import marked
from spanscore.dialects.losses.reread import Rereader
from spanscore.dialects.other_conventions import complete
from spanscore.dialects.platforms import (
    agentops,
    laminar,
    langfuse,
    langsmith,
    langwatch,
    litellm,
    logfire,
    mlflow,
    openlit,
    sentry,
)
from spanscore.dialects.reading_units import SCOPES as UNIT_SCOPES
from spanscore.dialects.reading_units import merge_units, split_units, unit_of
from spanscore.dialects.unread_spans import Key, Unread, unread
from spanscore.model.json import dumps
from spanscore.model.span import LogRecord, Span
from spanscore.model.step import Reading, Step, StepFact

_OWN: tuple[Dialect, ...] = (
    pydantic_ai.DIALECT,
    vercel_ai.DIALECT,
    google_adk.DIALECT,
    google_genai.DIALECT,
    strands.DIALECT,
    bedrock.DIALECT,
    livekit.DIALECT,
    pipecat.DIALECT,
    gemini_cli.DIALECT,
    codex.DIALECT,
    copilot.DIALECT,
    mastra.DIALECT,
    voltagent.DIALECT,
    langfuse.DIALECT,
    mlflow.DIALECT,
    genkit.DIALECT,
    llama_index.DIALECT,
    agent_framework.DIALECT,
    semantic_kernel.DIALECT,
    autogen.DIALECT,
    haystack.DIALECT,
    logfire.DIALECT,
    openinference.DIALECT,
    langwatch.DIALECT,
    laminar.DIALECT,
    langsmith.DIALECT,
    litellm.DIALECT,
    claude_code.DIALECT,
    openlit.DIALECT,
    agentops.DIALECT,
    openai_agents.DIALECT,
    spring_ai.DIALECT,
    quarkus.DIALECT,
    sentry.DIALECT,
    openllmetry.DIALECT,
    semconv.DIALECT,
)

DIALECTS: tuple[Dialect, ...] = (*installed(_OWN), *_OWN)
"""All dialects, in the order in which they claim spans: those of other distributions, which may know better, first."""

_BY_SCOPE: dict[str, int] = {}
_BY_KEY: dict[str, int] = {}
_KEYS: frozenset[str] = frozenset()
_TOGETHER: dict[str, Callable[[Sequence[Step]], Sequence[Step]]] = {}
_SWITCHES: dict[str, tuple[ContentSwitch, ...]] = {}
_LOOKING: tuple[tuple[Dialect, Callable[[Span, Sequence[LogRecord]], bool]], ...] = ()
_MARKS: tuple[bytes, ...] = ()


def _arrange(dialects: tuple[Dialect, ...]) -> None:
    """Have `dialects` claim spans, in this order."""
    global DIALECTS, _BY_SCOPE, _BY_KEY, _KEYS, _TOGETHER, _SWITCHES, _LOOKING, _MARKS  # noqa: PLW0603 - the hot path's
    ranked = tuple(enumerate(dialects))[::-1]  # of two that name the same scope or key, the first one stays
    DIALECTS = dialects
    _BY_SCOPE = {scope: rank for rank, dialect in ranked for scope in dialect.scopes}
    _BY_KEY = {key: rank for rank, dialect in ranked for key in dialect.keys}
    _KEYS = frozenset(_BY_KEY)
    _TOGETHER = {x.name: x.together for x in dialects if x.together is not None}
    _SWITCHES = {x.name: x.content for x in dialects}
    _LOOKING = tuple((x, x.claims) for x in dialects if x.claims is not None)
    _MARKS = tuple({mark: None for dialect in dialects for mark in dialect.marks})


_arrange(DIALECTS)


@contextmanager
def tried(dialect: Dialect) -> Iterator[None]:
    """Within the block `dialect` claims spans before all others, as if its distribution were installed; for tests.

    One of the same name is not asked meanwhile. It holds for the whole process, threads included.
    """
    before = DIALECTS
    _arrange((dialect, *(x for x in before if x.name != dialect.name)))
    try:
        yield
    finally:
        _arrange(before)


_NAMING = IDENTIFYING | AUTHORED | frozenset({"session.id", "user.id", "enduser.id", "gen_ai.conversation.id"})
_ANNOUNCES = "logfire.span_type"  # Logfire tells that a span has begun by a span, whose id is another one
_TextField: TypeAlias = Literal["session_id", "user_id", "agent_name", "input_text", "output_text"]
_HIDEABLE: Final[tuple[tuple[_TextField, tuple[StepFact, ...]], ...]] = (
    ("session_id", ()),  # or all that are hidden would be one
    ("user_id", ()),
    ("agent_name", ()),
    ("input_text", ("input",)),
    ("output_text", ("output",)),
)
_INSTRUMENTATIONS = ("opentelemetry.instrumentation.", "openinference.instrumentation.", "@traceloop/", "@arizeai/")
"""How the scopes of libraries begin that write their spans themselves: nobody sets attributes on those."""

_MILLISECOND_NS = 1_000_000
_EVALUATOR_SCOPES = frozenset({"spanscore", "pydantic-evals"})
_EVALUATOR_KEYS = frozenset(
    {
        "spanscore.emitted",
        "mlflow.trace.sourceScorer",
        "langwatch.reserved.causality_depth",
        "logfire.feedback.name",
        "ai.observability.eval_root.score",
    }
)
_RESULT = "gen_ai.evaluation.name"
_KINDS_OF_STEPS = frozenset({"gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind"})
_EVALUATOR_VALUES = {"openinference.span.kind": "EVALUATOR", "langfuse.environment": "langfuse-llm-judge"}
_SUSPICIOUS = _EVALUATOR_KEYS.union(_EVALUATOR_VALUES, (_RESULT,))

__all__ = [
    "DIALECTS",
    "UNIT_SCOPES",
    "Key",
    "Rereader",
    "Unread",
    "again",
    "content_switch",
    "goes_on",
    "merge_units",
    "read",
    "shows_genai",
    "split_units",
    "tried",
    "unit_of",
    "unread",
]


def content_switch(dialect: str, scope: str) -> str | None:
    """What turns on the recording of content in spans of this dialect and scope, as an instruction; None: not known."""
    return switch_for(_SWITCHES.get(dialect, ()), scope)


def shows_genai(body: bytes) -> bool:
    """Whether a raw OTLP request may hold a span or log record that a dialect reads. It may say yes wrongly, never no.

    >>> shows_genai(b"...http.method..."), shows_genai(b"...gen_ai.request.model...")
    (False, True)
    """
    return any(mark in body for mark in _MARKS)


def read(spans: Iterable[Span], logs: Iterable[LogRecord] = ()) -> Reading:
    """Read the spans and log records of one trace.

    Order and repetition do not matter: of a span that comes twice the more complete one counts, and log records are
    sorted by time. Raises nothing on hostile content; what cannot be read is left out, and spans that nobody reads are
    counted.
    """
    known = _unique(spans)
    logged = _by_span(logs)
    claimed = {x.span_id: dialect for x in known if (dialect := _dialect_of(x, logged.get(x.span_id, ())))}
    histories = MessageCache()
    unlogged = {x: Context((), x, histories) for x in (True, False)}  # nearly all spans share one of the two
    steps: list[Step] = []
    for span in known:
        dialect = claimed.get(span.span_id)
        if dialect is not None:
            outermost = span.parent_span_id not in claimed
            records = logged.get(span.span_id)
            context = Context(records, outermost, histories) if records else unlogged[outermost]
            steps.append(_step(span, dialect.name, _facts(dialect, span, context)))
        elif (naming := _naming(span)) or span.dropped_attributes_count:
            steps.append(_step(span, "", {"kind": "other"} | naming))
    steps = opened(marked(steps, known, logged, lambda: _again(claimed, logged)))
    for name in _TOGETHER.keys() & {x.name for x in claimed.values()}:
        steps = _together(steps, name)
        moved = {x.span.span_id: x.span for x in steps}
        known = [moved.get(x.span_id, x) for x in known]
    return Reading(tuple(known), tuple(steps), len(known) - len(claimed), logged)


def _together(steps: Sequence[Step], name: str) -> list[Step]:
    """The steps, those of one dialect as it tells them when it sees them side by side."""
    told = {x.span.span_id: x for x in _TOGETHER[name]([x for x in steps if x.dialect == name])}
    return [told.get(x.span.span_id, x) for x in steps]


def again(reading: Reading) -> Rereader:
    """What reads single spans of a reading again, with parts of them left out."""
    return _again({x.span.span_id for x in reading.steps if x.dialect}, reading.logs)


def _again(claimed: Container[str], logs: Mapping[str, Sequence[LogRecord]]) -> Rereader:
    def read_one(span: Span, name: str, records: Sequence[LogRecord]) -> Step:
        dialect = _dialect_of(span, records)
        if dialect is None or dialect.name != name:  # the part that is left out is the one by which it is claimed
            return _step(span, "", {"kind": "other"} | _naming(span))
        context = Context(records, span.parent_span_id not in claimed, MessageCache())
        return _step(span, name, _facts(dialect, span, context))

    return Rereader(read_one, logs)


def _dialect_of(span: Span, logs: Sequence[LogRecord]) -> Dialect | None:
    found = _BY_SCOPE.get(span.scope.name)
    if not _KEYS.isdisjoint(span.attributes):
        ranks = [_BY_KEY[key] for key in _KEYS.intersection(span.attributes)]
        found = min(ranks if found is None else (found, *ranks))
    if found is not None:
        return DIALECTS[found]
    for dialect, claims in _LOOKING:
        if claims(span, logs):
            return dialect
    return None


def _facts(dialect: Dialect, span: Span, context: Context) -> Facts:
    facts = dialect.read(span, context)
    is_whole = not span.dropped_attributes_count  # else what is left may be of another dialect
    if dialect.by_hand and is_whole and not span.scope.name.startswith(_INSTRUMENTATIONS):
        complete(span, context, facts)
    return facts


def _naming(span: Span) -> Facts:
    """The session and user that a span names which no dialect reads: those of the application around an agent."""
    attributes = span.attributes
    found = logfire.named(span)
    if not attributes.keys().isdisjoint(_NAMING):
        session = identity(attributes.get("session.id", attributes.get("gen_ai.conversation.id")))
        found |= {"session_id": session or found.get("session_id"), "user_id": found.get("user_id")}
    return found


def _step(span: Span, dialect: str, facts: Facts) -> Step:
    attributes = span.attributes
    given_session = given_user = None
    if "given_session_id" in facts:
        given_session, given_user = pop_given(facts)
    if given_session or "session.id" in attributes:
        facts["session_id"] = given_session or identity(attributes["session.id"]) or facts.get("session_id")
    if not attributes.keys().isdisjoint(IDENTIFYING):  # this way round it looks up these few keys, and not all
        facts["session_id"] = facts.get("session_id") or first_identity(attributes, SESSIONS)
        facts["user_id"] = facts.get("user_id") or first_identity(attributes, USERS)
    user = given_user or attributes.get("user.id", attributes.get("enduser.id"))
    if user is not None:
        facts["user_id"] = identity(user) or facts.get("user_id")
    if not attributes.keys().isdisjoint(AUTHORED):
        stated = authored(attributes)
        add_damaged(facts, *stated.pop("damaged"))
        facts |= stated
    for field, resting in _HIDEABLE:
        value = facts.get(field)
        if value and value[-1:] in LAST_OF_MARKS and is_redacted(value):
            facts[field] = None
            add_damaged(facts, *resting)
    return Step(span=span, dialect=dialect, **facts)


def _unique(spans: Iterable[Span]) -> list[Span]:
    """Each span id once, without what evaluators emitted, by start time."""
    found: dict[str, Span] = {}
    for span in spans:
        if not span.span_id or _is_evaluator(span) or span.attributes.get(_ANNOUNCES) == "pending_span":
            continue
        other = found.get(span.span_id)
        if other is None or (other is not span and _completeness(span) > _completeness(other)):
            found[span.span_id] = span
    return sorted(found.values(), key=attrgetter("start_ns", "span_id"))


def _completeness(span: Span) -> tuple[int, int, int, str]:
    """Sorts the versions of one span: a pending one before the final one, and any two that differ."""
    return span.end_ns, len(span.attributes), len(span.events), repr(span)


def _is_evaluator(span: Span) -> bool:
    """Whether spanscore or another evaluator emitted the span: a score is not part of what is scored."""
    attributes = span.attributes
    if (
        span.scope.name in _EVALUATOR_SCOPES
        or span.name == "judge_evaluation"
        or attributes.get("gen_ai.operation.name") == "evaluation"
    ):
        return True
    if attributes.keys().isdisjoint(_SUSPICIOUS):  # this way round it looks up these few keys, and not all
        return False
    if _RESULT in attributes and attributes.keys().isdisjoint(_KINDS_OF_STEPS):  # else a step that a score was put on
        return True
    is_named = not _EVALUATOR_KEYS.isdisjoint(attributes)
    return is_named or any(attributes.get(key) == value for key, value in _EVALUATOR_VALUES.items())


def _by_span(logs: Iterable[LogRecord]) -> dict[str, list[LogRecord]]:
    """The log records of each span by time, each once; those of one moment as they came."""
    found: defaultdict[str, list[tuple[str, LogRecord]]] = defaultdict(list)
    for log in logs:
        if log.span_id:
            key = dumps([log.event_name, log.body, dict(log.attributes), log.time_ns])
            found[log.span_id].append((key, log))
    return {span_id: sorted(_each_once(records), key=attrgetter("time_ns")) for span_id, records in found.items()}


def _each_once(records: list[tuple[str, LogRecord]]) -> Iterator[LogRecord]:
    """Without what was delivered again.

    By a clock of milliseconds, as of JavaScript, all messages of a request are of one moment, and one that was said
    twice is two records alike. So a record counts as often as it came more often than the rarest.
    """
    times = Counter(key for key, _ in records)
    deliveries, kept = min(times.values()), Counter[str]()
    for key, log in records:
        coarse = log.time_ns > 0 and log.time_ns % _MILLISECOND_NS == 0
        if kept[key] < (times[key] // deliveries if coarse else 1):
            kept[key] += 1
            yield log
