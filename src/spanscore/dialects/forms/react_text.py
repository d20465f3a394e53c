"""Tool calls and answers in LlamaIndex's ReAct text."""

from collections.abc import Iterator
from typing import Any

from spanscore.dialects.forms.structure import literal, opened, unprinted
from spanscore.dialects.forms.values import Facts
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_ACTION, _INPUT, _ANSWER = "\nAction:", "\nAction Input:", "Answer:"
_THOUGHT, _OBSERVATION = "Thought:", "Observation: "
_TOOL, _DESCRIPTION, _ARGUMENTS = "> Tool Name: ", "\nTool Description: ", "\nTool Args: "
_MAX_CHARS = 256 * 1024


def complete(facts: Facts) -> None:
    """Open the messages of a model call, in place, if its instructions ask for this form."""
    given = facts.get("input") or ()
    instructions = given[0].text if given and given[0].role == "system" else None
    if not instructions or not _requires_form(instructions):
        return
    facts["input"] = tuple(_opened(given))
    if produced := facts.get("output"):
        facts["output"] = tuple(_opened(produced))
    if not facts.get("tools"):
        facts["tools"] = tuple(_offered(instructions)) or None


def _requires_form(instructions: str) -> bool:
    is_described = _INPUT in instructions and _OBSERVATION in instructions and _TOOL in instructions
    return is_described and len(instructions) < _MAX_CHARS


def _opened(messages: tuple[Message, ...]) -> Iterator[Message]:
    called = False
    for message in messages:
        text = message.text or ""
        if called and message.role == "user" and text.startswith(_OBSERVATION):
            yield Message(
                "tool", results=(ToolResult(None, unprinted(text.removeprefix(_OBSERVATION))),)
            )
            continue
        opened = (
            _opened_answer(text) if message.role == "assistant" and not message.calls else message
        )
        called = bool(opened.calls)
        yield opened


def _opened_answer(text: str) -> Message:
    """A thought with the tool to call, or with the answer; text of any other form as it is."""
    head, separator, given = ("\n" + text).partition(_INPUT)
    thought, acts, name = head.rpartition(_ACTION)
    if separator and acts and name.strip():
        call = RequestedCall(None, name.strip(), _arguments(given))
        return Message("assistant", _without_label(thought), None, (call,))
    thought, answers, answer = text.partition(_ANSWER)
    if answers and (not thought.strip() or thought.lstrip().startswith(_THOUGHT)):
        return Message("assistant", answer.strip(), _without_label(thought))
    return Message("assistant", text)


def _without_label(thought: str) -> str | None:
    return thought.strip().removeprefix(_THOUGHT).strip() or None


def _arguments(text: str) -> Any:
    """JSON, or a Python literal in the calls that the agent's history repeats."""
    value = opened(text.strip())
    return literal(value) if isinstance(value, str) else value


def _offered(instructions: str) -> Iterator[Tool]:
    for part in instructions.split(_TOOL)[1:]:
        name, _, rest = part.partition(_DESCRIPTION)
        description, _, given = rest.partition(_ARGUMENTS)
        schema = opened(given.partition("\n")[0])
        if name and "\n" not in name:
            yield Tool(
                name.strip(),
                description.strip() or None,
                schema if isinstance(schema, dict) else None,
            )
