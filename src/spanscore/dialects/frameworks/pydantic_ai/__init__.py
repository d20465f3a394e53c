"""Pydantic AI: the semantic conventions, with the agent's whole conversation and some older names
of its own.
"""

import re
from dataclasses import replace
from typing import Any

from spanscore.dialects.content_switch import ContentSwitch
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.ids import identity
from spanscore.dialects.forms.messages import Messages, messages, system_text
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import opened, structure
from spanscore.dialects.forms.values import Facts, add_damaged, change_messages, text
from spanscore.dialects.frameworks.pydantic_ai import under_mlflow
from spanscore.dialects.ignored_spans import IgnoredSpans
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_INPUT_MESSAGES,
    GEN_AI_OPERATION_NAME,
    GEN_AI_SYSTEM_INSTRUCTIONS,
    GEN_AI_TOOL_CALL_ID,
    GEN_AI_TOOL_NAME,
)
from spanscore.model.json import printed
from spanscore.model.span import Attributes, Span, Value
from spanscore.model.step import Message, StepKind
from spanscore.model.trace import RequestedCall, Tool

_SCOPE = "pydantic-ai"
# the attribute of the answer, and the tool that stands for it where it has structure
_FINAL_RESULT = "final_result"
_CONVERSATIONS = ("pydantic_ai.all_messages", "all_messages_events")
_HIDDEN = re.compile(r'"(?:type|kind)": ?"text"}')
# how each of its own messages to the model ends, in the user's role
_RETRY = "Fix the errors and try again."


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans: agent run, model request or tool call."""
    facts = semconv.read(span, context)
    attributes = span.attributes
    if GEN_AI_OPERATION_NAME not in attributes:
        facts["kind"] = _kind_by_name(span)
    if facts["kind"] == "agent":
        _read_agent(attributes, facts)
    elif facts["kind"] == "model":
        _read_model(attributes, facts)
    elif facts["kind"] == "tool":
        _read_tool(span, facts)
    question = next((x for x in facts.get("input") or () if x.role == "user"), None)
    if question is not None and question.text is None and _hides(attributes):
        _leave_out_hidden(facts)
    return facts


def _hides(attributes: Attributes) -> bool:
    """Whether content was left out on demand: a part of a message is then text without a text."""
    recorded = (attributes.get(x) for x in (GEN_AI_INPUT_MESSAGES, *_CONVERSATIONS, "events"))
    return any(isinstance(x, str) and _HIDDEN.search(x) for x in recorded)


def _leave_out_hidden(facts: Facts) -> None:
    """Forget results that only seem to be null, since what a tool returned was left out too."""
    add_damaged(facts, "input", "output")
    change_messages(facts, lambda x: replace(x, results=()) if x.results else x)


def _kind_by_name(span: Span) -> StepKind:
    """Where the span does not state it: in all of Pydantic AI 1, whose format 3 has the names of
    the conventions.
    """
    if (
        "tool_arguments" in span.attributes
        or span.name == "running tool"
        or span.name.startswith("execute_tool ")
    ):
        return "tool"
    if (
        any(x in span.attributes for x in _CONVERSATIONS)
        or span.name == "agent run"
        or span.name.startswith("invoke_agent ")
    ):
        return "agent"
    return "other"  # "running 2 tools" wraps parallel calls


def _read_agent(attributes: Attributes, facts: Facts) -> None:
    facts["agent_name"] = facts.get("agent_name") or text(attributes.get("agent_name"))
    if facts.get("system") is None and GEN_AI_SYSTEM_INSTRUCTIONS in attributes:
        facts["system"], is_cut = system_text(attributes[GEN_AI_SYSTEM_INSTRUCTIONS])
        if is_cut:
            add_damaged(facts, "system")
    messages = _conversation(attributes)
    if messages is not None:
        end = _question_end(messages, attributes.get("pydantic_ai.new_message_index"))
        facts["input"], facts["output"] = messages[:end], messages[end:]
    final = attributes.get(_FINAL_RESULT)
    if isinstance(final, str) and not _is_deferral(final):
        facts["output_text"] = final
    metadata = structure(attributes.get("metadata")).value
    if isinstance(metadata, dict):
        facts["user_id"] = identity(metadata.get("user_id"))
        facts["session_id"] = facts.get("session_id") or identity(metadata.get("session_id"))


def _is_deferral(final: str) -> bool:
    """Whether a run ended without an answer, with calls that wait to be approved or to be run
    elsewhere.
    """
    if not (final.startswith('{"calls":') and '"approvals":' in final and '"tool_name":' in final):
        return False
    deferred, is_cut = structure(final)
    if is_cut:
        return True
    lists = [deferred.get(x) for x in ("calls", "approvals")] if isinstance(deferred, dict) else []
    waiting = [x for listed in lists if isinstance(listed, list) for x in listed]
    return bool(waiting) and all(
        isinstance(x, dict) and x.get("part_kind") == "tool-call" for x in waiting
    )


def _question_end(messages: tuple[Message, ...], start: Value) -> int:
    """The index after the run's own question in its conversation: by the run's start, or by the
    user's last message.

    Runs without history, and all of version 1, do not record where they start. The others may
    record too early a start: they count a system prompt and the question after it as one.
    """
    if isinstance(start, int) and 0 <= start <= len(messages):
        begun = next(
            (i for i, x in enumerate(messages[start:], start) if x.role == "user" and x.text), start
        )
        return next(
            (i for i, x in enumerate(messages[begun:], begun) if x.role == "assistant"),
            len(messages),
        )
    questions = [
        i
        for i, x in enumerate(messages)
        if x.role == "user" and x.text and not x.text.endswith(_RETRY)
    ]
    return (
        questions[-1] + 1
        if questions
        else next((i for i, x in enumerate(messages) if x.role == "assistant"), len(messages))
    )


def _conversation(attributes: Attributes) -> tuple[Message, ...] | None:
    for key in _CONVERSATIONS:
        if key in attributes:
            found = (
                _of_events(attributes[key])
                if key == "all_messages_events"
                else messages(attributes[key])
            )
            if found.messages is not None:
                return tuple(map(_with_role, found.messages))
    return None


def _with_role(message: Message) -> Message:
    """A message with the usual role: the first versions have the kind of the message there."""
    return replace(message, role="assistant") if message.role.startswith("model-") else message


def _of_events(value: Any) -> Messages:
    """Messages of version 1, each the body of an event with its name beside it."""
    parsed, damaged = structure(value)
    items = [x for x in parsed if isinstance(x, dict)] if isinstance(parsed, list) else []
    bodies = [x["message"] if isinstance(x.get("message"), dict) else x for x in items]
    return Messages(messages(bodies).messages if bodies else None, damaged)


def _read_model(attributes: Attributes, facts: Facts) -> None:
    parameters = structure(attributes.get("model_request_parameters")).value
    if isinstance(parameters, dict):
        if facts.get("tools") is None:
            facts["tools"] = tools(parameters.get("function_tools"))
        _open_output_tools(tools(parameters.get("output_tools")) or (), facts)
    if facts.get("output") is None and "events" in attributes:
        messages = _of_events(attributes["events"]).messages or ()
        facts["input"], facts["output"] = messages[:-1], messages[-1:]


def _open_output_tools(output_tools: tuple[Tool, ...], facts: Facts) -> None:
    """Make structured output text: the model gives it as a call of a tool that only stands for the
    answer.
    """
    names = {x.name for x in output_tools}
    if names and (offered := facts.get("tools")):
        facts["tools"] = tuple(x for x in offered if x.name not in names)
    if names and (produced := facts.get("output")):
        facts["output"] = tuple(_as_text(x, names) for x in produced)


def _as_text(message: Message, names: set[str]) -> Message:
    answers = [x for x in message.calls if x.name in names]
    if not answers:
        return message
    rest: tuple[RequestedCall, ...] = tuple(x for x in message.calls if x.name not in names)
    return Message(
        message.role, printed(answers[-1].arguments), message.reasoning, rest, message.results
    )


def _read_tool(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = facts.get("tool_name") or text(attributes.get(GEN_AI_TOOL_NAME))
    if facts["tool_name"] == _FINAL_RESULT:
        facts["kind"] = "other"
    facts["call_id"] = facts.get("call_id") or call_id(attributes.get(GEN_AI_TOOL_CALL_ID))
    facts["error"] = status_error(span)
    if "arguments" not in facts and "tool_arguments" in attributes:
        facts["arguments"] = arguments(attributes["tool_arguments"])
    if not facts.get("has_result") and "tool_response" in attributes:
        facts["result"], facts["has_result"] = opened(attributes["tool_response"]), True


QUIRKS = under_mlflow.QUIRKS

DIALECT = Dialect(
    "pydantic_ai",
    read,
    scopes=(_SCOPE,),
    keys=(_CONVERSATIONS[0],),
    prefilters=(b"pydantic-ai", b"pydantic_ai"),
    ignored=IgnoredSpans(scopes=("pydantic-evals",)),
    content=(ContentSwitch("use InstrumentationSettings(include_content=True)"),),
)
