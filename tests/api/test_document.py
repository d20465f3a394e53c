"""A server is asked by its OpenAPI document alone, by a program that knows nothing else of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spanscore.api.http_server import openapi_document

sys.path[:0] = [str(Path(__file__).parents[1] / "page")]

SECONDS = 60
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def program():
    """Schemathesis, installed once into the user's cache: a test by itself has another."""
    from harness.installed import environment

    return environment("schemathesis", "schemathesis") / "schemathesis"


@pytest.mark.schemathesis
@pytest.mark.timeout(SECONDS * 5)
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


def test_the_document_has_the_streams_with_their_messages():
    document = json.loads(openapi_document())
    stream = document["x-connect-streams"]["/spanscore.v1.RunService/WatchRun"]
    for message in (stream["request"], stream["response"]):
        assert message["$ref"].rpartition("/")[2] in document["components"]["schemas"]
    assert (stream["response"]["$ref"], stream["contentType"]) == (
        "#/components/schemas/spanscore.v1.Run",
        "application/connect+json",
    )
