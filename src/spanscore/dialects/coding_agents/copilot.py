"""GitHub Copilot's CLI and VS Code's chat: the conventions, with the time of day before the user's
text.
"""

import re

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import CAPTURE, ContentSwitch, Context, Dialect
from spanscore.dialects.forms.structure import Facts, identity, opened
from spanscore.model.json import Json
from spanscore.model.span import Span, changed
from spanscore.model.step import Message

_USER = "enduser.pseudo.id"  # a digest of the user's account
_TAGS = r"<(?:current_datetime|reminder|system_reminder)>"
_ADDED = re.compile(
    r"\A(?:<(current_datetime|reminder|system_reminder)>[^<]{0,4096}</\1>(?:\s*(?="
    + _TAGS
    + r")|(?:\r?\n){0,2}))+"
)
"""Copilot's own text before the user's in one message, with an empty line after it."""


def read(span: Span, context: Context) -> Facts:
    """The facts of a call of an agent, model or tool."""
    facts = semconv.read(span, context)
    facts["user_id"] = facts.get("user_id") or identity(span.attributes.get(_USER))
    if facts["kind"] == "tool":
        if facts.get("has_result"):
            facts["result"] = _without_repetition(facts["result"])
    elif given := facts.get("input"):
        facts["input"] = tuple(map(_as_written, given))
        facts["input_is_part"] = True  # each span has what is new since the one before
    return facts


def _as_written(message: Message) -> Message:
    if message.role != "user" or message.text is None or not message.text.startswith("<"):
        return message
    return changed(message, text=_ADDED.sub("", message.text))


def _without_repetition(value: Json) -> Json:
    """What a tool returned; of an MCP server's text that also comes as structured content, after
    it, the text.
    """
    if not isinstance(value, str):
        return value
    returned, blank, structured = value.rpartition("\n\n")
    repeated = opened(structured) if blank else None
    if not isinstance(repeated, dict) or len(repeated) != 1:
        return value
    (only,) = repeated.values()
    return opened(returned) if only in (returned, opened(returned)) else value


DIALECT = Dialect(
    "copilot",
    read,
    scopes=("github.copilot", "@github/copilot", "copilot-chat"),
    prefilters=(b"gen_ai.",),
    content=(ContentSwitch(f"set {CAPTURE}=true"),),
)
