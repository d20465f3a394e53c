"""A trace's spans and log records, read into steps."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias

from spanscore.dialects.affected_facts import with_damaged_facts
from spanscore.dialects.dialect import NO_QUIRK, Context, Dialect
from spanscore.dialects.forms.arguments import arguments, failure
from spanscore.dialects.forms.attachments import without_bytes
from spanscore.dialects.forms.message_parts import without_thoughts
from spanscore.dialects.forms.messages import MessageCache
from spanscore.dialects.forms.repeats import of_one_trace
from spanscore.dialects.forms.status import ending_of, status_error
from spanscore.dialects.forms.structure import (
    IDENTIFYING,
    SESSIONS,
    TOKEN_DETAIL_KEYS,
    USERS,
    Facts,
    add_damaged,
    add_missing,
    add_token_details,
    first_identity,
    identity,
    is_redacted,
    pop_given,
    structure,
    text,
)
from spanscore.dialects.forms.tool_results import (
    answering,
    fields_of,
    named_call,
    provider_answer,
    stated_answer,
)
from spanscore.dialects.forms.truncation import LAST_OF_MARKERS, is_cut_or_redacted, is_damaged
from spanscore.dialects.losses import Rereader, is_noted, limits
from spanscore.dialects.other_conventions import complete
from spanscore.dialects.registry import Registry, registry
from spanscore.dialects.span_names import configured
from spanscore.model.json import Json, dumps, is_masked
from spanscore.model.span import STATUS_ERROR, Attributes, LogRecord, Span, Value, changed
from spanscore.model.step import Message, Reading, Step, StepFact
from spanscore.model.trace import Expected, ExpectedTool

PLAN = "spanscore.plan"
ANSWER = "spanscore.expected.answer"
TOOLS = "spanscore.expected.tools"
OUTCOMES = "spanscore.expected.outcomes"
IN_ORDER = "spanscore.expected.tool_sequence_matters"

AUTHORED = frozenset({PLAN, ANSWER, TOOLS, OUTCOMES, IN_ORDER})
"""The attributes that `authored` reads."""

_MAX_TOOLS = 100
_MAX_OUTCOMES = 50
_NAMES = ("name", "tool_name")
_PARAMETERS = ("arguments", "parameters")
"""As messages have them, and as a suite file has them."""


class _UnreadableError(Exception):
    """Part of an expectation is missing: compared with the rest, a turn could pass wrongly."""


def authored(attributes: Attributes) -> Facts:
    """The plan and the expectation that a span states, and which of the two arrived cut or
    redacted.
    """
    damaged: set[StepFact] = set()
    plan = _plan(attributes.get(PLAN))
    if plan is not None and is_cut_or_redacted(plan):
        plan = None
        damaged.add("plan")
    try:
        expected = _expected(attributes)
    except _UnreadableError:
        expected = None
        damaged.add("expected")
    return {"plan": plan, "expected": expected, "damaged": frozenset(damaged)}


def _plan(value: Value) -> str | None:
    """A plan as one text; steps that were given as an array are numbered."""
    if isinstance(value, list):
        steps = [x for x in value if isinstance(x, str) and x.strip()]
        return "\n".join(f"{number}. {x}" for number, x in enumerate(steps, 1)) or None
    return value if isinstance(value, str) and value.strip() else None


def _expected(attributes: Attributes) -> Expected | None:
    answer = text(attributes.get(ANSWER))
    if answer is not None and is_cut_or_redacted(answer):
        raise _UnreadableError
    in_order = attributes.get(IN_ORDER)
    found = Expected(
        answer=answer,
        tools=_tools(attributes.get(TOOLS)),
        outcomes=_outcomes(attributes.get(OUTCOMES)),
        in_order=in_order if isinstance(in_order, bool) else None,
    )
    return None if found == Expected(in_order=found.in_order) else found


def _tools(value: Value) -> tuple[ExpectedTool, ...] | None:
    """The calls that an array, or JSON text of one, lists: each a name, or an object with a name
    and arguments.
    """
    if value is None:
        return None
    listed = _list(value)
    if len(listed) > _MAX_TOOLS:
        raise _UnreadableError
    return tuple(map(_tool, listed))


def _tool(item: Any) -> ExpectedTool:
    stated = structure(item).value if isinstance(item, str) and item.startswith("{") else item
    if isinstance(stated, str) and stated:
        return ExpectedTool(stated)
    if not isinstance(stated, dict):
        raise _UnreadableError
    name = text(_first(stated, _NAMES))
    given = _first(stated, _PARAMETERS)
    parameters: Json = None if given is None else arguments(given)
    step = stated.get("step")
    if name is None or not isinstance(parameters, dict | None):
        raise _UnreadableError
    return ExpectedTool(name, parameters, step if type(step) is int and step >= 0 else None)


def _outcomes(value: Value) -> tuple[str, ...]:
    """The statements of an array, of JSON text of one, or of a text that is one statement."""
    if value is None or value == "":
        return ()
    found = [x for x in _list(value) if not isinstance(x, str) or x.strip()]
    stated = tuple(dict.fromkeys(x for x in found if isinstance(x, str)))
    if len(found) > _MAX_OUTCOMES or len(found) != len([x for x in found if isinstance(x, str)]):
        raise _UnreadableError
    if any(map(is_cut_or_redacted, stated)):
        raise _UnreadableError
    return stated


def _list(value: Value) -> list[Any]:
    """The elements of an array, or of JSON text of one; anything else is one element."""
    parsed, damaged = (
        structure(value) if isinstance(value, str) and value[:1] in {"[", "{"} else (value, False)
    )
    if damaged:
        raise _UnreadableError
    return parsed if isinstance(parsed, list) else [parsed]


def _first(stated: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((stated[x] for x in names if stated.get(x) is not None), None)


_OTHER_SESSIONS = ("thread_id", "session_id", "conversation_id")
_OTHER_USERS = ("user_id",)
_OTHER_NAMES = frozenset({*_OTHER_SESSIONS, *_OTHER_USERS})
"""What people call a session or user on spans that they write themselves."""

_NAMING = (
    IDENTIFYING
    | AUTHORED
    | frozenset({"session.id", "user.id", "enduser.id", "gen_ai.conversation.id"})
)
_STATED = IDENTIFYING | AUTHORED | _OTHER_NAMES | TOKEN_DETAIL_KEYS | {"enduser.id"}
"""What a span of any dialect may have beside its own attributes."""
_TextField: TypeAlias = Literal["session_id", "user_id", "agent_name", "input_text", "output_text"]
_HIDEABLE: Final[tuple[tuple[_TextField, tuple[StepFact, ...]], ...]] = (
    ("session_id", ()),  # or all that are hidden would be one
    ("user_id", ()),
    ("agent_name", ()),
    ("input_text", ("input",)),
    ("output_text", ("output",)),
)
_INSTRUMENTATIONS = (
    "opentelemetry.instrumentation.",
    "openinference.instrumentation.",
    "@traceloop/",
    "@arizeai/",
)
"""How the scopes of libraries begin that write their spans themselves: nobody sets attributes on
those.
"""

_MILLISECOND_NS = 1_000_000


def read(spans: Iterable[Span], logs: Iterable[LogRecord] = ()) -> Reading:
    """Read the spans and log records of one trace.

    Order and repetition do not matter: of a span that comes twice the more complete one counts, and
    log records are sorted by time. Raises nothing on hostile content; what cannot be read is left
    out, and spans that nobody reads are counted.
    """
    with of_one_trace():
        return _read(spans, logs)


def _read(spans: Iterable[Span], logs: Iterable[LogRecord]) -> Reading:
    logged, dialects = _by_span(logs), registry()
    known = _unique(spans, dialects)
    claimed = {
        x.span_id: dialect
        for x in known
        if (dialect := dialects.dialect_of(x, logged.get(x.span_id, ())))
    }
    steps, histories = list[Step](), MessageCache()
    # nearly all spans share one of the two
    unlogged = {x: Context((), x, histories) for x in (True, False)}
    for span in known:
        dialect = claimed.get(span.span_id)
        if dialect is not None:
            outermost = span.parent_span_id not in claimed
            records = logged.get(span.span_id)
            context = Context(records, outermost, histories) if records else unlogged[outermost]
            steps.append(_read_one(dialects, dialect, span, context))
        elif (naming := _naming(dialects, span)) or span.dropped_attributes_count:
            steps.append(_step(span, "", {"kind": "other"} | naming))
    steps = _with_results_opened(_with_losses(steps, known, logged, claimed))
    for name in dialects.refining.keys() & {x.name for x in claimed.values()}:
        steps = _refined(dialects, steps, name)
        moved = {x.span.span_id: x.span for x in steps}
        known = [moved.get(x.span_id, x) for x in known]
    steps = _with_parts(steps, known)
    return Reading(tuple(known), tuple(steps), len(known) - len(claimed), logged)


def _with_losses(
    steps: Iterable[Step],
    spans: Sequence[Span],
    logs: Mapping[str, Sequence[LogRecord]],
    claimed: Container[str],
) -> list[Step]:
    """The steps, with the facts damaged that were cut, redacted or lost on the way."""
    marked = [_with_marked_values(x) if x.kind == "tool" else x for x in steps]
    if (cut_at := limits(spans, logs)) or is_noted(spans, logs):
        return with_damaged_facts(marked, spans, logs, cut_at, _rereader(claimed, logs))
    return marked


def _with_marked_values(step: Step) -> Step:
    """A tool's step, with arguments and result damaged where a marker in them shows that they were
    cut or redacted.
    """
    facts: set[StepFact] = set()
    if is_damaged(step.arguments):
        facts.add("arguments")
    if is_damaged(step.result):
        facts.add("result")
    return changed(step, damaged=step.damaged.union(facts)) if facts else step


def _with_parts(steps: list[Step], known: Sequence[Span]) -> list[Step]:
    """The steps, with the parts that the configuration gives them."""
    parts = configured().parts(known)
    if not any(parts.values()):
        return steps
    return [
        x if (part := parts.get(x.span.span_id)) is None else changed(x, part=part) for x in steps
    ]


def _refined(dialects: Registry, steps: Sequence[Step], name: str) -> list[Step]:
    """The steps, with those of one dialect replaced by what the dialect makes of all of them
    together.
    """
    own: Sequence[Step] = [x for x in steps if x.dialect == name]
    for refine_trace in dialects.refining[name]:
        own = refine_trace(own)
    refined = {x.span.span_id: x for x in own}
    return [refined.get(x.span.span_id, x) for x in steps]


def rereader_of(reading: Reading) -> Rereader:
    """The rereader of a reading: it reads single spans once more, with parts of them left out."""
    return _rereader({x.span.span_id for x in reading.steps if x.dialect}, reading.logs)


def _rereader(claimed: Container[str], logs: Mapping[str, Sequence[LogRecord]]) -> Rereader:
    dialects = registry()

    def read_alone(span: Span, name: str, records: Sequence[LogRecord]) -> Step:
        dialect = dialects.dialect_of(span, records)
        # the part that is left out is the one by which it is claimed
        if dialect is None or dialect.name != name:
            return _step(span, "", {"kind": "other"} | _naming(dialects, span))
        context = Context(records, span.parent_span_id not in claimed, MessageCache())
        return _read_one(dialects, dialect, span, context)

    return Rereader(read_alone, logs)


def _read_one(dialects: Registry, dialect: Dialect, span: Span, context: Context) -> Step:
    quirk = dialects.quirk_of(dialect, span)
    if quirk is NO_QUIRK and not context.logs:
        facts = dialect.read(span, context)
    else:
        facts = _facts(dialect, span, changed(context, quirk=quirk))
    if dialect.by_hand and _may_be_by_hand(span):
        complete(span, context, facts)
    return _step(span, dialect.name, facts)


def _facts(dialect: Dialect, span: Span, context: Context) -> Facts:
    """What a dialect reads from a span, with what was moved out of the span restored, and what the
    quirk of its framework changes.
    """
    quirk = context.quirk
    if context.logs and dialect.restore is not None:
        whole = dialect.restore(span, context.logs)
        if whole is not span:
            span, context = whole, changed(context, logs=())
    span = quirk.prepare(span)
    facts = dialect.read(span, context)
    quirk.complete(span, facts)
    return facts


def _may_be_by_hand(span: Span) -> bool:
    """Whether people may have set attributes on a span. Not where attributes were dropped: those
    left may be of another dialect.
    """
    return not span.dropped_attributes_count and not span.scope.name.startswith(_INSTRUMENTATIONS)


def _naming(dialects: Registry, span: Span) -> Facts:
    """The session and user in a span that no dialect reads, such as the application's span around
    an agent.
    """
    attributes = span.attributes
    naming: Facts = {}
    for of_dialect in dialects.naming:
        add_missing(naming, of_dialect(span))
    own = any(x in attributes for x in configured().session_keys)
    if own or not attributes.keys().isdisjoint(_NAMING):
        session = identity(attributes.get("session.id", attributes.get("gen_ai.conversation.id")))
        naming |= {
            "session_id": session or naming.get("session_id"),
            "user_id": naming.get("user_id"),
        }
    return naming


def _step(span: Span, dialect: str, facts: Facts) -> Step:
    if (
        not span.attributes.keys().isdisjoint(_STATED)
        or "given_session_id" in facts
        or configured().session_keys
    ):
        _add_stated(span, facts)
    _hide(facts)
    _settle_result(span, facts)
    if facts.get("output"):
        _settle_output(span.attributes, facts)
    return Step(span=span, dialect=dialect, **facts)


def _add_stated(span: Span, facts: Facts) -> None:
    """Add what a span of any dialect may state: names, what its author expects, token details."""
    attributes = span.attributes
    given_session = given_user = None
    if "given_session_id" in facts:
        given_session, given_user = pop_given(facts)
    if given_session or "session.id" in attributes:
        facts["session_id"] = (
            given_session or identity(attributes["session.id"]) or facts.get("session_id")
        )
    _add_ids(span, facts)
    user = given_user or attributes.get("user.id", attributes.get("enduser.id"))
    if user is not None:
        facts["user_id"] = identity(user) or facts.get("user_id")
    if not attributes.keys().isdisjoint(AUTHORED):
        stated = authored(attributes)
        add_damaged(facts, *stated.pop("damaged"))
        facts |= stated
    add_token_details(attributes, facts)


def _add_ids(span: Span, facts: Facts) -> None:
    """Add the session and user that a span of any dialect may name."""
    attributes = span.attributes
    # this way round it looks up these few keys, and not all
    if not attributes.keys().isdisjoint(IDENTIFYING):
        facts["session_id"] = facts.get("session_id") or first_identity(attributes, SESSIONS)
        facts["user_id"] = facts.get("user_id") or first_identity(attributes, USERS)
    if (own := configured().session_keys) and not facts.get("session_id"):
        facts["session_id"] = first_identity(attributes, own)
    if not attributes.keys().isdisjoint(_OTHER_NAMES) and _may_be_by_hand(span):
        facts["other_session_id"] = first_identity(attributes, _OTHER_SESSIONS)
        facts["other_user_id"] = first_identity(attributes, _OTHER_USERS)


def _settle_result(span: Span, facts: Facts) -> None:
    """Add how a span ended that did not succeed, and leave bytes out of a tool's result."""
    if span.status_code == STATUS_ERROR or "error.type" in span.attributes:
        facts["ending"] = ending_of(span)
        if facts["kind"] != "tool":
            facts["error"] = facts.get("error") or status_error(span)
    if facts.get("result"):
        facts["result"] = without_bytes(facts["result"])


