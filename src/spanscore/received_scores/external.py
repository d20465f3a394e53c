"""External scores in OTLP."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spanscore.model.external import stand_in_span_id
from spanscore.model.score import Evaluation
from spanscore.model.span import Attributes, LogRecord, Span, Value
from spanscore.model.trace import DEFAULT_SCOPE
from spanscore.otlp.check import Prefilter
from spanscore.received_scores._given import (
    KINDS,
    Given,
    Place,
    flag,
    json_list,
    json_object,
    mapping,
    numeric,
    session_of,
    text,
)
from spanscore.received_scores.own import is_own

may_hold = Prefilter(
    (
        b"evaluation",
        b"evaluator",
        b"EVALUATOR",
        b"guardrail",
        b"annotation",
        b"logfire.feedback",
        b"eval_root",
    )
).passes
"""Whether a raw OTLP request may hold a score that somebody gave.

It may say yes wrongly, never no.

>>> may_hold(b"...gen_ai.request.model..."), may_hold(b"...gen_ai.evaluation.name...")
(False, True)
"""


def read(
    spans: Iterable[Span],
    logs: Iterable[LogRecord] = (),
    *,
    session_scope: Sequence[str] = DEFAULT_SCOPE,
) -> list[Evaluation]:
    """The scores in these spans and log records, each once, in the order in which they were given.

    What spanscore exported, this or another one, is none of them. Values are as they were given, on
    no scale that is not recorded. `session_scope` is that of the configuration.
    """
    given = [
        *(x for span in spans for x in _of_span(span)),
        *(x for log in logs for x in _of_log(log)),
    ]
    once = {
        x.uid: x for x in (found.evaluation(session_scope) for found in given if found.has_outcome)
    }
    return sorted(once.values(), key=lambda x: (x.evaluated_at_ns, x.uid))


def _of_span(span: Span) -> Iterator[Given]:
    if not is_own(span):
        yield from _of_semconv(span)
        yield from _of_openinference(span)
        yield from _of_platform(span)


def _of_log(log: LogRecord) -> Iterator[Given]:
    if not is_own(log):
        yield from _of_semconv_log(log)


_ITEM = re.compile(
    r"(?:(trace|session)\.)?(annotation|evaluation)s\.([0-9]{1,6})\.\2\.(name|score|label|explanation|annotator_kind|identifier|metadata)"
)
_MOST = 1000  # results of one evaluator
_OWN = "spanscore"
"""How the identifiers begin of what spanscore itself writes in this form."""


def _of_openinference(span: Span) -> Iterator[Given]:
    """The scores that a span has, or is."""
    items: defaultdict[tuple[str, str, str], dict[str, Value]] = defaultdict(dict)
    for key, value in span.attributes.items():
        if found := _ITEM.fullmatch(key):
            of_what, kind, number, fact = found.groups()
            items[of_what or "span", kind, number][fact] = value
    for item, facts in items.items():
        yield from _annotation(span, item, facts)
    if (
        not items
        and NAME not in span.attributes
        and span.attributes.get("openinference.span.kind") == "EVALUATOR"
    ):
        yield from _evaluator(span)


def _annotation(span: Span, item: tuple[str, str, str], facts: Attributes) -> Iterator[Given]:
    name, identifier = text(facts, "name"), text(facts, "identifier")
    if name is None or (identifier or "").split(":")[0] == _OWN:
        return
    kind = KINDS.get(str(facts.get("annotator_kind")).upper())
    yield Given(
        name=name,
        place=_place(span, item[0]),
        scope_name=span.scope.name,
        seed=(span.trace_id, span.span_id, *item, name),
        at_ns=span.end_ns,
        value=numeric(facts.get("score")),
        label=text(facts, "label"),
        reason=text(facts, "explanation"),
        kind=kind,
        source=None if kind in {"HUMAN", "CODE"} else identifier,
        evaluator=None if kind == "HUMAN" else identifier,
        author=identifier if kind == "HUMAN" else None,
        metadata=json_object(facts, "metadata"),
    )


def _place(span: Span, of_what: str) -> Place:
    session_id = session_of(span.attributes)
    if of_what == "session" and session_id is not None:
        return Place("", "", span.resource, session_id, is_session=True)
    return Place(
        span.trace_id, "" if of_what == "trace" else span.span_id, span.resource, session_id
    )


def _evaluator(span: Span) -> Iterator[Given]:
    """An evaluator's span, where its output is an object with a score or a label, or a list of
    such.
    """
    results = json_list(span.attributes, "output.value")
    outputs = [json_object(span.attributes, "output.value")] if results is None else results
    for number, output in enumerate(outputs[:_MOST]):
        # of the first the seed is that of a single one
        yield from _result(span, mapping(output), (number,) if number else ())


def _result(span: Span, output: Attributes, more_seed: tuple[int, ...]) -> Iterator[Given]:
    yield Given(
        name=text(output, "name") or span.name,
        place=place_of(span),
        scope_name=span.scope.name,
        seed=(span.trace_id, span.span_id, *more_seed),
        at_ns=span.end_ns,
        value=numeric(output.get("score")),
        label=text(output, "label"),
        passed=flag(output, "passed"),
        reason=text(output, "explanation", "reason"),
        kind=KINDS.get(str(output.get("kind")).upper()),
        source=library_of(span),
    )


def library_of(span: Span) -> str | None:
    """The scope, of which a source is named; of a span of no scope its service."""
    return None if span.scope.name else span.resource.service_name


LOGFIRE = "logfire.feedback.name"
LANGWATCH = "langwatch.span.type"
LANGFUSE = "langfuse.observation.type"
TRULENS = "ai.observability.eval_root.score"


def _of_platform(span: Span) -> Iterator[Given]:
    """The score that a span is."""
    attributes = span.attributes
    if LOGFIRE in attributes:
        found = _logfire(span)
    elif attributes.get(LANGWATCH) in {"evaluation", "guardrail"}:
        found = _langwatch(span)
    elif attributes.get(LANGFUSE) == "evaluator":
        found = _langfuse(span)
    elif TRULENS in attributes:
        found = _trulens(span)
    else:
        return
    if found is not None:
        yield found


def _logfire(span: Span) -> Given | None:
    """The value is the attribute with the feedback's name: a number is a score, a text a label, and
    a score where it is a number; True is a pass.
    """
    name = text(span.attributes, LOGFIRE)
    if name is None:
        return None
    value = span.attributes.get(name)
    return _of_child(
        span,
        name,
        value=numeric(value),
        label=value if isinstance(value, str) else None,
        reason=text(span.attributes, "logfire.feedback.comment"),
        source="logfire",
    )


def _langwatch(span: Span) -> Given | None:
    output = json_object(span.attributes, "langwatch.output")
    result = mapping(output.get("value")) if output.get("type") == "evaluation_result" else output
    is_error = result.get("status") == "error"
    return _of_child(
        span,
        text(span.attributes, "langwatch.evaluation.name") or span.name,
        value=numeric(result.get("score")),
        label=text(result, "label"),
        passed=flag(result, "passed"),
        reason=text(result, "details"),
        error=(text(result, "error_type") or "Error") if is_error else None,
        source="langwatch",
    )


def _langfuse(span: Span) -> Given:
    """An evaluator's observation, where its output is an object with a score, a value or a label,
    as Langfuse's `Evaluation` has them.
    """
    output = json_object(span.attributes, "langfuse.observation.output")
    value = output.get("score", output.get("value"))
    number = numeric(value)
    is_word = isinstance(value, str) and (number is None or isinstance(number, bool))
    word = value if is_word else None
    return _of_child(
        span,
        text(output, "name") or span.name,
        value=number,
        label=text({"label": word, **output}, "label"),
        passed=flag(output, "passed"),
        reason=text(output, "comment", "explanation", "reason"),
        source="langfuse",
    )


def _trulens(span: Span) -> Given | None:
    """A feedback function's span, which lies in the trace of the record that it is of."""
    base = TRULENS.rpartition(".")[0]
    name = text(span.attributes, f"{base}.metric_name")
    if name is None:
        return None
    return _of_child(
        span,
        name,
        value=numeric(span.attributes.get(TRULENS)),
        error=text(span.attributes, f"{base}.error"),
        reason=text(span.attributes, "ai.observability.eval.explanation"),
        source="trulens",
    )


