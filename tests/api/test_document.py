"""A server is asked by its OpenAPI document alone, by a program that knows nothing else of it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spanscore.api.http_server import openapi_document
from spanscore.api.traces import MAX_TRACE_IDS, imported
from spanscore.api.v1 import agent_trace_pb2 as trace_pb
from spanscore.errors import FieldError
from spanscore.store.listing import TRACE_ORDERS

sys.path[:0] = [str(Path(__file__).parents[1] / "page")]

SECONDS = 60
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def program():
    """Schemathesis, installed once into the user's cache: a test by itself has another."""
    from harness.installed import environment

    return environment("schemathesis", "schemathesis") / "schemathesis"


@pytest.mark.schemathesis
def test_the_server_takes_refuses_and_answers_as_the_document_has_it(tmp_path, program):
    from filled_store import fill
    from served import Served

    served = Served(tmp_path)
    fill(served.store_url, 50)
    served.start()
    try:
        command = [
            program,
            "--config-file",
            HERE / "schemathesis.toml",
            "run",
            f"{served.url}/openapi.json",
            "--no-color",
        ]
        command += [
            "--max-time",
            str(SECONDS),
            "--phases",
            "coverage,fuzzing",
            "--seed",
            "1",
            "--request-timeout",
            "30",
        ]
        hooks = {"SCHEMATHESIS_HOOKS": "formats_of_requests", "PYTHONPATH": str(HERE)}
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | hooks,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        served.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in served.log()


def properties(message):
    return json.loads(openapi_document())["components"]["schemas"][f"spanscore.v1.{message}"][
        "properties"
    ]


@pytest.mark.parametrize("order", TRACE_ORDERS)
@pytest.mark.parametrize("direction", ["", " asc", " desc"])
def test_each_order_of_traces_fits_the_document(order, direction):
    assert re.search(properties("ListTracesRequest")["orderBy"]["pattern"], order + direction)


def test_the_document_says_how_many_trace_ids_a_trace_has_at_most():
    trace = trace_pb.AgentTrace(trace_ids=["0" * 32] * (MAX_TRACE_IDS + 1))
    with pytest.raises(FieldError, match="has 10001 ids"):
        imported([trace])
    assert properties("AgentTrace")["traceIds"]["maxItems"] == MAX_TRACE_IDS


def test_the_document_has_the_streams_with_their_messages():
    document = json.loads(openapi_document())
    stream = document["x-connect-streams"]["/spanscore.v1.RunService/WatchRun"]
    for message in (stream["request"], stream["response"]):
        assert message["$ref"].rpartition("/")[2] in document["components"]["schemas"]
    assert (stream["response"]["$ref"], stream["contentType"]) == (
        "#/components/schemas/spanscore.v1.Run",
        "application/connect+json",
    )
