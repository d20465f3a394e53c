"""What the harness makes of the shipped configuration, and that it leaves nothing running."""

import os
import sys

import pytest
import yaml
from harness.line import ROOT, collector_config
from harness.processes import Processes

from spanscore.cli.one_run import Backend
from spanscore.errors import SpanscoreError

TOOL = Backend(
    "http://127.0.0.1:6006", "127.0.0.1", 6006, "http", secure=False, headers={"x-project": "a"}
)
SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_collector_of_a_tool_is_the_shipped_one_but_for_its_backend():
    shipped, derived = (
        yaml.safe_load((ROOT / "collector-config.yaml").read_text()),
        collector_config(TOOL),
    )
    same = ("extensions", "receivers", "processors", "connectors")
    assert {x: derived[x] for x in same} == {x: shipped[x] for x in same}
    pipelines = ("traces/in", "traces/spanscore", "logs/spanscore")
    assert {x: derived["service"]["pipelines"][x] for x in pipelines} == {
        x: shipped["service"]["pipelines"][x] for x in pipelines
    }


def test_a_tools_exporter_has_the_queue_of_the_shipped_one():
    shipped = yaml.safe_load((ROOT / "collector-config.yaml").read_text())["exporters"][
        "otlp_grpc/backend"
    ]
    exporter = collector_config(TOOL)["exporters"]["otlp_http/backend"]
    assert exporter["sending_queue"] == shipped["sending_queue"]
    assert (exporter["endpoint"], exporter["headers"]) == (TOOL.url, TOOL.headers)


def test_what_was_started_is_ended(tmp_path):
    with Processes(tmp_path) as processes:
        processes.start("one", SLEEP)
        processes.wait("one", lambda: "up" in processes.log("one").read_text())
        pid = processes.pid("one")
    assert not is_running(pid)


def test_what_ends_before_it_is_ready_is_said_with_its_last_words(tmp_path):
    with Processes(tmp_path) as processes:
        processes.start("one", [sys.executable, "-c", "import sys; sys.exit('no port')"])
        with pytest.raises(SpanscoreError, match=r"one ended with 1.*no port"):
            processes.wait("one", lambda: False)
