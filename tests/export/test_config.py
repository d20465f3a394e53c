"""Exporters are configured by names that say their type, as in the collector."""

import jsonschema
import pytest
from pydantic import ValidationError

from spanscore.export.config import Config, GrpcConfig, HttpConfig, JsonFileConfig


def parse(**exporters):
    return Config.model_validate(
        {"exporters": {name.replace("__", "/"): x for name, x in exporters.items()}}
    )


def test_the_name_says_the_type():
    found = parse(otlp_grpc=None, otlp_http__phoenix={}, otlp_json_file__a={"path": "x"}).exporters
    assert [type(x) for x in found.values()] == [GrpcConfig, HttpConfig, JsonFileConfig]


def test_an_unknown_type_is_refused_by_name():
    with pytest.raises(ValidationError, match="zipkin: unknown exporter; known are otlp_grpc"):
        parse(zipkin={})


def test_an_unknown_key_is_refused():
    with pytest.raises(ValidationError, match="endpont"):
        parse(otlp_grpc={"endpont": "x"})


def test_grpc_refuses_what_it_cannot_do():
    with pytest.raises(ValidationError, match="cannot skip the check"):
        parse(otlp_grpc={"tls": {"insecure_skip_verify": True}})


def test_headers_are_not_shown():
    assert "secret" not in repr(parse(otlp_grpc={"headers": {"authorization": "secret"}}))


@pytest.mark.parametrize("name", ["otlp_grpc", "otlp_http/x", "otlp_json_file/x"])
def test_the_schema_knows_the_names(name):
    settings = {"path": "x"} if "file" in name else {"endpoint": "http://h:1"}
    jsonschema.validate({"exporters": {name: settings}}, Config.model_json_schema())


@pytest.mark.parametrize("exporters", [{"zipkin": {}}, {"otlp_grpc": {"path": "x"}}])
def test_the_schema_refuses_what_is_refused(exporters):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"exporters": exporters}, Config.model_json_schema())


def test_a_compression_that_cannot_be_had_is_refused_with_those_that_can():
    with pytest.raises(
        ValueError, match="zstd is not known here: use one of gzip, deflate, zlib, none"
    ):
        Config.model_validate({"exporters": {"otlp_grpc": {"compression": "zstd"}}})


def test_a_queue_of_a_collector_is_taken_as_far_as_it_asks_for_what_is_so_anyway():
    queue = {
        "enabled": True,
        "queue_size": 5,
        "wait_for_result": False,
        "block_on_overflow": False,
        "storage": None,
    }
    config = Config.model_validate({"exporters": {"otlp_grpc": {"sending_queue": queue}}})
    assert config.otlp_exporters["otlp_grpc"].sending_queue.queue_size == 5


@pytest.mark.parametrize(
    "asked", [{"enabled": False}, {"storage": "file_storage"}, {"block_on_overflow": True}]
)
def test_a_queue_that_asks_for_something_else_is_told_how_it_is(asked):
    with pytest.raises(ValueError, match=f"{next(iter(asked))}: .*; leave it out"):
        Config.model_validate({"exporters": {"otlp_grpc": {"sending_queue": asked}}})
