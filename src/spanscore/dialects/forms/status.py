"""Errors of failed spans."""

from spanscore.dialects.forms.arguments import failure, result
from spanscore.dialects.forms.messages import blocks
from spanscore.dialects.forms.structure import text
from spanscore.model.span import STATUS_ERROR, Span
from spanscore.model.step import Ending

_WAITING = (
    *("GraphInterrupt", "NodeInterrupt"),  # LangGraph's
    *("ApprovalRequired", "CallDeferred"),  # Pydantic AI's
)
_CANCELLED = ("CancelledError", "Cancelled", "AbortError", "Canceled", "KeyboardInterrupt")


def ending_of(span: Span) -> Ending | None:
    """How a span ended that did not succeed; None for all others.

    What waits for a person, or was cancelled, raises an exception too.
    """
    attributes = span.attributes
    if span.status_code != STATUS_ERROR and "error.type" not in attributes:
        return None
    raised = [x.attributes.get("exception.type") for x in span.events if x.name == "exception"]
    for stated in (*raised, attributes.get("error.type")):
        name = stated.rpartition(".")[2] if isinstance(stated, str) else ""
        if name in _WAITING:
            return "waiting"
        if name in _CANCELLED:
            return "cancelled"
    return "failed"


def status_error(span: Span) -> str | None:
    """Why a span failed, by its status, its exception event or its `error.type`; None where it did
    not, waits for a person, or was cancelled.
    """
    if ending_of(span) != "failed":
        return None
    for event in span.events:
        if event.name == "exception":
            stated = event.attributes.get("exception.message") or event.attributes.get(
                "exception.type"
            )
            if text(stated):
                return _without_blocks(str(stated))
    return (
        _without_blocks(span.status_message) or text(span.attributes.get("error.type")) or "error"
    )


def _without_blocks(message: str) -> str:
    """The text of an error that a tool stated as a list of content blocks; any other as it is."""
    listed = blocks(message)
    return message if listed is None else failure(result(listed))
