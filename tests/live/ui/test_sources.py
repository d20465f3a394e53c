"""Golden recordings that are sent to real backends and read back by URL give the facts that they give as files."""

import sys
import urllib.request
from pathlib import Path

import pytest
from harness.installed import environment
from harness.processes import Processes, answers, free_ports
from tools import jaeger

from spanscore.cli import replay
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all
from spanscore.sources import parse
from spanscore.sources.loading import stored_traces

pytestmark = pytest.mark.ui

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parents[1] / "golden"
CASES = [
    GOLDEN / name
    for name in (
        "agent_framework/shop",
        "google_genai/shop",
        "llama_index/shop",
        "openinference/shop-langgraph",
        "semconv/shop-hand-written-java",
        "strands/shop",
    )
]


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    with Processes(tmp_path_factory.mktemp("sources")) as running:
        yield running


def telemetry(case):
    return files.load(x for x in sorted(case.rglob("*")) if x.name.startswith(("traces", "logs")) and x.is_file())


def facts(spans, logs=()):
    return [x.to_json() for x in rebuild_all(spans, logs)]


def read(url, ids):
    found = list(stored_traces(parse(f"{url}?{'&'.join(f'trace_id={x}' for x in ids)}")))
    assert not [x.truncated for x in found if x.truncated]
    return [y for x in found for y in x.spans], [y for x in found for y in x.logs]


@pytest.fixture(scope="module")
def in_jaeger(processes, tmp_path_factory):
    """The URL of a real Jaeger that got the spans of all cases."""
    tool = jaeger.Tool(processes, tmp_path_factory.mktemp("jaeger"))
    processes.wait(next(iter(processes._running)), tool.is_ready)
    for case in CASES:
        requests = [
            request
            for path in sorted(case.rglob("traces*"))
            for signal, request, _ in files.requests(path)
            if signal == "traces"
        ]
        assert replay._post(requests, tool.backend)
    return tool.address.replace("http://", "jaeger://")


@pytest.fixture(scope="module")
def in_clickhouse(processes, tmp_path_factory):
    """The URL of ClickHouse's engine, with the spans and log records of all cases in the exporter's tables."""
    sys.path.insert(0, str(HERE / "clickhouse"))
    import tables

    (port,) = free_ports(1)
    program = environment("chdb", "chdb") / "python"
    processes.start(
        "chdb", [program, HERE / "clickhouse/serve.py", str(port), tmp_path_factory.mktemp("chdb") / "data"]
    )
    processes.wait("chdb", lambda: answers(f"http://127.0.0.1:{port}/"))
    statements = list(tables.TABLES)
    for case in CASES:
        found = telemetry(case)
        statements += tables.insert(found.spans, [x for x in found.logs if x.trace_id])
    for statement in statements:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", statement.encode()).close()
    return f"clickhouse://127.0.0.1:{port}"


@pytest.mark.parametrize("case", CASES, ids=lambda x: f"{x.parent.name}-{x.name}")
def test_jaeger_gives_the_facts_that_were_sent_into_it(in_jaeger, case):
    sent = telemetry(case)
    spans, _ = read(in_jaeger, {x.trace_id for x in sent.spans})
    assert facts(spans) == facts(sent.spans)


@pytest.mark.parametrize("case", CASES, ids=lambda x: f"{x.parent.name}-{x.name}")
def test_clickhouse_gives_the_facts_that_were_sent_into_it(in_clickhouse, case):
    sent = telemetry(case)
    ids = {x.trace_id for x in sent.spans}
    assert facts(*read(in_clickhouse, ids)) == facts(sent.spans, [x for x in sent.logs if x.trace_id in ids])


@pytest.mark.parametrize(
    "query",
    ["service={service}", "errors=true", "attribute.gen_ai.operation.name=chat", "min_duration=50ms", "limit=3",
     "service={service}&attribute.gen_ai.operation.name=chat&limit=2"],
)  # fmt: skip
@pytest.mark.parametrize("backend", ["in_jaeger", "in_clickhouse"])
def test_a_search_finds_what_its_conditions_accept_of_everything(request, backend, query):
    url = request.getfixturevalue(backend) + "?since=2020-01-01"
    every = list(stored_traces(parse(url)))
    service = next(y.resource.service_name for x in every for y in x.spans if y.resource.service_name)
    location = parse(f"{url}&{query.format(service=service)}")
    accepted = [x for x in every if location.query.accepts(x.spans, x.logs)]
    found = [x.trace_id for x in stored_traces(location)]
    limit = location.query.limit or len(every)
    assert found == [x.trace_id for x in accepted][-limit:]
