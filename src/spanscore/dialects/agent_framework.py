"""Microsoft Agent Framework: the semantic conventions, and results that do not serialize."""

import re

from spanscore.dialects import semconv
from spanscore.dialects._base import Context, Dialect, Facts
from spanscore.model.span import Span

_ADDRESS = re.compile(r"\[?<[\w.]{1,200} object at 0x[0-9a-f]{1,16}>\]?")


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans.

    An empty result, or one that is no text, is printed as an object's address on the tool's span: the next model call's
    input tells what it was.
    """
    facts = semconv.read(span, context)
    result = facts.get("result")
    if facts["kind"] == "tool" and isinstance(result, str) and _ADDRESS.fullmatch(result):
        facts["result"], facts["has_result"] = None, False
    return facts


DIALECT = Dialect("agent_framework", read, scopes=("agent_framework",), marks=(b"agent_framework",))
