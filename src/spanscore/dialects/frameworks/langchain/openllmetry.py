"""Open LangChain's calls, results and places in a graph in the spans of OpenLLMetry for Python."""

from typing import Any

from spanscore.dialects.forms import langgraph
from spanscore.dialects.forms.decorated_calls import is_call, read_arguments
from spanscore.dialects.forms.envelopes import tool_output
from spanscore.dialects.forms.reprs import REPR_CONTAINERS
from spanscore.dialects.forms.structure import literal, opened
from spanscore.dialects.forms.values import Facts, text
from spanscore.dialects.frameworks.langchain.printed_blocks import opened_blocks
from spanscore.dialects.keys.openllmetry import (
    TRACELOOP_ASSOCIATION_PROPERTIES_PREFIX,
    TRACELOOP_ENTITY_NAME,
)
from spanscore.dialects.quirk import Quirk
from spanscore.model.json import Json
from spanscore.model.span import Span

_SCOPE = "opentelemetry.instrumentation.langchain"
_ASSOCIATION = TRACELOOP_ASSOCIATION_PROPERTIES_PREFIX
_CALLBACK = frozenset({"inputs", "tags", "metadata", "kwargs"})
"""What a callback of LangChain's records beside `input_str`, the arguments as text."""


def place(span: Span, facts: Facts, outermost: bool) -> None:
    """Find whose step of LangChain's a span is: a task may be the run of an agent."""
    placed = langgraph.metadata(span.attributes, _ASSOCIATION)
    name = text(span.attributes.get(TRACELOOP_ENTITY_NAME))
    if (
        facts["kind"] == "workflow"
        and name
        and langgraph.is_agent(name, placed, outermost=outermost)
    ):
        facts["kind"] = "agent"
    if facts["kind"] == "agent":
        facts["agent_name"] = langgraph.graph_name(facts.get("agent_name") or "") or None
    elif facts["kind"] in {"model", "tool"}:
        facts["agent_name"] = facts.get("agent_name") or langgraph.agent_name(placed)
        facts["input"] = langgraph.without_hand_back(facts.get("input"))


def complete(_span: Span, facts: Facts) -> None:
    """Open the arguments and the result of a tool, in place."""
    if facts["kind"] != "tool":
        return
    given = facts.get("arguments")
    if isinstance(given, dict) and not facts.get("positional"):
        _open_arguments(given, facts)
    if facts.get("has_result"):
        _open_result(facts)


def _open_arguments(given: dict[str, Any], facts: Facts) -> None:
    if given.keys() == {"inputs"} and isinstance(given["inputs"], dict):
        facts["arguments"] = given["inputs"]
        if is_call(given["inputs"]):
            read_arguments(given["inputs"], facts)
    elif "input_str" in given and _CALLBACK & given.keys():
        inputs = _inputs(given)
        facts["arguments"] = inputs if isinstance(inputs, dict) else None
        facts["positional"] = () if isinstance(inputs, dict) else (inputs,)


def _inputs(callback: dict[str, Any]) -> Json:
    """What a callback was given: the inputs as an object, else the value in their text."""
    inputs, printed = callback.get("inputs"), callback["input_str"]
    if isinstance(inputs, dict) or not isinstance(printed, str):
        return inputs
    value = opened(printed, scalars=False)
    return literal(printed) if value is printed and printed.startswith(REPR_CONTAINERS) else value


def _open_result(facts: Facts) -> None:
    value = facts["result"]
    if isinstance(value, dict) and value.keys() == {"output", "kwargs"}:
        value = opened(value["output"])
    answer = tool_output(value, known=True)
    if answer is not None:
        value, facts["call_id"] = answer.value, facts.get("call_id") or answer.call_id
        facts["error"] = facts["error"] or answer.error
    facts["result"] = value


QUIRKS = (
    Quirk(
        name="langchain",
        under="openllmetry",
        scopes=(_SCOPE,),
        claims_scopes=True,
        prepare=opened_blocks,
        place=place,
        complete=complete,
    ),
)
