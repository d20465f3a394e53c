"""OTLP over HTTP: encodings, limits and answers."""

import asyncio
import gzip
import json as stdlib_json
import zlib

import cramjam
import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from spanscore.errors import PermanentError, RetryableError
from spanscore.otlp import codec

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
GZIP = {"Content-Encoding": "gzip"}


async def post(up, body, headers=PROTOBUF, path="/v1/traces"):
    """Status, headers and body of the answer."""
    async with up.http.post(path, data=body, headers=headers) as answer:
        return answer.status, answer.headers, await answer.read()


async def test_protobuf_is_handed_over_as_it_came(serve, traces):
    # a field that this version does not know
    body = traces("a").SerializeToString() + b"\xfa\x07\x01x"
    async with serve() as up:
        await post(up, body)
    assert [(signal, kept) for signal, kept, _ in up.intake.accepted] == [("traces", body)]


async def test_protobuf_is_answered_in_protobuf(serve, traces):
    async with serve() as up:
        status, headers, body = await post(up, traces("good", "bad").SerializeToString())
    assert (status, headers["Content-Type"]) == (200, "application/x-protobuf")
    assert ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans == 1


async def test_json_is_handed_over_as_protobuf(serve, traces):
    async with serve() as up:
        await post(up, codec.encode(traces("a")), JSON)
    assert up.intake.accepted == [("traces", traces("a").SerializeToString(), traces("a"))]


async def test_large_json_is_handed_over_too(serve, traces):
    request = traces(*["x" * 1000] * 1000)
    async with serve() as up:
        await post(up, codec.encode(request), JSON)
    assert up.intake.accepted[0][2] == request


async def test_json_is_answered_in_json(serve, traces):
    async with serve() as up:
        status, headers, body = await post(up, codec.encode(traces("good", "bad")), JSON)
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    assert stdlib_json.loads(body)["partialSuccess"]["rejectedSpans"] == "1"


async def test_sound_json_is_answered_with_an_empty_object(serve, traces):
    async with serve() as up:
        assert (await post(up, codec.encode(traces()), JSON))[2] == b"{}"


async def test_a_json_span_whose_id_is_no_hex_is_refused_alone(serve, traces):
    shown = codec.to_object(traces("good", "broken"))
    shown["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["traceId"] = "no hex"
    async with serve() as up:
        _, _, body = await post(up, stdlib_json.dumps(shown), JSON)
    assert (
        "'broken' (it has no trace id)" in stdlib_json.loads(body)["partialSuccess"]["errorMessage"]
    )
    assert up.intake.accepted[0][2] == traces("good")


async def test_json_text_that_is_not_utf_8_is_replaced_and_the_sender_told(serve, traces):
    async with serve() as up:
        _, _, body = await post(
            up, codec.encode(traces("cut here")).encode().replace(b"cut here", b"cut her\xc3"), JSON
        )
    assert up.intake.accepted[0][2] == traces("cut her\ufffd")
    assert "mended with U+FFFD: 1" in stdlib_json.loads(body)["partialSuccess"]["errorMessage"]


@pytest.mark.parametrize("signal", ["logs", "metrics"])
async def test_the_other_signals_have_paths_of_their_own(serve, signal):
    async with serve() as up:
        assert (await post(up, b"", path=f"/v1/{signal}"))[0] == 200
    assert [x[0] for x in up.intake.accepted] == [signal]


async def test_a_content_type_may_have_parameters(serve, traces):
    async with serve() as up:
        headers = {"Content-Type": "application/json; charset=utf-8"}
        assert (await post(up, codec.encode(traces()), headers))[0] == 200


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("zlib", zlib.compress),
        ("ZSTD", cramjam.zstd.compress),
    ],
)
async def test_compressed_bodies_are_taken(serve, traces, encoding, compress):
    body = traces("a").SerializeToString()
    async with serve() as up:
        await post(up, bytes(compress(body)), PROTOBUF | {"Content-Encoding": encoding})
    assert up.intake.accepted[0][1] == body


async def test_a_chunked_body_without_content_length_is_taken(serve, traces):
    body = traces("a").SerializeToString()

    async def chunks():
        yield body[:5]
        yield body[5:]

    async with serve() as up:
        await post(up, chunks())
    assert up.intake.accepted[0][1] == body


async def test_a_chunked_body_may_be_compressed(serve, traces):
    body = gzip.compress(traces("a").SerializeToString())

    async def chunks():
        yield body[:5]
        yield body[5:]

    async with serve() as up:
        await post(up, chunks(), PROTOBUF | GZIP)
    assert up.intake.accepted[0][2] == traces("a")


async def test_broken_gzip_is_400_with_a_status(serve):
    async with serve() as up:
        status, _, body = await post(up, b"no gzip", PROTOBUF | GZIP)
    assert (status, Status.FromString(body).code) == (400, 3)
    assert "cannot be decompressed" in Status.FromString(body).message


async def test_cut_gzip_is_400(serve, traces):
    async with serve() as up:
        assert (await post(up, gzip.compress(b"x" * 1000)[:-4], PROTOBUF | GZIP))[0] == 400


