"""The generated code and what the package says it needs."""

import re
import tomllib
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_GENERATED = _ROOT / "src" / "spanscore" / "api" / "v1"


def _version(text):
    return tuple(int(part) for part in text.split("."))


def _floor(package):
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stated = next(x for x in project["dependencies"] if x.startswith(f"{package}>="))
    return _version(stated.partition(">=")[2])


@pytest.mark.parametrize(
    ("package", "file", "pattern"),
    [
        ("grpcio", "control_service_pb2_grpc.py", r"GRPC_GENERATED_VERSION = '([\d.]+)'"),
        ("protobuf", "control_service_pb2.py", r"Protobuf Python Version: ([\d.]+)"),
    ],
)
def test_the_package_requires_what_its_generated_code_refuses_to_run_without(package, file, pattern):
    needed = re.search(pattern, (_GENERATED / file).read_text(encoding="utf-8"))[1]
    assert _floor(package) >= _version(needed)