def _settle_output(attributes: Attributes, facts: Facts) -> None:
    """Keep the first of several choices, and separate the thoughts that a text begins with."""
    output = facts.get("output") or ()
    if len(output) > 1 and _are_choices(attributes, facts, output):
        facts["output"] = output = output[:1]
    split = [without_thoughts(x.text) if x.text and not x.reasoning else None for x in output]
    if any(split):
        facts["output"] = tuple(
            x if found is None else changed(x, text=found[0], reasoning=found[1])
            for x, found in zip(output, split, strict=True)
        )


def _are_choices(attributes: Attributes, facts: Facts, output: Sequence[Message]) -> bool:
    """Whether a model's messages are answers to choose from, each whole."""
    if facts["kind"] != "model" or any(x.role != "assistant" or x.calls for x in output):
        return False
    count = attributes.get("gen_ai.request.choice.count")
    if isinstance(count, int):
        return count > 1
    return len(facts.get("finish_reasons", ())) == len(output)


def _hide(facts: Facts) -> None:
    """Replace texts that a redaction left in place of hidden content, and name the facts that rest
    on them as damaged.
    """
    for field, resting in _HIDEABLE:
        value = facts.get(field)
        if not value:
            continue
        if value[-1:] in LAST_OF_MARKERS and is_redacted(value):
            facts[field] = None
            add_damaged(facts, *resting)
        elif resting and is_masked(value):
            add_damaged(facts, *resting)


