"""VoltAgent: spans that name the entity they belong to; one model span stands for the whole loop of
a turn.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from spanscore.dialects import keys
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms.arguments import call_id, tools
from spanscore.dialects.forms.decorated_calls import damaged, read_call, read_function
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.structure import (
    Facts,
    Parsed,
    add_damaged,
    count,
    first_count,
    first_identity,
    first_text,
    is_redacted,
    opened,
    structure,
    text,
)
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span, Value, changed
from spanscore.model.step import Message, Step, StepKind
from spanscore.model.trace import Tool

_TYPE, _ENTITY = "span.type", "entity.type"
_KINDS: Final[dict[str, StepKind]] = {
    "agent": "agent",
    "llm": "model",
    "tool": "tool",
    "retriever": "retrieval",
    "workflow-step": "workflow",
}
# of a span without a type
_ENTITIES: Final[dict[str, StepKind]] = {
    "agent": "agent",
    "llm": "model",
    "tool": "tool",
    "workflow": "workflow",
}
_SESSIONS = ("conversation.id", "voltagent.conversation_id")
_GIVEN = ("usage.prompt_tokens", keys.LLM_USAGE_PROMPT_TOKENS)
_PRODUCED = ("usage.completion_tokens", "llm.usage.completion_tokens")
_ASIDE = "generateTitle"
"""A model call that belongs to no turn."""
_NAMES = ("subagent.name", "entity.name")  # a sub-agent's entity is the agent that it works for
_MAX_DEPTH = 64


def read(span: Span, context: Context) -> Facts:
    """The facts of a span of an agent, its model, a tool or a retriever; memory and guardrails are
    none.
    """
    attributes = span.attributes
    kinds, key = (_KINDS, _TYPE) if _TYPE in attributes else (_ENTITIES, _ENTITY)
    kind = kinds.get(str(attributes.get(key)), "other")
    if kind == "model" and attributes.get(keys.LLM_OPERATION) == _ASIDE:
        kind = "other"
    facts: Facts = {"kind": kind, "session_id": first_identity(attributes, _SESSIONS)}
    given, returned = attributes.get("input"), attributes.get("output")
    if kind == "agent":
        _read_agent(attributes, given, returned, facts)
    elif kind == "model":
        _read_model(attributes, facts)
    elif kind == "tool":
        _read_tool(span, given, returned, facts)
    elif kind == "retrieval":
        found = opened(returned)
        facts["query"] = text(given)
        facts["documents"] = (
            tuple(found) if isinstance(found, list) else () if found is None else (found,)
        )
    elif kind == "workflow" and context.outermost:
        read_function(opened(given, scalars=False), Parsed(opened(returned, scalars=False)), facts)
        facts["damaged"] = damaged(input=given, output=returned)
    return facts


def _read_agent(attributes: Attributes, given: Value, returned: Value, facts: Facts) -> None:
    """An agent's span has the sum of its tokens; its models' spans only those of the last call that
    they stand for.
    """
    recorded = structure(attributes.get("agent.messages"))
    facts["agent_name"] = first_text(attributes, _NAMES)
    facts["input"] = messages(recorded.value).messages if isinstance(recorded.value, list) else None
    facts["input_text"] = _plain_text(given) if facts["input"] is None else None
    facts["output_text"] = _plain_text(returned)
    facts["system"] = text(attributes.get("agent.instructions"))
    facts["tools"] = _offered(structure(attributes.get("agent.stateSnapshot")).value)
    facts["input_tokens"] = count(attributes.get("usage.prompt_tokens"))
    facts["output_tokens"] = count(attributes.get("usage.completion_tokens"))
    if recorded.damaged or is_redacted(given):
        add_damaged(facts, "input")
    if is_redacted(returned):
        add_damaged(facts, "output")


def _plain_text(value: Value) -> str | None:
    return value if isinstance(value, str) and not is_redacted(value) else None


def _offered(state: Any) -> tuple[Tool, ...] | None:
    """The tools in an agent's state; their parameters are Zod's own objects, unless they came as a
    schema.
    """
    found = None
    if isinstance(state, dict) and isinstance(state.get("tools"), list):
        found = tools(state["tools"])
    return found and tuple(Tool(x.name, x.description, _schema(x.parameters)) for x in found)


def _schema(parameters: Json) -> Json:
    return parameters if isinstance(parameters, dict) and "properties" in parameters else None


def _read_model(attributes: Attributes, facts: Facts) -> None:
    recorded = structure(attributes.get(keys.LLM_MESSAGES))
    facts["input"] = messages(recorded.value).messages if isinstance(recorded.value, list) else None
    if recorded.damaged:
        add_damaged(facts, "input")
    answer = attributes.get("output")
    if isinstance(answer, str) and answer and not is_redacted(answer):
        facts["output"] = (Message("assistant", answer),)
    facts["model"] = text(attributes.get(keys.LLM_MODEL))
    reason = text(attributes.get(keys.LLM_FINISH_REASON))
    facts["finish_reasons"] = (reason,) if reason else ()


def _read_tool(span: Span, given: Value, returned: Value, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = text(attributes.get(keys.TOOL_NAME))
    facts["call_id"] = call_id(attributes.get("tool.call.id"))
    read_call(span, given, returned, facts)


def refine_trace(steps: Sequence[Step]) -> list[Step]:
    """The steps; an agent that no other one called counts the tokens of those that it called as
    well. Where neither an agent's nor a tool's span came, a model's has its own.
    """
    if not any(x.kind in {"agent", "tool"} for x in steps):
        return [_with_tokens(x) if x.kind == "model" else x for x in steps]
    known = {x.span.span_id: x for x in steps}
    inside: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        inside[_agent_above(step, known)].append(step)
    summed = {x.span.span_id: _tokens(x, inside) for x in inside[""] if x.kind == "agent"}
    return [
        changed(
            step,
            input_tokens=summed[step.span.span_id][0],
            output_tokens=summed[step.span.span_id][1],
        )
        if step.span.span_id in summed
        else step
        for step in steps
    ]


def _with_tokens(model: Step) -> Step:
    attributes = model.span.attributes
    return changed(
        model,
        input_tokens=first_count(attributes, _GIVEN),
        output_tokens=first_count(attributes, _PRODUCED),
    )


def _agent_above(step: Step, known: Mapping[str, Step]) -> str:
    """The id of the agent's span that a step is in; empty where it is in none."""
    above = known.get(step.span.parent_span_id)
    for _ in range(_MAX_DEPTH):
        if above is None or above.kind == "agent":
            break
        above = known.get(above.span.parent_span_id)
    return above.span.span_id if above is not None and above.kind == "agent" else ""


