"""What attackers send, each for some seconds at most and to loopback only: see attack.py, which
starts this.

python bench/attacks.py NAME GRPC_PORT HTTP_PORT SECONDS
"""

import gzip
import http.client
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import grpc

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
MIB = 2**20
GRPC_MAX, HTTP_MAX = 32 * MIB, 20 * MIB
AT_ONCE = 2
JSON = {"Content-Type": "application/json"}
PROTOBUF = {"Content-Type": "application/x-protobuf"}

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, HEADERS, DATA, WINDOW_UPDATE, PING, END_HEADERS, ACK = 4, 1, 0, 8, 6, 4, 1
FRAME_BYTES, FIRST_WINDOW = 16_384, 65_535
ALL_STREAMS = 0


@dataclass(frozen=True)
class Target:
    """Where to send, and until when."""

    grpc_port: int
    http_port: int
    end_s: float

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end_s


def at_once(count: int, attack: Callable[[Target], None], target: Target) -> None:
    threads = [threading.Thread(target=attack, args=(target,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# What comes in part, or slowly


def half_a_message(target: Target) -> None:
    """One gRPC call whose message lacks its last byte."""
    connection = Http2(target.grpc_port)
    connection.send_all(b"\0" + struct.pack(">I", GRPC_MAX - 100) + bytes(GRPC_MAX - 101), target)
    wait(target)


def half_a_body(target: Target) -> None:
    connection = socket.create_connection(("127.0.0.1", target.http_port))
    with suppress(OSError):
        connection.sendall(head(HTTP_MAX) + bytes(HTTP_MAX - 1))
    wait(target)


def trickle(port: int, first: bytes, count: int, target: Target) -> None:
    """Many connections that each send a byte a second behind what is sent first."""
    connections = []
    for _ in range(count):
        with suppress(OSError):
            connection = socket.create_connection(("127.0.0.1", port), timeout=1)
            connection.sendall(first)
            connections.append(connection)
    while not target.is_over:
        for connection in connections:
            with suppress(OSError):
                connection.sendall(b"a")
        time.sleep(1)


def slow_bodies(count: int) -> Callable[[Target], None]:
    return lambda target: trickle(target.http_port, head(HTTP_MAX), count, target)


def slow_heads(target: Target) -> None:
    trickle(target.http_port, b"POST /v1/traces HTTP/1.1\r\nX-Slow: ", 1000, target)


def slow_grpc_heads(target: Target) -> None:
    block = frame(HEADERS, END_HEADERS, 1, bytes(1000))
    trickle(target.grpc_port, PREFACE + frame(SETTINGS, 0, ALL_STREAMS) + block[:9], 1000, target)


def head(size_bytes: int) -> bytes:
    fields = (
        f"Host: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: {size_bytes}\r\n\r\n"
    )
    return b"POST /v1/traces HTTP/1.1\r\n" + fields.encode()


class Http2:
    """As much of HTTP/2 as it takes to send part of a gRPC message, within the windows that the
    server grants.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=1)
        self._window = {ALL_STREAMS: FIRST_WINDOW, 1: FIRST_WINDOW}
        self._received = b""
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": EXPORT,
            ":authority": "x",
            "te": "trailers",
        }
        block = b"".join(
            map(
                literal, *zip(*(fields | {"content-type": "application/grpc"}).items(), strict=True)
            )
        )
        self._socket.sendall(
            PREFACE + frame(SETTINGS, 0, ALL_STREAMS) + frame(HEADERS, END_HEADERS, 1, block)
        )

    def send_all(self, message: bytes, target: Target) -> None:
        sent = 0
        with suppress(OSError):
            while sent < len(message) and not target.is_over:
                size = min(*self._window.values(), FRAME_BYTES, len(message) - sent)
                if size <= 0:
                    self._read()
                    continue
                self._socket.sendall(frame(DATA, 0, 1, message[sent : sent + size]))
                sent += size
                for stream in self._window:
                    self._window[stream] -= size

    def _read(self) -> None:
        with suppress(TimeoutError):
            self._received += self._socket.recv(65_536)
        while len(self._received) >= 9:
            size, kind, flags = (
                int.from_bytes(self._received[:3], "big"),
                self._received[3],
                self._received[4],
            )
            if len(self._received) < 9 + size:
                return
            stream = int.from_bytes(self._received[5:9], "big")
            payload, self._received = self._received[9 : 9 + size], self._received[9 + size :]
            if kind == WINDOW_UPDATE and stream in self._window:
                self._window[stream] += int.from_bytes(payload, "big")
            elif kind in (SETTINGS, PING) and not flags & ACK:
                self._socket.sendall(
                    frame(kind, ACK, ALL_STREAMS, payload if kind == PING else b"")
                )


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes([kind, flags])
        + struct.pack(">I", stream)
        + payload
    )


def literal(name: str, text: str) -> bytes:
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(text)]) + text.encode()


def wait(target: Target) -> None:
    time.sleep(max(0.0, target.end_s - time.monotonic()))


# What is whole, and costly


def over_grpc(body: bytes, compression: grpc.Compression | None = None) -> Callable[[Target], None]:
    def attack(target: Target) -> None:
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        export = grpc.insecure_channel(
            f"127.0.0.1:{target.grpc_port}", options=options
        ).unary_unary(EXPORT)
        while not target.is_over:
            with suppress(grpc.RpcError):
                export(body, timeout=120, compression=compression)

    return lambda target: at_once(AT_ONCE, attack, target)


def over_http(
    body: bytes, headers: dict[str, str], path: str = "/v1/traces"
) -> Callable[[Target], None]:
    def attack(target: Target) -> None:
        while not target.is_over:
            connection = http.client.HTTPConnection("127.0.0.1", target.http_port, timeout=120)
            with suppress(OSError, http.client.HTTPException):
                connection.request("POST", path, body, headers)
                connection.getresponse().read()
            connection.close()

    return lambda target: at_once(AT_ONCE, attack, target)


def within(field: int, content: bytes) -> bytes:
    """A message's field that contains `content`, in protobuf."""
    size, left = b"", len(content)
    while left >= 0x80:
        size, left = size + bytes([left & 0x7F | 0x80]), left >> 7
    return bytes([field << 3 | 2]) + size + bytes([left]) + content


def request(spans: bytes) -> bytes:
    return within(1, within(2, spans))


def spans(count: int) -> Iterator[bytes]:
    """Sound spans, each of a trace of its own."""
    for number in range(1, count + 1):
        yield within(
            2,
            within(1, number.to_bytes(16, "big"))
            + within(2, number.to_bytes(8, "big"))
            + within(5, b"a"),
        )


SOUND = within(1, b"t" * 16) + within(2, b"s" * 8)
ATTRIBUTE = within(9, within(1, b"k") + within(2, within(1, b"v")))
OBJECTS = b'{"resourceSpans": [' + b"{}," * (HTTP_MAX // 3 - 20) + b"{}]}"
JSON_ATTRIBUTE = b'{"key":"a","value":{"intValue":1}},'
SPAN_OF_OBJECTS = b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [%b]}]}]}]}'
ATTACKS: dict[str, Callable[[], Callable[[Target], None]]] = {
    "nothing": lambda: wait,
    "half messages": lambda: lambda target: at_once(40, half_a_message, target),
    "half bodies": lambda: lambda target: at_once(40, half_a_body, target),
    "260 slow bodies": lambda: slow_bodies(260),
    "1000 slow bodies": lambda: slow_bodies(1000),
    "1000 slow heads": lambda: slow_heads,
    "1000 gRPC heads": lambda: slow_grpc_heads,
    "refused spans": lambda: over_grpc(
        request(within(2, within(5, b"a name of a span without ids")) * 450_000)
    ),
    "empty messages": lambda: over_grpc(within(1, b"") * (GRPC_MAX // 2 - 100)),
    "empty logs": lambda: over_http(within(1, b"") * (HTTP_MAX // 2 - 100), PROTOBUF, "/v1/logs"),
    "attributes": lambda: over_grpc(request(within(2, SOUND + ATTRIBUTE * 600_000))),
    "200,000 traces": lambda: over_grpc(request(b"".join(spans(200_000)))),
    "not UTF-8": lambda: over_grpc(request(within(2, SOUND + within(5, b"\xff")) * 500_000)),
    "deep values": lambda: over_grpc(
        request(within(2, SOUND + within(9, within(2, deep(90)))) * 20_000)
    ),
    "JSON objects": lambda: over_http(OBJECTS, JSON),
    "JSON attributes": lambda: over_http(
        SPAN_OF_OBJECTS % (JSON_ATTRIBUTE * 300_000 + b"{}"), JSON
    ),
    "JSON with NaN": lambda: over_http(b'{"a": [' + b"{}," * 1_900_000 + b"NaN]}", JSON),
    "JSON, one key": lambda: over_http(b"{" + b'"a":1,' * 1_900_000 + b'"a":1}', JSON),
    "JSON lists": lambda: over_http(b"[" * HTTP_MAX, JSON),
    "gzip": lambda: over_http(
        gzip.compress(bytes(1000 * MIB), 1), PROTOBUF | {"Content-Encoding": "gzip"}
    ),
    "small gzip": lambda: over_http(
        gzip.compress(bytes(HTTP_MAX - 1)), PROTOBUF | {"Content-Encoding": "gzip"}
    ),
    "gRPC gzip": lambda: over_grpc(bytes(200 * MIB), grpc.Compression.Gzip),
    "sound batches": lambda: over_grpc(
        request(within(2, SOUND + within(9, within(2, within(1, b"v" * 1500)))) * 8192)
    ),
}
"""Each attack by its name; what it sends is made when it begins."""


def deep(levels: int) -> bytes:
    content = within(1, b"v")
    for _ in range(levels // 2):
        content = within(5, within(1, content))
    return content


if __name__ == "__main__":
    name, grpc_port, http_port, seconds = sys.argv[1:]
    run = ATTACKS[name]()
    run(Target(int(grpc_port), int(http_port), time.monotonic() + float(seconds)))
