"""What two tenants send at once to a running server gives each what it would give if the other were
not there.
"""

import asyncio
import gzip
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spanscore import config
from spanscore.model.span import TENANT, Resource, with_headers
from spanscore.otlp import codec
from spanscore.otlp.signal import WIRE
from spanscore.rebuild import rebuild_all
from spanscore.serving import pipeline

GOLDEN = Path(__file__).parent / "golden"
TENANTS = ("acme", "blue")
CASES = (
    "claude_code/shop-events",
    "codex/shop",
    "gemini_cli/shop-traces",
    "litellm/shop-gateway",
    "openinference/desk-mcp",
    "openllmetry/shop-js-langchain-runs",
    "pydantic_ai/desk-a2a",
    "semconv/desk-http",
    "semconv/openai-v2-latest",
)


@pytest.fixture
def settings(tmp_path):
    return config.Settings.model_validate(
        {
            "receive": {key: {"endpoint": "127.0.0.1:0"} for key in ("grpc", "http", "health")},
            "journal": {"path": tmp_path / "journal.db"},
            "store": {"url": f"sqlite:///{tmp_path}/store.db"},
            "assemble": {
                "complete_after": "20ms",
                "idle_after": "20ms",
                "stitch_window": "100ms",
                "session_idle_after": "20ms",
            },
        }
    )


def requests_of(case, *, halves):
    """The requests of a recording; with `halves` each as two, one with every other span or record
    of it.
    """
    for path in sorted((GOLDEN / case).glob("*.pb.gz")):
        signal = "logs" if path.name.startswith("logs") else "traces"
        for rest in (0, 1) if halves else (None,):
            request = WIRE[signal].request.FromString(gzip.decompress(path.read_bytes()))
            for group in request.resource_logs if signal == "logs" else request.resource_spans:
                for scoped in group.scope_logs if signal == "logs" else group.scope_spans:
                    items = scoped.log_records if signal == "logs" else scoped.spans
                    kept = [
                        x for number, x in enumerate(items) if rest is None or number % 2 == rest
                    ]
                    copies = [type(x).FromString(x.SerializeToString()) for x in kept]
                    del items[:]
                    items.extend(copies)
            yield signal, request


def alone(requests, tenant):
    """The agent traces that these requests of one tenant give by themselves, by id."""
    spans = [x for signal, request in requests if signal == "traces" for x in codec.spans(request)]
    logs = [
        x for signal, request in requests if signal == "logs" for x in codec.log_records(request)
    ]
    traces = rebuild_all(
        [of_tenant(x, tenant) for x in spans], [of_tenant(x, tenant) for x in logs]
    )
    return {x.id: plain(x) for x in traces}


def of_tenant(item, tenant):
    return replace(
        item, resource=Resource(with_headers(item.resource.attributes, ((TENANT, tenant),)))
    )


def plain(trace):
    """The agent trace, but for how complete it was thought to be, and for its session's scope."""
    return None if trace is None else replace(trace, completeness="complete", session_key=None)


class Clock:
    """Stands still while requests are sent, so that no trace is complete before all have come."""

    stands_ns = None

    def __call__(self):
        return time.time_ns() if self.stands_ns is None else self.stands_ns


def stored(settings, requests, expected):
    """Send (tenant, signal, request) to a server until it has stored what is expected; what it has
    stored of it.
    """

    async def main():
        clock, stopping, ready = Clock(), asyncio.Event(), asyncio.Event()
        running = pipeline.Pipeline(settings, clock_ns=clock)
        serving = asyncio.create_task(running.run(stopping, ready.set))
        await ready.wait()
        found = {}
        try:
            async with asyncio.timeout(60):
                clock.stands_ns = time.time_ns()
                for tenant, signal, request in requests:
                    await running.accept(
                        signal, request.SerializeToString(), request, ((TENANT, tenant),)
                    )
                clock.stands_ns = None
                while found != expected:
                    await asyncio.sleep(0.01)
                    found = {
                        x: plain(running.trace(x, tenant=y.tenant)) for x, y in expected.items()
                    }
        except TimeoutError:
            pass  # what differs is seen in what is stored
        stopping.set()
        await serving
        return found

    return asyncio.run(main())


def interleaved(of_tenants):
    """The requests of all tenants, by turns."""
    queues = {tenant: list(requests) for tenant, requests in of_tenants.items()}
    while any(queues.values()):
        for tenant, queue in queues.items():
            if queue:
                yield (tenant, *queue.pop(0))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_same_telemetry_of_two_tenants_gives_each_its_own_turns(settings, case):
    sent = {tenant: list(requests_of(case, halves=True)) for tenant in TENANTS}
    expected = {id_: x for tenant in TENANTS for id_, x in alone(sent[tenant], tenant).items()}
    assert len(expected) == 2 * len(alone(sent["acme"], "acme"))
    assert stored(settings, interleaved(sent), expected) == expected


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_one_tenant_lacks_of_a_turn_is_not_taken_from_another(settings, case):
    halves = list(requests_of(case, halves=True))
    sent = {"acme": halves[::2], "blue": halves[1::2]}
    expected = {id_: x for tenant in TENANTS for id_, x in alone(sent[tenant], tenant).items()}
    assert stored(settings, interleaved(sent), expected) == expected


def by_trace(case):
    """The requests of a recording, one for each trace in it."""
    for signal, request in requests_of(case, halves=False):
        found = {}
        for group in request.resource_spans if signal == "traces" else ():
            for scoped in group.scope_spans:
                for span in scoped.spans:
                    made = found.setdefault(
                        span.trace_id, WIRE[signal].request()
                    ).resource_spans.add()
                    made.resource.CopyFrom(group.resource)
                    kept = made.scope_spans.add()
                    kept.scope.CopyFrom(scoped.scope)
                    kept.spans.append(span)
        yield from ((signal, x) for x in found.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", ["litellm/shop-gateway", "pydantic_ai/desk-a2a", "semconv/openai-v2-latest"]
)
@pytest.mark.parametrize("first", [0, 1])
def test_a_turn_in_several_traces_is_joined_by_no_link_id_or_text_of_another_tenants(
    settings, case, first
):
    traces = list(by_trace(case))
    sent = {"acme": traces[first::2], "blue": traces[1 - first :: 2]}
    expected = {id_: x for tenant in TENANTS for id_, x in alone(sent[tenant], tenant).items()}
    assert stored(settings, interleaved(sent), expected) == expected
