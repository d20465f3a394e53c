"""Amazon Bedrock under OpenTelemetry's instrumentations; that of botocore records calls and results
twice each.
"""

from collections.abc import Iterator, Sequence

from spanscore.dialects import keys
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import OPENTELEMETRY_EVENTS, ContentSwitch, Context, Dialect, Quirk
from spanscore.dialects.forms import provider_bodies, tool_results
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.structure import Facts, change_messages, structure
from spanscore.model.span import Span, changed
from spanscore.model.step import Message, ToolResult

_JOINED = keys.LLM_OUTPUT_MESSAGES_0_MESSAGE_CONTENT
_SCOPES = (
    "opentelemetry.instrumentation.botocore.bedrock-runtime",
    "opentelemetry.instrumentation.genai.bedrock",
)


def read(span: Span, context: Context) -> Facts:
    """The facts of a request to Bedrock's runtime."""
    facts = semconv.read(span, context)
    if given := facts.get("input"):
        facts["input"] = tuple(_without_repetitions(given))
    messages = (*(facts.get("input") or ()), *(facts.get("output") or ()))
    # where content is not recorded, all arguments are left out
    if (
        any(x.text is not None or any(y.arguments for y in x.calls) for x in messages)
        and not span.dropped_attributes_count
    ):
        change_messages(facts, provider_bodies.without_gaps)
    return facts


def _without_repetitions(messages: Sequence[Message]) -> Iterator[Message]:
    """Messages with each result once: it comes as a tool's message, and once more in a message of
    the user's role.
    """
    known_ids = set[str | None]()
    after_results = False
    for each in messages:
        if after_results and each == Message("user"):  # the same without content
            continue
        after_results = bool(each.results)
        fresh = [x for x in each.results if x.call_id is None or x.call_id not in known_ids]
        known_ids.update(x.call_id for x in fresh)
        if fresh or not each.results or each.text is not None:
            yield changed(
                each,
                results=tuple(
                    ToolResult(x.call_id, tool_results.content_of_blocks(x.value), x.error)
                    for x in fresh
                ),
            )


def complete_openinference(span: Span, facts: Facts) -> None:
    """Take off an answer, in place, the line break for each of its calls: versions to 0.1.31 join
    all its blocks.
    """
    produced = facts.get("output") or ()
    if (
        facts["kind"] != "model"
        or len(produced) != 1
        or produced[0].calls
        or _JOINED not in span.attributes
    ):
        return
    answer = produced[0].text or ""
    if answer.endswith("\n"):
        facts["output"] = (changed(produced[0], text=answer.rstrip("\n") or None),)


def complete_openllmetry(_span: Span, facts: Facts) -> None:
    """Open the blocks of reasoning in messages, in place, which are printed as JSON in the first
    line.
    """
    change_messages(facts, _with_thought)


def _with_thought(printed: Message) -> Message:
    first, _, rest = (printed.text or "").partition("\n")
    if not first.startswith('{"reasoningContent"'):
        return printed
    thought = message({"content": [structure(first).value]}, "assistant")
    if thought is None:
        return printed
    return changed(printed, text=rest or None, reasoning=thought.reasoning)


QUIRKS = (
    Quirk(
        name="bedrock",
        under="openinference",
        scopes=("openinference.instrumentation.bedrock",),
        complete=complete_openinference,
        returns_state=True,
    ),
    Quirk(
        name="bedrock",
        under="openllmetry",
        scopes=("opentelemetry.instrumentation.bedrock",),
        complete=complete_openllmetry,
    ),
)

DIALECT = Dialect(
    "bedrock",
    read,
    scopes=_SCOPES,
    prefilters=(b"bedrock-runtime", b"genai.bedrock"),
    content=(ContentSwitch(OPENTELEMETRY_EVENTS),),
)
