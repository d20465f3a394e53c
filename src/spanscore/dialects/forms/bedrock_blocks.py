"""Open the blocks that a tool's result is made of in Bedrock's API, as which Strands records it
too.
"""

from typing import Any

from spanscore.dialects.forms.structure import literal, opened
from spanscore.model.json import Json


def content(returned: Json) -> Json:
    r"""What a tool returned, out of the blocks that its result always is: `{"text": …}` or
    `{"json": …}` each.

    >>> (
    ...     content([{"json": {"text": "9C"}}]),
    ...     content([{"text": "9C"}, {"text": "rain"}]),
    ...     content([]),
    ... )
    ({'text': '9C'}, '9C\nrain', [])
    """
    blocks: list[Any] = returned if isinstance(returned, list) else []
    if not blocks or not all(map(_is_block, blocks)):
        return returned
    if len(blocks) == 1:
        return next(_value(x) for x in blocks[0].values())
    texts = [x["text"] for x in blocks if isinstance(x.get("text"), str)]
    return "\n".join(texts) if len(texts) == len(blocks) else returned


def _value(content: Any) -> Json:
    """A block's value; an object that a tool returned was printed as JSON, before as Python
    does.
    """
    value = opened(content)
    return literal(value) if isinstance(value, str) and value.startswith(("{", "[")) else value


def _is_block(block: Any) -> bool:
    return isinstance(block, dict) and len(block) == 1 and not {"text", "json"}.isdisjoint(block)
