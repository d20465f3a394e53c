"""Two tenants that send one trace id have two traces, from the journal to the spans that are
read.
"""

import asyncio

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.assemble import fragments
from spanscore.assemble.backlog import Backlog
from spanscore.assemble.config import Config
from spanscore.model.options import duration_ns
from spanscore.model.span import TENANT, tenant_of
from spanscore.otlp.signal import ExportLogsServiceRequest
from spanscore.store.config import JournalConfig
from spanscore.store.journal import Journal
from spanscore.telemetry import Meter

TRACE = b"t" * 16
TENANTS = ("acme", "blue")


def spans(*names, resource=()):
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    for key, value in resource:
        group.resource.attributes.add(key=key).value.string_value = value
    scope = group.scope_spans.add()
    for name in names:
        scope.spans.add(name=name, trace_id=TRACE, span_id=name.encode().ljust(8))
    return request


def records(trace_id):
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add(
        trace_id=trace_id, event_name="gen_ai.choice"
    )
    return request


class Clock:
    now_ns = 10**18

    def __call__(self):
        return self.now_ns


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened(tmp_path, clock):
    """`opened()`: the backlog of this test's journal, opened anew by every call, as a restart
    does.
    """
    backlogs = []

    def open_it():
        for before in backlogs:
            before.close()
        journal = Journal(JournalConfig(path=tmp_path / "journal.db"))
        backlogs.append(
            Backlog(Config(), journal, Meter(), shows_genai=lambda _: True, clock_ns=clock)
        )
        return backlogs[-1]

    yield open_it
    backlogs[-1].close()


def add(backlog, signal, request, tenant):
    headers = ((TENANT, tenant),) if tenant else ()
    kept = asyncio.run(backlog.add(signal, request.SerializeToString(), request, headers))
    backlog.let_go(kept.row)


def read(backlog, clock):
    """The names of the spans, or of the records' events, by tenant, of all that is complete."""
    clock.now_ns += duration_ns("1m")
    found = {}
    for cut in backlog.cut(clock.now_ns):
        assert cut.trace_id == TRACE.hex()
        loaded, logs = backlog.load(cut)
        found.setdefault(cut.tenant, []).extend(
            [*(x.name for x in loaded), *(x.event_name for x in logs)]
        )
        backlog.finish([cut])
    return found


def test_one_trace_id_of_two_tenants_is_two_traces(opened, clock):
    backlog = opened()
    for tenant in TENANTS:
        add(backlog, "traces", spans(f"of {tenant}"), tenant)
    assert read(backlog, clock) == {"acme": ["of acme"], "blue": ["of blue"]}


def test_what_was_sent_without_tenants_is_a_third(opened, clock):
    backlog = opened()
    for tenant in ("acme", ""):
        add(backlog, "traces", spans(f"of {tenant}"), tenant)
    assert read(backlog, clock) == {"acme": ["of acme"], "": ["of "]}


def test_so_it_is_after_a_restart(opened, clock):
    backlog = opened()
    for tenant in TENANTS:
        add(backlog, "traces", spans(f"of {tenant}"), tenant)
    backlog = opened()
    for kept, _ in backlog.recover():
        backlog.let_go(kept.row)
    assert read(backlog, clock) == {"acme": ["of acme"], "blue": ["of blue"]}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_late_span_of_one_opens_no_trace_of_the_other(opened, clock, restarts):
    backlog = opened()
    for tenant in TENANTS:
        add(backlog, "traces", spans(f"of {tenant}"), tenant)
    read(backlog, clock)
    if restarts:
        backlog = opened()
        for kept, _ in backlog.recover():
            backlog.let_go(kept.row)
    add(backlog, "traces", spans("late"), "acme")
    assert read(backlog, clock) == {"acme": ["of acme", "late"]}


def test_a_log_record_joins_the_trace_of_its_own_tenant(opened, clock):
    backlog = opened()
    for tenant in TENANTS:
        add(backlog, "traces", spans(f"of {tenant}"), tenant)
    add(backlog, "logs", records(TRACE), "blue")
    assert read(backlog, clock) == {"acme": ["of acme"], "blue": ["of blue", "gen_ai.choice"]}


@pytest.mark.parametrize("trace_id", [TRACE + b"blu", TRACE + b"blue", TRACE[:8], b""])
def test_a_record_with_an_id_of_another_length_joins_nothing(trace_id):
    assert fragments.of_logs(records(trace_id), 1, tenant="e") == []


def test_a_resource_names_no_tenant_itself(opened, clock):
    backlog = opened()
    add(backlog, "traces", spans("forged", resource=[("spanscore.header.:tenant", "blue")]), "acme")
    clock.now_ns += duration_ns("1m")
    [cut] = backlog.cut(clock.now_ns)
    [span], _ = backlog.load(cut)
    assert (cut.tenant, tenant_of(span.resource.attributes)) == ("acme", "acme")


def test_nor_without_tenants(opened, clock):
    backlog = opened()
    add(backlog, "traces", spans("forged", resource=[("spanscore.header.:tenant", "blue")]), "")
    clock.now_ns += duration_ns("1m")
    [cut] = backlog.cut(clock.now_ns)
    [span], _ = backlog.load(cut)
    assert (cut.tenant, tenant_of(span.resource.attributes)) == ("", "")


def test_the_key_of_a_trace_without_tenant_is_its_id():
    assert fragments.with_tenant(TRACE, "") == TRACE
