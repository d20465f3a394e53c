"""The generated code runs with whatever version of protobuf and grpcio an agent is installed
with.
"""

from pathlib import Path

import pytest

GENERATED = sorted((Path(__file__).parents[2] / "src/spanscore/api/v1").glob("*_pb2*.py"))


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
@pytest.mark.parametrize(
    "check", ["GRPC_GENERATED_VERSION", "runtime_version", "_registered_method"]
)
def test_generated_code_refuses_no_version(path, check):
    assert check not in path.read_text(encoding="utf-8")
