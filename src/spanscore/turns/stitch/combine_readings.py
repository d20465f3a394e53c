"""Combine what was read of the traces of one turn, as if they were one trace."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from spanscore.model.span import Span
from spanscore.model.step import Reading, Step
from spanscore.turns.basis.tool_boundary import digest


def merge(readings: Sequence[Reading], within: Mapping[str, str]) -> Reading | None:
    """What was read of several traces, in order, as one; None where they share a span id.

    A trace's outermost spans are put where they belong: into the span that they link to, or beside
    it where it had ended before; else into the tool call that `within` has for the trace's id; else
    into the only agent of a trace without model calls. The session of a trace in a tool call is its
    own, and not the turn's.
    """
    readings, within = _with_runs(readings, within)
    place: dict[str, tuple[int, int, str]] = {}
    for number, reading in enumerate(readings):
        place.update((x.span_id, (x.start_ns, number, x.span_id)) for x in reading.spans)
    if len(place) < sum(len(reading.spans) for reading in readings):
        return None
    spans = sorted(_spans_of(readings), key=lambda x: place[x.span_id])
    steps = sorted(_steps_of(readings), key=lambda x: place[x.span.span_id])
    placed = _placed(spans, _agent_without_model_calls(readings), within)
    return Reading(
        tuple(placed.get(span.span_id, span) for span in spans),
        tuple(_moved(step, placed, within) for step in steps),
        sum(reading.unread for reading in readings),
        dict(chain.from_iterable(reading.logs.items() for reading in readings)),
        other_reports=dict(
            chain.from_iterable(reading.other_reports.items() for reading in readings)
        ),
    )


def _spans_of(readings: Iterable[Reading]) -> Iterable[Span]:
    return chain.from_iterable(reading.spans for reading in readings)


def _steps_of(readings: Iterable[Reading]) -> Iterable[Step]:
    return chain.from_iterable(reading.steps for reading in readings)


def _with_runs(
    readings: Sequence[Reading],
    within: Mapping[str, str],
) -> tuple[Sequence[Reading], Mapping[str, str]]:
    """The readings with a tool's run for each trace that `within` puts into a model call.

    That is so where no span of the tool was received. The run stands beside the model call that
    requested the tool, and contains nothing but the trace, which `within` then puts into it.
    """
    models = {step.span.span_id: step.span for step in _steps_of(readings) if step.kind == "model"}
    runs: dict[str, Span] = {}
    for reading in readings:
        trace_id = reading.spans[0].trace_id if reading.spans else ""
        requester = models.get(within.get(trace_id, ""))
        if requester is not None:
            runs[trace_id] = _run(requester, trace_id, reading.spans)
    if not runs:
        return readings, within
    steps = tuple(Step(span=span, dialect="", kind="tool") for span in runs.values())
    in_runs = {trace_id: span.span_id for trace_id, span in runs.items()}
    return [*readings, Reading(tuple(runs.values()), steps)], {**within, **in_runs}


def _run(requester: Span, trace_id: str, spans: Sequence[Span]) -> Span:
    """A span that was never sent, for the tool call in which a trace ran."""
    return replace(
        requester,
        span_id=digest(f"{trace_id} {requester.span_id}")[:16],
        name="tool",
        start_ns=min(span.start_ns for span in spans),
        end_ns=max(span.end_ns for span in spans),
        attributes={},
        events=(),
        links=(),
        status_code=0,
        status_message="",
        recorded=False,
    )


def _moved(step: Step, placed: Mapping[str, Span], within: Mapping[str, str]) -> Step:
    session_id = None if step.span.trace_id in within else step.session_id
    return replace(step, span=placed.get(step.span.span_id, step.span), session_id=session_id)


def _agent_without_model_calls(readings: Sequence[Reading]) -> Span | None:
    """The only agent in the traces that have no model call."""
    without = [each for each in readings if not any(x.kind == "model" for x in each.steps)]
    agents = [step.span for step in _steps_of(without) if step.kind == "agent"]
    return agents[0] if len(agents) == 1 else None


def _placed(
    spans: Sequence[Span],
    default: Span | None,
    within: Mapping[str, str],
) -> dict[str, Span]:
    """The outermost spans that belong into another trace, by id, each with its parent there."""
    known = {span.span_id: span for span in spans}
    placed: dict[str, Span] = {}
    for span in spans:
        if span.parent_span_id in known:
            continue
        linked = (placed.get(link.span_id, known.get(link.span_id)) for link in span.links)
        around = known.get(within.get(span.trace_id, ""), default)
        above = next((x for x in linked if x is not None), around)
        if above is None or above.trace_id == span.trace_id:
            continue
        is_beside = above is not around and 0 < above.end_ns <= span.start_ns
        parent_id = above.parent_span_id if is_beside else above.span_id
        if parent_id in known:
            placed[span.span_id] = replace(span, parent_span_id=parent_id)
    return placed
