"""Microsoft Agent Framework: the semantic conventions, results that do not serialize, responses as
conversations.
"""

import re

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect
from spanscore.dialects.forms.structure import Facts
from spanscore.model.span import Span

_ADDRESS = re.compile(r"\[?<[\w.]{1,200} object at 0x[0-9a-f]{1,16}>\]?")
_RESPONSE = "resp_"


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans.

    An empty result, or one that is no text, is printed as an object's address on the tool's span:
    the next model call's input contains it. Where a service keeps no conversation, the response
    that a call goes on from stands for it: another one for each call, so no session.
    """
    facts = semconv.read(span, context)
    if str(facts.get("session_id")).startswith(_RESPONSE):
        facts["session_id"] = None
    result = facts.get("result")
    if facts["kind"] == "tool" and isinstance(result, str) and _ADDRESS.fullmatch(result):
        facts["result"], facts["has_result"] = None, False
    return facts


DIALECT = Dialect(
    "agent_framework",
    read,
    scopes=("agent_framework",),
    prefilters=(b"agent_framework",),
    content=(
        ContentSwitch(
            "set ENABLE_SENSITIVE_DATA=true, or call"
            " enable_instrumentation(enable_sensitive_data=True)"
        ),
    ),
)
