"""A model server on loopback that answers from a script, in the APIs of OpenAI, Anthropic, Google
and Amazon.
"""

import json
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from protocols import anthropic, bedrock, gemini, openai_chat, openai_responses
from script import Answer, Script

MODELS = (
    "gpt-4o-mini",
    "gpt-4.1",
    "gpt-5",
    "claude-sonnet-4-5",
    "claude-haiku-4-5",
    "gemini-2.5-flash",
)

PROTOCOLS: tuple[tuple[str, ModuleType], ...] = (
    ("/chat/completions", openai_chat),
    ("/responses", openai_responses),
    ("/messages", anthropic),
    (":generateContent", gemini),
    (":streamGenerateContent", gemini),
    ("/converse", bedrock),
)

Rewrite = Callable[[Answer, dict[str, Any]], Answer]


def read_body(handler: BaseHTTPRequestHandler) -> bytes:
    """A request's body, whether its length is announced or it comes in chunks."""
    if "chunked" not in handler.headers.get("transfer-encoding", "").lower():
        return handler.rfile.read(int(handler.headers.get("content-length") or 0))
    body = b""
    while size := int(handler.rfile.readline().split(b";")[0].strip() or b"0", 16):
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body


class ModelServer:
    """Serves `script` until it is closed; what it was asked is appended to `journal`, for a look
    when a script stalls.

    `rewrite`, where a framework needs it, puts an answer into the form that its prompt asks for.
    """

    def __init__(self, script: Script, journal: Path, rewrite: Rewrite | None = None) -> None:
        class Handler(_Handler):
            pass

        Handler.script, Handler.journal, Handler.rewrite = (
            script,
            journal,
            staticmethod(rewrite) if rewrite else None,
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: ClassVar[Script]
    journal: ClassVar[Path]
    rewrite: ClassVar[Rewrite | None]
    _writing: ClassVar[threading.Lock] = threading.Lock()

    def log_message(self, *_arguments: object) -> None:
        """Print nothing: the journal has it."""

    def do_HEAD(self) -> None:
        self._send({})

    def do_GET(self) -> None:
        if "/models" not in self.path:
            self._send({"ok": True})
            return
        listed = [
            {"id": x, "object": "model", "type": "model", "display_name": x, "created": 0}
            for x in MODELS
        ]
        gemini_models = [{"name": f"models/{x}", "displayName": x} for x in MODELS]
        self._send({"object": "list", "data": listed, "models": gemini_models, "has_more": False})

    def do_POST(self) -> None:
        path = self.path.split("?")[0]
        try:
            body = json.loads(read_body(self) or b"{}")
        except ValueError:
            body = {}
        with self._writing, self.journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"path": self.path, "body": body}, ensure_ascii=False) + "\n")
        if path.endswith("/embeddings"):
            self._send(_embeddings(body))
        elif path.endswith(("/count_tokens", "/input_tokens", ":countTokens")):
            self._send({"input_tokens": 100, "totalTokens": 100, "object": "response.input_tokens"})
        else:
            self._answer(path, body)

    def _answer(self, path: str, body: dict[str, Any]) -> None:
        protocol = next((x for end, x in PROTOCOLS if path.endswith(end)), None)
        if protocol is None:
            self._send(
                {"error": {"message": f"no such route: {path}", "type": "invalid_request_error"}},
                404,
            )
            return
        answer = self.script.next(body, protocol.offered(body))
        if self.rewrite is not None:
            answer = self.rewrite(answer, body)
        if body.get("stream") or ":stream" in path:
            self._stream(protocol.events(answer, body))
        else:
            self._send(protocol.whole(answer, body))

    def _send(self, message: dict[str, Any], status: int = 200) -> None:
        content = json.dumps(message, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json; charset=utf-8")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _stream(self, events: Iterable[tuple[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("connection", "close")
        self.end_headers()
        for name, data in events:
            line = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            self.wfile.write(
                (f"event: {name}\n" if name else "").encode() + f"data: {line}\n\n".encode()
            )
            self.wfile.flush()
        self.close_connection = True


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    """Vectors of the letters in each text: near for texts that are alike."""
    given = body.get("input") or []
    texts = [given] if isinstance(given, str) else [str(x) for x in given]
    vectors = [[float(text.lower().count(chr(97 + i))) for i in range(26)] for text in texts]
    data = [{"object": "embedding", "index": i, "embedding": x} for i, x in enumerate(vectors)]
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return {"object": "list", "data": data, "model": body.get("model", ""), "usage": usage}
