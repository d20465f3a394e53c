"""Scores in OpenInference's form: lists of annotations and evaluations on a span, of it, its trace
or its session.

And evaluators that are spans themselves, whose output is the score.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from spanscore.model.span import Attributes, Span, Value
from spanscore.received_scores._attributes import (
    flag,
    json_list,
    json_object,
    mapping,
    numeric,
    text,
)
from spanscore.received_scores._given import KINDS, Given, Place, session_of
from spanscore.received_scores._semconv import NAME, place_of

_ITEM = re.compile(
    r"(?:(trace|session)\.)?(annotation|evaluation)s\.([0-9]{1,6})\.\2\.(name|score|label|explanation|annotator_kind|identifier|metadata)"
)
_MOST = 1000  # results of one evaluator
_OWN = "spanscore"
"""How the identifiers begin of what spanscore itself writes in this form."""


def of_span(span: Span) -> Iterator[Given]:
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
    given = Given(
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
    if given.has_outcome:
        yield given


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
    given = Given(
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
    if given.has_outcome:
        yield given


def library_of(span: Span) -> str | None:
    """The scope, of which a source is named; of a span of no scope its service."""
    return None if span.scope.name else span.resource.service_name
