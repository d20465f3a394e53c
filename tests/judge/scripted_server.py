"""An OpenAI-compatible chat server on loopback that does, call by call, what a test told it to."""

import contextlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Reply:
    """What the server does with one call.

    `status` 0 closes the connection without an answer; `delay_s` holds the answer back, at most
    until the server stops.
    """

    body: str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0


def answer(
    text: str | dict, *, input_tokens: int = 100, output_tokens: int = 20, delay_s: float = 0.0
) -> Reply:
    """A completion whose message is `text`, or a dict as JSON."""
    completion = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {
                    "role": "assistant",
                    "content": text if isinstance(text, str) else json.dumps(text),
                },
            }
        ],
        "usage": {
            "prompt_tokens": input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        },
    }
    return Reply(json.dumps(completion), delay_s=delay_s)


def declined(
    message: str | None = None, *, finish_reason: str = "stop", text: str = "", **facts: Any
) -> Reply:
    """A completion without an answer: with the model's refusal, or ended for `finish_reason`;
    `facts` of the choice.
    """
    reply = json.loads(answer(text).body)
    spoken = {"role": "assistant", "content": text, "refusal": message}
    reply["choices"][0] |= {"message": spoken, "finish_reason": finish_reason, **facts}
    return Reply(json.dumps(reply))


def refusal(status: int, message: str = "no", code: str | None = None, **headers: str) -> Reply:
    """An error as OpenAI words it; `retry_after="1"` becomes the header Retry-After."""
    body = json.dumps({"error": {"message": message, "type": "error", "param": None, "code": code}})
    return Reply(
        body, status, {name.replace("_", "-").title(): value for name, value in headers.items()}
    )


DROPPED = Reply("", status=0)
"""The connection is closed without a byte."""

HANGING = Reply("{}", delay_s=3600)
"""No answer for as long as the server runs."""


class ScriptedServer:
    """Gives the replies in order, the last one for ever; a callable is given the request's body and
    makes the reply.

    `calls` holds the parsed body of every request, `headers` its headers, `most_at_once` the peak
    of open requests; `called` is set with the first.
    """

    def __init__(self, *script: Reply | Callable[[dict[str, Any]], Reply]) -> None:
        self.calls: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.most_at_once = 0
        self.called = threading.Event()
        self._script = script
        self._open = 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    @property
    def url(self) -> str:
        """What `api_base` is set to."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def reply(self, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        """Record a request and give its reply, after its delay."""
        with self._lock:
            step = self._script[min(len(self.calls), len(self._script) - 1)]
            self.calls.append(body)
            self.headers.append(headers)
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
        self.called.set()
        try:
            reply = step(body) if callable(step) else step
            if reply.delay_s:
                self._stopped.wait(reply.delay_s)
            return reply
        finally:
            with self._lock:
                self._open -= 1


def _handler(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = server.reply({k.lower(): v for k, v in self.headers.items()}, body)
            self.close_connection = True
            if reply.status == 0:
                return
            payload = reply.body.encode()
            with contextlib.suppress(ConnectionError):  # a client that did not wait is gone
                self.send_response(reply.status)
                for name, value in {**reply.headers, "Content-Type": "application/json"}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server names it
            """Say nothing: a test's output is its own."""

    return Handler
