"""Pages of lists: how many items a page has, in which order, and tokens that lead to the next one.

A token is sealed: a place is often a number that all tenants' rows are counted by.
"""

import base64
import hashlib
import struct
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from spanscore.api.sealing import opened, seal
from spanscore.api.servicer import Call
from spanscore.errors import FieldError

MessageT = TypeVar("MessageT", bound=Message)

USUAL_PAGE = 50
MAX_PAGE = 1000
MAX_PAGE_BYTES = 3 * 2**20
"""gRPC's clients read messages of up to 4 MiB unless they are told otherwise."""

_CONDITIONS_BYTES: Final = 16
_NUMBER_BYTES: Final = 8
_MAX_TOKEN_CHARS: Final = 256
_NO_TOKEN = "is no next_page_token; leave it out for the first page"  # noqa: S105 - a sentence


def limit(page_size: int, usual: int = USUAL_PAGE) -> int:
    """How many items a page has at most. Raises FieldError."""
    if page_size < 0:
        raise FieldError("page_size", f"{page_size}: give a number of at least 0")
    return min(page_size, MAX_PAGE) or usual


def fitting(
    items: Iterable[MessageT], limit: int, max_bytes: int = MAX_PAGE_BYTES
) -> list[MessageT]:
    """The first items that make a page: at most `limit`, and `max_bytes` in all; the first one
    whatever its size.
    """
    page: list[MessageT] = []
    for item in islice(items, limit):
        max_bytes -= item.ByteSize()
        if page and max_bytes < 0:
            break
        page.append(item)
    return page


def token(request: Any, call: Call, place: tuple[int, ...]) -> str:
    """The `next_page_token` with which the same request of the same tenant goes on after
    `place`.
    """
    content = _conditions(request, call) + struct.pack(f">{len(place)}q", *place)
    return base64.urlsafe_b64encode(seal(call.page_key, content)).decode()


def place(request: Any, call: Call, numbers: int) -> tuple[int, ...] | None:
    """Where the page that is asked for begins: so many numbers; None: at the beginning.

    Raises FieldError.
    """
    if not request.page_token:
        return None
    content = _content(request.page_token, call)
    if content is None or len(content) != _CONDITIONS_BYTES + numbers * _NUMBER_BYTES:
        raise FieldError("page_token", _NO_TOKEN)
    if content[:_CONDITIONS_BYTES] != _conditions(request, call):
        raise FieldError(
            "page_token",
            "is of another request; give the conditions of the page before, or no token",
        )
    return struct.unpack(f">{numbers}q", content[_CONDITIONS_BYTES:])


def _content(token: str, call: Call) -> bytes | None:
    """What a token was made of; None where this server has made no such token."""
    if len(token) > _MAX_TOKEN_CHARS:
        return None
    try:
        return opened(call.page_key, base64.urlsafe_b64decode(token))
    except ValueError:
        return None


def _conditions(request: Any, call: Call) -> bytes:
    """The same for requests of one tenant that differ in their page alone."""
    same = type(request)()
    same.CopyFrom(request)
    same.ClearField("page_token")
    same.ClearField("page_size")
    content = same.SerializeToString(deterministic=True)
    owner = f"{request.DESCRIPTOR.full_name}\n{call.tenant}\n".encode("utf-8", "surrogatepass")
    return hashlib.sha256(owner + content).digest()[:_CONDITIONS_BYTES]
