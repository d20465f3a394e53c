"""AgentScope's tool results, each a printed list of blocks."""

from spanscore.dialects import keys
from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms.structure import Facts, evaluated, opened
from spanscore.model.json import Json
from spanscore.model.span import Span

_STARTS = ("{'content': [{'type': ", '{"content": [{"type": ')
_BLOCK = frozenset({"type", "text", "id", "created_at"})


def returns_blocks(span: Span) -> bool:
    """Whether what a tool returned starts as such a list does."""
    returned = span.attributes.get(keys.GEN_AI_TOOL_CALL_RESULT)
    return isinstance(returned, str) and returned.startswith(_STARTS)


def complete(_span: Span, facts: Facts) -> None:
    """Take the texts out of their blocks, in place."""
    result = evaluated(facts.get("result"))
    texts = _texts(result["content"]) if isinstance(result, dict) and len(result) == 1 else []
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


QUIRKS = (Quirk(name="agentscope", under="semconv", matches=returns_blocks, complete=complete),)
