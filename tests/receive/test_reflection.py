"""Reflection over a real connection, as the published package's client asks for it."""

import asyncio

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1.health import SERVICE_NAME as HEALTH
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from spanscore.api.v1 import score_service_pb2
from spanscore.receive.grpc_server import reflection_handlers

SCORES = score_service_pb2.DESCRIPTOR.services_by_name["ScoreService"].full_name


def asked(talk):
    """What `talk` gives of a channel to a server."""

    async def run():
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(reflection_handlers([SCORES]))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            answer = await talk(channel)
        await server.stop(None)
        return answer

    return asyncio.run(asyncio.wait_for(run(), 30))


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
    answer = asked(lambda channel: reflected(channel, version, list_services="*"))

    assert [x.name for x in answer.list_services_response.service] == [
        HEALTH,
        "grpc.reflection.v1alpha.ServerReflection",
        SCORES,
    ]


@pytest.mark.parametrize(
    "symbol",
    [HEALTH, SCORES, f"{HEALTH}.Check", "grpc.health.v1.HealthCheckResponse", "spanscore.v1.Score"],
)
def test_a_symbol_comes_with_all_files_that_it_needs(symbol):
    answer = asked(lambda channel: reflected(channel, file_containing_symbol=symbol))
    files = map(
        FileDescriptorProto.FromString, answer.file_descriptor_response.file_descriptor_proto
    )
    by_name = {file.name: file for file in files}

    assert {needed for file in by_name.values() for needed in file.dependency} <= by_name.keys()


@pytest.mark.parametrize(
    "request_", [{"file_by_filename": "none.proto"}, {"file_containing_symbol": "none"}]
)
def test_what_is_not_there_is_not_found(request_):
    answer = asked(lambda channel: reflected(channel, **request_))

    assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def test_the_generated_stub_of_the_published_reflection_is_answered():
    async def talk(channel):
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked_for = iter(
            [reflection_pb2.ServerReflectionRequest(file_by_filename="grpc_health/v1/health.proto")]
        )
        return await stub.ServerReflectionInfo(asked_for).read()

    [data] = asked(talk).file_descriptor_response.file_descriptor_proto
    assert [x.name for x in FileDescriptorProto.FromString(data).service] == ["Health"]
