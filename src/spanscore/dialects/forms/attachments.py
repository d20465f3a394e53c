"""Pictures, sound and files in messages and results."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from spanscore.model.json import Json
from spanscore.model.trace import Attachment

_KIND = re.compile(
    r"(?:input_|output_)?(image|audio|video|document|file|blob|uri|binary|media)"
    r"(?:[-_](?:url|file|data|id))?"
)
_KEYED = (
    *("inline_data", "inlineData", "file_data", "fileData"),  # Gemini's
    *("image", "audio", "video", "document"),  # Bedrock's
)
_KINDS = ("image", "audio", "video")
_PLAIN = {
    **dict.fromkeys(("mime_type", "mimeType", "media_type", "mediaType"), "mime_type"),
    **dict.fromkeys(("filename", "file_name", "name", "title"), "name"),
    "modality": "modality",
    "format": "format",
}
_URIS = frozenset(
    {
        *("url", "uri", "file_uri", "fileUri", "file_url", "image_url", "audio_url", "video_url"),
        *("file_id", "fileId"),
    }
)
_CONTENT = _URIS | {"data", "content", "base64", "bytes", "file_data", "image"}
_MAX_NESTING = 4
_MAX_URI_CHARS = 2000
_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,]{0,100},")
_MIN_BASE64_CHARS = 512
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}\s*")
_MAX_VALUES = 20_000
"""Of a result that are looked through."""


def is_attached(part: Mapping[str, Any]) -> bool:
    """Whether a part of a message is a picture, sound or file."""
    kind = part.get("type", part.get("kind"))
    if isinstance(kind, str):
        return _KIND.fullmatch(kind) is not None
    return any(isinstance(part.get(key), dict) for key in _KEYED)


def attachment(part: Mapping[str, Any]) -> Attachment:
    """What a part says of itself, in the shapes of the conventions and of all providers."""
    found: dict[str, Any] = {}
    for key, value in _members(part, _MAX_NESTING):
        if key in _PLAIN:
            found.setdefault(_PLAIN[key], value[:_MAX_URI_CHARS])
        elif key in _CONTENT:
            found = {**_content(key, value), **found}
    kind, extension = _kind(part, found), found.pop("format", None)
    found.pop("modality", None)
    if extension and "mime_type" not in found and kind in _KINDS:
        found["mime_type"] = f"{kind}/{extension}"
    return Attachment(kind, **found)


def _content(key: str, value: str) -> dict[str, Any]:
    """What the address or the bytes of an attachment say."""
    data = _DATA_URI.match(value)
    if data is not None:
        return {"mime_type": data[1], "size_bytes": _size(value, data.end())}
    if key in _URIS or value.startswith(("http://", "https://")):
        return {"uri": value[:_MAX_URI_CHARS]}
    # a notice in place of the bytes, such as `<replaced>`
    return {} if value.startswith("<") else {"size_bytes": _size(value)}


def _members(part: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    """The texts under the keys of a part and of the objects in it, the outer ones first."""
    for key, value in part.items():
        if isinstance(value, str) and value and key != "type":
            yield key, value
    for value in part.values():
        if isinstance(value, dict) and depth:
            yield from _members(value, depth - 1)


def _kind(part: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The kind that the part states, by its type, its key or the type of its content."""
    stated = (
        found.get("modality"),
        part.get("type", part.get("kind")),
        *part.keys(),
        found.get("mime_type"),
    )
    kinds = (kind for x in stated if isinstance(x, str) for kind in _KINDS if kind in x)
    return next(kinds, "file")


def _size(text: str, start: int = 0) -> int:
    """The bytes that base64 stands for."""
    return (len(text) - start - text.count("=", max(start, len(text) - 2))) * 3 // 4


def without_bytes(value: Json) -> Json:
    """A result in which notices stand for the bytes of pictures, sound and files.

    >>> without_bytes({"seat": "4A", "photo": "data:image/png;base64," + "iVBO" * 300})
    {'seat': '4A', 'photo': '[image, image/png, 900 bytes]'}
    """
    return value if type(value) in (int, float, bool) else _Stripping().stripped(value)


class _Stripping:
    """One result that is looked through; what comes after `_MAX_VALUES` is kept as it is."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def stripped(self, value: Any) -> Any:
        """The value itself where it contains no bytes."""
        self._left -= 1
        if isinstance(value, str):
            return _notice(value) if len(value) >= _MIN_BASE64_CHARS else value
        if self._left < 0 or not value:
            return value
        if isinstance(value, list):
            items = [self.stripped(x) for x in value]
            return items if any(x is not y for x, y in zip(items, value, strict=True)) else value
        if isinstance(value, dict):
            members = {key: self.stripped(x) for key, x in value.items()}
            if any(members[key] is not x for key, x in value.items()):
                return str(attachment(value)) if is_attached(value) else members
        return value


def _notice(text: str) -> str:
    data = _DATA_URI.match(text)
    if data is not None and ";base64," in data[0]:
        return str(attachment({"url": text}))
    if _BASE64.fullmatch(text) is None:
        return text
    return str(Attachment("file", size_bytes=_size(text)))
