"""A scripted model behind OpenAI's API, so that the examples run without a key.

    python model_server.py -- python agent.py  # run a program against it, or with a key OpenAI
    python model_server.py --port 8900         # serve until Ctrl-C
    with model_server.serving(): ...           # from Python: a server of this process

It speaks chat completions and responses, whole and streamed, and needs nothing but Python. What it
says is in `SCRIPT`: the next reply follows from the user's last question and from what the tools
have returned since.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
Call = tuple[str, Json]


@dataclass(frozen=True)
class Turn:
    """What the model knows when it replies: the user's last question, the results since, the names
    of the tools.
    """

    question: str
    results: Sequence[str]
    tools: Sequence[str]

    def number(self, default: str) -> str:
        """The first number in the question, such as 77 or SO-4821."""
        found = re.search(r"[A-Z]+-?\d+|\d+", self.question)
        return found[0] if found else default

    def found(self, pattern: str, default: str) -> str:
        """The newest text in a tool's result that `pattern` finds."""
        matches = (re.search(pattern, result) for result in reversed(self.results))
        return next((match[0] for match in matches if match), default)


@dataclass(frozen=True)
class Reply:
    """A text, calls of tools, or both."""

    text: str = ""
    calls: Sequence[Call] = ()


Step = Callable[[Turn], Reply]


def _amount(turn: Turn) -> float:
    return float(turn.found(r"\d+\.\d\d?", "59.90"))


def _flight(turn: Turn) -> str:
    return turn.found(r"\b[A-Z]{2} ?\d{2,4}\b", "LH 454")


def _destination(turn: Turn) -> str:
    found = re.search(r"\bto ([A-Z]\w+)", turn.question)
    return found[1] if found else "Berlin"


SCRIPT: Mapping[str, Sequence[Step]] = {
    r"money back|refund": (
        lambda turn: Reply(
            "Plan:\n1. Find the order.\n2. Refund it.",
            [("find_order", {"order_id": turn.number("4821")})],
        ),
        lambda turn: Reply(
            calls=[("refund", {"order_id": turn.number("4821"), "amount_usd": _amount(turn)})]
        ),
        lambda turn: Reply(
            f"I have refunded {_amount(turn):.2f} USD for order {turn.number('4821')}; it takes"
            " five days."
        ),
    ),
    r"where is|has my order": (
        lambda turn: Reply(calls=[("find_order", {"order_id": turn.number("4821")})]),
        lambda turn: Reply(f"I looked up your order {turn.number('4821')}: {turn.results[-1]}"),
    ),
    r"flight|fly": (
        lambda turn: Reply(
            "Plan:\n1. Search flights.\n2. Book the first.",
            [("search_flights", {"destination": _destination(turn)})],
        ),
        lambda turn: Reply(calls=[("book", {"flight": _flight(turn)})]),
        lambda turn: Reply(f"You are booked on {_flight(turn)} to {_destination(turn)}."),
    ),
}
"""Replies in their order, by a pattern of the user's question; a tool's result leads from one to
the next.
"""


def reply_to(turn: Turn) -> Reply:
    """The next reply: a tool that is not on offer is not called."""
    steps = next(
        (
            steps
            for asked, steps in SCRIPT.items()
            if re.search(asked, turn.question, re.IGNORECASE)
        ),
        (),
    )
    if not steps:
        return Reply("I can find orders, refund them, and book flights. What shall I do?")
    reply = steps[min(len(turn.results), len(steps) - 1)](turn)
    missing = [name for name, _ in reply.calls if name not in turn.tools]
    return Reply(f"I have no tool named {missing[0]}.") if missing else reply


def _text(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    return "\n".join(
        part if isinstance(part, str) else str(part.get("text", "")) for part in parts if part
    )


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool.get("name") or tool.get("function", {}).get("name", ""))


def turn_of(body: Mapping[str, Any]) -> Turn:
    """The turn that a request of either API asks about."""
    given = body.get("messages") or body.get("input") or []
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    question, results = "", []
    for item in items:
        if item.get("role") == "user":
            question, results = _text(item.get("content")), []
        elif item.get("role") == "tool" or item.get("type") == "function_call_output":
            results.append(_text(item.get("output", item.get("content"))))
    return Turn(question, results, [_name(tool) for tool in body.get("tools") or ()])


@dataclass
class _Ids:
    """Ids that no two replies of a server share."""

    used: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def new(self, prefix: str) -> str:
        with self.lock:
            self.used += 1
            return f"{prefix}_{self.used:08d}"


_IDS = _Ids()
_CREATED = 1_700_000_000


def _tokens(body: Mapping[str, Any], reply: Reply) -> tuple[int, int]:
    return max(1, len(json.dumps(body)) // 4), max(
        1, (len(reply.text) + len(json.dumps(reply.calls))) // 4
    )


