"""A backend's answer as one stored trace, in whichever form of OTLP or Jaeger it is."""

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from spanscore.errors import InputError
from spanscore.model.json import loads
from spanscore.otlp import check, decode
from spanscore.sources.json_prefix import whole_prefix
from spanscore.sources.limits import MAX_TRACE_BYTES, within
from spanscore.sources.port import Stored

CUT = f"its answer is longer than {MAX_TRACE_BYTES // 2**20} MiB, of which the beginning is read"


def stored(
    trace_id: str, requests: Iterable[Message], truncated: str = "", size_bytes: int = 0
) -> Stored:
    """The spans of export requests that belong to a trace; `truncated` as `Stored` has it."""
    refused: list[str] = []
    spans = []
    for request in requests:
        refused += [
            f"{x.name!r} of trace {trace_id}: {x.reason}" for x in check.remove_damaged(request)
        ]
        spans += [x for x in decode.spans(request) if x.trace_id == trace_id]
    first_spans, too_many = within(spans)
    return Stored(trace_id, first_spans, (), truncated or too_many, refused, size_bytes)


def parsed(content: bytes, where: str, *, is_cut: bool, depth: int) -> Any:
    """An answer's JSON; of one that was cut what is whole, `depth` being how deep its spans lie.

    Raises InputError.
    """
    try:
        return loads(whole_prefix(content, depth) if is_cut else content)
    except ValueError as error:
        raise InputError(
            f"{where}: its answer is no JSON ({error}); is this the address of its query API?"
        ) from None
