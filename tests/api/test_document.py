"""A server is asked by its OpenAPI document alone, by a program that knows nothing else of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spanscore.api.http_server import openapi_document

sys.path[:0] = [str(Path(__file__).parents[1] / "page")]

SECONDS = 60
# Not whether a method of HTTP is refused that the document does not have: what changes nothing can
# be a GET too. Nor whether all is accepted that fits the schemas: names, filters and page tokens
# are texts, of which few are right. Nor whether all else is refused: in protobuf's JSON null stands
# for a single value that is left out.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


@pytest.fixture(scope="module")
def program():
    """Schemathesis, installed once into the user's cache: a test by itself has another."""
    from harness.installed import environment

    return environment("schemathesis", "schemathesis") / "schemathesis"


@pytest.mark.schemathesis
@pytest.mark.timeout(SECONDS * 5)
def test_no_request_leads_to_an_answer_that_the_document_does_not_have(tmp_path, program):
    from filled_store import fill
    from served import Served

    served = Served(tmp_path)
    fill(served.store_url, 50)
    served.start()
    try:
        command = [
            program,
            "run",
            f"{served.url}/openapi.json",
            "--checks",
            ",".join(CHECKS),
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
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    finally:
        served.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in served.log()


def test_the_document_has_the_streams_with_their_messages():
    document = json.loads(openapi_document())
    stream = document["x-connect-streams"]["/spanscore.v1.RunService/WatchRun"]
    for message in (stream["request"], stream["response"]):
        assert message["$ref"].rpartition("/")[2] in document["components"]["schemas"]
    assert (stream["response"]["$ref"], stream["contentType"]) == (
        "#/components/schemas/spanscore.v1.Run",
        "application/connect+json",
    )
