"""What is gathered under another id than its trace's: keys of spans and log records, and units that
go on.
"""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.assemble import fragments
from spanscore.assemble.assembler import Assembler
from spanscore.assemble.config import Config
from spanscore.assemble.fragments import Units
from spanscore.otlp.signal import ExportLogsServiceRequest

UNIT, TRACE = b"u" * 16, b"t" * 16


def unit_of(_scope_name, trace_id, attributes, *, of_log):
    return UNIT.hex() if of_log and "session" in attributes() else trace_id


UNITS = Units(lambda: ("agent",), unit_of, lambda unit: unit == UNIT.hex())


def logs(scope, *, trace_id=b"", key="session"):
    request = ExportLogsServiceRequest()
    scoped = request.resource_logs.add().scope_logs.add()
    scoped.scope.name = scope
    scoped.log_records.add(trace_id=trace_id).attributes.add(key=key).value.string_value = "s"
    return request


def keys(found):
    return [x.key for x in found]


def test_a_record_is_gathered_under_its_unit():
    assert keys(fragments.of_logs(logs("agent.events"), 1, units=UNITS)) == [UNIT]


def test_a_record_of_another_scope_is_gathered_under_its_trace():
    assert keys(fragments.of_logs(logs("other", trace_id=TRACE), 1, units=UNITS)) == [TRACE]


def test_a_record_of_no_trace_and_no_unit_is_left_out():
    assert fragments.of_logs(logs("agent.events", key="other"), 1, units=UNITS) == []


def unit_of_nothing(_scope_name, _trace_id, attributes, *, of_log):
    raise TypeError(f"unhashable: {attributes()}, {of_log}")


def test_a_record_that_a_dialect_fails_at_is_gathered_under_its_trace():
    failing = Units(lambda: ("agent",), unit_of_nothing)
    assert keys(fragments.of_logs(logs("agent.events", trace_id=TRACE), 1, units=failing)) == [
        TRACE
    ]


def test_a_span_whose_emitter_has_no_units_of_spans_is_gathered_under_its_trace():
    request = ExportTraceServiceRequest()
    scoped = request.resource_spans.add().scope_spans.add()
    scoped.scope.name = "agent"
    scoped.spans.add(trace_id=TRACE, span_id=b"s" * 8).attributes.add(key="session")
    assert keys(fragments.of_traces(request, 1, units=UNITS)) == [TRACE]


@pytest.mark.parametrize(("trace_id", "goes_on"), [(UNIT, True), (TRACE, False)])
def test_what_comes_past_the_late_window_is_read_whatever_its_times_where_the_unit_goes_on(
    trace_id, goes_on
):
    config = Config()
    assembler = Assembler(config, goes_on=UNITS.goes_on)
    assembler.push(fragments.Fragment(trace_id, 1), 0)
    assembler.cut(config.idle_after)
    assembler.cut(config.idle_after + config.late_window)
    late_ns = config.idle_after + config.late_window + 1
    assembler.push(fragments.Fragment(trace_id, 2), late_ns)
    (cut,) = assembler.cut(late_ns + config.idle_after)
    assert (cut.after_ns == 0) is goes_on


def test_scores_that_others_gave_open_no_trace():
    spans = ExportTraceServiceRequest()
    scoped = spans.resource_spans.add().scope_spans.add()
    scoped.scope.name = "spanscore.sdk"
    scoped.spans.add(name="evaluation helpful", trace_id=TRACE, span_id=b"s" * 8)
    events = logs("app", trace_id=TRACE)
    events.resource_logs[0].scope_logs[0].log_records[0].event_name = "gen_ai.evaluation.result"
    assert [*fragments.of_traces(spans, 1), *fragments.of_logs(events, 1)] == []
