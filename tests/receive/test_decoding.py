"""Requests that are costly to decode: what they cost is bounded, and others do not wait for
them.
"""

import asyncio
import threading

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from spanscore.errors import RetryableError
from spanscore.otlp import codec
from spanscore.receive import exports
from spanscore.receive.exports import Decoder

EMPTY_MESSAGES = {
    "resources": b"\x0a\x00" * 200_000,
    "JSON objects": b'{"resourceSpans": [' + b"{}," * 200_000 + b"{}]}",
    "JSON lists of another key": b'{"other": [' + b"[]," * 200_000 + b"[]]}",
    "nested JSON lists": b"[" * 200_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("body", EMPTY_MESSAGES.values(), ids=EMPTY_MESSAGES)
async def test_a_request_with_too_many_parts_is_not_decoded(body, monkeypatch):
    monkeypatch.setattr(exports, "decode", None)
    monkeypatch.setattr(exports, "decode_slowly", None)
    with pytest.raises(
        ValueError, match=r"more than 100,000 .* in one request \(receive.max_elements\)"
    ):
        await Decoder(100_000).decode("traces", body, as_json=body[:1] in b"{[")


@pytest.mark.slow
async def test_a_request_with_many_parts_is_decoded(traces):
    body = traces(*["x"] * 100_000).SerializeToString()
    decoded = await Decoder(200_000).decode("traces", body, as_json=False)
    assert len(decoded.request.resource_spans[0].scope_spans[0].spans) == 100_000


async def test_a_request_with_too_many_parts_is_put_aside(serve):
    async with serve() as up:
        headers = {"Content-Type": "application/json"}
        async with up.http.post("/v1/traces", data=b"[" * 3_000_000, headers=headers) as answer:
            assert answer.status == 200
    assert "send smaller batches" in up.intake.set_aside[0][2]


async def test_a_small_request_does_not_wait_for_a_large_one_to_be_decoded(
    serve, traces, monkeypatch
):
    begun, done, real = threading.Event(), threading.Event(), exports.decode_slowly

    def slow(signal, body, *, as_json):
        begun.set()
        done.wait(20)
        return real(signal, body, as_json=as_json)

    monkeypatch.setattr(exports, "decode_slowly", slow)
    large = codec.encode(traces(*["x"] * 10_000))
    async with serve() as up:
        headers = {"Content-Type": "application/json"}
        sending = asyncio.ensure_future(up.http.post("/v1/traces", data=large, headers=headers))
        await asyncio.to_thread(begun.wait, 20)
        await TraceServiceStub(up.channel).Export(traces("small"))
        assert len(up.intake.accepted) == 1
        done.set()
        assert (await sending).status == 200


async def test_what_has_to_wait_behind_too_many_must_come_back(monkeypatch):
    done = threading.Event()
    monkeypatch.setattr(exports, "decode_slowly", lambda *_, **__: done.wait(20))
    monkeypatch.setattr(exports, "_LANES", ((None, 1),))
    decoder, body = Decoder(10**6), b'{"a": [' + b"1," * 10_000 + b"1]}"
    first = asyncio.ensure_future(decoder.decode("traces", body, as_json=True))
    await asyncio.sleep(0)
    with pytest.raises(RetryableError, match="wait to be decoded"):
        await decoder.decode("traces", body, as_json=True)
    done.set()
    await first
