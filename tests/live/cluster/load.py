"""Sessions of made-up agents as OTLP, and senders that keep what is not acknowledged."""

import hashlib
import json
import queue
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

EPOCH_NS = time.time_ns()
"""When this run was begun: spans have times from then on."""
_MS = 10**6
_CITIES = ("Lima", "Oslo", "Pune", "Rome", "Quito", "Tunis")
_TURNS = (3, 6)
_GAP_S, _LONG_GAP_S = (0.3, 3.0), (4.0, 6.0)
_LONG = 0.15
"""The share of turns before which a session is quiet for about as long as it is waited for."""
_BEGUN = 0.7
"""The share of the time within which sessions begin."""
_PARTED = 0.3
"""The share of turns whose last spans follow in a request of their own."""
_PARTED_BY_S = (0.1, 0.8)
_BATCH = 50
_TIMEOUT_S = 5.0
_RETRY_S = (0.2, 1.0)
_AT_ONCE = 2
_PASSING = {
    "ABORTED",
    "CANCELLED",
    "DATA_LOSS",
    "DEADLINE_EXCEEDED",
    "OUT_OF_RANGE",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
}
"""The codes after which a collector sends again; after others it drops the data."""


@dataclass
class Turn:
    """One trace, and its state while it is sent; `at_s` is from the beginning of the load."""

    session_id: str
    trace_id: str
    question: str
    answer: str
    at_s: float
    parts: int = 1
    acknowledged: int = 0
    refused: list[str] = field(default_factory=list)

    def answered(self, code: str | None) -> None:
        """A request was acknowledged, or with a code refused for good."""
        if code is None:
            self.acknowledged += 1
        else:
            self.refused.append(code)


@dataclass(frozen=True)
class Message:
    """A request of one turn, as it is sent `at_s`."""

    at_s: float
    turn: Turn
    body: bytes


def planned(seed: int, sessions: int, over_s: float) -> tuple[list[Turn], list[Message]]:
    """All turns of a load, and their requests by time; most sessions end within `over_s`."""
    chance = random.Random(seed)
    turns, messages = [], []
    for number in range(sessions):
        at_s = chance.uniform(0, over_s * _BEGUN)
        for place in range(chance.randint(*_TURNS)):
            turn = _turn(chance, f"chat-{seed}-{number}", place, at_s)
            turns.append(turn)
            messages += _messages(chance, turn)
            at_s += chance.uniform(*(_LONG_GAP_S if chance.random() < _LONG else _GAP_S))
    return turns, sorted(messages, key=lambda x: x.at_s)


def _turn(chance: random.Random, session_id: str, place: int, at_s: float) -> Turn:
    city, trace_id = chance.choice(_CITIES), chance.randbytes(16).hex()
    question = f"Question {place}: how warm is {city} for {trace_id[:6]}?"
    answer = f"{city} is sunny at {chance.randint(10, 35)} degrees today, says {trace_id[-6:]}."
    return Turn(session_id, trace_id, question, answer, at_s)


def _messages(chance: random.Random, turn: Turn) -> list[Message]:
    whole = _request(turn)
    if chance.random() >= _PARTED:
        return [Message(turn.at_s, turn, whole.SerializeToString())]
    turn.parts = 2
    late = ExportTraceServiceRequest()
    late.CopyFrom(whole)
    spans, rest = (x.resource_spans[0].scope_spans[0].spans for x in (whole, late))
    half = chance.randint(1, len(spans) - 1)  # a root ends last
    del spans[half:]
    del rest[:half]
    after_s = turn.at_s + chance.uniform(*_PARTED_BY_S)
    return [
        Message(turn.at_s, turn, whole.SerializeToString()),
        Message(after_s, turn, late.SerializeToString()),
    ]


