"""Read the raw requests that Claude Code records, without what it adds for the model, though their
end be cut.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from spanscore.dialects.coding_agents.claude_code import notices
from spanscore.dialects.forms.arguments import tools
from spanscore.dialects.forms.messages import messages, system_text
from spanscore.dialects.forms.structure import structure, whole_members
from spanscore.dialects.forms.values import Facts
from spanscore.model.step import StepFact

_FACTS: Final[tuple[tuple[StepFact, str], ...]] = (
    ("input", "messages"),
    ("system", "system"),
    ("tools", "tools"),
)
"""The facts of a request and their members, in the order in which Claude Code writes them."""

_BEGIN, _END = "<system-reminder>", "</system-reminder>"
_HEADER = "x-anthropic-billing-header:"
_NOTHING = re.compile(r"\([\w.-]{1,256} completed with no output\)")
"""The text by which a model is given an empty result."""


def read_request(body: object) -> Facts:
    """What a model was given: messages, instructions and tools, and which of them were cut."""
    if not isinstance(body, str):
        return {"damaged": frozenset()}
    request, cut = _members(body)
    facts: Facts = {
        "damaged": frozenset(x for x, key in _FACTS if cut and (key == cut or key not in request))
    }
    listed, system, offered = (request.get(key) for _, key in _FACTS)
    if isinstance(listed, list):
        facts["input"] = messages([without_reminders(x) for x in listed]).messages
    if isinstance(system, (str, list)):
        facts["system"], _ = system_text(without_header(system))
    if isinstance(offered, list):
        facts["tools"] = tools(offered)
    return facts


def _members(body: str) -> tuple[Mapping[str, Any], str | None]:
    """The members of a request, and the one in the middle of which it was cut."""
    parsed = structure(body).value
    return (parsed, None) if isinstance(parsed, dict) else whole_members(body)


def without_reminders(message: Any) -> Any:
    """A message without the reminders around the user's text; a notice contains what a call
    returned.
    """
    if not isinstance(message, dict) or message.get("role") != "user":
        return message
    content = message.get("content")
    if isinstance(content, str):
        content = _results_in_notice({"text": content}) or content
    if not isinstance(content, list):
        return message
    blocks = [_as_returned(x) for x in content if not _is_reminder(x)]
    return {**message, "content": [y for x in blocks for y in _results_in_notice(x) or [x]]}


def _results_in_notice(block: Any) -> list[dict[str, Any]]:
    """The results of calls that ran in the background, which a text contains, as blocks; empty for
    any other block.
    """
    results = notices.results(block.get("text")) if isinstance(block, dict) else ()
    return [{"type": "tool_result", "tool_use_id": x.call_id, "content": x.value} for x in results]


def _is_reminder(block: Any) -> bool:
    text = block.get("text") if isinstance(block, dict) else None
    return isinstance(text, str) and text.startswith(_BEGIN) and text.rstrip().endswith(_END)


def _as_returned(block: Any) -> Any:
    """A tool's result as the tool returned it: without the reminder after it; a text for an empty
    one is opened.
    """
    content = (
        block.get("content")
        if isinstance(block, dict) and block.get("type") == "tool_result"
        else None
    )
    if isinstance(content, list):
        texts = [
            x.get("text") if isinstance(x, dict) and x.get("type") == "text" else None
            for x in content
        ]
        content = (
            "\n".join(x for x in texts if isinstance(x, str))
            if all(isinstance(x, str) for x in texts)
            else None
        )
    if not isinstance(content, str):
        return block
    at = content.rfind("\n\n" + _BEGIN)
    if at >= 0 and content.rstrip().endswith(_END):
        content = content[:at]
    return {**block, "content": "" if _NOTHING.fullmatch(content) else content}


def without_header(system: Any) -> Any:
    """Instructions without the line that is for the bill."""
    if isinstance(system, str) and system.startswith(_HEADER):
        return system.partition("\n")[2].lstrip("\n") or None
    if not isinstance(system, list):
        return system
    return [
        x for x in system if not (isinstance(x, dict) and str(x.get("text")).startswith(_HEADER))
    ]
