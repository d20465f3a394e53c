"""SDKs of model providers: Amazon Bedrock's, Claude's for agents, Cohere's, Mistral's, OpenAI's.

`bedrock`: Amazon Bedrock under OpenTelemetry's instrumentations; that of botocore records calls and
results twice each.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import (
    OPENTELEMETRY_EVENTS,
    ContentSwitch,
    Context,
    Dialect,
    Items,
    Quirk,
)
from spanscore.dialects.forms import arguments, provider_bodies, tool_results
from spanscore.dialects.forms.arguments import result
from spanscore.dialects.forms.messages import message, messages
from spanscore.dialects.forms.structure import (
    Facts,
    as_object,
    change_messages,
    read_tokens,
    structure,
    text,
)
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span, changed
from spanscore.model.step import Message, ToolResult

_JOINED = "llm.output_messages.0.message.content"
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


def complete_openinference_bedrock(span: Span, facts: Facts) -> None:
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


def complete_openllmetry_bedrock(_span: Span, facts: Facts) -> None:
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


_BEDROCK = Dialect(
    "bedrock",
    read,
    scopes=_SCOPES,
    prefilters=(b"bedrock-runtime", b"genai.bedrock"),
    content=(ContentSwitch(OPENTELEMETRY_EVENTS),),
)


_OPENINFERENCE = (
    "openinference.instrumentation.claude_agent_sdk",
    "@arizeai/openinference-instrumentation-claude-agent-sdk",
)
_INTEGRATION = ("langsmith.metadata.ls_integration", "claude-agent-sdk")
_QUERY = "claude.conversation"


def complete_openinference_claude_agent_sdk(span: Span, facts: Facts) -> None:
    """Add to the facts of one of OpenInference's spans, in place.

    An agent's has the name of a method, no agent's.
    """
    if facts["kind"] == "agent":
        facts["agent_name"] = None
        read_tokens(span.attributes, facts)
    elif facts["kind"] == "tool" and facts.get("has_result"):
        facts["result"] = result(_answer_of_subagent(facts["result"]))


def _answer_of_subagent(returned: Json) -> Json:
    """The content blocks out of what the tool that starts a sub-agent returns; any other tool's
    result as it is.
    """
    content = as_object(returned).get("content")
    if (
        not isinstance(returned, dict)
        or not isinstance(content, list)
        or not isinstance(returned.get("status"), str)
    ):
        return returned
    if all(isinstance(x, dict) and isinstance(x.get("type"), str) for x in content):
        return content
    return returned


def complete_langsmith(span: Span, facts: Facts) -> None:
    """Add to the facts of one of LangSmith's runs, in place."""
    if span.name == _QUERY:
        _complete_query(span.attributes, facts)
    elif facts["kind"] == "tool":
        _complete_tool(facts)


def _complete_query(attributes: Attributes, facts: Facts) -> None:
    request = structure(attributes.get("gen_ai.prompt")).value
    facts |= {
        "kind": "agent",
        "output": messages(attributes.get("gen_ai.completion"), "assistant").messages,
    }
    if isinstance(request, dict):
        facts |= {"input_text": text(request.get("prompt")), "system": text(request.get("system"))}


def _complete_tool(facts: Facts) -> None:
    """Take LangSmith's object from around the arguments, and MCP's from around the result."""
    called_with, returned = facts.get("arguments"), facts.get("result")
    if isinstance(called_with, dict) and called_with.keys() == {"input"}:
        facts["arguments"] = called_with["input"]
    if (
        isinstance(returned, dict)
        and "content" in returned
        and returned.keys() <= {"content", "is_error"}
    ):
        facts["result"] = result(returned["content"])


_FILLERS = {"cohere": "[]", "mistralai": "null"}
"""What OpenLLMetry writes in place of a text that is missing."""


def _without_filler(filler: str, _span: Span, items: Items) -> Items:
    """Flattened messages without what stands for a text that is missing."""
    return [{**x, "content": None} if x.get("content") == filler else x for x in items]


