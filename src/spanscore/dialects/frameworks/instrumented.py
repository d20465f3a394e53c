"""Frameworks that others instrument: Agno, AgentScope, BeeAI and CrewAI."""

import json
import re
from typing import Any, Final, Literal

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
    evaluated,
    identity,
    is_address,
    literal,
    object_at,
    objects,
    opened,
    opened_repr,
    quoted,
    structure,
    text,
    unprinted,
)
from spanscore.model.json import Json, printed
from spanscore.model.span import STATUS_ERROR, Span, Value, changed
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_AGNO_OPENINFERENCE = "openinference.instrumentation.agno"
_AGNO_OPENLLMETRY = "opentelemetry.instrumentation.agno"
_EXECUTED = re.compile(r"(?:FunctionExecutionResult\()?status='(success|failure)',? result=")
_FAILED = re.compile(r",? error=(?=None\b|['\"])")

_NAMED: Final[tuple[tuple[Literal["session_id", "user_id"], str], ...]] = (
    ("session_id", "agno.session.id"),
    ("user_id", "agno.user.id"),
)

_PAUSED = "I have tools to execute, but "
"""The output of a run that waits for a person; the answer is that of the run that goes on."""


def complete_openinference_agno(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place.

    The name of an agent's span has its method after the agent's. A run of another framework's agent
    has its session and user only under Agno's own names.
    """
    _identify(span, facts)
    if facts["kind"] == "agent":
        facts["agent_name"] = text(span.attributes.get("graph.node.name")) or facts["agent_name"]
        returned = span.attributes.get("output.value")
        if facts.get("output_text") and isinstance(returned, str) and returned.startswith('"'):
            facts["output_text"] = returned  # text is recorded as it is, even where it is JSON
        if (facts.get("output_text") or "").startswith(_PAUSED):
            facts["output_text"] = None
    elif (
        facts["kind"] == "model" and (given := facts.get("input")) and any(x.results for x in given)
    ):
        failed = _failed(structure(span.attributes.get("input.value")).value)
        facts["input"] = tuple(_with_errors(x, failed) for x in given)
    elif facts["kind"] == "tool" and facts.get("has_result"):
        facts["result"] = evaluated(facts["result"])


def _identify(span: Span, facts: Facts) -> None:
    for fact, key in _NAMED:
        facts[fact] = facts.get(fact) or identity(span.attributes.get(key))


def complete_openllmetry_agno(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place.

    Early versions write a run's question and answer as a model's.
    """
    team = text(span.attributes.get("agno.team.name"))
    if team is not None or span.name.startswith(("agno.agent.", "agno.team.")):
        facts["kind"], facts["agent_name"] = "agent", team or facts.get("agent_name")
    elif facts["kind"] == "tool" and facts.get("has_result"):
        _open_executed(span.attributes.get("traceloop.entity.output"), facts)


def _open_executed(printed: Value, facts: Facts) -> None:
    """Take the result, or the error, out of what Agno prints of a call that was executed."""
    opening = _EXECUTED.match(printed) if isinstance(printed, str) else None
    if opening is None or not isinstance(printed, str):
        return
    value, end = _printed(printed, opening.end())
    stated = _FAILED.match(printed, end)
    error = None if stated is None else quoted(printed, stated.end())
    has_failed = opening[1] == "failure"
    facts["result"], facts["has_result"] = value, value is not None or not has_failed
    if has_failed or error is not None:
        facts["error"] = facts.get("error") or (error and error[0]) or "failure"


def _printed(text: str, start: int) -> tuple[Json, int]:
    """A value that Python printed, and where it ends: at its closing quote, else before the field
    behind it.
    """
    string = quoted(text, start)
    if string is not None:
        return opened(string[0]), string[1]
    end = next((x.start() for x in (_FAILED.search(text, start),) if x is not None), len(text))
    value = text[start:end]
    read = opened_repr(value)
    return (value if read is None and value != "None" and not is_address(value) else read), end


def _failed(request: Any) -> dict[object, str]:
    """What the failed calls of a request returned, by their ids; messages in attributes do not
    record the failure.
    """
    failed = (
        (identity(x.get("tool_call_id")), x.get("content"))
        for x in objects(as_object(request).get("messages"))
        if x.get("tool_call_error") is True
    )
    return {
        answered: text(content) or "error" for answered, content in failed if answered is not None
    }


def _with_errors(message: Message, failed: dict[object, str]) -> Message:
    """A message with its errors.

    Where a tool returned null, false or 0, only the tool's span records the result.
    """
    if not message.results:
        return message
    results = (
        ToolResult(
            result.call_id,
            None if result.value == "" else result.value,
            result.error or failed.get(result.call_id),
        )
        for result in message.results
    )
    return changed(message, results=tuple(results))


_STARTS = ("{'content': [{'type': ", '{"content": [{"type": ')
_BLOCK = frozenset({"type", "text", "id", "created_at"})


def complete_agentscope(_span: Span, facts: Facts) -> None:
    """Take the texts out of their blocks, in place."""
    result = as_object(evaluated(facts.get("result")))
    texts = _texts(result["content"]) if result.keys() == {"content"} else []
    if texts:
        facts["result"] = opened("\n".join(texts))


def _texts(blocks: Json) -> list[str]:
    """The texts of blocks; none where any is no such block of text."""
    found: list[str] = []
    for block in blocks if isinstance(blocks, list) else ():
        text = block.get("text") if isinstance(block, dict) and block.keys() == _BLOCK else None
        if not isinstance(text, str):
            return []
        found.append(text)
    return found


_SCOPE = "openinference.instrumentation.beeai"
_EVENT = "metadata.path"  # of the event that a span stands for
_DECODER = json.JSONDecoder()
# the tool by which an agent answers the user, in its argument `response`
_FINAL_ANSWER = "final_answer"


def complete_beeai(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place."""
    if _EVENT in span.attributes:
        facts["kind"] = "other"
    elif facts["kind"] == "tool":
        _tool(facts)
    # its model is given the question in a prompt of BeeAI's, escaped
    elif facts["kind"] == "agent":
        question = object_at(span.attributes, "input.value").get("input")
        facts["input"] = (Message("user", question),) if isinstance(question, str) else None
    elif facts["kind"] == "model":
        if span.status_code == STATUS_ERROR:
            facts["output"] = None  # else the error's text
        facts["output"] = tuple(map(_answered, facts.get("output") or ())) or None
        offered = facts.get("tools")
        facts["tools"] = tuple(x for x in offered if x.name != _FINAL_ANSWER) if offered else None


def _tool(facts: Facts) -> None:
    given, returned = facts.get("arguments"), facts.get("result")
    if isinstance(given, dict) and given.keys() == {"input", "options"}:
        facts["arguments"] = given["input"]
    # what a function returned is printed
    if isinstance(returned, str) and returned.startswith(("{", "[")):
        facts["result"] = literal(returned)
    if facts["tool_name"] == _FINAL_ANSWER:
        facts["kind"] = "other"


def _first_of_several(call: RequestedCall) -> RequestedCall:
    """The first of calls that the instrumentation put into one: the name and id are its, the
    arguments theirs in a row.

    The others are recorded by their tools' spans and by the next request.
    """
    given = call.arguments
    if not (isinstance(given, str) and given.startswith("{") and "}{" in given):
        return call
    try:
        first, _ = _DECODER.raw_decode(given)
    except (ValueError, RecursionError):
        return call
    return changed(call, arguments=first)


def _answered(message: Message) -> Message:
    """The message with its answer as text instead of a call."""
    message = changed(message, calls=tuple(map(_first_of_several, message.calls)))
    answers = [x.arguments for x in message.calls if x.name == _FINAL_ANSWER]
    response = answers[-1].get("response") if answers and isinstance(answers[-1], dict) else None
    if response is None:
        return message
    return changed(
        message,
        text=printed(response),
        calls=tuple(x for x in message.calls if x.name != _FINAL_ANSWER),
    )


_CREWAI_OPENINFERENCE = "openinference.instrumentation.crewai"
_LISTENER = "openinference.instrumentation.crewai._event_listener"
_CREWAI_OPENLLMETRY = "opentelemetry.instrumentation.crewai.instrumentation"
_METHOD = re.compile(r"\._?\w+$")
_REQUESTED_NAME = re.compile(r"Tool Name: (.+)")
_TOOL = re.compile(rf"name=({STRING}) description=({STRING}) ", re.DOTALL)
_DELEGATING = ("delegate_work_to_coworker", "ask_question_to_coworker")
"""Tools in which another agent works, which has no span of its own."""


def complete_openinference_crewai(span: Span, facts: Facts) -> None:
    """Add to the facts of one of OpenInference's spans, in place."""
    attributes = span.attributes
    if facts["kind"] == "agent":
        facts["agent_name"] = text(attributes.get("graph.node.id")) or _METHOD.sub("", span.name)
        done = structure(attributes.get("output.value")).value
        if isinstance(done, dict) and "raw" in done:
            _read_task(done, facts)
        facts["tools"] = _tools(structure(attributes.get("input.value")).value) or _named(
            attributes.get("agent.tools")
        )
    elif facts["kind"] == "tool":
        described = _REQUESTED_NAME.match(str(attributes.get("tool.description", "")))
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
            offered = structure(attributes.get("llm.tools"))
            facts["tools"] = tools(_unquoted(offered.value, 0))
            add_damaged(facts, *cut(tools=offered))
    elif facts["kind"] == "agent":
        facts["agent_name"] = text(attributes.get("graph.node.id")) or facts.get("agent_name")
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


def complete_openllmetry_crewai(span: Span, facts: Facts) -> None:
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
        "agno",
        "openinference",
        (_AGNO_OPENINFERENCE,),
        complete=complete_openinference_agno,
        returns_state=True,
    ),
    Quirk("agno", "openllmetry", (_AGNO_OPENLLMETRY,), complete=complete_openllmetry_agno),
    Quirk(
        "agentscope",
        "semconv",
        values=tuple(("gen_ai.tool.call.result", x) for x in _STARTS),
        complete=complete_agentscope,
    ),
    Quirk("beeai", "openinference", (_SCOPE,), complete=complete_beeai, returns_state=True),
    Quirk(
        "crewai",
        "openinference",
        (_CREWAI_OPENINFERENCE,),
        complete=complete_openinference_crewai,
        returns_state=True,
    ),
    Quirk(
        "crewai_listener",
        "openinference",
        (_LISTENER,),
        complete=complete_listener,
        returns_state=True,
    ),
    Quirk(
        "crewai",
        "openllmetry",
        (_CREWAI_OPENLLMETRY,),
        claims_scopes=True,
        complete=complete_openllmetry_crewai,
    ),
)
