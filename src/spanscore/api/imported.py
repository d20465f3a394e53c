"""Agent traces that a client has rebuilt, checked before they are stored."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from spanscore.api.convert import decode_trace
from spanscore.api.requests import shown
from spanscore.api.v1 import agent_trace_pb2 as trace_pb
from spanscore.errors import FieldError
from spanscore.model.json import loads
from spanscore.model.trace import AgentTrace

MAX_TRACES: Final = 1000
MAX_TRACE_IDS: Final = 10_000  # as many as `assemble.max_parts` lets one turn have, unless set
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"[0-9a-f]{16}|")
_MAX_NS: Final = 2**63 - 1


def imported(messages: Sequence[trace_pb.AgentTrace]) -> list[AgentTrace]:
    """The traces of a request.

    Raises FieldError that names the field of the first that cannot be stored.
    """
    if len(messages) > MAX_TRACES:
        raise FieldError(
            "traces", f"has {len(messages)} traces; at most {MAX_TRACES} are taken at once"
        )
    return [_imported(message, f"traces[{number}]") for number, message in enumerate(messages)]


def _imported(message: trace_pb.AgentTrace, where: str) -> AgentTrace:
    for field, problem in _problems(message):
        raise FieldError(f"{where}.{field}", problem)
    message.ClearField("session_key")  # which sessions are one is for the server to say
    try:
        return decode_trace(message)
    except (ValueError, RecursionError) as error:
        raise FieldError(where, f"a field that is to contain JSON contains none: {error}") from None


def _problems(message: trace_pb.AgentTrace) -> Iterator[tuple[str, str]]:
    """What is wrong with a trace, by field."""
    yield from _wrong_ids(message)
    if not message.started_ns <= message.ended_ns <= _MAX_NS:
        yield "ended_ns", "is before started_ns, or past the year 2262"
    if max(message.target.start_ns, message.target.end_ns) > _MAX_NS:
        yield "target.end_ns", "is past the year 2262"
    if not _is_object(message.target.resource_json):
        yield "target.resource_json", "is no JSON object"


def _wrong_ids(message: trace_pb.AgentTrace) -> Iterator[tuple[str, str]]:
    if not 1 <= len(message.trace_ids) <= MAX_TRACE_IDS:
        yield (
            "trace_ids",
            (
                f"has {len(message.trace_ids)} ids; give the 1 to {MAX_TRACE_IDS} traces that the"
                " turn is in"
            ),
        )
    for id_ in (*message.trace_ids, message.target.trace_id):
        if not _TRACE_ID.fullmatch(id_):
            yield (
                "trace_ids",
                (
                    f"{shown(id_)} is no id of a trace: give 32 lower-case hex digits, in"
                    " target.trace_id too"
                ),
            )
    for id_ in (message.opening_span_id, message.target.span_id, message.root_span_id):
        if not _SPAN_ID.fullmatch(id_):
            yield (
                "opening_span_id",
                (
                    f"{shown(id_)} is no id of a span: give 16 lower-case hex digits, in"
                    " target.span_id too"
                ),
            )


def _is_object(text: str) -> bool:
    try:
        return isinstance(loads(text), dict)
    except (ValueError, RecursionError):
        return False
