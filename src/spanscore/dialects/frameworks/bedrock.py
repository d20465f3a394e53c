"""Amazon Bedrock under OpenTelemetry's instrumentations; that of botocore tells calls and results twice each."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from spanscore.dialects.content_switch import OPENTELEMETRY, ContentSwitch
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms import bedrock_blocks, from_raw_body
from spanscore.dialects.forms.values import Facts, change_messages
from spanscore.model.span import Span
from spanscore.model.step import Message, ToolResult

_SCOPES = ("opentelemetry.instrumentation.botocore.bedrock-runtime", "opentelemetry.instrumentation.genai.bedrock")


def read(span: Span, context: Context) -> Facts:
    """The facts of a request to Bedrock's runtime."""
    facts = semconv.read(span, context)
    if given := facts.get("input"):
        facts["input"] = tuple(_told_once(given))
    told = (*(facts.get("input") or ()), *(facts.get("output") or ()))
    # where content is not recorded, all arguments are left out
    if any(x.text is not None or any(y.arguments for y in x.calls) for x in told) and not span.dropped_attributes_count:
        change_messages(facts, from_raw_body.without_gaps)
    return facts


def _told_once(messages: Sequence[Message]) -> Iterator[Message]:
    """Messages with each result once: it comes as a tool's message, and again in what is said in the user's name."""
    told = set[str | None]()
    after_results = False
    for message in messages:
        if after_results and message == Message("user"):  # the same without content
            continue
        after_results = bool(message.results)
        fresh = [x for x in message.results if x.call_id is None or x.call_id not in told]
        told.update(x.call_id for x in fresh)
        if fresh or not message.results or message.text is not None:
            yield replace(
                message, results=tuple(ToolResult(x.call_id, bedrock_blocks.content(x.value), x.error) for x in fresh)
            )


DIALECT = Dialect(
    "bedrock",
    read,
    scopes=_SCOPES,
    marks=(b"bedrock-runtime", b"genai.bedrock"),
    content=(ContentSwitch(OPENTELEMETRY),),
)
