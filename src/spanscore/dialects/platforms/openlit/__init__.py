"""OpenLIT's decorator and instrumentations: the conventions, with what Python printed of arguments
and messages.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from spanscore.dialects.content_switch import CAPTURE, ContentSwitch
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms import gemini_calls, langchain_messages
from spanscore.dialects.forms.decorated_calls import only_argument
from spanscore.dialects.forms.envelopes import tool_output
from spanscore.dialects.forms.reprs import WHOLE_STRING, evaluated, is_address
from spanscore.dialects.forms.structure import literal, structure
from spanscore.dialects.forms.values import Facts, change_messages, first_text, text
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_COMPLETION,
    GEN_AI_OPERATION_NAME,
    GEN_AI_OUTPUT_MESSAGES,
    GEN_AI_PROMPT,
    GEN_AI_TOOL_CALL_RESULT,
    GEN_AI_WORKFLOW_INPUT,
    GEN_AI_WORKFLOW_NAME,
)
from spanscore.dialects.platforms.openlit import records, texts
from spanscore.model.span import Attributes, Span
from spanscore.model.step import Message

_LANGCHAIN, _LANGGRAPH = "openlit.instrumentation.langchain", "openlit.instrumentation.langgraph"
_GOOGLE, _GROQ, _DECORATOR = (
    "openlit.instrumentation.google_ai_studio",
    "openlit.instrumentation.groq",
    "openlit",
)
_RETURNED = (GEN_AI_OUTPUT_MESSAGES, GEN_AI_COMPLETION)  # the second up to 1.36
# Atomic: a list ends at the first bracket before another field, so that not each of its brackets is
# tried as its end.
_FIELDS = "type|name|id|additional_kwargs|response_metadata|tool_call_id"
_PRINTED = re.compile(
    rf"content=(?>({WHOLE_STRING}|\[.*?\])(?= (?:{_FIELDS})=))(?: .*)?"
    rf" tool_call_id=({WHOLE_STRING})(.*)",
    re.DOTALL,
)
_FAILED = " status='error'"
_MAX_CHARS = 64 * 1024


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans."""
    return _READING.get(span.scope.name, _read_framework)(span, context)


def _read_decorated(span: Span, context: Context) -> Facts:
    """A function, of whatever it does: of one that answers a text with text, the outermost is the
    application's own.
    """
    called = {x: literal(str(span.attributes.get(f"function.{x}", ""))) for x in ("args", "kwargs")}
    question, answer = text(only_argument(called)), first_text(span.attributes, _RETURNED)
    if not context.outermost or question is None or answer is None or is_address(answer):
        return {"kind": "other"}
    return {"kind": "workflow", "input_text": question, "output_text": answer}


def _read_gemini(span: Span, context: Context) -> Facts:
    """A call of Gemini, with the results and the lack of a text as str() prints them."""
    facts = semconv.read(span, context)
    change_messages(facts, _unprinted)
    if facts["kind"] == "model":
        gemini_calls.without_envelopes(facts, objects=True)
    return facts


def _unprinted(message: Message) -> Message:
    content = None if message.calls and message.text == "None" else message.text
    return replace(
        message,
        text=content,
        results=tuple(replace(x, value=evaluated(x.value)) for x in message.results),
    )


def _read_text(span: Span, context: Context) -> Facts:
    """A call of any provider's model, as earlier versions record it."""
    facts = _read_counted(span, context)
    is_cut = span.dropped_attributes_count > 0 and GEN_AI_OPERATION_NAME not in span.attributes
    if is_cut and (GEN_AI_PROMPT in span.attributes or GEN_AI_COMPLETION in span.attributes):
        facts = {"kind": "model", "damaged": frozenset({"tokens"})}
    if facts["kind"] == "model":
        texts.complete(span, facts)
    return facts


def _read_counted(span: Span, context: Context) -> Facts:
    """A call of a provider under whose instrumentation tokens are 0 where they are not known."""
    facts = semconv.read(span, context)
    if facts.get("input_tokens") == facts.get("output_tokens") == 0:
        facts["input_tokens"] = facts["output_tokens"] = None
    return facts


def _read_framework(span: Span, context: Context) -> Facts:
    """A span of LangChain's or LangGraph's.

    The agent is the graph; what are called agents inside are its nodes.
    """
    facts, attributes = semconv.read(span, context), span.attributes
    if span.scope.name == _LANGGRAPH and facts["kind"] in {"agent", "workflow"}:
        graph = text(attributes.get(GEN_AI_WORKFLOW_NAME))
        facts["kind"], facts["agent_name"] = "agent" if graph else "workflow", graph
        if not graph:
            facts["input"] = facts["output"] = None
    if facts["kind"] == "agent" and facts.get("input") is None:
        facts["input"] = langchain_messages.state_messages(
            structure(attributes.get(GEN_AI_WORKFLOW_INPUT)).value
        )
        facts["output"] = None  # of a graph, its whole conversation
    elif facts["kind"] == "tool":
        _read_tool(attributes, facts)
    return facts


def _read_tool(attributes: Attributes, facts: Facts) -> None:
    given = facts.get("arguments")
    if isinstance(given, str):
        facts["arguments"] = literal(given)
    returned = attributes.get(GEN_AI_TOOL_CALL_RESULT)
    printed = (
        _PRINTED.fullmatch(returned)
        if isinstance(returned, str) and len(returned) <= _MAX_CHARS
        else None
    )
    if printed is not None:
        content, answers, rest = printed.groups()
        message = {"type": "tool", "content": literal(content), "tool_call_id": literal(answers)}
        message["status"] = "error" if _FAILED in rest else "success"
        answer = tool_output(message, known=True)
        if answer is not None:
            facts["result"], facts["error"] = answer.value, facts.get("error") or answer.error


_READING: dict[str, Callable[[Span, Context], Facts]] = {
    _DECORATOR: _read_decorated,
    _GOOGLE: _read_gemini,
    _GROQ: _read_counted,
    texts.SCOPE: _read_text,
}
"""By its scope, what reads a span in its own way."""

DIALECT = Dialect(
    "openlit",
    read,
    scopes=(_LANGCHAIN, _LANGGRAPH, *_READING),
    prefilters=(b"openlit",),
    log_turns=records.LOG_TURNS,
    content=(
        ContentSwitch(f"call openlit.init(capture_message_content=True), or set {CAPTURE}=true"),
    ),
)
