"""CrewAI's agents, tools and tasks."""

import re
from typing import Any

from spanscore.dialects import keys
from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms.arguments import tools
from spanscore.dialects.forms.decorated_calls import cut
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.structure import (
    MAX_DEPTH,
    STRING,
    Facts,
    add_damaged,
    as_list,
    as_object,
    literal,
    objects,
    structure,
    text,
    unprinted,
)
from spanscore.model.span import Span, Value, changed
from spanscore.model.step import Message
from spanscore.model.trace import Tool

_OPENINFERENCE = "openinference.instrumentation.crewai"
_LISTENER = "openinference.instrumentation.crewai._event_listener"
_OPENLLMETRY = "opentelemetry.instrumentation.crewai.instrumentation"
_METHOD = re.compile(r"\._?\w+$")
_REQUESTED_NAME = re.compile(r"Tool Name: (.+)")
_TOOL = re.compile(rf"name=({STRING}) description=({STRING}) ", re.DOTALL)
_DELEGATING = ("delegate_work_to_coworker", "ask_question_to_coworker")
"""Tools in which another agent works, which has no span of its own."""


def complete_openinference(span: Span, facts: Facts) -> None:
    """Add to the facts of one of OpenInference's spans, in place."""
    attributes = span.attributes
    if facts["kind"] == "agent":
        facts["agent_name"] = text(attributes.get(keys.GRAPH_NODE_ID)) or _METHOD.sub("", span.name)
        done = structure(attributes.get(keys.OUTPUT_VALUE)).value
        if isinstance(done, dict) and "raw" in done:
            _read_task(done, facts)
        facts["tools"] = _tools(structure(attributes.get(keys.INPUT_VALUE)).value) or _named(
            attributes.get("agent.tools")
        )
    elif facts["kind"] == "tool":
        described = _REQUESTED_NAME.match(str(attributes.get(keys.TOOL_DESCRIPTION, "")))
        facts["tool_name"] = described[1].strip() if described else facts["tool_name"]
        facts["result"] = unprinted(facts.get("result"))
        given = facts.get("arguments")
        if facts["tool_name"] in _DELEGATING and isinstance(given, dict):
            facts["runs_agent"] = text(given.get("coworker"))


def complete_listener(span: Span, facts: Facts) -> None:
    """Add to the facts of a span that OpenInference's listener to CrewAI's events made, in place.

    It prints the strings inside a request by repr(): names of tools stand in quotes, which no
    tool's name does.
    """
    attributes = span.attributes
    if facts["kind"] == "model":
        facts["input"] = _with_bare_names(facts.get("input"))
        facts["output"] = _with_bare_names(facts.get("output"))
        if facts.get("tools") is None:
            offered = structure(attributes.get(keys.LLM_TOOLS))
            facts["tools"] = tools(_unquoted(offered.value, 0))
            add_damaged(facts, *cut(tools=offered))
    elif facts["kind"] == "agent":
        facts["agent_name"] = text(attributes.get(keys.GRAPH_NODE_ID)) or facts.get("agent_name")
        task = text(attributes.get("task_description"))
        if task is not None:
            facts["input_text"] = task
    elif facts["kind"] == "tool":
        facts["result"] = unprinted(facts.get("result"))


def _with_bare_names(messages: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """The messages, whose calls name their tools without quotes."""
    if not any(x.calls for x in messages or ()):
        return messages
    return tuple(
        changed(x, calls=tuple(changed(y, name=_bare(y.name)) for y in x.calls))
        for x in messages or ()
    )


def _bare(printed: str) -> str:
    """The string that `printed` is the repr() of, or `printed`."""
    value = literal(printed) if printed[:1] in "'\"" and printed[:1] == printed[-1:] else printed
    return value if isinstance(value, str) else printed


def _unquoted(value: Any, depth: int) -> Any:
    """A definition of tools whose inner objects and strings are printed by repr()."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {key: _unquoted(x, depth + 1) for key, x in value.items()}
    if isinstance(value, list):
        return [_unquoted(x, depth + 1) for x in value]
    if isinstance(value, str) and value.startswith("{'"):
        return literal(value)
    return _bare(value) if isinstance(value, str) else value


def _read_task(done: dict[str, Any], facts: Facts) -> None:
    """A finished task: its description is the user's question, and its messages are the agent's
    whole conversation.

    The answer is its raw result, which the last message may only contain among other words.
    """
    conversation = messages(done.get("messages")).messages or ()
    question_at = next(
        (i for i, x in enumerate(conversation) if x.role == "user"), len(conversation) - 1
    )
    task, answer = text(done.get("description")), done["raw"]
    if task is not None:
        facts["input"] = (*conversation[:question_at], Message("user", task))
    else:  # an agent that was called without a task
        facts["system"] = next(
            (x.text for x in conversation[:question_at] if x.role == "system"), None
        )
    output = conversation[question_at + 1 :]
    if isinstance(answer, str) and (not output or output[-1].calls or output[-1].text != answer):
        output = (*output, Message("assistant", answer))
    facts["output"] = output


def _tools(task: Any) -> tuple[Tool, ...] | None:
    """The tools that an agent was given, each printed as Python prints objects."""
    found = [_TOOL.match(x) for x in as_list(as_object(task).get("tools")) if isinstance(x, str)]
    return (
        tuple(Tool(_offered(str(literal(x[1]))), str(literal(x[2])), None) for x in found if x)
        or None
    )


def _named(listed: Value) -> tuple[Tool, ...] | None:
    """The tools of an agent that was called without a task: only their names."""
    names = structure(listed).value
    if isinstance(names, list):
        return tuple(Tool(_offered(x)) for x in names if isinstance(x, str)) or None
    return None


def _offered(name: str) -> str:
    """The name by which a model is offered a tool: CrewAI makes `ask_question` of "Ask
    question".
    """
    return re.sub(r"\W+", "_", name.lower()).strip("_")


def complete_openllmetry(span: Span, facts: Facts) -> None:
    """Add to the facts of one of OpenLLMetry's spans, in place: the agent's prompt is built around
    the task.
    """
    attributes = span.attributes
    if facts["kind"] == "workflow":
        facts["input_text"] = facts.get("input_text") or text(
            attributes.get("crewai.task.description")
        )
    elif facts["kind"] == "agent":  # the crew, or one of its agents
        facts["output_text"] = facts.get("output_text") or text(
            attributes.get("crewai.crew.result")
        )
        listed = structure(attributes.get("crewai.agent.tools")).value
        named = [x for x in objects(listed) if text(x.get("name"))]
        facts["tools"] = (
            tuple(Tool(_offered(x["name"]), text(x.get("description"))) for x in named) or None
        )


QUIRKS = (
    Quirk(
        name="crewai",
        under="openinference",
        scopes=(_OPENINFERENCE,),
        complete=complete_openinference,
        returns_state=True,
    ),
    Quirk(
        name="crewai_listener",
        under="openinference",
        scopes=(_LISTENER,),
        complete=complete_listener,
        returns_state=True,
    ),
    Quirk(
        name="crewai",
        under="openllmetry",
        scopes=(_OPENLLMETRY,),
        claims_scopes=True,
        complete=complete_openllmetry,
    ),
)
