"""Health checks and reflection over a real connection, as the published packages' clients ask for
them.
"""

import asyncio
import contextlib

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from spanscore.api.v1 import score_service_pb2
from spanscore.rpc.services import SERVICE, Health, check, reflection_handlers

SCORES = score_service_pb2.DESCRIPTOR.services_by_name["ScoreService"].full_name
SERVING, NOT_SERVING, SERVICE_UNKNOWN = (
    getattr(health_pb2.HealthCheckResponse, name)
    for name in ("SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
)


@contextlib.asynccontextmanager
async def connected(health):
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((health.handlers(), *reflection_handlers([SCORES, SERVICE])))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(None)


def asked(talk, health=None):
    """What `talk` gives of a channel to a server."""

    async def run():
        held = health or Health()
        await held.show("", serving=True)
        async with connected(held) as channel:
            return await talk(channel, held)

    return asyncio.run(asyncio.wait_for(run(), 30))


async def statuses(watch, number):
    return [(await watch.read()).status for _ in range(number)]


def test_a_check_says_whether_requests_are_taken():
    async def talk(channel, health):
        await health.show("busy", serving=False)
        stub = health_pb2_grpc.HealthStub(channel)
        return [
            (await stub.Check(health_pb2.HealthCheckRequest(service=x))).status
            for x in ("", "busy")
        ]

    assert asked(talk) == [SERVING, NOT_SERVING]


def test_a_check_of_no_service_is_not_found():
    async def talk(channel, _):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service="none")
            )
        return error.value.code()

    assert asked(talk) is grpc.StatusCode.NOT_FOUND


def test_a_watch_has_each_change():
    async def talk(channel, health):
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(service="later")
        )
        seen = await statuses(watch, 1)
        for serving in (True, False):
            await health.show("later", serving=serving)
            seen += await statuses(watch, 1)
        return seen

    assert asked(talk) == [SERVICE_UNKNOWN, SERVING, NOT_SERVING]


def test_at_the_end_nothing_serves_whatever_is_shown_after():
    async def talk(channel, health):
        await health.end()
        await health.show("", serving=True)
        return (
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        ).status

    assert asked(talk) == NOT_SERVING


def test_our_own_check_reads_the_status():
    assert asked(lambda channel, _: check(channel, "", 5)) == "SERVING"


async def reflected(channel, version="v1alpha", **request):
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    ask = channel.stream_stream(
        path,
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    return await ask(iter([reflection_pb2.ServerReflectionRequest(**request)])).read()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_lists_the_services_and_itself(version):
    answer = asked(lambda channel, _: reflected(channel, version, list_services="*"))

    assert [x.name for x in answer.list_services_response.service] == [
        SERVICE,
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        SCORES,
    ]


@pytest.mark.parametrize(
    "symbol",
    [
        SERVICE,
        SCORES,
        f"{SERVICE}.Check",
        "grpc.health.v1.HealthCheckResponse",
        "spanscore.v1.Score",
    ],
)
def test_a_symbol_comes_with_all_files_that_it_needs(symbol):
    answer = asked(lambda channel, _: reflected(channel, file_containing_symbol=symbol))
    files = map(
        FileDescriptorProto.FromString, answer.file_descriptor_response.file_descriptor_proto
    )
    by_name = {file.name: file for file in files}

    assert {needed for file in by_name.values() for needed in file.dependency} <= by_name.keys()


@pytest.mark.parametrize(
    "request_", [{"file_by_filename": "none.proto"}, {"file_containing_symbol": "none"}]
)
def test_what_is_not_there_is_not_found(request_):
    answer = asked(lambda channel, _: reflected(channel, **request_))

    assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def test_extensions_are_not_looked_for():
    answer = asked(lambda channel, _: reflected(channel, all_extension_numbers_of_type="none"))

    assert answer.error_response.error_code == grpc.StatusCode.UNIMPLEMENTED.value[0]


def test_the_generated_stub_of_the_published_reflection_is_answered():
    async def talk(channel, _):
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked_for = iter(
            [reflection_pb2.ServerReflectionRequest(file_by_filename="grpc/health/v1/health.proto")]
        )
        return await stub.ServerReflectionInfo(asked_for).read()

    [data] = asked(talk).file_descriptor_response.file_descriptor_proto
    assert [x.name for x in FileDescriptorProto.FromString(data).service] == ["Health"]
