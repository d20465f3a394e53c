"""The configuration to start from: each of its listeners can be moved by the environment."""

import re
from pathlib import Path

from spanscore import config

EXAMPLE = Path(__file__).parents[2] / "examples" / "spanscore.yaml"


def test_every_port_that_it_listens_on_can_be_set_by_the_environment(monkeypatch):
    names = re.findall(r"endpoint: \$\{env:(\w+)", EXAMPLE.read_text(encoding="utf-8"))
    for port, name in enumerate(names, start=20_000):
        monkeypatch.setenv(name, f"127.0.0.1:{port}")
    found = config.load(EXAMPLE)
    receivers = [found.receive.grpc, found.receive.http, found.receive.health]
    listeners = [*receivers, found.api, found.api.http]
    assert len({x.endpoint for x in listeners}) == len(listeners)
    assert all(int(x.endpoint.rpartition(":")[2]) >= 20_000 for x in listeners)
