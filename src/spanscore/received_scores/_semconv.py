"""Scores in OpenTelemetry's own form, `gen_ai.evaluation.*`, on log events, span events and spans
of their own.

Splunk's emitters write several results into the body of one event, beside an event for each of
them, Microsoft's evaluators put what the conventions have no name for into a JSON text, and the SDK
of this project adds who gave the score.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from spanscore.model.external import stand_in_span_id
from spanscore.model.span import Attributes, LogRecord, Span
from spanscore.received_scores._attributes import flag, json_object, numeric, text
from spanscore.received_scores._given import KINDS, Given, Place, session_of

NAME = "gen_ai.evaluation.name"
_RESULTS = frozenset({"gen_ai.evaluation.result", "gen_ai.evaluation"})
_SEVERAL = "gen_ai.evaluation.results"
_MOST = 1000  # results in one event
_SENT_TWICE = "opentelemetry.util.genai"
"""How the scope begins under which each result is an event of its own and one of several."""

_OPERATIONS = frozenset({"evaluation", "data_evaluation_results"})


def of_log(log: LogRecord) -> Iterator[Given]:
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


def of_span(span: Span) -> Iterator[Given]:
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
        evaluator=_evaluator(attributes),
        version=text(attributes, "gen_ai.evaluation.evaluator.version"),
        scale=_scale(attributes),
        metadata=_metadata(attributes),
    )
    given = _with_properties(given, json_object(attributes, "internal_properties"))
    if given.has_outcome:
        yield given


def _placed(attributes: Attributes, place: Place) -> Place:
    """The place, of an event that says it is of a session, or which model's response it is of."""
    if attributes.get("spanscore.scope") == "session" and place.session_id is not None:
        return Place("", "", place.resource, place.session_id, is_session=True)
    response_id = text(attributes, "gen_ai.response.id")
    return (
        place if response_id is None else replace(place, is_session=False, response_id=response_id)
    )


def _evaluator(attributes: Attributes) -> str | None:
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