def completion(body: Mapping[str, Any], reply: Reply) -> Json:
    """`reply` as a chat completion."""
    tokens_in, tokens_out = _tokens(body, reply)
    message: Json = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": _IDS.new("call"),
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for name, given in reply.calls
        ]
    return {
        "id": _IDS.new("chatcmpl"),
        "object": "chat.completion",
        "created": _CREATED,
        "model": body.get("model", "scripted"),
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": "tool_calls" if reply.calls else "stop",
            }
        ],
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        },
    }


def chunks(whole: Json) -> Iterator[Json]:
    """A chat completion in the parts in which it is streamed."""
    head = {
        **{key: whole[key] for key in ("id", "created", "model")},
        "object": "chat.completion.chunk",
    }
    (choice,) = whole["choices"]
    delta = {key: value for key, value in choice["message"].items() if value is not None}
    delta["tool_calls"] = [
        {"index": i, **call} for i, call in enumerate(delta.get("tool_calls", ()))
    ]
    yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield {**head, "choices": [], "usage": whole["usage"]}


def response(body: Mapping[str, Any], reply: Reply) -> Json:
    """`reply` as an answer of the responses API."""
    tokens_in, tokens_out = _tokens(body, reply)
    output: list[Json] = []
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}]
        message = {
            "type": "message",
            "id": _IDS.new("msg"),
            "role": "assistant",
            "status": "completed",
        }
        output.append({**message, "content": content})
    for name, given in reply.calls:
        ids = {"id": _IDS.new("fc"), "call_id": _IDS.new("call"), "status": "completed"}
        output.append(
            {"type": "function_call", "name": name, "arguments": json.dumps(given), **ids}
        )
    return {
        "id": _IDS.new("resp"),
        "object": "response",
        "created_at": _CREATED,
        "model": body.get("model", "scripted"),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "temperature": 1.0,
        "top_p": 1.0,
        "output": output,
        "usage": {
            "input_tokens": tokens_in,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens_in + tokens_out,
        },
    }


def events(whole: Json) -> Iterator[Json]:
    """An answer of the responses API in the events in which it is streamed."""
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            (part,) = item["content"]
            yield {
                "type": "response.output_item.added",
                "output_index": index,
                "item": {**item, "content": []},
            }
            yield {
                "type": "response.content_part.added",
                **at,
                "content_index": 0,
                "part": {**part, "text": ""},
            }
            yield {
                "type": "response.output_text.delta",
                **at,
                "content_index": 0,
                "delta": part["text"],
            }
            yield {
                "type": "response.output_text.done",
                **at,
                "content_index": 0,
                "text": part["text"],
            }
            yield {"type": "response.content_part.done", **at, "content_index": 0, "part": part}
        else:
            yield {
                "type": "response.output_item.added",
                "output_index": index,
                "item": {**item, "arguments": ""},
            }
            yield {
                "type": "response.function_call_arguments.delta",
                **at,
                "delta": item["arguments"],
            }
            yield {
                "type": "response.function_call_arguments.done",
                **at,
                "arguments": item["arguments"],
            }
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing: the program's own output is what matters."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        reply = reply_to(turn_of(body))
        if self.path.endswith("/chat/completions"):
            whole, parts = completion(body, reply), chunks
        elif self.path.endswith("/responses"):
            whole, parts = response(body, reply), events
        else:
            self._send(
                404,
                "application/json",
                json.dumps({"error": {"message": f"no such path: {self.path}"}}),
            )
            return
        if body.get("stream"):
            self._send(200, "text/event-stream", "".join(_lines(parts(whole))))
        else:
            self._send(200, "application/json", json.dumps(whole))

    def _send(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _lines(parts: Iterator[Json]) -> Iterator[str]:
    for number, part in enumerate(parts):
        named = {**part, "sequence_number": number} if "type" in part else part
        yield (
            f"event: {part['type']}\n" if "type" in part else ""
        ) + f"data: {json.dumps(named)}\n\n"
    yield "data: [DONE]\n\n"


@contextlib.contextmanager
def serving(port: int = 0, *, even_with_key: bool = False) -> Iterator[str]:
    """Serve while inside, with OPENAI_BASE_URL and OPENAI_API_KEY set; gives the base URL.

    Where OPENAI_API_KEY is set, nothing is served and the environment stays as it is, but for
    `even_with_key`.
    """
    if os.environ.get("OPENAI_API_KEY") and not even_with_key:
        yield os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
        return
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    before = {name: os.environ.get(name) for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY")}
    os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "scripted"}
    try:
        yield url
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        server.shutdown()
        server.server_close()


def main() -> int:
    """Run the program that is given against the scripted model, or serve until Ctrl-C.

    Returns the exit code.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--port", type=int, default=0, help="the port on loopback; by default a free one"
    )
    parser.add_argument(
        "program", nargs="*", metavar="PROGRAM", help="what to run against it; after --"
    )
    args = parser.parse_args()
    with (
        serving(args.port, even_with_key=not args.program) as url,
        contextlib.suppress(KeyboardInterrupt),
    ):
        if args.program:
            return subprocess.run(args.program, check=False).returncode
        print(f"a scripted model answers at {url}, until Ctrl-C", flush=True)
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
