"""Read what Claude Code's detailed telemetry adds to spans: texts, each after a line with its kind,
and hashes.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from spanscore.dialects.coding_agents.claude_code import events
from spanscore.dialects.coding_agents.claude_code.requests import without_header, without_reminders
from spanscore.dialects.forms.arguments import tools
from spanscore.dialects.forms.messages import Messages, blocks, messages
from spanscore.dialects.forms.structure import is_redacted, structure
from spanscore.dialects.forms.truncation import is_cut
from spanscore.dialects.forms.values import Facts, count, text
from spanscore.dialects.log_turns import name_of
from spanscore.model.span import Attributes, LogRecord, Value
from spanscore.model.trace import Tool

_HEADER = re.compile(r"\[(?:USER|USER PROMPT|TOOL (?:INPUT|RESULT): (?P<call>[^\]\n]{1,256}))\]\n")
_BETWEEN = re.compile(r"\n\n---\n\n(?=\[(?:USER|TOOL RESULT: [^\]\n]{1,256})\]\n)")
_MAX_PARTS = 10_000  # of what a model was given since its last call
_WITHHELD = re.compile(r"<(?:\d{1,20} chars; )?not recorded(?:: \w{1,100})?>")


def content(value: Value) -> Value:
    """What follows the line that names the kind of a text; any other value as it is, and a withheld
    one as redacted.
    """
    header = _HEADER.match(value) if isinstance(value, str) else None
    if header is None or not isinstance(value, str):
        return value
    inside = value[header.end() :]
    return "<REDACTED>" if _WITHHELD.fullmatch(inside) else inside


def returned(value: Value) -> Value:
    """What a tool returned: the content blocks, or the text, after the line that names the tool."""
    inside = content(value)
    return blocks(inside) or inside


def given(value: Value) -> Messages:
    """The messages that a model was given since its last call: the user's text, and results by
    their calls' ids.
    """
    if not isinstance(value, str) or _HEADER.match(value) is None:
        return Messages(None)
    return messages([without_reminders(_message(x)) for x in _BETWEEN.split(value, _MAX_PARTS)])


def _message(part: str) -> dict[str, Any]:
    header, inside = _HEADER.match(part), content(part)
    if header is None or header["call"] is None:
        return {"role": "user", "content": inside}
    result = {
        "type": "tool_result",
        "tool_use_id": header["call"],
        "content": blocks(inside) or inside,
    }
    return {"role": "user", "content": [result]}


def request(attributes: Attributes, logs: Iterable[LogRecord]) -> Facts:
    """A model call's input, instructions and tools, as far as its span contains them, or records of
    what it names.
    """
    recorded = [x.attributes for x in logs if name_of(x) in events.DEFINING]
    messages_given = given(attributes.get("new_context"))
    return _system(attributes, recorded) | {
        "input": messages_given.messages,
        "tools": _tools(attributes.get("tools"), recorded),
    }


def _is_whole(preview: str | None, length: int | None) -> bool:
    """Whether a preview is as long as what it is of, in JavaScript's units."""
    return (
        preview is not None
        and length is not None
        and len(preview.encode("utf-16-le")) // 2 >= length
    )


def _system(attributes: Attributes, recorded: Iterable[Attributes]) -> Facts:
    """The instructions: whole as a record, or as a preview that is no shorter than they are; else
    those of the user.

    A preview that is shorter is what is left of them.
    """
    record = next((x for x in (text(y.get("system_prompt")) for y in recorded) if x), None)
    preview, own = (
        text(attributes.get(x)) for x in ("system_prompt_preview", "user_system_prompt")
    )
    is_whole = _is_whole(preview, count(attributes.get("system_prompt_length")))
    shown = (record, preview if is_whole else None, own, preview)
    found = next(
        (x for x in shown if x and not _WITHHELD.fullmatch(x) and not is_redacted(x)), None
    )
    if found is None:
        return {"damaged": frozenset({"system"}) if preview or record else frozenset()}
    is_damaged = is_cut(found) or (found is preview and not is_whole)
    return {"system": without_header(found), "damaged": frozenset({"system"} if is_damaged else ())}


def _tools(named: Value, recorded: Iterable[Attributes]) -> tuple[Tool, ...] | None:
    """The tools on offer, by the span; with the definitions of those that were recorded, which is
    once a process.
    """
    defined = {digest: x.get("tool") for x in recorded if (digest := text(x.get("tool_hash")))}
    listed = structure(named).value
    if not isinstance(listed, list):
        return tools([x for x in defined.values() if isinstance(x, str)]) or None
    return tools([_definition(x, defined) for x in listed if isinstance(x, dict)])


def _definition(tool: Mapping[str, Any], defined: Mapping[str, Value]) -> Any:
    digest = tool.get("hash")
    definition = structure(defined.get(digest)).value if isinstance(digest, str) else None
    return definition if isinstance(definition, dict) else {"name": tool.get("name")}
