"""A real broker, and topics of a test's own in it."""

import sys
from pathlib import Path

import pytest
from broker import Cluster
from kafka_topics import Topics

sys.path[:0] = [str(Path(__file__).parents[1])]
from reserved_ports import free_ports  # noqa: E402 - found by the path above


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """One broker for all tests."""
    with Cluster(tmp_path_factory.mktemp("kafka") / "brokers", free_ports(1), free_ports(1)) as up:
        yield up


@pytest.fixture
def topics(cluster):
    """Two topics of two partitions, and the names of a third and a group."""
    return Topics(cluster, 2)