def _tokens(outermost: Step, inside: Mapping[str, Sequence[Step]]) -> tuple[int | None, int | None]:
    """What an agent and those inside it used; None where one of them does not record it."""
    agents, counts = [outermost], list[tuple[int | None, int | None]]()
    for agent in agents:
        agents += [x for x in inside.get(agent.span.span_id, ()) if x.kind == "agent"]
        counts.append(_own_tokens(agent, inside.get(agent.span.span_id, ())))
    given, produced = [x for x, _ in counts], [x for _, x in counts]
    return _sum(given), _sum(produced)


def _own_tokens(agent: Step, steps: Sequence[Step]) -> tuple[int | None, int | None]:
    """An agent's own count; none where there were several calls and it is that of the last, as in
    early versions.
    """
    if any(x.kind == "tool" for x in steps):
        last = [
            count(x.span.attributes.get(keys.LLM_USAGE_PROMPT_TOKENS))
            for x in steps
            if x.kind == "model"
        ]
        if not last or any(x is None or x >= (agent.input_tokens or 0) for x in last):
            return None, None
    return agent.input_tokens, agent.output_tokens


def _sum(counts: Sequence[int | None]) -> int | None:
    recorded = [x for x in counts if x is not None]
    return sum(recorded) if len(recorded) == len(counts) else None


DIALECT = Dialect(
    "voltagent",
    read,
    scopes=("@voltagent/core",),
    keys=("voltagent.operation_id", "voltagent.conversation_id"),
    prefilters=(b"voltagent",),
    refine_trace=refine_trace,
)
