"""Texts that the formats of the OpenAPI document can be, for Schemathesis, which imports this: what
is no pattern, such as a filter, is in a format of ours.
"""

import schemathesis
from hypothesis import strategies as st

FORMATS = {
    "cron": st.sampled_from(["", "0 * * * *", "*/5 3 1 1 0"]),
    "field-mask": st.sampled_from(["", "name", "*"]),
    "filter-of-figures": st.sampled_from(["", 'service = "shop" AND NOT model : "gpt"']),
    "filter-of-scores": st.sampled_from(["", "value < 0.5 OR label = fail"]),
    "filter-of-sessions": st.sampled_from(["", "trace_count > 2", "failing = true"]),
    "filter-of-traces": st.sampled_from(["", "failing = true (latency > 2s OR input_tokens < 7)"]),
    "label": st.sampled_from(["", "helpful"]),
    "metric": st.sampled_from(["task_completion", "coherence", "check.errors_recovered"]),
    "model": st.just("gpt-4o-mini"),
    "order-of-scores": st.sampled_from(["", "stored_ns", "value desc", "evaluated_at_ns"]),
    "order-of-sessions": st.sampled_from(["", "stored_ns", "stored_ns asc"]),
    "page-token": st.just(""),
    "session-metric": st.just("conversation_completion"),
    "signal": st.sampled_from(["coherence", "confidence"]),
    "source": st.just(""),
    "time-zone": st.sampled_from(["", "UTC", "Europe/Berlin"]),
}

_TIMES = (("startNs", "endNs"), ("startedAfterNs", "startedBeforeNs"))

for name, strategy in FORMATS.items():
    schemathesis.openapi.format(name, strategy)


@schemathesis.hook
def filter_case(context, case):
    """Whether no time in a request ends before it begins, which no schema can say."""
    return not any(_is_empty_time(x) for x in _objects(case.body))


def _is_empty_time(given):
    pairs = ((given.get(start), given.get(end)) for start, end in _TIMES)
    return any(_is_empty(start, end) for start, end in pairs)


def _is_empty(start, end):
    try:
        return int(end) <= int(start)
    except (TypeError, ValueError):
        return False


def _objects(given):
    if isinstance(given, dict):
        yield given
    for one in (
        given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    ):
        yield from _objects(one)
