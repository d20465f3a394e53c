"""Golden recordings that are sent to real backends and read back by URL give the facts that they
give as files.
"""

import asyncio
import functools
import sys
import time
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from harness.installed import cache, environment
from harness.processes import Processes, answers, free_ports
from tools import jaeger, mlflow, phoenix

from spanscore.cli import demo
from spanscore.model.span import Event, Link, LogRecord, Resource, Scope, Span
from spanscore.otlp import files
from spanscore.rebuild import rebuild_all
from spanscore.sources import parse
from spanscore.sources.stored_traces import stored_traces

pytestmark = pytest.mark.ui

_TRIES = 5
"""MLflow answers before it takes spans, and then fails at the first ones."""

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


@pytest.fixture(scope="module", autouse=True)
def cache_of_the_user():
    """Where the backends are installed, whatever cache a test is given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPANSCORE_CACHE", str(cache().parent))
        yield


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    with Processes(tmp_path_factory.mktemp("sources")) as running:
        yield running


def telemetry(case):
    return files.load(
        x for x in sorted(case.rglob("*")) if x.name.startswith(("traces", "logs")) and x.is_file()
    )


def facts(spans, logs=()):
    return [x.to_json() for x in rebuild_all(spans, logs)]


def read(url, ids):
    found = list(stored_traces(parse(f"{url}?{'&'.join(f'trace_id={x}' for x in ids)}")))
    assert not [x.truncated for x in found if x.truncated]
    return [y for x in found for y in x.spans], [y for x in found for y in x.logs]


def requests_of(case):
    return [
        request
        for path in sorted(case.rglob("traces*"))
        for signal, request, _ in files.requests(path)
        if signal == "traces"
    ]


@pytest.fixture(scope="module")
def in_jaeger(processes, tmp_path_factory):
    return filled(jaeger.Tool, "jaeger", processes, tmp_path_factory.mktemp("jaeger"))


def filled(kind, name, processes, folder):
    """The URL of a real one that got the spans of all cases."""
    tool = kind(processes, folder)
    processes.wait(folder.name, tool.is_ready)
    for case in CASES:
        assert any(asyncio.run(demo.send(requests_of(case), tool.backend)) for _ in range(_TRIES))
    return tool.address.replace("http://", f"{name}://")


@pytest.fixture(scope="module")
def in_phoenix(processes, tmp_path_factory):
    return filled(phoenix.Tool, "phoenix", processes, tmp_path_factory.mktemp("phoenix"))


@pytest.fixture(scope="module")
def in_mlflow(processes, tmp_path_factory):
    return filled(mlflow.Tool, "mlflow", processes, tmp_path_factory.mktemp("mlflow"))


@pytest.fixture(scope="module")
def in_clickhouse(processes, tmp_path_factory):
    """The URL of ClickHouse's engine, with the spans and log records of all cases in the exporter's
    tables.
    """
    return filled_clickhouse(processes, tmp_path_factory.mktemp("chdb"), as_json=False)


@pytest.fixture(scope="module")
def in_clickhouse_as_json(processes, tmp_path_factory):
    """The same with columns of JSON."""
    return filled_clickhouse(processes, tmp_path_factory.mktemp("chdb-json"), as_json=True)


def filled_clickhouse(processes, folder, *, as_json):
    sys.path.insert(0, str(HERE / "clickhouse"))
    import tables

    (port,) = free_ports(1)
    program = environment("chdb", "chdb") / "python"
    processes.start(
        folder.name, [program, HERE / "clickhouse/serve.py", str(port), folder / "data"]
    )
    processes.wait(folder.name, lambda: answers(f"http://127.0.0.1:{port}/"))
    statements = list(tables.tables("JSON") if as_json else tables.tables())
    statements += in_other_tables([*statements, *tables.insert(ODD, ODD_LOGS, as_json=as_json)])
    for case in CASES:
        found = telemetry(case)
        logs = [x for x in found.logs if x.trace_id]
        statements += tables.insert(found.spans, logs, as_json=as_json)
    for statement in statements:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", statement.encode()).close()
    return f"clickhouse://127.0.0.1:{port}"


def in_other_tables(statements):
    """Statements of the exporter's tables for two beside them."""
    return [x.replace("otel_", "odd_") for x in statements]


def odd_span(number, text):
    """A span with a text that ClickHouse escapes, and with integers wherever they can be."""
    attributes = {"text": text, "number": number, "large": [1, LARGE], "mixed": [1, "a"]}
    ids = f"{number:032x}", f"{number:016x}"
    start_ns = (1_700_000_000 + number) * 10**9
    resource = Resource({"service.name": text})
    events, links = (Event("e", start_ns, attributes),), (Link(*ids, attributes),)
    return Span(
        *ids,
        "",
        "chat",
        1,
        start_ns,
        start_ns + 1,
        0,
        "",
        attributes,
        resource,
        Scope(),
        events,
        links,
    )


LARGE = 2**53 + 1
ODD_TEXTS = [
    r"C:\new",
    "ends in \\",
    "a\tb",
    "two\nlines",
    "two\r\nlines",
    "a\0b",
    r"\N",
    r"\\x41",
    "it's",
]
ODD = [odd_span(number, text) for number, text in enumerate(ODD_TEXTS, 1)]
ODD_LOGS = [
    LogRecord(x.trace_id, x.span_id, x.start_ns, "e", "", x.attributes, x.resource, x.scope)
    for x in ODD
]


