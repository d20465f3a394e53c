"""Requests that do not arrive whole cost their senders only, over both protocols."""

import asyncio
import struct
from contextlib import asynccontextmanager

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from spanscore.receive import grpc_server
from spanscore.telemetry import declared

PROTOBUF = {"Content-Type": "application/x-protobuf"}
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, HEADERS, DATA, END_HEADERS = 4, 1, 0, 4


def frame(kind, flags, stream, payload=b""):
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes([kind, flags])
        + struct.pack(">I", stream)
        + payload
    )


def header(name, text):
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(text)]) + text.encode()


def begun_call(size_bytes, sent_bytes):
    """The frames of a gRPC call whose message of `size_bytes` has come in part."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": EXPORT,
        ":authority": "x",
        "te": "trailers",
    }
    block = b"".join(header(*x) for x in (fields | {"content-type": "application/grpc"}).items())
    message = b"\0" + struct.pack(">I", size_bytes) + bytes(sent_bytes)
    return (
        PREFACE
        + frame(SETTINGS, 0, 0)
        + frame(HEADERS, END_HEADERS, 1, block)
        + frame(DATA, 0, 1, message)
    )


def begun_post(size_bytes, sent_bytes):
    """The head of an HTTP request whose body of `size_bytes` has come in part."""
    head = (
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type:"
        f" application/x-protobuf\r\nContent-Length: {size_bytes}"
    )
    return head.encode() + b"\r\n\r\n" + bytes(sent_bytes)


@asynccontextmanager
async def half_sent(port, content, count):
    """So many connections, each with the same begun request."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        for _, writer in opened:
            writer.write(content)
            await writer.drain()
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


def arriving(up):
    return gauge(up, declared.RECEIVER_ARRIVING)


def bytes_in_flight(up):
    return gauge(up, declared.RECEIVER_BYTES_IN_FLIGHT)


def gauge(up, metric):
    return next(x.values[()] for x in up.meter.collect() if x.metric is metric)


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 # the server has no event for what its gauges show
            await asyncio.sleep(0.001)


async def test_bodies_that_do_not_arrive_take_no_place_of_those_that_do(serve, traces):
    async with serve() as up, half_sent(up.server.http_port, begun_post(1000, 10), 300):
        await until(lambda: arriving(up) == 300)
        async with up.http.post(
            "/v1/traces", data=traces().SerializeToString(), headers=PROTOBUF
        ) as answer:
            assert answer.status == 200


@pytest.mark.slow
async def test_messages_that_do_not_arrive_take_no_place_of_those_that_do(serve, traces):
    async with (
        serve(grpc={"max_recv_msg_size_mib": 1}, max_bytes_in_flight="1GiB") as up,
        half_sent(up.server.grpc_port, begun_call(1000, 10), 300),
    ):
        await until(lambda: arriving(up) == 300)
        await TraceServiceStub(up.channel).Export(traces())
    assert len(up.intake.accepted) == 1


async def test_slow_messages_get_no_more_room_than_there_is(serve, monkeypatch):
    monkeypatch.setattr(grpc_server, "_QUICK_S", 0.001)
    async with (
        serve(grpc={"max_recv_msg_size_mib": 32}, max_bytes_in_flight="64MiB") as up,
        half_sent(up.server.grpc_port, begun_call(32 * 2**20 - 100, 100), 5),
    ):
        await until(lambda: up.meter.totals().get("receiver_refused_requests") == 3)
        assert (arriving(up), bytes_in_flight(up)) == (2, 64 * 2**20)


async def test_half_sent_bodies_give_way_to_a_small_one(serve, traces):
    largest = 20 * 2**20
    async with (
        serve(
            max_bytes_in_flight="1MiB",
            http={"max_request_body_size": largest},
            grpc={"max_recv_msg_size_mib": 1},
        ) as up,
        half_sent(up.server.http_port, begun_post(largest, largest - 1), 2),
    ):
        await until(lambda: bytes_in_flight(up) == 2 * (largest - 1))
        async with up.http.post(
            "/v1/traces", data=traces("x" * 100).SerializeToString(), headers=PROTOBUF
        ) as answer:
            assert answer.status == 200
        assert up.meter.totals()["receiver_refused_requests"] == 1


async def test_a_sender_whose_body_gives_way_is_told_to_send_again(serve, traces):
    largest = 2**20
    async with (
        serve(
            max_bytes_in_flight="1MiB",
            http={"max_request_body_size": largest},
            grpc={"max_recv_msg_size_mib": 1},
        ) as up,
        half_sent(up.server.http_port, begun_post(largest, largest - 1), 2) as opened,
    ):
        await until(lambda: bytes_in_flight(up) == 2 * (largest - 1))
        async with up.http.post(
            "/v1/traces", data=traces("x" * 100).SerializeToString(), headers=PROTOBUF
        ):
            pass
        readers = [asyncio.ensure_future(reader.readuntil(b"\r\n\r\n")) for reader, _ in opened]
        done, _ = await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
        head = done.pop().result()
    assert (head.startswith(b"HTTP/1.1 503"), b"Retry-After: 1" in head) == (True, True)


async def test_a_message_that_does_not_arrive_in_time_is_unavailable_with_the_time_to_wait(
    serve, traces
):
    async def never_ending():
        await up.intake.entered.wait()
        yield b""

    async with serve(grpc={"read_timeout": "10ms"}) as up:
        call = up.channel.stream_unary(EXPORT)(never_ending())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
    (details,) = [
        x for key, x in caught.value.trailing_metadata() if key == "grpc-status-details-bin"
    ]
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert Status.FromString(details).details[0].Is(RetryInfo.DESCRIPTOR)


async def test_what_is_turned_away_is_logged_once_and_not_each_time(serve, caplog):
    async with (
        serve(http={"read_timeout": "10ms"}) as up,
        half_sent(up.server.http_port, begun_post(1000, 10), 5),
    ):
        await until(lambda: up.meter.totals().get("receiver_refused_requests") == 5)
    assert caplog.text.count("turned away to keep memory and time bounded (http slow: 1)") == 1
