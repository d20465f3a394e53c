"""The image: built upon Debian's packages, it scores without a right, on a read-only disk."""

import json
import re
import tempfile

import chart
import podman
import pytest

CONTAINERFILE = (chart.ROOT / "deploy/Containerfile").read_text()
SEND = """
import asyncio
import time
from spanscore.cli import demo
from spanscore.cli.one_run import Backend
requests = demo.recorded_requests(demo.recordings() / "pydantic-ai", time.time_ns())
server = Backend("http://127.0.0.1:4327", "127.0.0.1", 4327, "grpc", secure=False, headers={})
assert asyncio.run(demo.send(requests, server))
"""
container = pytest.mark.container


@pytest.fixture(scope="module")
def engine():
    # Podman takes no path of more than fifty characters
    with tempfile.TemporaryDirectory(prefix="podman-", ignore_cleanup_errors=True) as folder:
        engine = podman.Podman(folder)
        engine.build()
        yield engine
        engine.end()


@pytest.fixture(scope="module")
def running(engine):
    """A container of the image, by its name."""
    engine.run("server", "--volume=data:/var/lib/spanscore")
    yield "server"
    engine("rm", "--force", "--time=1", "server")


@container
def test_it_scores_what_it_is_sent(engine, running, until):
    engine("exec", running, "python", "-c", SEND)

    def scores():
        listed = ["spanscore", "scores", "--server", "127.0.0.1:4329", "--json"]
        return engine("exec", running, *listed, check=False).stdout

    until(lambda: "check.errors_recovered" in scores(), scores)


@container
def test_it_is_no_root(engine, running):
    assert engine("exec", running, "id", "-u").strip() == "10001"


@container
def test_nothing_but_its_volume_can_be_written(engine, running):
    assert "Read-only" in engine("exec", running, "touch", "/etc/x", check=False).stderr
    engine("exec", running, "touch", "/var/lib/spanscore/x")


@container
def test_no_compiler_is_in_it(engine, running):
    words = ["sh", "-c", "command -v cc gcc clang make rustc pip uv"]
    assert engine("exec", running, *words, check=False).stdout == ""


@container
@pytest.mark.parametrize("module", ["litellm", "psycopg", "connectrpc"])
def test_its_extras_can_be_imported(engine, running, module):
    engine("exec", running, "python", "-c", f"import {module}")


@container
def test_it_lists_what_is_in_it(engine, running):
    listed = json.loads(engine("exec", running, "cat", "/opt/spanscore/sbom.cdx.json"))
    names = {x["name"] for x in listed["components"]}
    assert listed["bomFormat"] == "CycloneDX"
    assert listed["metadata"]["component"]["name"] == "spanscore"
    assert {"grpcio", "litellm", "psycopg-binary"} <= names


@container
def test_it_contains_nothing_of_the_checkout_beside_the_wheel(engine, running):
    words = ["ls", "-A", "/build", "/src", "/opt", "/etc/spanscore"]
    listed = engine("exec", running, *words, check=False).stdout
    assert listed.split() == ["/etc/spanscore:", "spanscore.yaml", "/opt:", "spanscore"]


@container
def test_it_stops_in_time_when_it_is_told_to(engine):
    engine.run("stopping")
    engine("stop", "--time=30", "stopping")
    assert engine.inspect("container", "stopping")["State"]["ExitCode"] == 0


def test_the_base_is_an_argument_of_both_stages():
    assert re.findall("^FROM (.*)$", CONTAINERFILE, re.MULTILINE) == ["${BASE} AS build", "${BASE}"]


def test_the_user_is_a_number():
    assert re.findall("^USER (.*)$", CONTAINERFILE, re.MULTILINE) == ["10001:10001"]


def test_the_context_leaves_out_what_is_not_copied():
    ignored = (chart.ROOT / ".containerignore").read_text().splitlines()
    assert "*" in ignored
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINERFILE, re.MULTILINE)
    kept = [x[1:] for x in ignored if x.startswith("!")]
    files = [x for line in copied for x in line.split()]
    assert [x for x in files if not any(x == k or x.startswith(f"{k}/") for k in kept)] == []