def _request(turn: Turn) -> ExportTraceServiceRequest:
    """The turn's spans in the order in which they end; their times are set by `stamped`."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.append(_attribute("service.name", "weather"))
    scoped = group.scope_spans.add()
    scoped.scope.name = "opentelemetry.util.genai"
    user, answer = _message("user", turn.question), _message("assistant", turn.answer)
    call_id = f"call_{turn.trace_id[:12]}"
    call = {"type": "tool_call", "id": call_id, "name": "get_weather", "arguments": {"at": "noon"}}
    result = {"type": "tool_call_response", "id": call_id, "response": "sunny"}
    asks, told = {"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [result]}
    model = {"gen_ai.request.model": "gpt-4o-mini", "gen_ai.provider.name": "openai"}
    steps = (
        ("chat gpt-4o-mini", 1, model | _spoken([user], asks)),
        (
            "execute_tool get_weather",
            2,
            {
                "gen_ai.tool.name": "get_weather",
                "gen_ai.tool.call.id": call_id,
                "gen_ai.tool.call.arguments": json.dumps(call["arguments"]),
                "gen_ai.tool.call.result": "sunny",
            },
        ),
        ("chat gpt-4o-mini", 3, model | _spoken([user, asks, told], answer)),
        ("invoke_agent weather", 0, {"gen_ai.agent.name": "weather"} | _spoken([user], answer)),
    )
    for name, number, attributes in steps:
        span = scoped.spans.add(trace_id=bytes.fromhex(turn.trace_id), name=name)
        span.span_id = _span_id(turn, number)
        if number:
            span.parent_span_id = _span_id(turn, 0)
        attributes |= {
            "gen_ai.operation.name": name.split()[0],
            "gen_ai.conversation.id": turn.session_id,
        }
        span.attributes.extend(_attribute(*x) for x in attributes.items())
        span.start_time_unix_nano = EPOCH_NS + round(turn.at_s * 1e9) + number * 20 * _MS
        span.end_time_unix_nano = span.start_time_unix_nano + (20 if number else 80) * _MS
    return request


def _span_id(turn: Turn, number: int) -> bytes:
    return hashlib.sha256(f"{turn.trace_id}/{number}".encode()).digest()[:8]


def _message(role: str, text: str) -> dict:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _spoken(given: list, gave: dict) -> dict[str, str]:
    return {
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([gave]),
    }


def _attribute(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def owner(trace_id: str, replicas: int) -> int:
    """The replica that gets a trace, whether or not it is there, as a collector's static list."""
    return int(hashlib.sha256(trace_id.encode()).hexdigest()[:8], 16) % replicas


class Sender:
    """One endpoint's queue in a load-balancing collector: it keeps what is not acknowledged."""

    def __init__(self, port: int) -> None:
        self.counts: Counter[str] = Counter()
        """Requests `acknowledged`, or `refused` for good, and tries that failed by their code."""
        self._port = port
        self._queue: queue.Queue[Message | None] = queue.Queue()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(_AT_ONCE)]
        for thread in self._threads:
            thread.start()

    def put(self, message: Message) -> None:
        """Have a request sent."""
        self._queue.put(message)

    def finish(self) -> None:
        """Wait until all are sent; none may be put afterwards."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    @property
    def waiting(self) -> int:
        """Requests that nobody has begun to send."""
        return self._queue.qsize()

    def _run(self) -> None:
        options = [("grpc.max_reconnect_backoff_ms", 1000), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{self._port}", options=options) as channel:
            export = channel.unary_unary(
                "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
            )
            while (message := self._queue.get()) is not None:
                self._send(export, self._batch(message))

    def _batch(self, first: Message) -> list[Message]:
        """`first` and what waits behind it, as a collector sends after an outage."""
        batch = [first]
        while len(batch) < _BATCH:
            try:
                message = self._queue.get_nowait()
            except queue.Empty:
                break
            if message is None:
                self._queue.put(None)
                break
            batch.append(message)
        return batch

    def _send(self, export, batch: list[Message]) -> None:
        body = b"".join(x.body for x in batch)  # messages of protobuf that follow one another merge
        while (code := _code_of(export, body)) in _PASSING:
            self.counts[code] += 1
            time.sleep(random.uniform(*_RETRY_S))
        self.counts["acknowledged" if code is None else "refused"] += len(batch)
        for message in batch:
            message.turn.answered(code)


def _code_of(export, body: bytes) -> str | None:
    """The code of the error with which a request ended; None where it was acknowledged."""
    try:
        export(body, timeout=_TIMEOUT_S)
    except grpc.RpcError as error:
        return error.code().name
    return None


class Balancer:
    """Sends each trace to its replica."""

    def __init__(self, ports: list[int]) -> None:
        self.senders = [Sender(port) for port in ports]

    def send(self, message: Message) -> None:
        """Have a request sent to the replica of its trace."""
        self.senders[owner(message.turn.trace_id, len(self.senders))].put(message)

    def finish(self) -> None:
        """Wait until all are sent."""
        for sender in self.senders:
            sender.finish()

    def counts(self) -> Counter[str]:
        """The counts of all senders."""
        return sum((x.counts for x in self.senders), Counter())


class Either:
    """Sends half of the traces one way, half the other."""

    def __init__(self, *ways) -> None:
        self._ways = ways

    def send(self, message: Message) -> None:
        """Have a request sent the way of its trace."""
        self._ways[message.turn.trace_id < "8"].send(message)

    def finish(self) -> None:
        """Wait until all are sent."""
        for way in self._ways:
            way.finish()

    def counts(self) -> Counter[str]:
        """The counts of both ways."""
        return sum((x.counts() for x in self._ways), Counter())


def replay(messages: list[Message], target, stopped: threading.Event, *, paced: bool = True):
    """Send all at their times; without `paced` at once. Ends early once `stopped` is set."""
    begun = time.monotonic()
    for message in messages:
        wait_s = begun + message.at_s - time.monotonic() if paced else 0
        if stopped.wait(max(wait_s, 0)):
            return
        target.send(message)
    target.finish()