def _of_child(span: Span, name: str, **facts: Any) -> Given:
    """What a span records of its parent."""
    session_id = session_of(span.attributes)
    return Given(
        name=name,
        place=Place(span.trace_id, span.parent_span_id, span.resource, session_id),
        scope_name=span.scope.name,
        seed=(span.trace_id, span.span_id),
        at_ns=span.end_ns,
        **facts,
    )


NAME = "gen_ai.evaluation.name"
_RESULTS = frozenset({"gen_ai.evaluation.result", "gen_ai.evaluation"})
_SEVERAL = "gen_ai.evaluation.results"
_SENT_TWICE = "opentelemetry.util.genai"
"""How the scope begins under which each result is an event of its own and one of several."""

_OPERATIONS = frozenset({"evaluation", "data_evaluation_results"})


def _of_semconv_log(log: LogRecord) -> Iterator[Given]:
    """The scores in a log record; none where it is no evaluation event."""
    name = _event_name(log)
    if name not in _RESULTS and name != _SEVERAL:
        return
    place = Place.of(log, session_of(log.attributes))
    if place.span_id == stand_in_span_id(place.trace_id):
        place = replace(place, span_id="")
    seed = (text(log.attributes, "log.record.uid") or "", log.trace_id, log.span_id, log.time_ns)
    results = [log.attributes] if name in _RESULTS else list(_results(log))
    for number, result in enumerate(results):
        yield from map(_once, _given(result, place, log.scope.name, (*seed, number), log.time_ns))


