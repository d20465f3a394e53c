"""Put what was read of the traces of one turn together, as if they were one trace."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spanscore.model.span import Span
from spanscore.model.step import Reading, Step
from spanscore.turns.basis.tool_boundary import digest


def merge(readings: Sequence[Reading], within: Mapping[str, str]) -> Reading | None:
    """What was read of several traces, in order, as if it were one; None where they have a span id in common.

    A trace's outermost spans are put where they belong: into the span that they link to, or beside it where it had
    ended before; else, by the trace's id, into the tool call `within` which it was asked; else into the only agent that
    shows no call of a model itself. The session of what was asked so is its own, and not the turn's.
    """
    readings, within = _with_runs(readings, within)
    place = {x.span_id: (x.start_ns, number, x.span_id) for number, each in enumerate(readings) for x in each.spans}
    if len(place) < sum(len(x.spans) for x in readings):
        return None
    spans = sorted((x for reading in readings for x in reading.spans), key=lambda x: place[x.span_id])
    steps = sorted((x for reading in readings for x in reading.steps), key=lambda x: place[x.span.span_id])
    placed = _placed(spans, _holder(readings), within)
    return Reading(
        tuple(placed.get(x.span_id, x) for x in spans),
        tuple(_moved(x, placed, within) for x in steps),
        sum(x.unread for x in readings),
        {span_id: records for reading in readings for span_id, records in reading.logs.items()},
        told_by={span_id: step for reading in readings for span_id, step in reading.told_by.items()},
    )


def _with_runs(readings: Sequence[Reading], within: Mapping[str, str]) -> tuple[Sequence[Reading], Mapping[str, str]]:
    """The readings with a tool's run, where only the model call that asked for the tool is there, and who lies in it.

    The run stands beside that model call, and tells nothing itself.
    """
    models = {x.span.span_id: x.span for reading in readings for x in reading.steps if x.kind == "model"}
    runs: dict[str, Span] = {}
    for spans in (x.spans for x in readings if x.spans):
        trace_id = spans[0].trace_id
        asker = models.get(within.get(trace_id, ""))
        if asker is not None:
            times = min(x.start_ns for x in spans), max(x.end_ns for x in spans)
            runs[trace_id] = _run(asker, digest(f"{trace_id} {asker.span_id}")[:16], *times)
    if not runs:
        return readings, within
    added = Reading(tuple(runs.values()), tuple(Step(span=x, dialect="", kind="tool") for x in runs.values()))
    return [*readings, added], {**within, **{trace_id: x.span_id for trace_id, x in runs.items()}}


def _run(asker: Span, span_id: str, start_ns: int, end_ns: int) -> Span:
    made = replace(asker, span_id=span_id, name="tool", start_ns=start_ns, end_ns=end_ns, attributes={}, events=())
    return replace(made, links=(), status_code=0, status_message="", recorded=False)


def _moved(step: Step, placed: Mapping[str, Span], within: Mapping[str, str]) -> Step:
    session_id = None if step.span.trace_id in within else step.session_id
    return replace(step, span=placed.get(step.span.span_id, step.span), session_id=session_id)


def _holder(readings: Sequence[Reading]) -> Span | None:
    """The only agent in the traces that show no call of a model."""
    holders = [x for x in readings if not any(y.kind == "model" for y in x.steps)]
    agents = [x.span for reading in holders for x in reading.steps if x.kind == "agent"]
    return agents[0] if len(agents) == 1 else None


def _placed(spans: Sequence[Span], holder: Span | None, within: Mapping[str, str]) -> dict[str, Span]:
    """The outermost spans that belong into another trace, by id, each with its parent there."""
    known = {x.span_id: x for x in spans}
    placed: dict[str, Span] = {}
    for span in spans:
        if span.parent_span_id in known:
            continue
        linked = (placed.get(x.span_id, known.get(x.span_id)) for x in span.links)
        around = known.get(within.get(span.trace_id, ""), holder)
        above = next((x for x in linked if x is not None), around)
        if above is None or above.trace_id == span.trace_id:
            continue
        is_beside = above is not around and 0 < above.end_ns <= span.start_ns
        parent_id = above.parent_span_id if is_beside else above.span_id
        if parent_id in known:
            placed[span.span_id] = replace(span, parent_span_id=parent_id)
    return placed
