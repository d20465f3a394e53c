"""How much of a provider's rate limit a judge makes use of, and how many questions it loses,
through litellm's client.

A server on loopback takes ten calls a second, by a bucket or by a window of a second, with what
providers say of it or without; the judge has its default configuration and all questions at once.
"""

import argparse
import asyncio
import json
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic import BaseModel

from spanscore.errors import JudgeError
from spanscore.judge import Prompt, open_judge
from spanscore.judge.config import Config
from spanscore.judge.port import Judge

Headers = dict[str, str]


class Verdict(BaseModel):
    """What is asked for."""

    score: float


@dataclass
class Bucket:
    """`capacity` calls at once, refilled by `rate` a second."""

    rate: float
    capacity: float
    level: float = 0.0
    then_s: float = 0.0

    def take(self, now_s: float) -> float:
        """0.0 where the call is taken, else the seconds until one is."""
        passed_s = now_s - self.then_s if self.then_s else math.inf
        self.level, self.then_s = min(self.capacity, self.level + passed_s * self.rate), now_s
        if self.level < 1:
            return (1 - self.level) / self.rate
        self.level -= 1
        return 0.0


@dataclass
class Window:
    """`rate` calls in each second of the clock."""

    rate: float
    number: int = -1
    used: int = 0

    def take(self, now_s: float) -> float:
        """As `Bucket.take`."""
        if int(now_s) != self.number:
            self.number, self.used = int(now_s), 0
        if self.used >= self.rate:
            return self.number + 1 - now_s
        self.used += 1
        return 0.0


@dataclass
class Provider:
    """A chat server with a limit; `done_s` has the time of each answer."""

    limit: Bucket | Window
    latency_s: float
    hint: Callable[[float], Headers]
    states: bool = False
    refused: int = 0
    done_s: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> tuple[float, Headers]:
        """The seconds until a call is taken, 0.0 where it is, and the headers of the answer."""
        with self.lock:
            after_s = self.limit.take(time.monotonic())
            self.refused += after_s > 0
            headers = self.hint(after_s) if after_s else {}
            if self.states and isinstance(self.limit, Bucket):
                used = self.limit.capacity - self.limit.level
                headers |= {
                    "x-ratelimit-limit-requests": f"{self.limit.capacity:.0f}",
                    "x-ratelimit-remaining-requests": f"{int(self.limit.level)}",
                    "x-ratelimit-reset-requests": f"{used / self.limit.rate * 1e3:.0f}ms",
                }
            return after_s, headers


class Server(ThreadingHTTPServer):
    """Takes all connections that come at once."""

    request_queue_size = 256
    daemon_threads = True


def handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    message = {"role": "assistant", "content": json.dumps({"score": 0.5})}
    answer: dict[str, Any] = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "limited",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            after_s, headers = provider.take()
            if after_s:
                self._reply(429, {"error": {"message": "slow down", "type": "rate_limit"}}, headers)
                return
            time.sleep(provider.latency_s)
            with provider.lock:
                provider.done_s.append(time.monotonic())
            self._reply(200, answer, headers)

        def _reply(self, status: int, body: dict[str, Any], headers: Headers) -> None:
            payload = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Type": "application/json"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server names it
            """Say nothing."""

    return Handler


async def lost(judge: Judge, count: int) -> int:
    """How many of so many questions, all asked at once, get no answer."""
    questions = [
        Prompt("You judge.", "the record", f"question {number}") for number in range(count)
    ]
    outcomes = await asyncio.gather(
        *(judge.ask(x, Verdict) for x in questions), return_exceptions=True
    )
    return sum(isinstance(x, JudgeError) for x in outcomes)


def measure(name: str, provider: Provider, count: int) -> None:
    with Server(("127.0.0.1", 0), handler(provider)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}/v1"
        judge = open_judge(
            Config.model_validate({"model": "openai/limited", "api_base": base, "api_key": "none"})
        )
        if judge is None:
            raise SystemExit("no judge")
        asyncio.run(lost(judge, 1))  # litellm takes seconds to import
        started_s = time.monotonic()
        provider.done_s.clear()
        gone = asyncio.run(lost(judge, count))
        server.shutdown()
    rate, done = provider.limit.rate, provider.done_s
    warm = done[len(done) // 5 :]
    overall = len(done) / (done[-1] - started_s) / rate
    steady = (len(warm) - 1) / (warm[-1] - warm[0]) / rate
    print(f"| {name} | {overall:.2f} | {steady:.2f} | {provider.refused} | {gone} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=560)
    parser.add_argument("--rate", type=float, default=10)
    parser.add_argument("--latency", type=float, default=0.5, help="seconds that an answer takes")
    args = parser.parse_args()
    hints: dict[str, Callable[[float], Headers]] = {
        "`retry-after-ms`": lambda after_s: {"retry-after-ms": f"{after_s * 1e3:.0f}"},
        "`retry-after: 1`": lambda after_s: {"retry-after": f"{math.ceil(after_s)}"},
        "nothing": lambda _: {},
    }
    print(
        "| limit, and what a refusal states | whole run | once warm | refused | lost"
        " |\n|---|---|---|---|---|"
    )
    for hint, headers in hints.items():
        bucket = Bucket(args.rate, args.rate)
        measure(f"bucket, {hint}", Provider(bucket, args.latency, headers), args.questions)
        measure(
            f"window of a second, {hint}",
            Provider(Window(args.rate), args.latency, headers),
            args.questions,
        )
    stated = Provider(
        Bucket(args.rate, args.rate), args.latency, hints["`retry-after-ms`"], states=True
    )
    measure("bucket, stated in all headers", stated, args.questions)


if __name__ == "__main__":
    main()
