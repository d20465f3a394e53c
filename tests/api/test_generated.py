"""The generated code runs with whatever version of protobuf and grpcio an agent is installed
with.
"""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = sorted((ROOT / "src/spanscore/api/v1").glob("*_pb2*.py"))


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
@pytest.mark.parametrize(
    "check", ["GRPC_GENERATED_VERSION", "runtime_version", "_registered_method"]
)
def test_generated_code_refuses_no_version(path, check):
    assert check not in path.read_text(encoding="utf-8")


@pytest.mark.openapi
def test_the_document_is_that_of_the_proto(tmp_path):
    made = tmp_path / "openapi.json"
    protoc = ROOT / ".venv/protoc/bin/python"
    subprocess.run([ROOT / "proto/openapi.sh", ROOT / ".venv/bin", protoc, made], check=True)
    kept = ROOT / "src/spanscore/api/openapi.json"
    assert made.read_text() == kept.read_text(), "make proto"
