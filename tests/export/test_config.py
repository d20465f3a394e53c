"""Exporters are configured by names that say their type, as in the collector."""

import jsonschema
import pytest
from pydantic import ValidationError

from spanscore.export.config import Config, GrpcConfig, HttpConfig, JsonFileConfig


def parse(**exporters):
    return Config.model_validate({"exporters": {name.replace("__", "/"): x for name, x in exporters.items()}})


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