@pytest.mark.parametrize("condition", ["service", "attribute.text"])
@pytest.mark.parametrize("span", ODD, ids=lambda x: repr(x.attributes["text"]))
@pytest.mark.parametrize("backend", ["in_clickhouse", "in_clickhouse_as_json"])
def test_clickhouse_finds_a_text_as_it_is(request, backend, span, condition):
    url = (
        f"{request.getfixturevalue(backend)}?table=odd_traces&logs_table=odd_logs&since=2020-01-01"
    )
    [found] = stored_traces(parse(f"{url}&{condition}={quote(span.attributes['text'])}"))
    assert [x.trace_id for x in found.spans] == [span.trace_id]


@pytest.mark.parametrize("span", ODD, ids=lambda x: repr(x.attributes["text"]))
def test_clickhouse_keeps_the_numbers_of_columns_of_json(in_clickhouse_as_json, span):
    url = f"{in_clickhouse_as_json}?table=odd_traces&logs_table=odd_logs&trace_id={span.trace_id}"
    [stored] = stored_traces(parse(url))
    [found], [record] = stored.spans, stored.logs
    everywhere = found, *found.events, *found.links, record
    assert [x.attributes for x in everywhere] == [span.attributes] * 4


@pytest.mark.parametrize("case", CASES, ids=lambda x: f"{x.parent.name}-{x.name}")
def test_jaeger_gives_the_facts_that_were_sent_into_it(in_jaeger, case):
    sent = telemetry(case)
    spans, _ = read(in_jaeger, {x.trace_id for x in sent.spans})
    assert facts(spans) == facts(sent.spans)


@pytest.mark.parametrize("case", CASES, ids=lambda x: f"{x.parent.name}-{x.name}")
@pytest.mark.parametrize("backend", ["in_clickhouse", "in_clickhouse_as_json"])
def test_clickhouse_gives_the_facts_that_were_sent_into_it(request, backend, case):
    sent = telemetry(case)
    ids = {x.trace_id for x in sent.spans}
    assert facts(*read(request.getfixturevalue(backend), ids)) == facts(
        sent.spans, [x for x in sent.logs if x.trace_id in ids]
    )


def as_phoenix_keeps(span):
    """Without resource, scope and kind, and in whole microseconds, as Phoenix rounds them."""
    start_ns, end_ns = _rounded(span.start_ns), _rounded(span.end_ns)
    events = tuple(replace(x, time_ns=_rounded(x.time_ns)) for x in span.events)
    bare = replace(span, start_ns=start_ns, end_ns=end_ns, kind=0, events=events)
    return replace(bare, resource=Resource(), scope=Scope(), links=())


def _rounded(time_ns):
    since = datetime.fromtimestamp(time_ns / 1e9, UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1) * 1000


def as_mlflow_keeps(span):
    """Without scope, and of the resource what tells the service."""
    resource = {
        name: x for name, x in span.resource.attributes.items() if name.startswith("service.")
    }
    return replace(span, scope=Scope(), resource=Resource(resource))


def when_all_are_there(url, sent):
    """What is read, once the backend has stored all that it was sent."""
    ids, deadline_s = {x.trace_id for x in sent}, time.monotonic() + 60
    while True:
        spans, _ = read(url, ids)
        if (
            len({x.span_id for x in spans}) >= len({x.span_id for x in sent})
            or time.monotonic() > deadline_s
        ):
            return spans
        time.sleep(0.5)


@pytest.mark.parametrize("case", CASES, ids=lambda x: f"{x.parent.name}-{x.name}")
@pytest.mark.parametrize(
    ("backend", "kept"), [("in_phoenix", as_phoenix_keeps), ("in_mlflow", as_mlflow_keeps)]
)
def test_a_backend_gives_the_facts_of_what_it_keeps(request, backend, kept, case):
    sent = telemetry(case).spans
    spans = when_all_are_there(request.getfixturevalue(backend), sent)
    assert facts(spans) == facts([kept(x) for x in sent])


@functools.cache
def all_of(url):
    return list(stored_traces(parse(url)))


@pytest.mark.parametrize(
    "query",
    [
        "service={service}",
        "errors=true",
        "attribute.gen_ai.operation.name=chat",
        "min_duration=50ms",
        "limit=3",
        "service={service}&attribute.gen_ai.operation.name=chat&limit=2",
    ],
)
@pytest.mark.parametrize(
    "backend", ["in_jaeger", "in_clickhouse", "in_clickhouse_as_json", "in_mlflow"]
)
def test_a_search_finds_what_its_conditions_accept_of_everything(request, backend, query):
    url = request.getfixturevalue(backend) + "?since=2020-01-01"
    every = all_of(url)
    service = next(
        y.resource.service_name for x in every for y in x.spans if y.resource.service_name
    )
    location = parse(f"{url}&{query.format(service=service)}")
    accepted = [x for x in every if location.query.accepts(x.spans, x.logs)]
    found = [x.trace_id for x in stored_traces(location)]
    limit = location.query.limit or len(every)
    assert found == [x.trace_id for x in accepted][-limit:]