async def test_a_body_above_the_limit_is_413(serve):
    async with serve(http={"max_request_body_size": 1000}) as up:
        status, _, body = await post(up, b"x" * 1001)
    assert (status, Status.FromString(body).message) == (
        413,
        "the body of the request has more than 1000 bytes: send smaller batches",
    )


async def test_a_chunked_body_above_the_limit_is_413(serve):
    async def chunks():
        for _ in range(11):
            yield b"x" * 100

    async with serve(http={"max_request_body_size": 1000}) as up:
        assert (await post(up, chunks()))[0] == 413


async def test_a_small_body_that_unfolds_above_the_limit_is_413(serve):
    async with serve(http={"max_request_body_size": 10_000}) as up:
        assert (await post(up, gzip.compress(bytes(10**7)), PROTOBUF | GZIP))[0] == 413


async def test_a_body_just_within_the_limit_is_read(serve):
    async with serve(http={"max_request_body_size": 10_000}) as up:
        assert (await post(up, gzip.compress(b"\xff" * 10_000), PROTOBUF | GZIP))[0] == 200


async def test_a_wrongly_chunked_body_is_400(serve):
    async with serve() as up:
        reader, writer = await asyncio.open_connection("127.0.0.1", up.server.http_port)
        writer.write(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
        )
        writer.write(b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nno size\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
    assert up.intake.accepted == []


async def test_a_client_that_hangs_up_within_its_body_leaves_nothing_behind(serve):
    async with serve() as up:
        _, writer = await asyncio.open_connection("127.0.0.1", up.server.http_port)
        writer.write(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
        )
        writer.write(b"Content-Length: 100\r\n\r\nabc")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        await up.server.stop(5.0)
    assert (up.intake.accepted, up.intake.set_aside) == ([], [])


async def test_a_body_that_does_not_arrive_in_time_is_503(serve):
    async def never_ending():
        yield b"x"
        await up.intake.entered.wait()

    async with serve(http={"read_timeout": "10ms"}) as up:
        assert (await post(up, never_ending()))[0] == 503
        up.intake.entered.set()


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/octet-stream", "application/x-thrift"]
)
async def test_another_content_type_is_415(serve, content_type):
    async with serve() as up:
        status, _, body = await post(up, b"x", {"Content-Type": content_type})
    assert status == 415
    assert (
        body.decode() == f"Content-Type {content_type} is not OTLP: use application/x-protobuf or"
        " application/json\n"
    )


async def test_another_content_encoding_is_415_and_told_the_right_ones(serve):
    async with serve() as up:
        status, _, body = await post(up, b"x", PROTOBUF | {"Content-Encoding": "br"})
    assert status == 415
    assert (
        body.decode()
        == "Content-Encoding 'br' is not known here: use one of gzip, deflate, zlib, zstd, snappy,"
        " x-snappy-framed, lz4, or none\n"
    )


async def test_another_path_is_404_and_told_the_right_ones(serve):
    async with serve() as up:
        status, _, body = await post(up, b"x", path="/api/traces")
    assert (status, body) == (
        404,
        b"nothing is here: OTLP is taken at /v1/traces, /v1/logs, /v1/metrics\n",
    )


async def test_another_method_is_405_and_told_the_right_one(serve):
    async with serve() as up, up.http.get("/v1/traces") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")


async def test_what_cannot_be_decoded_is_put_aside_as_it_came(serve):
    async with serve() as up:
        status, _, body = await post(up, b"{broken", JSON)
    assert (status, [x[:2] for x in up.intake.set_aside]) == (200, [("traces", b"{broken")])
    assert "put aside" in stdlib_json.loads(body)["partialSuccess"]["errorMessage"]


async def test_json_of_the_wrong_shape_is_put_aside_with_the_place(serve):
    async with serve() as up:
        await post(up, b'{"resourceSpans": [{"scopeSpans": 5}]}', JSON)
    assert up.intake.set_aside[0][2] == "resourceSpans[0].scopeSpans: expected a list, found 5"


async def test_a_condition_that_may_pass_is_503_with_the_time_to_wait(serve, traces):
    async with serve() as up:
        up.intake.error = RetryableError("the journal is full", retry_after_s=2.5)
        status, headers, body = await post(up, traces().SerializeToString())
    assert (status, headers["Retry-After"]) == (503, "3")
    assert Status.FromString(body).message == "the journal is full"


async def test_an_error_is_answered_in_json_to_a_json_request(serve, traces):
    async with serve() as up:
        up.intake.error = RetryableError("the journal is full", retry_after_s=2.5)
        _, _, body = await post(up, codec.encode(traces()), JSON)
    assert stdlib_json.loads(body) == {
        "code": 14,
        "message": "the journal is full",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.500s"}],
    }


async def test_a_condition_that_will_not_pass_is_400_without_a_time(serve, traces):
    async with serve() as up:
        up.intake.error = PermanentError("never")
        status, headers, _ = await post(up, traces().SerializeToString())
    assert (status, "Retry-After" in headers) == (400, False)


async def test_a_fault_nobody_foresaw_is_503_and_never_500(serve, traces, caplog):
    async with serve() as up:
        up.intake.error = ZeroDivisionError("secret")
        status, headers, body = await post(up, traces().SerializeToString())
    assert (status, headers["Retry-After"], b"secret" in body) == (503, "5", False)
