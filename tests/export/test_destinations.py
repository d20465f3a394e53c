"""Which exporters get evaluation spans where a tool shows the same scores by an API of its own."""

import pytest

from spanscore.export.config import Config
from spanscore.export.sender import without_spans


def left_out(**exporters):
    return without_spans(
        Config.model_validate(
            {"exporters": {x.replace("__", "/"): y for x, y in exporters.items()}}
        )
    )


COLLECTOR = {"endpoint": "127.0.0.1:4337"}
JAEGER = {"endpoint": "jaeger:4317"}
PHOENIX = {"endpoint": "http://localhost:6006"}


def test_without_such_a_tool_all_get_them():
    assert left_out(otlp_grpc=COLLECTOR, otlp_http=None) == {}


def test_a_collector_gets_none_for_the_tool_is_taken_to_be_behind_it():
    assert left_out(otlp_grpc=COLLECTOR, phoenix=PHOENIX) == {"otlp_grpc": "phoenix"}


def test_what_has_the_tools_address_gets_none_and_the_others_do():
    direct = {"endpoint": "http://127.0.0.1:6006"}
    assert left_out(otlp_http=direct, otlp_grpc=JAEGER, phoenix=PHOENIX) == {"otlp_http": "phoenix"}


@pytest.mark.parametrize(
    ("endpoint", "tool"),
    [
        ("https://mlflow.example/otlp", "https://mlflow.example"),
        ("https://MLFLOW.example:443", "https://mlflow.example/"),
        ("http://[::1]:5000", "http://127.0.0.1:5000"),
    ],
)
def test_addresses_are_the_same_by_host_and_port(endpoint, tool):
    found = left_out(otlp_http={"endpoint": endpoint}, otlp_grpc=JAEGER, mlflow={"endpoint": tool})
    assert found == {"otlp_http": "mlflow"}


def test_two_tools_of_which_one_is_behind_a_collector_leave_no_exporter_with_them():
    direct = {"endpoint": "http://127.0.0.1:6006"}
    found = left_out(otlp_http=direct, otlp_grpc=COLLECTOR, phoenix=PHOENIX, mlflow=None)
    assert found == {"otlp_http": "mlflow", "otlp_grpc": "mlflow"}


def test_who_asks_for_them_gets_them():
    assert left_out(otlp_grpc={**COLLECTOR, "evaluation_spans": True}, phoenix=PHOENIX) == {}


def test_who_wants_none_gets_none():
    assert left_out(otlp_grpc={**COLLECTOR, "evaluation_spans": False}) == {"otlp_grpc": ""}


def test_a_file_gets_them_for_it_shows_nothing():
    assert left_out(otlp_json_file={"path": "scores.jsonl"}, phoenix=PHOENIX) == {}


def test_an_address_that_cannot_be_read_is_no_tools():
    assert left_out(
        otlp_grpc={"endpoint": "unix:///run/otlp.sock", "evaluation_spans": None}, phoenix=PHOENIX
    ) == {"otlp_grpc": "phoenix"}