def _of_semconv(span: Span) -> Iterator[Given]:
    """The scores in the events of a span, and the one that the span itself is, or was given."""
    for event in span.events:
        if event.name in _RESULTS:
            place = Place.of(span, session_of(event.attributes) or session_of(span.attributes))
            when = (span.trace_id, span.span_id, event.time_ns)
            yield from _given(event.attributes, place, span.scope.name, when, event.time_ns)
    if NAME in span.attributes:
        ids = (span.trace_id, span.span_id)
        yield from _given(span.attributes, place_of(span), span.scope.name, ids, span.end_ns)


def is_evaluation(span: Span) -> bool:
    """Whether a span stands for an evaluation, and for nothing that an agent did."""
    operation = span.attributes.get("gen_ai.operation.name")
    return operation in _OPERATIONS or (
        NAME in span.attributes and operation is None and not _is_step(span)
    )


def place_of(span: Span) -> Place:
    """What an evaluation span is about: the span that it links to, else its parent; of a step that
    has it, the step.

    One that is a trace by itself is about the session that it names.
    """
    session_id = session_of(span.attributes)
    if span.attributes.get("spanscore.scope") == "session" and session_id is not None:
        return Place("", "", span.resource, session_id, is_session=True)
    if not is_evaluation(span) and span.attributes.get("openinference.span.kind") != "EVALUATOR":
        return Place.of(span, session_id)
    if span.links:
        return Place(span.links[0].trace_id, span.links[0].span_id, span.resource, session_id)
    is_session = not span.parent_span_id and session_id is not None
    if is_session:
        return Place("", "", span.resource, session_id, is_session=True)
    parent_id = span.parent_span_id
    return Place(
        span.trace_id,
        "" if parent_id == stand_in_span_id(span.trace_id) else parent_id,
        span.resource,
        session_id,
    )


def _is_step(span: Span) -> bool:
    kind = span.attributes.get(
        "openinference.span.kind", span.attributes.get("traceloop.span.kind")
    )
    return kind is not None and kind != "EVALUATOR"


def _event_name(log: LogRecord) -> str:
    named = text(log.attributes, "microsoft.custom_event.name")
    return named or log.event_name


def _once(given: Given) -> Given:
    """The score with the same seed in both events that Splunk's emitters send of it, which have
    times of their own; without the label "unknown", which only one of them makes up.
    """
    if not given.scope_name.startswith(_SENT_TWICE):
        return given
    label = None if given.label == "unknown" else given.label
    place = given.place
    outcome = (given.name, given.value, label, given.passed, given.reason, given.error)
    seed = ("result", place.trace_id, place.span_id, place.response_id, *outcome)
    return replace(given, label=label, seed=seed)


