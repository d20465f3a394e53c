"""Text as a message carries it."""

from typing import overload


@overload
def text_of(text: str) -> str: ...
@overload
def text_of(text: None) -> None: ...
def text_of(text: str | None) -> str | None:
    """`text` with "?" for lone surrogates, which a JSON string may hold and protobuf refuses."""
    return text if text is None or text.isascii() else text.encode(errors="replace").decode()
