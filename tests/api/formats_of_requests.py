"""Texts that the formats of the OpenAPI document can be, for Schemathesis, which imports this: what
is no pattern, such as a filter, is in a format of ours.
"""

import functools
import json

import jsonschema_rs
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
    """Whether a request is what it was drawn as, right or wrong.

    No schema can say that a time ends before it begins. And what is wrong only as a format of ours
    may be right: Schemathesis does not know these formats, and draws an empty page token as a wrong
    one.
    """
    if case.meta is not None and case.meta.generation.mode.is_negative:
        return not _fits(case)
    return not any(_is_empty_time(x) for x in _objects(case.body))


def _fits(case):
    """Whether a request's body has all that its schema asks for beside formats."""
    document = case.operation.schema.raw_schema
    content = document["paths"][case.path]["post"]["requestBody"]["content"]
    if case.media_type not in content or case.path_parameters or case.query:
        return False
    schema = json.dumps(
        {**content[case.media_type]["schema"], "components": document["components"]}
    )
    try:
        return _validator(schema).is_valid(case.body)
    except ValueError:  # what is no value of JSON
        return False


@functools.cache
def _validator(schema):
    return jsonschema_rs.Draft202012Validator(json.loads(schema), validate_formats=False)


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