def _unique(spans: Iterable[Span], dialects: Registry) -> list[Span]:
    """Each span id once, without the spans that are ignored, by start time."""
    unique: dict[str, Span] = {}
    for span in spans:
        if not span.span_id or dialects.ignored.has(span):
            continue
        other = unique.get(span.span_id)
        if other is None or (other is not span and _completeness(span) > _completeness(other)):
            unique[span.span_id] = span
    return sorted(unique.values(), key=attrgetter("start_ns", "span_id"))


def _completeness(span: Span) -> tuple[int, int, int, str]:
    """The key that sorts versions of one span: a pending one comes before the final one, and any
    two that differ have an order.
    """
    return span.end_ns, len(span.attributes), len(span.events), repr(span)


def _by_span(logs: Iterable[LogRecord]) -> dict[str, list[LogRecord]]:
    """The log records of each span in order of time, each once; those with the same time in the
    order in which they came.
    """
    found: defaultdict[str, list[tuple[str, LogRecord]]] = defaultdict(list)
    for log in logs:
        if log.span_id:
            key = dumps([log.event_name, log.body, dict(log.attributes), log.time_ns])
            found[log.span_id].append((key, log))
    return {
        span_id: sorted(_each_once(records), key=attrgetter("time_ns"))
        for span_id, records in found.items()
    }


