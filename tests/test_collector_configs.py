"""The collector configurations that are shipped: what can be told of them without a collector."""

import re
from pathlib import Path

import pytest
import yaml

from spanscore.config import Settings

ROOT = Path(__file__).parent.parent
SHIPPED = sorted(
    [ROOT / "collector-config.yaml", *(ROOT / "examples/collector").glob("*.yaml")], key=str
)
LIMIT_BYTES = Settings().receive.grpc.max_recv_msg_size_mib * 2**20
LARGEST_REQUEST_BYTES = 20 * 2**20
"""What the collector's HTTP receiver takes if nothing else is configured; more than gRPC here."""

_REFERENCE = re.compile(r"\$\{env:([A-Z0-9_]+)(:-[^}]*)?\}")


def lines():
    for path in SHIPPED:
        for line in path.read_text().splitlines():
            for name, default in _REFERENCE.findall(line):
                yield path, line, name, default


def parsed(path):
    return yaml.safe_load(_REFERENCE.sub(lambda found: found[2][2:], path.read_text()))


def batches(path):
    """The batches of the exporters to spanscore."""
    for name, exporter in (parsed(path).get("exporters") or {}).items():
        if name.startswith("otlp_grpc/spanscore") and "sending_queue" in exporter:
            yield exporter["sending_queue"]["batch"]


def test_every_variable_has_a_default():
    assert [(path.name, name) for path, _, name, default in lines() if not default] == []


def test_every_line_with_a_variable_of_the_drop_in_is_marked():
    assert [
        line for path, line, _, _ in lines() if path == SHIPPED[0] and "# CHANGE" not in line
    ] == []


def test_every_variable_is_documented():
    said = "".join(path.read_text() for path in ((ROOT / "docs/collector.md"), *SHIPPED[1:]))
    assert {
        name for path, _, name, _ in lines() if path == SHIPPED[0] and f"`{name}`" not in said
    } == set()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_no_batch_is_too_large_for_spanscore_and_no_span_for_a_batch(path):
    for batch in batches(path):
        assert "max_size" not in batch
        assert batch["sizer"] == "bytes"
        assert batch["min_size"] + LARGEST_REQUEST_BYTES < LIMIT_BYTES


def test_what_spanscore_passes_on_is_not_too_large_for_the_collector():
    receiver = parsed(ROOT / "examples/collector/inline.yaml")["receivers"]["otlp/passed_on"]
    assert receiver["protocols"]["grpc"]["max_recv_msg_size_mib"] * 2**20 >= LIMIT_BYTES
