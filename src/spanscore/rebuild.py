"""From spans and log records to agent traces: reading and turning in one step, for whoever has a whole trace."""

from collections import defaultdict
from collections.abc import Iterable

from spanscore import dialects, turns
from spanscore.model.span import LogRecord, Span
from spanscore.model.trace import AgentTrace, Completeness


def rebuild(
    spans: Iterable[Span], logs: Iterable[LogRecord] = (), *, completeness: Completeness = "complete"
) -> list[AgentTrace]:
    """The agent traces in the spans of one trace id and the log records with that trace id, oldest first.

    Order and repetition of spans and records change nothing, and no content raises.
    """
    return turns.build(dialects.read(spans, logs), completeness=completeness)


def rebuild_all(spans: Iterable[Span], logs: Iterable[LogRecord] = ()) -> list[AgentTrace]:
    """The agent traces in the spans and log records of any number of traces, ordered by their start."""
    spans_of: defaultdict[str, list[Span]] = defaultdict(list)
    logs_of: defaultdict[str, list[LogRecord]] = defaultdict(list)
    for span in spans:
        spans_of[span.trace_id].append(span)
    for log in logs:
        logs_of[log.trace_id].append(log)
    found = [trace for trace_id, group in spans_of.items() for trace in rebuild(group, logs_of[trace_id])]
    return sorted(found, key=lambda x: (x.started_ns, x.trace_ids, x.opening_span_id))