def _results(log: LogRecord) -> Iterator[Attributes]:
    """The results in the body of Splunk's event, which some exporters write as JSON."""
    body: Mapping[str, Any] = (
        log.body if isinstance(log.body, dict) else json_object({"body": log.body}, "body")
    )
    results = body.get("gen_ai.evaluations")
    for result in results[:_MOST] if isinstance(results, list) else ():
        if isinstance(result, dict):
            yield result


def _given(
    attributes: Attributes, place: Place, scope_name: str, seed: tuple[object, ...], at_ns: int
) -> Iterator[Given]:
    name = text(attributes, NAME)
    if name is None:
        return
    place = _placed(attributes, place)
    answer = () if place.response_id is None else (place.response_id,)
    given = Given(
        name=name,
        place=place,
        scope_name=scope_name,
        seed=(*seed, name, *answer),
        at_ns=at_ns,
        value=numeric(attributes.get("gen_ai.evaluation.score.value")),
        label=text(attributes, "gen_ai.evaluation.score.label"),
        passed=flag(attributes, "gen_ai.evaluation.passed", "gen_ai.evaluation.test_pass"),
        reason=text(attributes, "gen_ai.evaluation.explanation", "error.message"),
        error=text(attributes, "error.type"),
        source=text(attributes, "spanscore.score.source"),
        author=text(attributes, "spanscore.score.author"),
        kind=KINDS.get(str(attributes.get("spanscore.score.kind"))),
        evaluator=_evaluator_named(attributes),
        version=text(attributes, "gen_ai.evaluation.evaluator.version"),
        scale=_scale(attributes),
        metadata=_metadata(attributes),
    )
    yield _with_properties(given, json_object(attributes, "internal_properties"))


def _placed(attributes: Attributes, place: Place) -> Place:
    """The place, of an event that says it is of a session, or which model's response it is of."""
    if attributes.get("spanscore.scope") == "session" and place.session_id is not None:
        return Place("", "", place.resource, place.session_id, is_session=True)
    response_id = text(attributes, "gen_ai.response.id")
    return (
        place if response_id is None else replace(place, is_session=False, response_id=response_id)
    )


def _evaluator_named(attributes: Attributes) -> str | None:
    """The evaluator's own name; of Pydantic's, whose attribute is JSON, the name in it."""
    named = text(attributes, "gen_ai.evaluator.name", "gen_ai.evaluation.evaluator")
    return named or text(json_object(attributes, "gen_ai.evaluation.evaluator.source"), "name")


def _scale(attributes: Attributes) -> tuple[float, float] | None:
    bounds = attributes.get("spanscore.scale")
    if not isinstance(bounds, list) or len(bounds) != 2:  # the lowest and the highest
        return None
    low, high = (numeric(x) for x in bounds)
    return None if low is None or high is None else (float(low), float(high))


def _metadata(attributes: Attributes) -> dict[str, Any]:
    found = dict(json_object(attributes, "spanscore.metadata"))
    if response_id := text(attributes, "gen_ai.response.id"):
        found["response_id"] = response_id
    return found


def _with_properties(given: Given, properties: dict[str, Any]) -> Given:
    """With what Microsoft's evaluators write beside the conventions: verdict, bounds, and which
    evaluator it was.
    """
    if not properties:
        return given
    low, high = (numeric(properties.get(f"gen_ai.evaluation.{x}_value")) for x in ("min", "max"))
    threshold = numeric(properties.get("gen_ai.evaluation.threshold"))
    return replace(
        given,
        passed=given.passed
        if given.passed is not None
        else flag(properties, "gen_ai.evaluation.passed"),
        threshold=None if threshold is None else float(threshold),
        scale=given.scale if low is None or high is None else (float(low), float(high)),
        evaluator=given.evaluator or text(properties, "gen_ai.evaluator.name"),
        version=given.version or text(properties, "gen_ai.evaluator.version"),
    )