_WITH_FILLERS = tuple(
    Quirk(
        name,
        "openllmetry",
        (f"opentelemetry.instrumentation.{name}",),
        items=partial(_without_filler, filler),
    )
    for name, filler in _FILLERS.items()
)


_SCOPE = "@traceloop/instrumentation-openai"

_START = '[{"'  # what its JSON.stringify makes of a list of items


def complete(_span: Span, facts: Facts) -> None:
    """Open the input of a model call.

    An answer without text is one that calls tools, which are left out: not known.
    """
    if facts["kind"] == "model":
        opened = items_opened(facts.get("input"))
        if opened is not facts.get("input") and facts.get("output") == (Message("assistant", ""),):
            facts["output"] = None
        facts["input"] = opened


def items_opened(given: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """The messages, or those in the text of the only one where it is a request's list of items.

    A question that is itself JSON stays one, since every element has to be an item that a request
    may contain.
    """
    if (
        given is None
        or len(given) != 1
        or given[0].role != "user"
        or not (given[0].text or "").startswith(_START)
    ):
        return given
    items, damaged = structure(given[0].text)
    if damaged or not isinstance(items, list) or not all(map(_is_item, items)):
        return given
    return messages(items).messages


def _is_item(item: Any) -> bool:
    """Whether a request's input may contain it: a message, or what states its type (a call, a
    result, a thought).
    """
    return isinstance(item, dict) and (_is_message(item) or _is_typed(item))


def _is_message(item: dict[str, Any]) -> bool:
    return isinstance(item.get("role"), str) and isinstance(item.get("content"), (str, list))


def _is_typed(item: dict[str, Any]) -> bool:
    kind = item.get("type")
    return isinstance(kind, str) and (
        kind == "reasoning" or kind.endswith(("_call", "_output", "_reference"))
    )


def complete_openinference_js(_span: Span, facts: Facts) -> None:
    """Part the calls of an answer, in place, that the instrumentation of streams writes as one."""
    if facts["kind"] == "model" and facts.get("output"):
        facts["output"] = arguments.split_calls(facts["output"] or (), facts.get("tools") or ())


def complete_openllmetry_openai(_span: Span, facts: Facts) -> None:
    """Open the reasoning of messages, in place, in which the summaries of OpenAI's Responses are
    printed as JSON.
    """
    change_messages(facts, _with_reasons)


def _with_reasons(printed: Message) -> Message:
    if not (printed.reasoning or "").startswith('[{"'):
        return printed
    summary = message(
        {"type": "reasoning", "summary": structure(printed.reasoning).value}, "assistant"
    )
    if summary is not None and summary.reasoning:
        return changed(printed, reasoning=summary.reasoning)
    return printed


DIALECTS = (_BEDROCK,)
QUIRKS = (
    Quirk(
        "bedrock",
        "openinference",
        ("openinference.instrumentation.bedrock",),
        complete=complete_openinference_bedrock,
        returns_state=True,
    ),
    Quirk(
        "bedrock",
        "openllmetry",
        ("opentelemetry.instrumentation.bedrock",),
        complete=complete_openllmetry_bedrock,
    ),
    Quirk(
        "claude_agent_sdk",
        "openinference",
        _OPENINFERENCE,
        complete=complete_openinference_claude_agent_sdk,
        returns_state=True,
    ),
    Quirk("claude_agent_sdk", "langsmith", values=(_INTEGRATION,), complete=complete_langsmith),
    *_WITH_FILLERS,
    Quirk(
        "openai",
        "openinference",
        ("openinference.instrumentation.openai",),
        omits_empty_arguments=True,
    ),
    Quirk(
        "openai_js",
        "openinference",
        ("@arizeai/openinference-instrumentation-openai",),
        complete=complete_openinference_js,
    ),
    Quirk(
        "openai",
        "openllmetry",
        ("opentelemetry.instrumentation.openai.v1",),
        complete=complete_openllmetry_openai,
    ),
    Quirk("openai_js", "openllmetry", (_SCOPE,), claims_scopes=True, complete=complete),
)
