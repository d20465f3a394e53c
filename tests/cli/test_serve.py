"""The server as a process: how it starts, and how it ends."""

import json
import signal
import socket
import subprocess
import sys

import pytest
import yaml
from harness import demo_server

from spanscore.cli.main import main


@pytest.fixture
def configured(tmp_path):
    """A configuration file with free ports and all data in the test's folder, and the ports."""
    ports = demo_server.Ports.free()
    settings = demo_server.configuration(tmp_path, ports, None, None)
    file = tmp_path / "spanscore.yaml"
    file.write_text(yaml.safe_dump(settings))
    return file, ports


def _started(file):
    child = subprocess.Popen(
        [sys.executable, "-m", "spanscore.cli.main", "serve", "-c", str(file)],
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in child.stderr:
        if json.loads(line)["msg"] == "ready":
            return child
    raise AssertionError(f"it ended with {child.wait()} and was never ready")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_0(configured, number):
    with _started(configured[0]) as child:
        child.send_signal(number)
        assert child.wait(30) == 0


_NOT_AT_THE_START = (
    *("litellm", "model2vec", "asyncpg", "rich", "connectrpc", "protobuf", "cronsim"),
    *("aiohttp", "cramjam", "numpy"),  # until somebody speaks HTTP, or sends something
    *("sqlalchemy.orm", "sqlalchemy.ext", "sqlalchemy.dialects.postgresql"),
    *("spanscore.api.client", "spanscore.sdk", "spanscore.suites", "spanscore.testing"),
    *("spanscore.dialects.registry", "spanscore.turns.builder"),  # until a request comes
    "spanscore.offline.windows",  # until a run reads a source
    *("spanscore.analytics", "spanscore.api.traces"),  # until the API is asked
)
"""What takes long to import or much memory, and is used late or never by a server."""


@pytest.mark.slow
def test_it_is_ready_without_what_it_may_never_need(configured):
    """`-X importtime` prints each module that is imported, as the log is, to standard error."""
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "spanscore.cli.main",
        "serve",
        "-c",
        str(configured[0]),
    ]
    loaded = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        for line in child.stderr:
            if line.startswith("import time:"):
                loaded.append(line.rpartition("|")[2].strip())
            elif json.loads(line)["msg"] == "ready":
                break
        child.send_signal(signal.SIGTERM)
        child.communicate()
    assert "spanscore.serving.pipeline" in loaded
    assert [
        x for x in loaded if f"{x}.".startswith(tuple(f"{name}." for name in _NOT_AT_THE_START))
    ] == []


@pytest.mark.slow
def test_it_listens_on_every_configured_port(configured):
    file, ports = configured
    with _started(file) as child:
        for port in (ports.grpc, ports.http, ports.health, ports.control):
            socket.create_connection(("127.0.0.1", port)).close()
        child.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("listener", ["grpc", "http", "health", "control"])
def test_a_port_in_use_is_bad_input(configured, capsys, listener):
    file, ports = configured
    with socket.create_server(("127.0.0.1", getattr(ports, listener))):
        assert main(["serve", "-c", str(file)]) == 2
    assert str(getattr(ports, listener)) in capsys.readouterr().err


@pytest.mark.slow
def test_a_port_of_http_in_use_is_one_message(configured):
    file, _ = configured
    settings = yaml.safe_load(file.read_text())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings["api"]["http"] = {"endpoint": f"127.0.0.1:{taken.getsockname()[1]}"}
        file.write_text(yaml.safe_dump(settings))
        command = [sys.executable, "-m", "spanscore.cli.main", "serve", "-c", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)


def test_a_configuration_that_cannot_be_used_is_bad_input(tmp_path, capsys):
    file = tmp_path / "spanscore.yaml"
    file.write_text("juge: {}")
    assert main(["serve", "-c", str(file)]) == 2
    assert "did you mean judge?" in capsys.readouterr().err


@pytest.mark.slow
def test_too_few_open_files_for_the_connections_are_warned_of(configured):
    command = f"ulimit -n 400; exec {sys.executable} -m spanscore.cli.main serve -c {configured[0]}"
    with subprocess.Popen(["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True) as child:
        told = [next(child.stderr)]
        while json.loads(told[-1])["msg"] != "ready":
            told.append(next(child.stderr))
        child.terminate()
    assert any("this process may open 400 files" in line and "ulimit -n" in line for line in told)
