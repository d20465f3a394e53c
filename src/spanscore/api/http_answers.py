"""What the server over HTTP answers by itself, without a method: errors and files."""

import base64
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from spanscore.api.calling import DOMAIN
from spanscore.api.page_files import File
from spanscore.rpc.status import ErrorInfo, Status, describe_details, details

Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
"""What an ASGI application answers with."""

_PASSED_ON: Final = {b"allow", b"accept-post", b"connection"}


def error(code: str, message: str, reason: str) -> dict[str, Any]:
    """The body of an error, with an ErrorInfo that has this reason."""
    return error_of(code, Status(0, message, info=ErrorInfo(reason, DOMAIN)))


def error_of(code: str, status: Status) -> dict[str, Any]:
    """The body of an error, as the Connect protocol has it, with the details of its status."""
    described = describe_details(status)
    listed = [
        {
            "type": name,
            "value": base64.b64encode(message.SerializeToString()).decode().rstrip("="),
            "debug": described[name],
        }
        for name, message in details(status)
    ]
    return {"code": code, "message": status.message, "details": listed}


async def answer(
    send: Send,
    status: int,
    content: bytes | Mapping[str, Any],
    more: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    """Send JSON. Of `more` headers those that explain an error are sent too."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [x for x in more if x[0].lower() in _PASSED_ON]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def answer_file(send: Send, file: File, *, is_head: bool) -> None:
    """Send a file of the page; of HEAD its headers alone."""
    headers = {**file.headers, "content-length": str(len(file.content))}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": file.status, "headers": encoded})
    await send({"type": "http.response.body", "body": b"" if is_head else file.content})
