"""Amazon Bedrock under OpenTelemetry's instrumentation of botocore, which tells calls and results twice each."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from spanscore.dialects import _bedrock, semconv
from spanscore.dialects._base import Context, Dialect, Facts
from spanscore.model.span import Span
from spanscore.model.step import Message, ToolResult

_SCOPE = "opentelemetry.instrumentation.botocore.bedrock-runtime"


def read(span: Span, context: Context) -> Facts:
    """The facts of a request to Bedrock's runtime."""
    facts = semconv.read(span, context)
    if facts.get("input"):
        facts["input"] = tuple(_told_once(facts["input"]))
    return facts


def _told_once(messages: Sequence[Message]) -> Iterator[Message]:
    """Messages with each result once: it comes as a tool's message, and again in what is said in the user's name."""
    told = set[str | None]()
    for message in messages:
        fresh = [x for x in message.results if x.call_id is None or x.call_id not in told]
        told.update(x.call_id for x in fresh)
        if fresh or not message.results or message.text is not None:
            yield replace(
                message, results=tuple(ToolResult(x.call_id, _bedrock.content(x.value), x.error) for x in fresh)
            )


DIALECT = Dialect("bedrock", read, scopes=(_SCOPE,), marks=(b"bedrock-runtime",))
