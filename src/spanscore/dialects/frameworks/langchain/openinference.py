"""Open LangChain's messages, states and tool messages in OpenInference's spans, in Python and
JavaScript.
"""

from typing import Any

from spanscore.dialects.conventions.adot import listed
from spanscore.dialects.conventions.adot_records import Bodies, record_turns
from spanscore.dialects.forms import langchain_messages, langgraph
from spanscore.dialects.forms.envelopes import fields_of, tool_output
from spanscore.dialects.forms.reprs import REPR_CONTAINERS
from spanscore.dialects.forms.structure import literal, opened, structure
from spanscore.dialects.forms.values import Facts, Side, text
from spanscore.dialects.keys.openinference import (
    OPENINFERENCE_SPAN_KIND,
    OUTPUT_VALUE,
    TOOL_NAME,
)
from spanscore.dialects.quirk import Quirk
from spanscore.model.span import Attributes, Span
from spanscore.model.step import Message

_PYTHON = "openinference.instrumentation.langchain"
_JAVASCRIPT = "@arizeai/openinference-instrumentation-langchain"
_ENVELOPE = "output"


def place(span: Span, facts: Facts, outermost: bool) -> None:
    """Find whose step a span is.

    The instrumentation calls a chain an agent for the word in its name, be it a node.
    """
    metadata = structure(span.attributes.get("metadata")).value
    placed = metadata if isinstance(metadata, dict) else {}
    if facts["kind"] in {"model", "tool"}:
        facts["agent_name"] = langgraph.agent_name(placed)
    elif facts["kind"] in {"agent", "workflow"}:
        is_graph = outermost and _state(span, "input") is not None
        if langgraph.is_agent(span.name, placed, outermost=is_graph):
            facts["kind"] = "agent"
        elif langgraph.is_node(placed):
            facts["kind"] = "workflow"


def messages(span: Span, side: Side, facts: Facts) -> tuple[Message, ...] | None:
    """LangChain's serialized messages: the flattened ones in JavaScript lack ids of calls and some
    texts.
    """
    found = _state(span, side)
    return langgraph.without_hand_back(found) if facts["kind"] == "model" else found


def _state(span: Span, side: Side) -> tuple[Message, ...] | None:
    return langchain_messages.state_messages(structure(span.attributes.get(f"{side}.value")).value)


def agent_name(span: Span) -> str | None:
    """The name of a graph is its agent's."""
    return langgraph.graph_name(span.name)


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place."""
    if facts["kind"] == "model":
        facts["response_id"] = langchain_messages.response_id(
            structure(span.attributes.get(OUTPUT_VALUE)).value
        )
    elif facts["kind"] == "tool":
        _open_arguments(facts)
        if facts.get("has_result"):
            _open_result(span, facts)


def _open_arguments(facts: Facts) -> None:
    """Arguments that Python printed are an object all the same."""
    given: Any = facts.get("positional")
    printed = given[0] if given else None
    if isinstance(printed, str) and printed.startswith(REPR_CONTAINERS):
        value = literal(printed)
        if isinstance(value, dict):
            facts["arguments"], facts["positional"] = value, ()
        else:
            facts["positional"] = (value,)


def _open_result(span: Span, facts: Facts) -> None:
    value = facts["result"]
    if span.scope.name == _JAVASCRIPT and isinstance(value, dict) and value.keys() == {_ENVELOPE}:
        value = opened(value[_ENVELOPE])
    answer = tool_output(value, known=True)
    if answer is not None:
        value, facts["call_id"] = answer.value, facts["call_id"] or answer.call_id
        facts["error"] = facts["error"] or answer.error
    facts["result"] = value


def _attributes_of(bodies: Bodies) -> dict[str, Attributes]:
    """What a span's attributes would say, by its record: of model runs, tools, and the graph or
    chain around them, which is the last that ends.
    """
    produced = {
        span_id: next(
            (structure(x["content"]).value for x in listed(body, "output") if "content" in x), None
        )
        for span_id, body in bodies.items()
    }
    last = next(reversed(produced), None)
    found: dict[str, Attributes] = {}
    for span_id, value in produced.items():
        if not isinstance(value, dict):
            continue
        answer = tool_output(value, known=True)
        name = None if answer is None else text(fields_of(value)[0].get("name"))
        if isinstance(value.get("generations"), list):
            found[span_id] = {OPENINFERENCE_SPAN_KIND: "LLM"}
        elif name is not None:
            found[span_id] = {OPENINFERENCE_SPAN_KIND: "TOOL", TOOL_NAME: name}
        elif span_id == last and langchain_messages.state_messages(value):
            found[span_id] = {OPENINFERENCE_SPAN_KIND: "CHAIN"}
    return found


def _is_chain(attributes: Attributes) -> bool:
    return attributes.get(OPENINFERENCE_SPAN_KIND) == "CHAIN"


QUIRKS = (
    Quirk(
        name="langchain",
        under="openinference",
        scopes=(_PYTHON, _JAVASCRIPT),
        place=place,
        messages=messages,
        agent_name=agent_name,
        envelope=_ENVELOPE,
        complete=complete,
        log_turns=(record_turns(_PYTHON, _attributes_of, _is_chain),),
    ),
)
