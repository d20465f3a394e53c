"""Open the blocks that a tool's result is made of in Bedrock's API, as which Strands records it
too.
"""

from typing import Any, TypeGuard

from spanscore.dialects.forms.structure import literal, opened
from spanscore.model.json import Json, printed

_FILES = ("image", "document", "video")


def content(returned: Json) -> Json:
    r"""What a tool returned, out of the blocks that its result always is: `{"text": …}` or
    `{"json": …}` each. Of several with a text, each is a line or more.

    >>> (
    ...     content([{"json": {"text": "9C"}}]),
    ...     content([{"text": "9C"}, {"text": "rain"}]),
    ...     content([]),
    ... )
    ({'text': '9C'}, '9C\nrain', [])
    """
    blocks: list[Any] = returned if isinstance(returned, list) else []
    if not blocks or not all(map(_has_value, blocks)):
        return returned
    if len(blocks) == 1:
        return next(_value(x) for x in blocks[0].values())
    shown = [printed(next(iter(x.values()))) for x in blocks]
    has_text = any(isinstance(x.get("text"), str) for x in blocks)
    return "\n".join(shown) if has_text else returned


def _value(content: Any) -> Json:
    """A block's value; an object that a tool returned was printed as JSON, before as Python
    does.
    """
    value = opened(content)
    return literal(value) if isinstance(value, str) and value.startswith(("{", "[")) else value


def bare_texts(content: Any) -> Any:
    r"""The result in a message's content that is a list of blocks of text without a type; any
    other content as it is.

    >>> bare_texts([{"text": "9C"}, {"text": "rain"}]), bare_texts([{"text": "9C", "id": 1}])
    ('9C\nrain', [{'text': '9C', 'id': 1}])
    """
    if not isinstance(content, list) or not content:
        return content
    is_text = all(isinstance(x, dict) and len(x) == 1 for x in content) and all(
        isinstance(x.get("text"), str) for x in content
    )
    if not is_text:
        return content
    texts = [x["text"] for x in content]
    return _value(texts[0]) if len(texts) == 1 else "\n".join(texts)


def is_block(block: object) -> bool:
    """Whether a value has the outline of such a block, or of one with a file, and nothing beside.

    >>> is_block({"text": "9C"}), is_block({"image": {"format": "png", "source": {"bytes": ""}}})
    (True, True)
    >>> is_block({"text": "9C", "url": "/map"}), is_block({"text": 9}), is_block({"image": "a.png"})
    (False, False, False)
    """
    if _has_value(block):
        return isinstance(block.get("text", ""), str)
    if not isinstance(block, dict) or len(block) != 1:
        return False
    file = next((block[x] for x in _FILES if x in block), None)
    return isinstance(file, dict) and {"format", "source"} <= file.keys()


def _has_value(block: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(block, dict) and len(block) == 1 and not {"text", "json"}.isdisjoint(block)
