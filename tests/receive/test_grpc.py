"""OTLP over gRPC: what is handed over, what is answered, health and reflection."""

import asyncio

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from spanscore.errors import PermanentError, RetryableError
from spanscore.receive.config import Grpc
from spanscore.receive.grpc_server import channel_options

TRACES = "opentelemetry.proto.collector.trace.v1.TraceService"


async def send_bytes(channel, body):
    return ExportTraceServiceResponse.FromString(
        await channel.unary_unary(f"/{TRACES}/Export")(body)
    )


async def refusal(channel, request):
    """The error of an export, and the google.rpc.Status that came with it."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await TraceServiceStub(channel).Export(request)
    details = dict(caught.value.trailing_metadata()).get("grpc-status-details-bin", b"")
    return caught.value, Status.FromString(details)


async def test_the_bytes_are_handed_over_as_they_came(serve, traces):
    # a field that this version does not know
    body = traces("a").SerializeToString() + b"\xfa\x07\x01x"
    async with serve() as up:
        await send_bytes(up.channel, body)
    assert [(signal, kept) for signal, kept, _ in up.intake.accepted] == [("traces", body)]


async def test_the_decoded_request_is_handed_over_too(serve, traces):
    async with serve() as up:
        await TraceServiceStub(up.channel).Export(traces("a"))
    assert up.intake.accepted[0][2] == traces("a")


async def test_a_sound_request_is_answered_with_nothing_to_say(serve, traces):
    async with serve() as up:
        assert await TraceServiceStub(up.channel).Export(traces()) == ExportTraceServiceResponse()


async def test_logs_are_taken(serve):
    request = logs_service_pb2.ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add(event_name="choice")
    async with serve() as up:
        await logs_service_pb2_grpc.LogsServiceStub(up.channel).Export(request)
    assert up.intake.accepted == [("logs", request.SerializeToString(), request)]


async def test_metrics_are_taken(serve):
    request = metrics_service_pb2.ExportMetricsServiceRequest()
    async with serve() as up:
        await metrics_service_pb2_grpc.MetricsServiceStub(up.channel).Export(request)
    assert up.intake.accepted == [("metrics", b"", request)]


async def test_gzip_is_taken(serve, traces):
    async with serve() as up:
        await TraceServiceStub(up.channel).Export(traces("a"), compression=grpc.Compression.Gzip)
    assert up.intake.accepted[0][1] == traces("a").SerializeToString()


async def test_a_damaged_span_is_a_partial_success_that_names_it(serve, traces):
    async with serve() as up:
        answer = await TraceServiceStub(up.channel).Export(traces("good", "bad"))
    assert answer.partial_success.rejected_spans == 1
    assert (
        answer.partial_success.error_message
        == "1 span refused, the rest is kept: 'bad' (it has no trace id)"
    )


async def test_the_other_spans_of_a_request_are_kept(serve, traces):
    async with serve() as up:
        await TraceServiceStub(up.channel).Export(traces("good", "bad"))
    assert up.intake.accepted == [("traces", traces("good").SerializeToString(), traces("good"))]


async def test_what_cannot_be_decoded_is_put_aside_as_it_came(serve):
    async with serve() as up:
        await send_bytes(up.channel, b"\xff\xff\xff")
    assert [(signal, body) for signal, body, _ in up.intake.set_aside] == [
        ("traces", b"\xff\xff\xff")
    ]


async def test_what_cannot_be_decoded_is_acknowledged_with_a_message(serve):
    async with serve() as up:
        answer = await send_bytes(up.channel, b"\xff\xff\xff")
    assert "nothing was kept, the request is put aside" in answer.partial_success.error_message


async def test_a_condition_that_may_pass_is_unavailable_with_the_time_to_wait(serve, traces):
    async with serve() as up:
        up.intake.error = RetryableError("the journal is full", retry_after_s=2.5)
        error, status = await refusal(up.channel, traces())
    info = RetryInfo()
    status.details[0].Unpack(info)
    assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, "the journal is full")
    assert (status.code, info.retry_delay.ToMilliseconds()) == (14, 2500)


async def test_requests_beyond_those_that_are_worked_on_are_told_to_come_back(serve, traces):
    async with serve(grpc={"max_concurrent_streams": 1000}) as up:
        up.intake.gate.clear()

        async def export():
            try:
                await TraceServiceStub(up.channel).Export(traces())
            except grpc.aio.AioRpcError as error:
                up.intake.gate.set()  # the others may go on
                details = dict(error.trailing_metadata())["grpc-status-details-bin"]
                return (error.code(), *(x.type_url for x in Status.FromString(details).details))

        refused = set(await asyncio.gather(*(export() for _ in range(300)))) - {None}
    assert refused == {(grpc.StatusCode.UNAVAILABLE, "type.googleapis.com/google.rpc.RetryInfo")}


async def test_a_condition_that_will_not_pass_is_an_invalid_argument_without_a_time(serve, traces):
    async with serve() as up:
        up.intake.error = PermanentError("never")
        error, status = await refusal(up.channel, traces())
    assert (error.code(), list(status.details)) == (grpc.StatusCode.INVALID_ARGUMENT, [])


async def test_a_fault_nobody_foresaw_is_unavailable_and_never_unknown(serve, traces, caplog):
    async with serve() as up:
        up.intake.error = ZeroDivisionError("secret")
        error, status = await refusal(up.channel, traces())
    assert (error.code(), len(status.details)) == (grpc.StatusCode.UNAVAILABLE, 1)


async def test_a_fault_nobody_foresaw_is_logged_and_not_shown(serve, traces, caplog):
    async with serve() as up:
        up.intake.error = ZeroDivisionError("secret")
        error, _ = await refusal(up.channel, traces())
    assert "secret" not in error.details()
    assert "ZeroDivisionError: secret" in caplog.text


async def test_a_quarantine_that_is_not_possible_now_is_unavailable(serve):
    async with serve() as up:
        up.intake.error = RetryableError("the journal is full")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await send_bytes(up.channel, b"\xff\xff\xff")
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_a_request_above_the_limit_is_refused_by_grpc_compressed_or_not(
    serve, traces, compression
):
    async with serve(grpc={"max_recv_msg_size_mib": 1}) as up:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await TraceServiceStub(up.channel).Export(traces("x" * 2**21), compression=compression)
    assert (caught.value.code(), up.intake.accepted) == (grpc.StatusCode.RESOURCE_EXHAUSTED, [])


async def test_what_grpc_refuses_by_itself_is_counted_and_told(serve, traces, caplog):
    async with serve(grpc={"max_recv_msg_size_mib": 1}) as up:
        with pytest.raises(grpc.aio.AioRpcError):
            await TraceServiceStub(up.channel).Export(traces("x" * 2**21))
    assert up.meter.totals()["receiver_refused_requests"] == 1
    assert "larger than 1 MiB (max_recv_msg_size_mib)" in caplog.text


async def test_what_was_read_is_not_counted_as_refused(serve, traces):
    async with serve() as up:
        await TraceServiceStub(up.channel).Export(traces())
    assert "receiver_refused_requests" not in up.meter.totals()


@pytest.mark.parametrize("service", ["", TRACES])
async def test_health_is_serving_overall_and_for_each_service(serve, service):
    async with serve() as up:
        answer = await health_pb2_grpc.HealthStub(up.channel).Check(
            health_pb2.HealthCheckRequest(service=service)
        )
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.slow
async def test_a_health_watch_is_told_when_the_server_stops(serve):
    async with serve() as up:
        watch = health_pb2_grpc.HealthStub(up.channel).Watch(
            health_pb2.HealthCheckRequest(service=TRACES)
        )
        first = await watch.read()
        await up.server.stop(1.0)
        second = await watch.read()
    serving = health_pb2.HealthCheckResponse
    assert [first.status, second.status] == [serving.SERVING, serving.NOT_SERVING]


async def test_reflection_lists_the_services(serve):
    async with serve() as up:
        stub = reflection_pb2_grpc.ServerReflectionStub(up.channel)
        asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        answers = [answer async for answer in stub.ServerReflectionInfo(asked)]
    names = {x.name for x in answers[0].list_services_response.service}
    assert names > {TRACES, "grpc.health.v1.Health"}


async def test_reflection_describes_a_service(serve):
    async with serve() as up:
        stub = reflection_pb2_grpc.ServerReflectionStub(up.channel)
        asked = iter([reflection_pb2.ServerReflectionRequest(file_containing_symbol=TRACES)])
        answers = [answer async for answer in stub.ServerReflectionInfo(asked)]
    assert (
        b"ExportTraceServiceRequest" in answers[0].file_descriptor_response.file_descriptor_proto[0]
    )


def test_keepalive_reaches_grpc_in_milliseconds():
    config = Grpc.model_validate(
        {
            "keepalive": {
                "server_parameters": {"max_connection_age": "1m", "time": "30s"},
                "enforcement_policy": {"min_time": "10s", "permit_without_stream": True},
            }
        }
    )
    assert (
        dict(channel_options(config)).items()
        >= {
            "grpc.max_connection_age_ms": 60_000,
            "grpc.keepalive_time_ms": 30_000,
            "grpc.http2.min_ping_interval_without_data_ms": 10_000,
            "grpc.keepalive_permit_without_calls": 1,
        }.items()
    )


def test_what_is_not_configured_is_left_to_grpc():
    assert "grpc.max_connection_idle_ms" not in dict(channel_options(Grpc()))


async def test_text_that_is_not_utf_8_is_replaced_and_the_sender_told(serve, traces):
    body = traces("cut here").SerializeToString().replace(b"cut here", b"cut her\xc3")
    async with serve() as up:
        answer = await send_bytes(up.channel, body)
    assert up.intake.accepted[0][2] == traces("cut her\ufffd")
    assert answer.partial_success.error_message == "texts that are not UTF-8, mended with U+FFFD: 1"


async def test_a_span_that_does_not_decode_is_refused_by_name_and_costs_no_other(serve, traces):
    request = traces("cut")
    request.resource_spans[0].scope_spans[0].spans[0].kind = 3
    cut = request.SerializeToString()[:-1] + b"\xff"  # the kind becomes a number that has no end
    async with serve() as up:
        answer = await send_bytes(up.channel, traces("good").SerializeToString() + cut)
    assert up.intake.accepted[0][2].resource_spans[0] == traces("good").resource_spans[0]
    assert "1 span refused, the rest is kept: 'cut'" in answer.partial_success.error_message