def _each_once(records: list[tuple[str, LogRecord]]) -> Iterator[LogRecord]:
    """The records without repeated deliveries.

    With a clock of milliseconds, as in JavaScript, all messages of a request have the same time,
    and a message that an agent sent twice gives two equal records. So the rarest record's count is
    taken as the number of deliveries, and each record counts once for each time that it came in one
    delivery.
    """
    times = Counter(key for key, _ in records)
    deliveries, counted = min(times.values()), Counter[str]()
    for key, log in records:
        coarse = log.time_ns > 0 and log.time_ns % _MILLISECOND_NS == 0
        if counted[key] < (times[key] // deliveries if coarse else 1):
            counted[key] += 1
            yield log


_FIELDS_OF_MESSAGE = frozenset({"content", "tool_call_id", "status"})
_STATUSES = ("success", "error")


def _with_results_opened(steps: Sequence[Step]) -> list[Step]:
    """The steps; a tool's own object with such fields names no call of this trace, and stays as it
    is.
    """
    named = {
        x.span.span_id: call_id
        for x in steps
        if isinstance(x.result, dict | list) and (call_id := _named_call(x.result))
    }
    requested_ids = {
        call.call_id
        for x in steps
        for message in x.output or ()
        for call in message.calls
        if call.call_id
    }
    if not requested_ids:
        return [_unrequested(_opened_as_stated(x)) for x in steps]
    answering_ids = {span: call for span, call in named.items() if call in requested_ids}
    return [
        _opened_for(x, answering_ids[x.span.span_id])
        if x.span.span_id in answering_ids
        else _opened_as_stated(x)
        for x in steps
    ]


def _named_call(value: dict[str, Any] | list[Any]) -> str | None:
    """The call that a message names, as it is or as LangChain serializes it."""
    if isinstance(value, list):
        return named_call(value)
    if value.keys() == {"output"} and isinstance(value["output"], dict):
        value = value["output"]
    return named_call(fields_of(value)[0]) or named_call(value)


def _opened_as_stated(step: Step) -> Step:
    if not isinstance(step.result, dict | list):
        return step
    inside = stated_answer(step.result, step.tool_name)
    if inside is None:
        return step
    has_own_error = step.error is not None and step.error != failure(step.result)
    return changed(step, result=inside.value, error=step.error if has_own_error else inside.error)


def _unrequested(step: Step) -> Step:
    """The step with the message opened that states a status and a call, where no model's request
    shows whether it is this one.
    """
    result = step.result
    if (
        not isinstance(result, dict)
        or result.keys() != _FIELDS_OF_MESSAGE
        or step.call_id is not None
    ):
        return step
    if result["status"] not in _STATUSES or not isinstance(result["tool_call_id"], str):
        return step
    return _opened_for(step, result["tool_call_id"])


def _opened_for(step: Step, named: str) -> Step:
    if step.call_id not in (None, named):
        return step
    inside = provider_answer(step.result, named) or answering(step.result, named)
    if inside is None or inside.call_id != named:
        return step
    return changed(step, result=inside.value, call_id=named, error=step.error or inside.error)
