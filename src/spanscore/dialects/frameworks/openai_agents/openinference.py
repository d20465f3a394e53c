"""Mend what OpenInference records of OpenAI's Agents SDK: hand-offs as tools, printed results,
texts left out.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.reprs import evaluated
from spanscore.dialects.forms.structure import structure
from spanscore.dialects.forms.values import Facts
from spanscore.dialects.keys.openinference import INPUT_VALUE
from spanscore.dialects.quirk import Quirk
from spanscore.model.span import Span, Value
from spanscore.model.step import Message

_PYTHON = "openinference.instrumentation.openai_agents"
_JAVASCRIPT = "@arizeai/openinference-instrumentation-openai-agents"
_HAND_OFF, _LIST_OF_TOOLS = "handoff to ", "mcp_tools"
_CALLED = frozenset({"tool", "model"})


def place(span: Span, facts: Facts, _outermost: bool) -> None:
    """A hand-off is no tool, though a model requests it by a tool's name."""
    if facts["kind"] in _CALLED and span.name.startswith(_HAND_OFF):
        facts["kind"] = "other"


def place_javascript(span: Span, facts: Facts, _outermost: bool) -> None:
    """The list of tools that was requested from an MCP server is no call either."""
    place(span, facts, _outermost)
    if facts["kind"] in _CALLED and span.name == _LIST_OF_TOOLS:
        facts["kind"] = "other"


def no_agent_name(_span: Span) -> None:
    """The outermost span of the SDK has the name of a workflow, and no agent's."""


def complete(_span: Span, facts: Facts) -> None:
    """Open the result of a tool, in place, of which str() made text."""
    if facts["kind"] == "tool" and facts.get("has_result"):
        facts["result"] = evaluated(facts["result"])


def complete_javascript(span: Span, facts: Facts) -> None:
    """Complete the messages that a model was given, in place."""
    if facts["kind"] == "model" and (given := facts.get("input")):
        facts["input"] = tuple(with_texts(given, span.attributes.get(INPUT_VALUE)))


def with_texts(flat: Sequence[Message], request: Value) -> Sequence[Message]:
    """The flattened messages of a request, with the agent's earlier texts, which only the request
    itself contains.

    Both list the same items; the flattened ones may have a system message before them.
    """
    if all(not _is_bare(x) for x in flat):
        return flat
    items = structure(request).value
    before = len(flat) - len(items) if isinstance(items, list) else -1
    if before not in {0, 1}:
        return flat
    return [
        *flat[:before],
        *(_filled(x, item) for x, item in zip(flat[before:], items, strict=True)),
    ]


def _is_bare(message: Message) -> bool:
    return message.role == "assistant" and message.text is None and not message.calls


def _filled(flat: Message, item: Any) -> Message:
    complete = message(item, "assistant") if _is_bare(flat) else None
    return (
        flat
        if complete is None
        else replace(flat, text=complete.text, reasoning=complete.reasoning)
    )


QUIRKS = (
    Quirk(
        name="openai_agents",
        under="openinference",
        scopes=(_PYTHON,),
        place=place,
        agent_name=no_agent_name,
        omits_empty_arguments=True,
        complete=complete,
    ),
    Quirk(
        name="openai_agents_js",
        under="openinference",
        scopes=(_JAVASCRIPT,),
        place=place_javascript,
        complete=complete_javascript,
    ),
)
