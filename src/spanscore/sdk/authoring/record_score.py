"""`spanscore.record_score`: someone's score of a turn."""

import math
import re
import time
from typing import Literal, TypeAlias

from opentelemetry import _logs, context, trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from spanscore import __version__
from spanscore.model.external import stand_in_span_id
from spanscore.sdk.authoring import spans as names
from spanscore.sdk.authoring.spans import Attribute, current_turn, well_named
from spanscore.sdk.authoring.turn import Turn, named
from spanscore.sdk.authoring.values import bounded, guarded, report_once

Traced: TypeAlias = Turn | trace.Span | SpanContext | str
"""What names a trace: a turn, a span, the ids of one, `traceparent`, or a trace id of 32 hex
digits.
"""

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_MAX_SUMMARY_CHARS = 200
_EVENT = "gen_ai.evaluation.result"
_VALUE, _LABEL = "gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"


def record_score(
    name: str,
    value: bool | float | str,
    *,
    comment: str | None = None,
    scale: tuple[float, float] | None = None,
    source: str = "human",
    author: str | None = None,
    trace: Traced | None = None,
    session: str | None = None,
    emit: Literal["span", "event"] = "span",
) -> None:
    """Record a score that somebody gave: a thumbs-up, a rating, or a word.

    It is kept beside spanscore's own scores.

    It is of the current turn, else of the current span's trace; of another one, by `trace`; or of a
    session.

    Args:
        name: What was scored, such as `helpful`. Who gives it again changes their mind: the newer
            one counts.
        value: True or False, a number on a scale of your own, or a word.
        comment: Why.
        scale: The lowest and the highest value that a number can have, such as `(1, 5)`. One that
            the value is not on is left out, with a warning; the score is kept.
        source: Who: `human`, `programmatic`, or the name of an evaluator.
        author: Who of them; no personal data that your traces should not have.
        trace: The turn, its `traceparent` (which may be stored with the answer, for a thumbs-up
            that comes a day later in another process), or the id of its trace.
        session: The id of a session, in place of a trace.
        emit: `span`: a child span, which needs nothing more; `event`: the log event
            `gen_ai.evaluation.result`, for applications with a LoggerProvider.

    >>> record_score("helpful", True, comment="It found my flight.", session="chat-7")
    """
    _record(name, value, comment, scale, source, author, trace, session, emit)


@guarded
def _record(
    name: str,
    value: bool | float | str,
    comment: str | None,
    scale: tuple[float, float] | None,
    source: str,
    author: str | None,
    traced: Traced | None,
    session: str | None,
    emit: str,
) -> None:
    within = context.get_current() if session is not None and traced is None else _context(traced)
    if within is None:
        report_once(
            "record_score",
            f"the score {name!r} is of no turn, and is lost: call it in one, or give trace=",
        )
        return
    attributes: dict[str, Attribute | None] = {
        **_given(value),
        "gen_ai.evaluation.name": bounded(name),
        "gen_ai.evaluation.explanation": None if comment is None else bounded(comment),
        "spanscore.scale": None if scale is None else _bounds(name, value, scale),
        "spanscore.score.source": source,
        "spanscore.score.author": author,
    }
    if session is not None:
        attributes |= {**named(session, None), "spanscore.scope": "session"}
    set_attributes = {key: x for key, x in attributes.items() if x is not None}
    if emit == "event":
        _emit_event(set_attributes, within)
    else:
        _emit_span(name, set_attributes, within)


def _context(traced: Traced | None) -> Context | None:
    """The context of a span that is named, else of the current turn or span; None where there is
    none.
    """
    around = (current_turn(), trace.get_current_span()) if traced is None else (traced,)
    found = next((x for x in map(_span_context, around) if x is not None), None)
    if found is None or not found.is_valid:
        return None
    return trace.set_span_in_context(NonRecordingSpan(found))


def _span_context(traced: Traced | None) -> SpanContext | None:
    if isinstance(traced, Turn):
        return traced.span_context
    if isinstance(traced, trace.Span):
        return traced.get_span_context()
    if isinstance(traced, str):
        return _of_text(traced.strip().lower())
    return traced


def _of_text(text: str) -> SpanContext | None:
    """The ids in a `traceparent`; a trace id alone has a span id that stands in for the one that is
    not known.
    """
    found = _TRACEPARENT.fullmatch(text)
    if found is not None:
        return _remote(found[1], found[2], TraceFlags(int(found[3], 16)))
    plain = text.replace("-", "")
    if _TRACE_ID.fullmatch(plain) is None:
        return None
    return _remote(plain, stand_in_span_id(plain), TraceFlags(TraceFlags.SAMPLED))


def _remote(trace_id: str, span_id: str, flags: TraceFlags) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=flags)


def _given(value: bool | float | str) -> dict[str, Attribute | None]:
    """A value and its label: of yes and no 1 with `pass` and 0 with `fail`, of a word the label
    alone.
    """
    if isinstance(value, bool):
        return {_VALUE: float(value), _LABEL: "pass" if value else "fail"}
    if isinstance(value, str):
        return {_LABEL: bounded(value)}
    return {_VALUE: float(value)}


def _bounds(name: str, value: bool | float | str, scale: tuple[float, float]) -> list[float] | None:
    """The scale, where it is one and a number lies on it."""
    low, high = (float(x) for x in scale)
    is_scale = math.isfinite(high - low) and low < high
    if is_scale and not isinstance(value, bool | str) and low <= value <= high:
        return [low, high]
    report_once(
        "record_score scale",
        f"the score {name!r} is recorded without its scale, since {value!r} is no number"
        f" from {low:g} to {high:g}",
    )
    return None


def _emit_span(name: str, attributes: dict[str, Attribute], within: Context) -> None:
    tracer = trace.get_tracer(names.SCOPE, __version__)
    shown = attributes.get(_LABEL, attributes.get(_VALUE))
    described = {
        "evaluation.summary": f"{name} = {shown}"[:_MAX_SUMMARY_CHARS],
        names.OPERATION: "evaluation",
        "openinference.span.kind": "EVALUATOR",
    }
    tracer.start_span(
        well_named(f"evaluation {name}"), context=within, attributes={**described, **attributes}
    ).end()


def _emit_event(attributes: dict[str, Attribute], within: Context) -> None:
    """Emit it by the application's LoggerProvider; without one nothing is recorded."""
    logger = _logs.get_logger(names.SCOPE, __version__)
    logger.emit(
        _logs.LogRecord(
            timestamp=time.time_ns(),
            context=within,
            severity_number=_logs.SeverityNumber.INFO,
            attributes={"event.name": _EVENT, **attributes},
            event_name=_EVENT,
        )
    )
